"""Write gaps, phases and the seconds that changes of master answer for, in Python.

Problem, shape and rules: `transforms.master_changes` (`failovers`, `phases`) and `transforms.budget`. They
say the same of frames and stay as the second opinion in tests.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from slo_pipeline.jobs.single_pass.changes.elections import TimedChange, with_healing
from slo_pipeline.jobs.single_pass.changes.events import Event, Row, greatest, grouped, least
from slo_pipeline.jobs.single_pass.changes.rollouts import rollouts
from slo_pipeline.schemas.tables import FAILOVERS, PHASES
from slo_pipeline.transforms.budget import FAULT_SETTLE_US, BudgetTarget
from slo_pipeline.transforms.master_changes.elections import REELECTION
from slo_pipeline.transforms.master_changes.failovers import SETTLE_MAX_US
from slo_pipeline.transforms.master_changes.phases import MARKS
from slo_pipeline.transforms.master_changes.rollouts import UNENDED_US
from slo_pipeline.transforms.timing import US_PER_MS, US_PER_S

Ack = tuple[int, int, str]


def with_gaps(
    changes: Sequence[TimedChange], acks: Mapping[tuple[str, int], Sequence[Ack]], watched: Mapping[str, int]
) -> list[TimedChange]:
    """Add the write gap of each change, and the interval it answers for.

    Args:
        changes: result of `elections.marked`.
        acks: by group and place in the group's list of changes: acknowledgements around the change's bounds.
        watched: by group, the last intended send.
    """
    for group, of in grouped(changes, lambda one: one.group).items():
        gaps = [
            _gap(change, acks.get((group, place), ()), watched.get(group)) for place, change in enumerate(of)
        ]
        by_id = grouped(
            [(change.failover_id, gap) for change, gap in zip(of, gaps, strict=True) if gap is not None],
            lambda one: one[0],
        )
        for change in of:
            found = [gap for _, gap in by_id.get(change.failover_id, [])]
            if found:
                _, _, change.gap_start_ts, change.first_ack_ts, change.first_ack_clock = max(
                    found, key=lambda gap: gap[:2]
                )
            _answer(change)
    return list(changes)


def _gap(change: TimedChange, acks: Sequence[Ack], watched: int | None) -> Any:  # noqa: ANN401 - a gap or nothing
    """Return the longest gap that touches a change's bounds: length, -start, start, next, clock."""
    found = []
    for place, (start, _, clock) in enumerate(acks):
        after = acks[place + 1][0] if place + 1 < len(acks) else None
        until = greatest(watched if after is None else after, start)
        if until > change.lower_ts and start < change.upper_ts:
            found.append((until - start, -start, start, after, clock))
    return max(found, key=lambda gap: gap[:2], default=None)


def _answer(change: TimedChange) -> None:
    gap, ack = change.gap_start_ts, change.first_ack_ts
    redundant = least(change.redundancy_ts, change.elected_ts + SETTLE_MAX_US)
    unserved = change.upper_ts if gap is not None and ack is None else None
    change.write_gap_ms = None if gap is None or ack is None else (ack - gap) / US_PER_MS
    change.interval_start = least(
        change.fault_ts, change.suspected_ts, change.proposed_ts, change.elected_ts, gap
    )
    change.interval_end = greatest(change.elected_ts, change.role_taken_ts, ack, redundant, unserved)


def phases(timed: Iterable[TimedChange]) -> list[Row]:
    """Compute seven rows a change of master: the FAILOVER_PHASES table."""
    return [row for change in timed for row in _phases(change)]


def _phases(change: TimedChange) -> list[Row]:
    furthest = _base(change)
    found = []
    for phase in PHASES:
        ts, clock = (getattr(change, name) for name in MARKS[phase])
        found.append(_phase(change.failover_id, phase, ts, clock, furthest))
        if ts is not None:
            furthest = max([(ts, clock), *([] if furthest is None else [furthest])], key=_by_clock)
    return found


def _by_clock(mark: tuple[int, str | None]) -> tuple[int, str]:
    """Return what marks are compared by: an unknown clock comes first."""
    return (mark[0], mark[1] or "")


def _base(change: TimedChange) -> tuple[int, str | None] | None:
    """Return where the first phase begins: the fault, else the order to switch, else the last heartbeat."""
    if change.fault_ts is not None:
        return (change.fault_ts, change.fault_clock)
    begun = change.proposed_ts if change.booking == "switchover" else change.last_heartbeat_ts
    return None if begun is None else (begun, change.elected_clock)


def _phase(
    failover_id: str, phase: str, ts: int | None, clock: str | None, furthest: tuple[int, str | None] | None
) -> Row:
    start, start_clock = (None, None) if furthest is None else furthest
    lies_before = ts is not None and start is not None and ts < start and phase != PHASES[0]
    if ts is None:
        order = "absent"
    elif not lies_before:
        order = "in_order"
    else:
        order = "overtaken" if start_clock == clock else "uncertain"
    begin = None if ts is None else (ts if start is None else start)
    end = None if ts is None or begin is None else max(ts, begin)
    return {
        "failover_id": failover_id,
        "phase": phase,
        "start_ts": begin,
        "end_ts": end,
        "duration_ms": None if begin is None or end is None else (end - begin) / US_PER_MS,
        "skew_ms": (start - ts) / US_PER_MS if lies_before and start is not None and ts is not None else None,
        "start_clock": start_clock,
        "end_clock": clock,
        "order": order,
    }


class BudgetCause(NamedTuple):
    """Something that may answer for bad seconds; `group` "" is all of them, `rank` 1 answers first."""

    rank: int
    group: str
    booking: str
    failover_id: str | None
    detail: str | None
    interval_start: int
    interval_end: int
    epoch: int | None


def causes(timed: Iterable[TimedChange], events: Sequence[Event]) -> list[BudgetCause]:
    """List everything that may answer for bad seconds, what answers first at the end."""
    found = [
        BudgetCause(
            1, one.group, one.booking, one.failover_id, None, one.interval_start, one.interval_end, one.epoch
        )
        for one in timed
    ]
    for fault in with_healing(events):
        healed = fault.ts + UNENDED_US if fault.healed_ts is None else fault.healed_ts
        end = healed + FAULT_SETTLE_US
        found.append(BudgetCause(2, fault.group, "fault", None, fault.fault, fault.ts, end, None))
    found += [
        BudgetCause(3, one.group, "rollout", None, one.detail, one.interval_start, one.interval_end, None)
        for one in rollouts(events)
    ]
    return sorted(
        found,
        key=lambda one: (
            -one.rank,
            one.interval_start,
            -1 if one.epoch is None else one.epoch,
            one.detail or "",
        ),
    )


def book(bad: Mapping[str, Sequence[tuple[int, int]]], answering: Sequence[BudgetCause]) -> list[Row]:
    """Book every bad second to the first cause whose interval it touches, else to nothing.

    Args:
        bad: by group: start of a second, microseconds, and failed sends.
        answering: result of `causes`.
    """
    rows = []
    for group, seconds in bad.items():
        own = [one for one in answering if one.group in ("", group)]
        for start, failed in seconds:
            touching = (
                one
                for one in reversed(own)
                if start < one.interval_end and start + US_PER_S > one.interval_start
            )
            cause = next(touching, None)
            rows.append(
                {
                    "group": group,
                    "slice_start": start,
                    "failed": failed,
                    "booking": "unexplained" if cause is None else cause.booking,
                    "failover_id": None if cause is None else cause.failover_id,
                    "detail": None if cause is None else cause.detail,
                }
            )
    return rows


def budget(booked: Iterable[Row], objective: BudgetTarget) -> list[Row]:
    """Add up bookings: the BUDGET table, one row a thing that spent budget in a group."""
    names = ("group", "booking", "failover_id", "detail")
    spent = Counter(tuple(row[name] for name in names) for row in booked)
    return [
        {
            **dict(zip(names, key, strict=True)),
            "bad_s": count,
            "budget_s": objective.budget_s,
            "budget_share": count / objective.budget_s if objective.budget_s else None,
        }
        for key, count in spent.items()
    ]


def failovers(
    timed: Iterable[TimedChange],
    steps: Iterable[Row],
    booked: Iterable[Row],
    lost: Sequence[Row],
    read: Iterable[str],
) -> list[Row]:
    """Assemble the FAILOVERS table.

    Args:
        timed: changes of master in the period.
        steps: the FAILOVER_PHASES table.
        booked: result of `book`.
        lost: the LOST table.
        read: groups whose messages are read back.
    """
    changes, read_groups = list(timed), set(read)
    uncertain = {row["failover_id"] for row in steps if row["order"] == "uncertain"}
    spent = Counter(row["failover_id"] for row in booked)
    losses = _lost_by_failover(changes, lost)
    table = []
    for one in changes:
        row = {
            "order_uncertain": one.failover_id in uncertain,
            "bad_s": spent[one.failover_id],
            "lost_acknowledged": losses[one.failover_id] if one.group in read_groups else None,
        }
        table.append({name: row[name] if name in row else getattr(one, name) for name in FAILOVERS.names})
    return table


def _lost_by_failover(timed: Sequence[TimedChange], lost: Sequence[Row]) -> Counter[str]:
    """Count lost messages by the first change of master after their acknowledgement."""
    first: dict[tuple[str, int], tuple[int, str]] = {}
    for row in lost:
        us = row["acknowledged_ts"]
        for one in timed:
            is_near = us is not None and one.interval_start - SETTLE_MAX_US <= us <= one.interval_end
            if one.group == row["group"] and is_near:
                place = (row["group"], row["seq"])
                first[place] = min(
                    first.get(place, (one.elected_ts, one.failover_id)), (one.elected_ts, one.failover_id)
                )
    return Counter(failover_id for _, failover_id in first.values())


def without_reelections(changes: Iterable[TimedChange]) -> list[TimedChange]:
    """Return the changes of master alone."""
    return [one for one in changes if one.booking != REELECTION]
