"""Sums of all windows to gold tables, on the driver: plain rows, times in microseconds.

The rules are those of `jobs.gold`, which wires frames and stays as the second opinion in tests.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slo_pipeline.jobs.gold import CLOSEUP_KINDS, CLOSEUP_US, KUBERNETES_AROUND_US, headline
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import again, burn, counts, operations, samples
from slo_pipeline.jobs.single_pass.arrays import ints, quantile
from slo_pipeline.jobs.single_pass.changes import failovers
from slo_pipeline.jobs.single_pass.changes.elections import TimedChange
from slo_pipeline.jobs.single_pass.changes.events import Event, Row, grouped, in_sync_steps, of_kinds
from slo_pipeline.jobs.single_pass.counts import Seconds
from slo_pipeline.jobs.single_pass.verdicts import Verdicts
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.transforms.budget import S_PER_DAY
from slo_pipeline.transforms.latency import BOUNDS_MS
from slo_pipeline.transforms.master_changes.rollouts import KUBERNETES_EVENT
from slo_pipeline.transforms.timing import US_PER_MS, US_PER_S

Tables = dict[str, list[Row]]


class Whole(NamedTuple):
    """Everything that was found about a period.

    Attributes:
        events: credible ones, also outside the period.
        changes: with their gaps, re-elections among them; also around the period.
        operations, samples: sums.
        verdicts: complete.
        again: what the second look found.
    """

    events: Sequence[Event]
    changes: Sequence[TimedChange]
    operations: Mapping[str, operations.OperationSums]
    samples: samples.SampleSums
    verdicts: Mapping[str, Verdicts]
    again: again.Found


def tables(whole: Whole, over: Period, objectives: Objectives, *, minutes: bool) -> Tables:
    """Return all gold tables, and with `minutes` also `sli_minutes`: SLI_COUNTS by minute."""
    seconds = counts.seconds(whole.operations, over)
    timed = timed_changes(whole.changes, over)
    steps = failovers.phases(timed)
    booked = failovers.book(
        bad_seconds(whole.operations, over), failovers.causes(whole.changes, whole.events)
    )
    recent = [event for event in whole.events if over.start_us <= event["ts"] < over.end_us]
    measured = counts.MeasuredSums(seconds, whole.operations, whole.samples, timed, whole.verdicts, recent)
    counted = counts.counts(measured, objectives, over)
    status, pages = burn.status_and_pages(counted, objectives)
    lost = whole.again.lost
    return {
        "sli_window": [_window(group, of) for group, of in seconds.items()],
        "sli_strip": [row for group, of in seconds.items() for row in _strip(group, of, over.stretch_us)],
        "booked": booked,
        "budget": failovers.budget(booked, headline(objectives)),
        "failovers": failovers.failovers(timed, steps, booked, lost, whole.verdicts),
        "failover_phases": steps,
        "closeup_points": again.points(whole.again),
        "closeup_marks": _marks(whole.events, timed),
        "in_sync_steps": in_sync_steps(whole.events),
        "latency": [_latency(group, of) for group, of in whole.operations.items() if _sent(of)],
        "latency_histogram": [row for group, of in whole.operations.items() for row in _histogram(group, of)],
        "latency_series": [row for of in whole.operations.values() for row in of.series],
        "lag_points": [
            {"group": group, "broker_id": broker, "instance": instance, "ts": ts, "lag_bytes_max": worst}
            for (group, broker, instance, ts), worst in whole.samples.lag_points.items()
        ],
        "durability": [one.row for one in whole.verdicts.values()],
        "lost": lost,
        "coverage": samples.coverage(whole.samples.scrapes),
        "sli_minutes": counts.rows(counted) if minutes else [],
        "slo_status": status,
        "pages": pages,
    }


def timed_changes(changes: Iterable[TimedChange], over: Period) -> list[TimedChange]:
    """Return the changes of master in the period, without re-elections."""
    found = failovers.without_reelections(changes)
    return [one for one in found if over.start_us <= one.elected_ts < over.end_us]


def closeups(timed: Iterable[TimedChange]) -> list[again.Closeup]:
    """Return the stretches of time around changes of master that a page shows the sends of."""
    return [
        again.Closeup(
            one.failover_id, one.group, one.interval_start - CLOSEUP_US, one.interval_end + CLOSEUP_US
        )
        for one in timed
    ]


def bad_seconds(of: Mapping[str, operations.OperationSums], over: Period) -> dict[str, list[tuple[int, int]]]:
    """Return the seconds of the period in which sends failed, microseconds, and how many failed."""
    found = {}
    for group, one in of.items():
        at = one.failed_second * US_PER_S
        inside = (at >= over.start_us) & (at < over.end_us)
        found[group] = list(zip(at[inside].tolist(), one.failed_sends[inside].tolist(), strict=True))
    return found


def _window(group: str, of: Seconds) -> Row:
    good, bad, unknown = (int(column.sum()) for column in of.counts(S_PER_DAY)[1:])
    return {
        "group": group,
        "window_start": of.first * US_PER_S,
        "window_end": of.stop * US_PER_S,
        "good_s": good,
        "bad_s": bad,
        "unknown_s": unknown,
        "availability": good / (good + bad) if good + bad else None,
    }


def _strip(group: str, of: Seconds, stretch_us: int) -> list[Row]:
    number, *columns = of.counts(stretch_us // US_PER_S)
    names = ("ts", "good_s", "bad_s", "unknown_s")
    return [
        {"group": group, **dict(zip(names, row, strict=True))}
        for row in zip((number * stretch_us).tolist(), *[column.tolist() for column in columns], strict=True)
    ]


def _sent(of: operations.OperationSums) -> bool:
    """Tell whether a group sent anything in the period."""
    return bool(len(of.took.value) or of.timeless or of.failed)


def _latency(group: str, of: operations.OperationSums) -> Row:
    shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
    return {
        "group": group,
        "acknowledged": of.took.total + of.timeless,
        "failed": of.failed,
        **{name: quantile(of.took, share, US_PER_MS) for name, share in shares.items()},
        "max_ms": float(of.took.value[-1]) / US_PER_MS if len(of.took.value) else None,
    }


def _histogram(group: str, of: operations.OperationSums) -> list[Row]:
    bounds = ints(int(bound * US_PER_MS) for bound in BOUNDS_MS)
    place = np.searchsorted(bounds, of.took.value, side="left")
    sends = np.bincount(place, of.took.count, len(bounds) + 1).astype(np.int64)
    sends[-1] += of.timeless
    return [
        {"group": group, "le_ms": bound, "sends": count}
        for bound, count in zip((*BOUNDS_MS, float("inf")), sends.tolist(), strict=True)
        if count
    ]


def _marks(events: Sequence[Event], timed: Iterable[TimedChange]) -> list[Row]:
    """Pick what else was reported of each change."""
    told = grouped(of_kinds(events, *CLOSEUP_KINDS), lambda one: (one["group"], one["epoch"]))
    kubernetes = grouped(of_kinds(events, KUBERNETES_EVENT), lambda one: one["group"])
    shown = ("ts", "kind", "source", "broker_id", "attrs")
    found = []
    for change in timed:
        low, high = change.interval_start - KUBERNETES_AROUND_US, change.interval_end + KUBERNETES_AROUND_US
        beside = [one for one in kubernetes.get(change.group, []) if low <= one["ts"] <= high]
        own = [*told.get((change.group, change.epoch), []), *(beside if change.group else [])]
        found += [{"failover_id": change.failover_id, **{name: one[name] for name in shown}} for one in own]
    return found
