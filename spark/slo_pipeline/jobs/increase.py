"""`slo-pipeline increase METRIC`: how much a counter grew, window by window.

Columns: window_start, the labels kept, `increase` (the sum of pair increments, which is the account),
`promql` (what `sum by (...) (increase(METRIC[window]))` says at the window's end; empty where PromQL returns
no value), `interpolated`.

Exit status: 0 written, 2 the input cannot be used or holds no such metric.
"""

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from controller_core.command_line.output import add_output, show
from controller_core.command_line.values import DURATION, names, positive_duration
from slo_pipeline.jobs import gather
from slo_pipeline.jobs.inputs import directory
from slo_pipeline.jobs.spark.session import session
from slo_pipeline.schemas.names import SAMPLES_TABLE
from slo_pipeline.shell.options import add_input, add_master
from slo_pipeline.sources.segments import InputError, check_segments, is_small, read_inputs
from slo_pipeline.transforms.counters import births, increase, increments
from slo_pipeline.transforms.promql import promql_increase
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
        "--without-promql", action="store_true", help="leave the column promql empty: about twice as fast"
    )
    add_master(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table and return the exit status.

    Raises:
        InputError: no segments, or none of this metric.
    """
    by, window_us = tuple(args.by), round(args.window * US_PER_S)
    with directory(args, [SAMPLES_TABLE]) as data:
        table = _table(args, data, by, window_us)
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


def _table(
    args: argparse.Namespace, data: Path, by: tuple[str, ...], window_us: int
) -> list[tuple[Key, Cells]]:
    check_segments(data, [SAMPLES_TABLE])
    spark = session(master=args.master, quick=is_small(data, SAMPLES_TABLE))
    samples = read_inputs(spark, data).samples
    counter = samples.where(F.col("metric") == args.metric)
    grown = gather.rows(increase(increments(counter, births(samples)), window_us=window_us, by=by))
    opinion = promql_increase(counter, window_us=window_us, by=by, version=args.prometheus)
    beside = [] if args.without_promql else gather.rows(opinion)
    return merged(grown, beside, by)


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
