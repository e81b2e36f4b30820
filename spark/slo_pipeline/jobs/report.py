"""`slo-pipeline report`: segments in, one page and its tables out.

Exit status: 0 a page was written, 2 the input cannot be used.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.jobs import gather
from slo_pipeline.jobs.gold import gold, period
from slo_pipeline.jobs.session import session
from slo_pipeline.reports.page import render
from slo_pipeline.schemas import tables as gold_tables
from slo_pipeline.sources.segments import KINDS, InputError, check_directory, is_small, read_inputs
from slo_pipeline.transforms.budget import Objective

PAGE: Final = "index.html"
WRITTEN: Final[Mapping[str, pa.Schema]] = {
    "sli_window": gold_tables.SLI_WINDOW,
    "budget": gold_tables.BUDGET,
    "failovers": gold_tables.FAILOVERS,
    "failover_phases": gold_tables.FAILOVER_PHASES,
    "latency": gold_tables.LATENCY,
    "durability": gold_tables.DURABILITY,
    "lost": gold_tables.LOST,
    "coverage": gold_tables.COVERAGE,
}


def target(text: str) -> float:
    """Return an objective in per cent (an argparse type)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 100.0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no objective: write a percentage below 100, such as 99.95"
        )
    return value


def days(text: str) -> int:
    """Return a window in whole days (an argparse type)."""
    if not text.isdecimal() or not 1 <= int(text) <= 366:
        raise argparse.ArgumentTypeError(f"{text!r} is no window: write 1 to 366 days")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `report`."""
    parser.add_argument(
        "--input", type=Path, required=True, metavar="DIR", help="data directory with segments"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where index.html and tables/ go"
    )
    parser.add_argument(
        "--target",
        type=target,
        default=99.95,
        metavar="PERCENT",
        help="objective for good seconds, default 99.95",
    )
    parser.add_argument(
        "--window-days", type=days, default=30, metavar="N", help="the objective's rolling window, default 30"
    )
    parser.add_argument("--title", default="RocketMQ availability", help="heading of the page")
    parser.add_argument("--master", default="local[*]", help="Spark master, default local[*]")


def run(args: argparse.Namespace) -> int:
    """Make the page, print where it is, return the exit status."""
    check_directory(args.input, *KINDS)
    page = make(
        args.input, args.out, Objective(args.target, args.window_days), args.title, master=args.master
    )
    sys.stdout.write(f"{page}\n")
    return 0


def make(source: Path, out: Path, objective: Objective, title: str, *, master: str = "local[*]") -> Path:
    """Compute a report and write its page and tables.

    Args:
        source: data directory with segments.
        out: directory for index.html and tables/*.parquet; made if missing.
        objective: what was promised.
        title: heading of the page.
        master: where Spark runs.

    Returns:
        The page's path.

    Raises:
        InputError: the directory holds nothing to report on.
    """
    spark = session(master=master, quick=is_small(source, *KINDS))
    inputs = read_inputs(spark, source)
    over = period(inputs, objective.window_days)
    if over is None:
        raise InputError(f"{source}: its segments hold no rows")
    collected = gather.collect(gold(inputs, over, objective))
    spark.catalog.clearCache()
    page = render(gather.report(collected, over, objective, title))
    out.mkdir(parents=True, exist_ok=True)
    write_tables(collected, out / "tables")
    path = out / PAGE
    path.write_text(page, encoding="utf-8")
    return path


def write_tables(collected: Mapping[str, list[dict[str, Any]]], directory: Path) -> None:
    """Write the gold tables as Parquet, one file each, rows in a fixed order."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, schema in WRITTEN.items():
        ordered = sorted(collected[name], key=lambda row: [str(row[column]) for column in schema.names])
        pq.write_table(
            pa.Table.from_pylist(ordered, schema=schema), directory / f"{name}.parquet", compression="zstd"
        )
