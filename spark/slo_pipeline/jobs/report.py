"""`slo-pipeline report`: segments in, one page and its tables out.

Exit status: 0 a page was written, 2 the input cannot be used.
"""

import argparse
import datetime as dt
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.jobs import gather, survey
from slo_pipeline.jobs.days import closed_days, late_rows, late_segments
from slo_pipeline.jobs.inputs import directory, last_days
from slo_pipeline.jobs.profile import Profile, of_terminal
from slo_pipeline.jobs.single_pass import driver
from slo_pipeline.objectives.file import load
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.reports.files import outcome
from slo_pipeline.reports.files.folder import write_pages
from slo_pipeline.schemas import tables as gold_tables
from slo_pipeline.shell.options import add_input, add_master, add_objectives, add_profile, days
from slo_pipeline.sources.extracts import Extracts, extracts_of

WRITTEN: Final[Mapping[str, pa.Schema]] = {
    "sli_window": gold_tables.SLI_WINDOW,
    "budget": gold_tables.BUDGET,
    "failovers": gold_tables.FAILOVERS,
    "failover_phases": gold_tables.FAILOVER_PHASES,
    "latency": gold_tables.LATENCY,
    "durability": gold_tables.DURABILITY,
    "lost": gold_tables.LOST,
    "coverage": gold_tables.COVERAGE,
    "slo_status": gold_tables.SLO_STATUS,
    "pages": gold_tables.PAGES,
    "apart": gold_tables.APART,
    "known_groups": gold_tables.KNOWN_GROUPS,
}


def target(text: str) -> float:
    """Return an objective in per cent (an argparse type)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 100.0:
        raise argparse.ArgumentTypeError(
            f"invalid objective {text!r} (expected a percentage below 100, such as 99.95)"
        )
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `report`."""
    add_input(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where index.html and tables/ go"
    )
    parser.add_argument(
        "--target",
        type=target,
        metavar="PERCENT",
        help="objective for good seconds instead of the file's",
    )
    parser.add_argument(
        "--window-days", type=days, metavar="N", help="rolling window of all objectives instead of the file's"
    )
    add_objectives(parser)
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="what `daily` keeps: closed days are read from there and not from their segments, and rows too "
        "late for their day are left out and counted in the data-quality line",
    )
    parser.add_argument(
        "--title", default="RocketMQ availability", metavar="TEXT", help="heading of the page"
    )
    parser.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="write what the run came to there as JSON of at most 4 KiB, once the page is there",
    )
    survey.add_now(parser)
    add_master(parser)
    add_profile(parser)


def run(args: argparse.Namespace) -> int:
    """Make the page, print where it is, return the exit status."""
    objectives = load(args.slo).adjusted(args.target, args.window_days)
    late, without, extracts = None, frozenset[str](), None
    if args.tables is not None:
        late = sum(late_rows(args.tables).values())
        without = frozenset(late_segments(args.tables))
        extracts = extracts_of(args.tables, closed_days(args.tables))
    now = survey.now_of(args)
    profile = of_terminal()
    needed = last_days(objectives.timeWindow.days, now.date(), without=extracts.days if extracts else ())
    with directory(args, choose=needed) as data:
        page = make(
            data,
            args.out,
            objectives,
            args.title,
            now,
            master=args.master,
            late=late,
            without=without,
            extracts=extracts,
            summary=args.summary,
            profile=profile,
        )
    if args.profile:
        sys.stderr.write(profile.text())
    sys.stdout.write(f"{page}\n")
    return 0


def make(
    source: Path,
    out: Path,
    objectives: Objectives,
    title: str,
    now: dt.datetime,
    *,
    master: str = "local[*]",
    late: int | None = None,
    without: Collection[str] = (),
    extracts: Extracts | None = None,
    summary: Path | None = None,
    profile: Profile | None = None,
) -> Path:
    """Compute a report and write its pages, its summary and its tables.

    Args:
        source: data directory with segments.
        out: directory for index.html and tables/*.parquet; made if missing.
        objectives: the promised targets.
        title: heading of the page.
        now: when the report is made, UTC: rows that are later are set apart.
        master: where Spark runs.
        late: rows that came too late for their day, if a daily run keeps book.
        without: segments that came too late, paths relative to `source`: a closed day says what it said when
            it was closed.
        extracts: the files to read for closed days instead of their segments.
        summary: where the outcome is written, if anywhere.
        profile: where steps are counted.

    Returns:
        The page's path.

    Raises:
        InputError: the directory holds nothing to report on.
        SegmentUnusableError: a segment cannot be read.
    """
    profile = of_terminal() if profile is None else profile
    collected, over = driver.period_tables(
        source, objectives, survey.micros(now), master, profile, without=without, extracts=extracts
    )
    with profile.step("page"):
        made = replace(gather.report(collected, over, objectives, title), late_rows=late)
        out.mkdir(parents=True, exist_ok=True)
        write_tables(collected, out / "tables")
        page = write_pages(made, out)
    if summary is not None:
        # Not renamed into its place: what Kubernetes reads when a container has ended is mounted there.
        summary.write_text(outcome.text(outcome.outcome(made, str(page))), encoding="ascii")
    return page


def write_tables(collected: Mapping[str, list[dict[str, Any]]], directory: Path) -> None:
    """Write the gold tables as Parquet, one file each, rows in a fixed order."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, schema in WRITTEN.items():
        ordered = sorted(collected[name], key=lambda row: [str(row[column]) for column in schema.names])
        pq.write_table(
            pa.Table.from_pylist(ordered, schema=schema), directory / f"{name}.parquet", compression="zstd"
        )
