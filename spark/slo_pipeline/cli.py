"""`slo-pipeline`: one command, its branches imported only when they are used.

Problem: the collector and the canary run in small pods and must not carry Spark; the jobs must not carry
their servers. Shape: each branch offers `add_arguments(parser)` and `run(args) -> int`. The word on the
command line decides which module is imported; the help of the others is one line here. Never: this module
imports neither Spark nor aiohttp.
"""

import argparse
import contextlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import unquote

from controller_core.command_line.completion import add_completion
from controller_core.command_line.program import FailedError, MisuseError, Parser, program, run
from slo_pipeline.shell.options import PROGRAM


class Branch(NamedTuple):
    """One subcommand: where it lives and what it does."""

    module: str
    summary: str


BRANCHES: Final = {
    "collect": Branch(
        "slo_pipeline.collect.command", "scrape brokers, replicas and controllers into segments"
    ),
    "canary": Branch(
        "slo_pipeline.canary.command", "send and read back on a fixed schedule, one row an operation"
    ),
    "report": Branch(
        "slo_pipeline.jobs.report", "make the availability and failover report of a data directory"
    ),
    "increase": Branch(
        "slo_pipeline.jobs.increase",
        "print how much a counter grew, window by window, PromQL's value beside",
    ),
    "slo": Branch(
        "slo_pipeline.jobs.objectives", "print objectives, results, and the alerts that would have fired"
    ),
    "daily": Branch(
        "slo_pipeline.jobs.daily",
        "compute the days that have new segments, each once, and close the old ones",
    ),
    "driver": Branch("slo_pipeline.jobs.spark.driver", "run a job as a driver, in a pod that Spark made"),
    "executor": Branch("slo_pipeline.jobs.spark.executor", "serve as an executor, in a pod that Spark made"),
    "serve-reports": Branch("slo_pipeline.serve.command", "show finished reports and failovers over HTTP"),
    "export": Branch(
        "slo_pipeline.jobs.export",
        "write objectives as Prometheus rules and OpenSLO documents, or a report as a SparkApplication",
    ),
    "mirror": Branch(
        "slo_pipeline.mirror.command", "copy segments to another directory or bucket, each once"
    ),
    "import": Branch(
        "slo_pipeline.jobs.landing.openmetrics",
        "land OpenMetrics text or a stretch of a Prometheus as segments",
    ),
}
ERROR_CHARACTERS_MAX: Final = 300
# Spark's word for a damaged file; it may reach us as a Java error without a Python class of its own.
UNUSABLE_SEGMENT: Final = "unusable segment: "
UNREADABLE_FILE: Final = "[FAILED_READ_FILE"
DAMAGED_FILE: Final = re.compile(r"\[FAILED_READ_FILE[^\]]*\][^\n]*? file:/*(/[^\n]*?\.parquet)\b")
SEGMENT_UNUSABLE: Final = "slo_pipeline.sources.layout.SegmentUnusableError"
FAILURES: Final = frozenset(
    {
        SEGMENT_UNUSABLE,
        "slo_pipeline.writing.segment_store.SegmentError",
        "slo_pipeline.jobs.spark.workers.TasksFailedError",
        "pyspark.errors.exceptions.base.PySparkException",
        "builtins.OSError",
    }
)
"""Errors of a command that could not do its work, by their names."""
MISUSES: Final = frozenset(
    {
        "slo_pipeline.sources.segments.InputError",
        "slo_pipeline.formats.openmetrics.OpenMetricsError",
        "slo_pipeline.sources.prometheus_wire.PrometheusError",
        "slo_pipeline.mirror.places.PlaceError",
        "slo_pipeline.objectives.model.ObjectivesError",
        "slo_pipeline.jobs.days.DaysError",
        "slo_pipeline.schemas.frames.SchemaMismatchError",
    }
)
"""Errors of options and of input that they name."""


def parser(*chosen: str) -> Parser:
    """Return a parser that knows all names and the options of the chosen branches."""
    whole = program(PROGRAM, "From pod metrics to SLO and failover reports.", "rocketmq-slo-pipeline")
    branches = whole.add_subparsers(required=True, metavar="COMMAND")
    for name, branch in BRANCHES.items():
        child = branches.add_parser(name, help=branch.summary, description=branch.summary)
        if name in chosen:
            module = importlib.import_module(branch.module)
            module.add_arguments(child)
            child.set_defaults(carry_out=partial(_run, module.run))
    add_completion(branches, _completed)
    return whole


def _completed() -> Parser:
    """Return the parser with the options of all branches whose libraries this image has."""
    usable = []
    for name, branch in BRANCHES.items():
        with contextlib.suppress(ImportError):
            importlib.import_module(branch.module)
            usable.append(name)
    return parser(*usable)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status.

    It is 0 if done, 1 if failed, 2 for wrong options or unusable input.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # Read when Arrow is imported. Its own allocator keeps what a segment took once: a quarter of a collector.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return run(parser(*[word for word in words if word in BRANCHES][:1]), words)


def _run(branch: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a branch.

    Raises:
        MisuseError: an option is wrong, or its input cannot be used.
        FailedError: the work did not succeed.
    """
    try:
        return branch(args)
    except (BrokenPipeError, MisuseError, FailedError):
        raise
    except Exception as error:
        said = _one_line(error)
        if said is None:
            raise
        raise (MisuseError if _names(error) & MISUSES else FailedError)(said) from error


def _names(error: Exception) -> set[str]:
    """Return the names of an error's classes."""
    return {f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__}


def _one_line(error: Exception) -> str | None:
    """Return the fault of the input in one line; None for a fault of ours, which deserves its traceback.

    Spark's errors are known by name, so that nothing has to be imported for it.
    """
    text = str(error).strip()
    if damaged := DAMAGED_FILE.search(text):
        return f"{unquote(damaged[1])}: {UNUSABLE_SEGMENT}damaged Parquet"
    unreadable = text.find(UNREADABLE_FILE)
    if unreadable >= 0:
        text = text[unreadable:]
    elif not _names(error) & (MISUSES | FAILURES):
        return None
    return text.split("\n", 1)[0][:ERROR_CHARACTERS_MAX]
