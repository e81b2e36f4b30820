"""`slo-pipeline increase METRIC`: how much a counter grew, window by window.

Columns: window_start, the labels kept, `increase` (the sum of pair increments, which is the account),
`promql` (what `sum by (...) (increase(METRIC[window]))` says at the window's end; empty where PromQL returns
no value), `interpolated`.

Exit status: 0 written, 2 the input cannot be used or holds no such metric.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from controller_core.command_line.output import add_output, show
from controller_core.command_line.values import DURATION, names, positive_duration
from slo_pipeline.jobs import gather
from slo_pipeline.jobs.inputs import directory
from slo_pipeline.jobs.profile import Profile, of_terminal
from slo_pipeline.jobs.single_pass import increases, plan
from slo_pipeline.jobs.single_pass.arrays import folded
from slo_pipeline.jobs.single_pass.increases import IncreaseLook
from slo_pipeline.jobs.single_pass.plan import RowGroup
from slo_pipeline.jobs.spark.session import session
from slo_pipeline.jobs.spark.workers import workers
from slo_pipeline.schemas.names import SAMPLES_TABLE
from slo_pipeline.shell.options import add_input, add_master, add_profile
from slo_pipeline.sources.segments import (
    InputError,
    check_directory,
    is_small,
    read_inputs,
)
from slo_pipeline.transforms.counters import UP
from slo_pipeline.transforms.promql import Version, promql_increase
from slo_pipeline.transforms.timing import US_PER_S

Row = dict[str, Any]
Key = tuple[Any, ...]
Cells = tuple[float, float | None, bool]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `increase`."""
    parser.add_argument("metric", metavar="METRIC", help="a counter's sample name, for instance x_total")
    parser.add_argument(
        "--by",
        action="extend",
        type=names,
        default=[],
        metavar="LABEL[,...]",
        help="keep these labels; may be repeated",
    )
    parser.add_argument(
        "--window", type=positive_duration, default=300.0, metavar=DURATION, help="default: 5m"
    )
    add_input(parser)
    parser.add_argument(
        "--prometheus",
        type=int,
        choices=[2, 3],
        default=2,
        help="whose ranges the column promql has: those of Prometheus 2 hold both borders, those of 3 only "
        "the right one",
    )
    parser.add_argument(
        "--without-promql",
        action="store_true",
        help="leave the column promql empty: several times as fast",
    )
    add_master(parser)
    add_profile(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table and return the exit status.

    Raises:
        InputError: no segments, or none of this metric.
    """
    by, profile = tuple(args.by), of_terminal()
    look = IncreaseLook(args.metric, by, round(args.window * US_PER_S))
    with directory(args, [SAMPLES_TABLE]) as data:
        check_directory(data, SAMPLES_TABLE)
        found = footers(data, args.metric, profile)
        if args.without_promql:
            grown, beside = account(found, look, args.master, profile), []
        else:
            # Before the account's workers: the first one to start Spark decides how its JVM runs.
            spark = session(master=args.master, quick=is_small(data, SAMPLES_TABLE))
            grown = account(found, look, args.master, profile)
            beside = _opinion(spark, data, look, args.prometheus)
    table = merged(grown, beside, by)
    if args.profile:
        sys.stderr.write(profile.text())
    if not table:
        raise InputError(f"{args.input}: no sample of {args.metric} follows another one")
    columns = ("window_start", *by, "increase", "promql", "interpolated")
    show(
        args.output,
        [
            dict(zip(columns, (gather.iso_utc(start_us), *labels, *cells), strict=True))
            for (start_us, *labels), cells in table
        ],
    )
    return 0


class CounterFooters(NamedTuple):
    """Row groups that may have samples of a counter, and those that may tell which scrapes were answered."""

    counter: Sequence[RowGroup]
    answered: Sequence[RowGroup]


def footers(data: Path, metric: str, profile: Profile) -> CounterFooters:
    """Read the footers of a directory's samples.

    Raises:
        SegmentUnusableError: a segment cannot be read.
    """
    with profile.step("footers"):
        paths = plan.files(data, SAMPLES_TABLE)
        found = [plan.row_groups(SAMPLES_TABLE, paths, metric=one) for one in (metric, UP)]
    return CounterFooters(*found)


def account(found: CounterFooters, look: IncreaseLook, master: str, profile: Profile) -> list[Row]:
    """Return rows of INCREASES: the sums of pair increments."""
    where = workers(master, sum(one.rows for groups in found for one in groups), profile)
    tasks = plan.every_window(SAMPLES_TABLE, found.counter, where.cores)
    parts = where.run("samples", tasks, partial(increases.of_task, look=look))
    whole = folded(parts, partial(increases.merged, window_us=look.window_us))
    births = plan.by_rows(SAMPLES_TABLE, found.answered, where.cores)
    born = folded(where.run("births", births, increases.births_of_task), increases.born)
    sums = increases.with_births(whole, born, look.window_us)
    return [
        {
            "labels": dict(zip(look.by, whole.texts[place], strict=True)),
            "window_start": window * look.window_us,
            "increase": grown,
            "interpolated": is_spread,
        }
        for place, window, grown, is_spread in zip(*[column.tolist() for column in sums], strict=True)
    ]


def _opinion(spark: SparkSession, data: Path, look: IncreaseLook, version: Version) -> list[Row]:
    """Return PromQL's values, computed by frames."""
    counter = read_inputs(spark, data).samples.where(F.col("metric") == look.metric)
    opinion = promql_increase(counter, window_us=look.window_us, by=look.by, version=version)
    return gather.rows(opinion)


def merged(grown: list[Row], beside: list[Row], by: tuple[str, ...]) -> list[tuple[Key, Cells]]:
    """Lay both opinions side by side: (window and labels) and (increase, promql, interpolated), in order.

    A window without an increment has grown by 0; one without PromQL's value has None.
    """

    def key(row: Row) -> Key:
        return (row["window_start"], *[row["labels"][name] for name in by])

    account = {key(row): row for row in grown}
    opinion = {key(row): row["promql"] for row in beside}
    table = []
    for one in sorted(account.keys() | opinion.keys()):
        row = account.get(one, {"increase": 0.0, "interpolated": False})
        table.append((one, (row["increase"], opinion.get(one), row["interpolated"])))
    return table
