"""`slo-pipeline increase METRIC`: how much a counter grew, window by window, as CSV.

Columns: window_start, the labels kept, `increase` (the sum of pair increments, which is the account),
`promql` (what `sum by (...) (increase(METRIC[window]))` says at the window's end; empty where PromQL returns
no value), `interpolated`.

Exit status: 0 written, 2 the input cannot be used or holds no such metric.
"""

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import functions as F

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

UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def window(text: str) -> int:
    """Return the seconds of `30s`, `5m`, `1h` or `1d` (an argparse type)."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"invalid window {text!r} (expected 30s, 5m, 1h or 1d)")
    return int(match[1]) * UNITS_S[match[2]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `increase`."""
    parser.add_argument("metric", metavar="METRIC", help="a counter's sample name, for instance x_total")
    parser.add_argument(
        "--by", action="append", default=[], metavar="LABEL", help="keep this label; repeatable"
    )
    parser.add_argument("--window", type=window, default=300, metavar="TIME", help="30s, 5m, 1h; default 5m")
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


def run(args: argparse.Namespace) -> int:
    """Write the CSV to standard output and return the exit status.

    Raises:
        InputError: no segments, or none of this metric.
    """
    by, window_us = tuple(args.by), args.window * US_PER_S
    with directory(args, [SAMPLES_TABLE]) as data:
        table = _table(args, data, by, window_us)
    if not table:
        raise InputError(f"{args.input}: no sample of {args.metric} follows another one")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["window_start", *by, "increase", "promql", "interpolated"])
    for (start_us, *labels), cells in table:
        writer.writerow([gather.iso_utc(start_us), *labels, *cells])
    return 0


def _table(
    args: argparse.Namespace, data: Path, by: tuple[str, ...], window_us: int
) -> list[tuple[Key, tuple[str, str, str]]]:
    check_segments(data, [SAMPLES_TABLE])
    spark = session(master=args.master, quick=is_small(data, SAMPLES_TABLE))
    samples = read_inputs(spark, data).samples
    counter = samples.where(F.col("metric") == args.metric)
    grown = gather.rows(increase(increments(counter, births(samples)), window_us=window_us, by=by))
    opinion = promql_increase(counter, window_us=window_us, by=by, version=args.prometheus)
    beside = [] if args.without_promql else gather.rows(opinion)
    return merged(grown, beside, by)


def merged(
    grown: list[Row], beside: list[Row], by: tuple[str, ...]
) -> list[tuple[Key, tuple[str, str, str]]]:
    """Lay both opinions side by side: (window and labels) and (increase, promql, interpolated), in order.

    A window without an increment has grown by 0; one without PromQL's value has an empty cell.
    """

    def key(row: Row) -> Key:
        return (row["window_start"], *[row["labels"][name] for name in by])

    account = {key(row): row for row in grown}
    opinion = {key(row): row["promql"] for row in beside}
    table = []
    for one in sorted(account.keys() | opinion.keys()):
        row = account.get(one, {"increase": 0.0, "interpolated": False})
        said = f"{opinion[one]:.17g}" if one in opinion else ""
        table.append((one, (f"{row['increase']:.17g}", said, str(row["interpolated"]).lower())))
    return table
