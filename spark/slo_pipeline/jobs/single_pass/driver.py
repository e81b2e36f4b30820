"""Read a period's segments once, in Spark's tasks, and return its gold tables.

    footers > times (tasks) > period > events, changes (driver) > sums (tasks) > second look (tasks) > tables

Problem: a plan of frames for each table cost a hundred jobs, and most of a report's time was between them.
Shape: two or three jobs without a shuffle; tasks return sums that are small whatever the period, and the
driver adds them up. The same code runs in `local[*]` and on executors. Never: a rule; those are in the
modules beside it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from slo_pipeline.jobs import survey
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.single_pass import again, operations, plan, samples, times
from slo_pipeline.jobs.single_pass import tables as gold
from slo_pipeline.jobs.single_pass.arrays import folded
from slo_pipeline.jobs.single_pass.changes import elections, events, failovers
from slo_pipeline.jobs.single_pass.changes.elections import TimedChange
from slo_pipeline.jobs.single_pass.plan import RowGroup, Task
from slo_pipeline.jobs.single_pass.verdicts import Verdicts, completed, verdicts
from slo_pipeline.jobs.spark.workers import Workers, workers
from slo_pipeline.objectives.catalogue import INDICATORS
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.schemas.names import EVENTS_TABLE, KINDS, OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.sources.extracts import Extracts
from slo_pipeline.sources.segments import check_directory
from slo_pipeline.transforms.timing import US_PER_S

DURABLE_US: Final = INDICATORS["durability"].slice_s * US_PER_S


@dataclass(frozen=True)
class Segments:
    """The row groups of each kind, by their footers."""

    groups: dict[str, list[RowGroup]]

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return sum(group.rows for group in self.of(*KINDS))

    def rows_in(self, over: Period) -> int:
        """Return about how many rows a period has."""
        return sum(plan.rows_in(group, over.start_us, over.end_us) for group in self.of(*KINDS))

    def of(self, *kinds: str) -> list[RowGroup]:
        """Return the row groups of some kinds."""
        return [group for kind in kinds for group in self.groups.get(kind, [])]


def segments(paths: dict[str, Collection[Path]]) -> Segments:
    """Read the footers of files, by kind."""
    return Segments({kind: plan.row_groups(kind, paths.get(kind, ())) for kind in KINDS})


class SurveyedSegments(NamedTuple):
    """What the first look found.

    Attributes:
        over: the period; None for an input without credible rows.
        events: credible ones.
        tables: APART and KNOWN_GROUPS.
    """

    over: Period | None
    events: list[events.Event]
    tables: gold.Tables


def surveyed(of: Segments, now_us: int, window_days: int, workers: Workers) -> SurveyedSegments:
    """Part the rows, and find the period and the groups, as `jobs.survey.surveyed` does of frames."""
    told, apart_events = read_events(of, now_us)
    found = {kind: _times(of, kind, now_us, workers) for kind in (OPERATIONS_TABLE, SAMPLES_TABLE)}
    apart = times.merged([*found.values(), times.Times({}, apart_events)]).apart
    set_apart = times.apart_rows(apart)
    of_events = _spans(events.spans(told, times.DAY_US))
    timed = _spans(found[OPERATIONS_TABLE]) or of_events or _spans(found[SAMPLES_TABLE])
    known = survey.known_groups(survey.Survey(timed, of_events), set_apart)
    over = survey.period(timed, window_days)
    return SurveyedSegments(over, told, {"apart": set_apart, "known_groups": known})


def read_events(
    of: Segments, now_us: int
) -> tuple[list[events.Event], dict[times.Key, tuple[int, int, int]]]:
    """Read all events, and count those that are set apart."""
    tasks = plan.by_rows(EVENTS_TABLE, of.of(EVENTS_TABLE), 1)
    return events.sifted(events.read(tasks), now_us)


def _spans(found: times.Times) -> tuple[survey.Span, ...]:
    return tuple(sorted(survey.Span(group, first, last) for (group, _), (first, last) in found.spans.items()))


def _times(of: Segments, kind: str, now_us: int, workers: Workers) -> times.Times:
    groups = of.of(kind)
    told = [one for one in groups if kind == SAMPLES_TABLE and times.settled(one, now_us)]
    others = [one for one in groups if kind != SAMPLES_TABLE or not times.settled(one, now_us)]
    parts = workers.run(
        "times", plan.by_rows(kind, others, workers.cores), partial(times.of_task, now_us=now_us)
    )
    return times.merged([times.of_footers(told), folded(parts, times.merged)])


def tables(
    of: Segments,
    told: Sequence[events.Event],
    over: Period,
    now_us: int,
    objectives: Objectives,
    workers: Workers,
    *,
    plots: bool = True,
    minutes: bool = False,
) -> gold.Tables:
    """Compute the gold tables of a period.

    Args:
        of: the segments.
        told: credible events.
        over: the period.
        now_us: when the run is.
        objectives: to count for.
        workers: where tasks run.
        plots: whether the tables that only a page shows are wanted; without, they are empty.
        minutes: whether the counts of every minute are wanted.
    """
    wide = over.wide
    changes = [
        one
        for one in elections.marked(elections.elections(told), told)
        if wide.start_us <= one.elected_ts < wide.end_us
    ]
    sums = _operations(of, over, now_us, objectives, changes, workers, plots=plots)
    acks = {(group, place): ack for group, one in sums.items() for place, ack in enumerate(one.acks)}
    watched = {group: one.watched_until for group, one in sums.items() if one.watched_until is not None}
    failovers.with_gaps(changes, acks, watched)
    judged = verdicts(sums)
    closeups = gold.closeups(gold.timed_changes(changes, over)) if plots else []
    found = _again(of, over, now_us, closeups, judged, workers)
    gauges = _samples(of, over, now_us, objectives, workers, plots=plots)
    whole = gold.Whole(told, changes, sums, gauges, completed(judged, found), found)
    return gold.tables(whole, over, objectives, minutes=minutes)


def _operations(
    of: Segments,
    over: Period,
    now_us: int,
    objectives: Objectives,
    changes: Iterable[TimedChange],
    workers: Workers,
    *,
    plots: bool,
) -> dict[str, operations.OperationSums]:
    latency = [
        (slo.value or 0.0, slo.slice_s * US_PER_S)
        for slo in objectives.slos
        if slo.indicator == "send_latency"
    ]
    bounds = {
        group: [(one.lower_ts, one.upper_ts) for one in own]
        for group, own in events.grouped(changes, lambda one: one.group).items()
    }
    look = operations.OperationsLook(over, now_us, latency, DURABLE_US, bounds, plots)
    tasks = _windows(OPERATIONS_TABLE, of, over, workers)
    return operations.folded(workers.run("operations", tasks, partial(operations.of_task, look=look)))


def _samples(
    of: Segments, over: Period, now_us: int, objectives: Objectives, workers: Workers, *, plots: bool
) -> samples.SampleSums:
    widths = {
        name: frozenset(slo.slice_s * US_PER_S for slo in objectives.slos if slo.indicator == name)
        for name in ("replication_lag", "in_sync_ratio", "controller_leader")
    }
    look = samples.SamplesLook(
        over, now_us, widths["replication_lag"], widths["in_sync_ratio"], widths["controller_leader"], plots
    )
    tasks = _windows(SAMPLES_TABLE, of, over, workers)
    return folded(workers.run("samples", tasks, partial(samples.of_task, look=look)), samples.merged)


def _windows(kind: str, of: Segments, over: Period, workers: Workers) -> list[Task]:
    wide = over.wide
    return plan.windows(kind, of.of(kind), wide.start_us, wide.end_us, workers.cores)


def _again(
    of: Segments,
    over: Period,
    now_us: int,
    closeups: Sequence[again.Closeup],
    judged: dict[str, Verdicts],
    workers: Workers,
) -> again.Found:
    """Read the sends around changes and the unread messages again."""
    unread = {group: one.unread for group, one in judged.items() if one.unread is not None}
    look = again.SecondLook(over, now_us, DURABLE_US, closeups, unread)
    wanted = [
        *((one.low_us, one.high_us + 1) for one in closeups),
        *((one.start_us, one.end_us) for one in unread.values()),
    ]
    tasks = []
    for low, high in _apart(wanted):
        start_us, end_us = max(low, over.start_us), min(high, over.end_us)
        groups = of.of(OPERATIONS_TABLE)
        tasks += plan.windows(OPERATIONS_TABLE, groups, start_us, end_us, workers.cores)
    return folded(workers.run("second look", tasks, partial(again.of_task, look=look)), again.merged)


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of time in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def period_tables(
    source: Path,
    objectives: Objectives,
    now_us: int,
    master: str,
    profile: Profile,
    *,
    without: Collection[str] = (),
    extracts: Extracts | None = None,
    plots: bool = True,
) -> tuple[gold.Tables, Period]:
    """Read a data directory and return the gold tables of its last window, and the period.

    Args:
        source: data directory with segments.
        objectives: to count for; their window bounds the period.
        now_us: when the run is.
        master: where Spark runs.
        profile: where steps are counted.
        without: segments to leave out, paths relative to `source`.
        extracts: read instead of the segments of their days.
        plots: whether the tables that only a page shows are wanted.

    Raises:
        InputError: the directory holds no segments, or no credible row.
        SegmentUnusableError: a segment cannot be read.
    """
    with profile.step("footers"):
        check_directory(source, *KINDS)
        of = segments({kind: plan.files(source, kind, without, extracts) for kind in KINDS})
    where = workers(master, of.rows, profile)
    found = surveyed(of, now_us, objectives.timeWindow.days, where)
    if found.over is None:
        raise survey.without_rows(found.tables["apart"], source)
    with profile.step("tables"):
        made = tables(of, found.events, found.over, now_us, objectives, where, plots=plots)
    return made | found.tables, found.over
