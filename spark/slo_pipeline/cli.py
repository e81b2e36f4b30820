"""`slo-pipeline`: one command, its branches imported only when they are used.

Problem: the collector and the canary run in small pods and must not carry Spark; the jobs must not carry their servers.
Shape: each branch offers `add_arguments(parser)` and `run(args) -> int`. The word on the command line decides which module is
imported; the help of the others is one line here.
Never: this module imports neither Spark nor aiohttp.
"""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from slo_pipeline.shell.exit_codes import EXIT_FAILED, EXIT_UNUSABLE


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
        "print how much a counter grew, window by window, as CSV, PromQL's value beside",
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
EXPECTED: Final = frozenset(
    {
        "slo_pipeline.sources.segments.InputError",
        SEGMENT_UNUSABLE,
        "slo_pipeline.formats.openmetrics.OpenMetricsError",
        "slo_pipeline.sources.prometheus_wire.PrometheusError",
        "slo_pipeline.writing.segment_store.SegmentError",
        "slo_pipeline.mirror.places.PlaceError",
        "slo_pipeline.objectives.model.ObjectivesError",
        "slo_pipeline.jobs.days.DaysError",
        "slo_pipeline.schemas.frames.SchemaMismatchError",
        "pyspark.errors.exceptions.base.PySparkException",
        "builtins.OSError",
    }
)


def _parser(chosen: str | None) -> tuple[argparse.ArgumentParser, object]:
    """Return a parser that knows all names and the chosen branch's options, and that branch's module."""
    parser = argparse.ArgumentParser(
        prog="slo-pipeline", description="From pod metrics to SLO and failover reports."
    )
    branches = parser.add_subparsers(dest="branch", required=True, metavar="COMMAND")
    module = None
    for name, branch in BRANCHES.items():
        child = branches.add_parser(name, help=branch.summary, description=branch.summary)
        if name == chosen:
            module = importlib.import_module(branch.module)
            module.add_arguments(child)
    return parser, module


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status: 0 done, 1 failed, 2 wrong options or unusable input."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Read when Arrow is imported. Its own allocator keeps what a segment took once: a quarter of a collector.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    parser, module = _parser(next((word for word in words if word in BRANCHES), None))
    args = parser.parse_args(words)
    try:
        return int(module.run(args))  # type: ignore[attr-defined]  # chosen by name; every branch has it
    except BrokenPipeError:
        # The reader of our output closed it. Write nothing more to it, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as error:
        said = _one_line(error)
        if said is None:
            raise
        sys.stderr.write(f"slo-pipeline {args.branch}: {said}\n")
        return EXIT_FAILED if _is_of_segment(error) else EXIT_UNUSABLE


def _is_of_segment(error: Exception) -> bool:
    """Tell whether a segment is unusable; Spark finds out by itself where only data is damaged."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}" == SEGMENT_UNUSABLE or UNREADABLE_FILE in str(error)


def _one_line(error: Exception) -> str | None:
    """Return the fault of the input in one line; None for a fault of ours, which deserves its traceback.

    Spark's errors are known by name, so that nothing has to be imported for it.
    """
    text = str(error).strip()
    if damaged := DAMAGED_FILE.search(text):
        return f"{unquote(damaged[1])}: {UNUSABLE_SEGMENT}damaged Parquet"
    unreadable = text.find(UNREADABLE_FILE)
    names = {f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__}
    if unreadable >= 0:
        text = text[unreadable:]
    elif not names & EXPECTED:
        return None
    return text.split("\n", 1)[0][:ERROR_CHARACTERS_MAX]
