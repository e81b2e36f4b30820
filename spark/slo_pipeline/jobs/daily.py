"""`slo-pipeline daily`: one day's cost for one day's data, and tables that add up to the month.

Each day becomes small tables: objectives' counts by minute, bookings of bad seconds, failovers and their
phases, durability, coverage. `slo-pipeline slo --tables` judges a window from them without touching a
segment. Of a day that is closed the rows that a report reads are stored too (`sources.extracts`), so that
`slo-pipeline report --tables` opens none of its segments; with `--extracts-only` the job writes only these
and does not need Spark. `jobs.days` decides which days are computed and handles late rows.

Exit status: 0 up to date, 2 the input or the tables cannot be used.
"""

import argparse
import datetime as dt
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.jobs import survey
from slo_pipeline.jobs.days import closed_days, is_over, read_manifest, run_days, segments_of
from slo_pipeline.jobs.inputs import directory
from slo_pipeline.jobs.late import ONE_DAY
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.profile import Profile, of_terminal
from slo_pipeline.jobs.single_pass import driver
from slo_pipeline.jobs.spark.workers import workers
from slo_pipeline.mirror.copying import Choice, Choose, day_of
from slo_pipeline.objectives.file import load
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.schemas import tables as gold_tables
from slo_pipeline.schemas.names import KINDS
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.shell.options import add_input, add_master, add_objectives, add_profile, day_list
from slo_pipeline.sources import extracts
from slo_pipeline.sources.layout import check
from slo_pipeline.transforms.sli import METRICS
from slo_pipeline.transforms.timing import US_PER_S

# Longer than anything that crosses midnight: a failover with its settling, and a message's way back to its
# reader.
AROUND_US: Final = 600 * US_PER_S
DAY_US: Final = 86_400 * US_PER_S
TABLES: Final = {
    "sli_minutes": gold_tables.SLI_COUNTS,
    "booked": gold_tables.BOOKED,
    "failovers": gold_tables.FAILOVERS,
    "failover_phases": gold_tables.FAILOVER_PHASES,
    "durability": gold_tables.DURABILITY,
    "coverage": gold_tables.COVERAGE,
}
"""The stored tables of a day."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `daily`."""
    add_input(parser)
    parser.add_argument(
        "--tables", type=Path, required=True, metavar="DIR", help="where day tables and manifests live"
    )
    parser.add_argument(
        "--extracts-only",
        action="store_true",
        help="keep of closed days what `report --tables` reads, and compute no tables for `slo --tables`",
    )
    add_objectives(parser)
    parser.add_argument(
        "--reopen",
        type=day_list,
        action="extend",
        default=[],
        metavar="DAY[,...]",
        help="compute closed days again; may be repeated",
    )
    survey.add_now(parser)
    add_master(parser)
    add_profile(parser)


def run(args: argparse.Namespace) -> int:
    """Bring all days up to date and print one line each."""
    objectives = load(args.slo)
    profile = of_terminal()
    now, reopen = survey.now_of(args), frozenset(args.reopen)
    with directory(args, choose=unread(args.tables, reopen)) as data:
        job = DayJob(data, now, None if args.extracts_only else objectives, args.master, profile)
        for one in run_days(data, args.tables, now, job.compute, reopen=reopen):
            late = f", {one.late_rows} late rows" if one.late_rows else ""
            sys.stdout.write(f"{one.day.isoformat()} {one.outcome}: {one.segments} segments{late}\n")
    if args.profile:
        sys.stderr.write(profile.text())
    return 0


def unread(tables: Path, reopen: Collection[dt.date]) -> Choose:
    """Choose all days.

    Of a closed day whose neighbours are closed too, choose only segments that no run has read.

    Args:
        tables: what `daily` keeps.
        reopen: days that are computed again.
    """

    def choose(folders: list[str]) -> Choice:
        closed = set(closed_days(tables)) - set(reopen)
        computed = {day_of(folder) for folder in folders} - closed
        around = {one + step * ONE_DAY for one in computed for step in (-1, 0, 1)}
        manifests = (read_manifest(tables, one) for one in closed - around)
        known = (name for one in manifests if one is not None for name in (*one.segments, *one.late))
        return Choice(folders, {name for name in known if day_of(name.rpartition("/")[0]) not in around})

    return choose


class DayJob:
    """Computes days; Spark starts with the first one, so that a run with nothing to do does not."""

    def __init__(
        self,
        data: Path,
        now: dt.datetime,
        objectives: Objectives | None,
        master: str,
        profile: Profile | None = None,
    ) -> None:
        """Describe the job.

        Args:
            data: directory of segments.
            now: UTC; a day that it closes gets an extract.
            objectives: the objectives to compute tables for; None: write only extracts.
            master: where Spark runs.
            profile: where steps are counted.
        """
        self._profile = Profile() if profile is None else profile
        self._data = data
        self._now = now
        self._objectives = objectives
        self._master = master

    def compute(self, which: dt.date, directory: Path) -> None:
        """Write one day's tables as <directory>/<table>.parquet.

        Raises:
            SegmentUnusableError: a segment of the day or of a neighbour cannot be read.
        """
        around = [self._data / name for one in _around(which) for name in segments_of(self._data, one)]
        for kind, schema in SEGMENTS.items():
            check((path for path in around if path.parent.parent.name == kind), schema)
        if self._objectives is not None:
            for name, rows in self._tables(around, which, self._objectives).items():
                table = pa.Table.from_pylist(rows, schema=TABLES[name])
                pq.write_table(table, directory / f"{name}.parquet", compression="zstd")
        if is_over(which, self._now):
            extracts.write(self._data, segments_of(self._data, which), METRICS, directory)

    def _tables(
        self, paths: Sequence[Path], which: dt.date, objectives: Objectives
    ) -> dict[str, list[dict[str, Any]]]:
        begin_us = (which - dt.date(1970, 1, 1)).days * DAY_US
        over = Period(begin_us, begin_us + DAY_US, AROUND_US)
        of = driver.segments(
            {kind: [one for one in paths if one.parent.parent.name == kind] for kind in KINDS}
        )
        where = workers(self._master, of.rows_in(over.wide), self._profile)
        now_us = survey.micros(self._now)
        found = driver.surveyed(of, now_us, objectives.timeWindow.days, where)
        sys.stderr.write(survey.notice(found.tables["apart"]))
        made = driver.tables(of, found.events, over, now_us, objectives, where, plots=False, minutes=True)
        return day_tables(made)


def _around(day: dt.date) -> list[dt.date]:
    """Return a day between its neighbours."""
    return [day + step * ONE_DAY for step in (-1, 0, 1)]


def day_tables(computed: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the stored tables of a day, by their first three columns, unknown first."""

    def key(names: Sequence[str]) -> Callable[[dict[str, Any]], list[tuple[bool, Any]]]:
        return lambda row: [(row[name] is not None, row[name]) for name in names]

    return {name: sorted(computed[name], key=key(schema.names[:3])) for name, schema in TABLES.items()}
