"""`slo-pipeline slo`: print objectives, results, burn rates, and the alerts that would have fired.

Exit status: 0 every budget holds, 1 one is overspent, 2 the input or the objectives cannot be used, 3 none is
overspent and too little was measured to judge one of them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from controller_core.command_line.output import add_output, show
from slo_pipeline.jobs import gather, survey
from slo_pipeline.jobs.inputs import directory, last_days
from slo_pipeline.jobs.profile import of_terminal
from slo_pipeline.jobs.single_pass import burn, driver
from slo_pipeline.jobs.single_pass.counts import of_table
from slo_pipeline.jobs.single_pass.rows import coded, numbers, texts
from slo_pipeline.objectives.file import load
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.reports.values.measured import enough
from slo_pipeline.schemas.tables import SLI_COUNTS
from slo_pipeline.shell.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_UNKNOWN
from slo_pipeline.shell.options import INPUT_HELP, add_bucket, add_master, add_objectives
from slo_pipeline.sources.layout import ignored, ignored_text, reading, segments
from slo_pipeline.sources.segments import InputError, check_table, has_segments
from slo_pipeline.transforms.budget import S_PER_DAY
from slo_pipeline.transforms.clocks import latest_us
from slo_pipeline.transforms.sli import CONTROLLERS
from slo_pipeline.transforms.timing import US_PER_S

Row = dict[str, Any]
BURN_COLUMNS: Final = ("burn_1h", "burn_6h", "burn_1d", "burn_3d")
STATUS_COLUMNS: Final = (
    *("slo", "group", "target_percent", "good", "bad", "unknown", "attained", "budget", "spent"),
    *BURN_COLUMNS,
    "answer",
)
PAGE_COLUMNS: Final = (
    *("start", "end", "severity", "slo", "group", "burn_rate"),
    *("long_window", "short_window"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `slo`."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--input", metavar="DIR", help=INPUT_HELP)
    chosen.add_argument("--tables", type=Path, metavar="DIR", help="what `daily` made of them: much faster")
    add_bucket(parser)
    add_objectives(parser)
    parser.add_argument(
        "--pages", action="store_true", help="print what would have paged and when, instead of the status"
    )
    survey.add_now(parser)
    add_master(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table and return the exit status.

    Raises:
        InputError: nothing to judge.
        ObjectivesError: the objectives cannot be used.
    """
    objectives, now = load(args.slo), survey.now_of(args)
    if args.tables is None:
        with directory(args, choose=last_days(objectives.timeWindow.days, now.date())) as data:
            judged = _from_segments(data, objectives, args.master, survey.micros(now))
            status, pages = _rows(judged, objectives, wanted=args.pages)
    else:
        judged = _from_tables(args.tables, objectives, survey.micros(now))
        status, pages = _rows(judged, objectives, wanted=args.pages)
    sys.stderr.write(judged.notice)
    if args.pages:
        show(args.output, _page_rows(pages), columns=PAGE_COLUMNS)
    else:
        show(args.output, _status_rows(status, objectives), columns=STATUS_COLUMNS)
    answers = {answer(row, objectives) for row in status}
    return EXIT_FAILED if "overspent" in answers else EXIT_UNKNOWN if "unknown" in answers else EXIT_DONE


class Judged(NamedTuple):
    """The counts of a run.

    Attributes:
        status, pages: the tables of these names.
        groups: that must be told, also where nothing was counted.
        notice: the rows set apart, as one line; empty without any.
    """

    status: Sequence[Row]
    pages: Sequence[Row]
    groups: Sequence[str]
    notice: str


def _rows(judged: Judged, objectives: Objectives, *, wanted: bool) -> tuple[Sequence[Row], Sequence[Row]]:
    """Compute the status, and the pages if they are wanted."""
    status = gather.with_unmeasured(judged.status, judged.groups, objectives)
    return status, judged.pages if wanted else []


def _from_segments(data: Path, objectives: Objectives, master: str, now_us: int) -> Judged:
    tables, over = driver.period_tables(data, objectives, now_us, master, of_terminal(), plots=False)
    groups = [
        row["group"]
        for row in tables["known_groups"]
        if row["last_ts"] is None or row["last_ts"] >= over.start_us
    ]
    return Judged(tables["slo_status"], tables["pages"], groups, survey.notice(tables["apart"]))


def _from_tables(tables: Path, objectives: Objectives, now_us: int) -> Judged:
    """Judge the last window of what `daily` made, for the objectives of the file that it had too."""
    if not has_segments(tables, "sli_minutes"):
        raise InputError(f"{tables}: holds no sli_minutes/day=*/*.parquet: run `slo-pipeline daily` first")
    check_table(tables, "sli_minutes", SLI_COUNTS)
    if strays := ignored(tables, ["sli_minutes"]):
        sys.stderr.write(f"slo-pipeline: {ignored_text(strays)}\n")
    kept = _minutes(tables)
    at = numbers(kept, "ts")
    is_ahead = at > latest_us(now_us)
    ahead = set(texts(kept.filter(pa.array(is_ahead)), "group").used())
    if is_ahead.all():
        raise InputError(f"{tables}: holds no minute until now")
    since_us = at[~is_ahead].max() - objectives.timeWindow.days * S_PER_DAY * US_PER_S
    known = texts(kept, "slo").is_in(*[slo.name for slo in objectives.slos])
    counts = of_table(kept.filter(pa.array(~is_ahead & (at > since_us) & known)))
    status, fired = burn.status_and_pages(counts, objectives)
    groups = {group for _, group in counts} | ahead
    notice = f"set apart minutes later than now of {', '.join(sorted(ahead))}\n"
    return Judged(status, fired, sorted(groups - {CONTROLLERS}), notice if ahead else "")


def _minutes(tables: Path) -> pa.Table:
    """Read SLI_COUNTS by minute, as `single_pass.rows` reads segments."""
    found = [coded(pa.Table.from_batches([], SLI_COUNTS), SLI_COUNTS)]
    for path in segments(tables, "sli_minutes"):
        with reading(path):
            found.append(coded(pq.ParquetFile(path).read(SLI_COUNTS.names), SLI_COUNTS))
    return pa.concat_tables(found).unify_dictionaries()


def answer(row: Row, objectives: Objectives) -> str:
    """Return `kept`, `overspent`, or `unknown` where too little was measured to call it kept."""
    if row["bad"] > spent(row, objectives)[1]:
        return "overspent"
    slo = next(one for one in objectives.slos if one.name == row["slo"])
    slice_s = slo.slice_s if slo.budgetingMethod == "Timeslices" else None
    return "kept" if enough(row["good"], row["bad"], row["unknown"], slice_s) else "unknown"


def spent(row: Row, objectives: Objectives) -> tuple[float, float]:
    """Return how much of an objective's budget is spent (1 is all of it), and the budget."""
    slo = next(one for one in objectives.slos if one.name == row["slo"])
    budget = slo.budget(row["good"] + row["bad"], objectives.timeWindow.days)
    if budget == 0.0:
        return (float("inf") if row["bad"] else 0.0), 0.0
    return row["bad"] / budget, budget


def _status_rows(rows: Sequence[Row], objectives: Objectives) -> list[dict[str, Any]]:
    """Return one row for each objective and group, in the file's order."""
    order = {slo.name: place for place, slo in enumerate(objectives.slos)}
    found = []
    for row in sorted(rows, key=lambda row: (order[row["slo"]], row["group"])):
        share, budget = spent(row, objectives)
        values = {
            **row,
            "target_percent": objectives.slos[order[row["slo"]]].targetPercent,
            "attained": _rounded(row["attained"]),
            "budget": _rounded(budget),
            "spent": _rounded(share),
            **{rate: _rounded(row[rate]) for rate in BURN_COLUMNS},
            "answer": answer(row, objectives),
        }
        found.append({name: values[name] for name in STATUS_COLUMNS})
    return found


def _page_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return one row for each page, in order of time."""
    return [
        {
            "start": gather.iso_utc(row["start_ts"]),
            "end": gather.iso_utc(row["end_ts"]),
            **{name: row[name] for name in PAGE_COLUMNS[2:]},
        }
        for row in sorted(
            rows, key=lambda row: (row["start_ts"], row["slo"], row["group"], -row["burn_rate"])
        )
    ]


def _rounded(value: float | None) -> float | None:
    """Return a number with 9 digits, which is how exactly a share of a budget can be read."""
    return None if value is None else float(f"{value:.9g}")
