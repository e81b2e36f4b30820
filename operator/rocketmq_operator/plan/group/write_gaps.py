"""What a change of master cost.

The cost is its write gap and its lost messages, by what a canary saw and the change's own marks.

Problem: a canary sees gaps and losses and knows no epochs; the controllers know epochs and see no writes.
Only time joins them, and their clocks differ. Shape: the rule of the reports (package `slo_pipeline`,
`transforms.master_changes.failovers`), so that both tell the same:

```
 election before        suspected  elected  role taken        election after
       |        <-margin->|-----------------|<-margin->             |
       |            lower                       upper               |
       |              [====== longest gap that touches ======]
       |  <- 60 s ->  [====== change and gap ================]
                      lost: acknowledged in here, and after the change before
```

A gap that begins later, when a broker comes back, is not the change's. The canary may be believed on a change
only if it was there before (`since`), and on losses only if it has read everything that was acknowledged up
to their end (`until`). A gap shorter than the canary can tell from its own schedule is written as `<100ms`.
Never: a value that was written is taken back, because a canary that began later knows less; and no value is a
guess.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from rocketmq_operator.api.failover import FailoverStatus
from rocketmq_operator.plan.common.actions import ApplyStatus
from rocketmq_operator.plan.common.objects import Json
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.failovers import (
    failover_status,
    milliseconds,
    record_name,
    status_step,
    taken_at,
)
from rocketmq_operator.plan.group.observed import ObservedGroup, ReportedFailover

MARGIN: Final = timedelta(seconds=1)
"""How far the canary's clock may be from the controllers'."""
SETTLE_MAX: Final = timedelta(seconds=60)
"""A change answers for no longer than this after its election, and for no message older than this before
it."""
ASK_AFTER: Final = timedelta(seconds=10)
"""Age of a change at which its write gap and the count of lost messages are usually known."""
ASK_UNTIL: Final = timedelta(hours=1)
"""Age at which a change is given up: a canary remembers no longer."""
MEASURED_FIELDS: Final = frozenset({"writeGap", "lostMessages"})
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ObservedGap:
    """A stretch without an acknowledged write; `end` None while it lasts."""

    start: datetime
    end: datetime | None


@dataclass(frozen=True, slots=True)
class CanaryGaps:
    """What a canary told; times are UTC, by its clock.

    Attributes:
        since: from when on it is complete.
        until: every message that was acknowledged before it was read, or is in `lost`.
        shortest: shorter gaps are not told.
        gaps: in any order.
        lost: when each lost message was acknowledged.
    """

    since: datetime
    until: datetime
    shortest: timedelta
    gaps: tuple[ObservedGap, ...]
    lost: tuple[datetime, ...]


def parse_canary_gaps(value: Json, group: str) -> CanaryGaps | None:
    """Read the answer to `GET /v1/gaps` about a group; None if the canary has seen no acknowledgement yet.

    Raises:
        ObservationError: it is not of that shape, or about another group.
    """
    if value.get("group") != group:
        raise ObservationError(f"a canary of {value.get('group')!r} cannot answer about {group}")
    try:
        if value["since"] is None:
            return None
        return CanaryGaps(
            since=_utc(value["since"]),
            until=_utc(value["until"]),
            shortest=timedelta(milliseconds=value["gap_min_ms"]),
            gaps=tuple(_parse_gap(gap) for gap in value["gaps"]),
            lost=tuple(_utc(one) for one in value["lost"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ObservationError(f"not what a canary tells of gaps: {error!r}") from error


def _parse_gap(value: Json) -> ObservedGap:
    gap = ObservedGap(_utc(value["start"]), None if value["end"] is None else _utc(value["end"]))
    if _length(gap) < timedelta(0):
        raise ValueError(f"a gap that ends before it begins: {value}")
    return gap


def _utc(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is None or value < _EARLIEST:
        raise ValueError(f"invalid time {text} (expected an offset, and a year from 2000 on)")
    return value.astimezone(UTC)


def unmeasured(observed: ObservedGroup) -> tuple[ReportedFailover, ...]:
    """Return the changes of master whose records lack what a canary could still tell."""
    if observed.spec.paused:
        return ()
    return tuple(
        failover
        for failover in observed.failovers
        if _has_unmeasured_fields(observed, failover)
        and ASK_AFTER <= observed.now - _last_mark(failover) <= ASK_UNTIL
    )


def _has_unmeasured_fields(observed: ObservedGroup, failover: ReportedFailover) -> bool:
    record = observed.records.get(record_name(failover.group, failover.new_epoch))
    return record is not None and not (record.get("status") or {}).keys() >= MEASURED_FIELDS


def measured_steps(observed: ObservedGroup, canaries: Sequence[CanaryGaps]) -> Iterator[ApplyStatus]:
    """Yield what completes the records, each value by the first canary that can tell it."""
    for failover in unmeasured(observed):
        name = record_name(failover.group, failover.new_epoch)
        status = failover_status(observed, failover)
        statuses = [status, *(measured_status(observed.failovers, failover, canary) for canary in canaries)]
        complete = status.model_copy(
            update={
                "write_gap": next((one.write_gap for one in statuses if one.write_gap is not None), None),
                "lost_messages": next(
                    (one.lost_messages for one in statuses if one.lost_messages is not None), None
                ),
            }
        )
        if complete != status:
            yield status_step(observed.owner, name, complete)


def measured_status(
    failovers: Sequence[ReportedFailover], one: ReportedFailover, canary: CanaryGaps
) -> FailoverStatus:
    """Return the write gap and the lost messages of a change of master.

    Each is None where the canary cannot tell.

    Args:
        failovers: all changes of the group that are known, the first election included.
        one: the change in question, one of them.
        canary: the canary's measurements.
    """
    lower, upper = _bounds(failovers, one)
    gap = _longest(canary.gaps, lower, upper)
    if canary.since > lower or (gap is not None and gap.end is None):
        return FailoverStatus()
    start, end = _extent(one, gap)
    after = start - SETTLE_MAX
    previous = _previous(failovers, one)
    if previous is not None and previous.had_master:
        # A loss for which both could answer is of the earlier.
        after = max(after, _extent(previous, _longest(canary.gaps, *_bounds(failovers, previous)))[1])
    lost = sum(after < acknowledged <= end for acknowledged in canary.lost)
    return FailoverStatus(
        write_gap=f"<{milliseconds(canary.shortest)}ms" if gap is None else f"{milliseconds(_length(gap))}ms",
        lost_messages=lost if canary.until > max(end, upper) else None,
    )


def _bounds(failovers: Sequence[ReportedFailover], one: ReportedFailover) -> tuple[datetime, datetime]:
    """Return between which times a gap must have lasted to be the change's."""
    previous = _previous(failovers, one)
    later = [_elected(other) for other in failovers if other.new_epoch > one.new_epoch]
    lower, upper = _first_mark(one) - MARGIN, _last_mark(one) + MARGIN
    return lower if previous is None else max(lower, _elected(previous)), min([upper, *later])


def _previous(failovers: Sequence[ReportedFailover], one: ReportedFailover) -> ReportedFailover | None:
    earlier = [other for other in failovers if other.new_epoch < one.new_epoch]
    return max(earlier, key=lambda other: other.new_epoch, default=None)


def _longest(gaps: Sequence[ObservedGap], lower: datetime, upper: datetime) -> ObservedGap | None:
    """Return the longest gap that lasted at some time between the two.

    One that still lasts is the longest.
    """
    touching = [gap for gap in gaps if gap.start < upper and (gap.end is None or gap.end > lower)]
    return max(touching, key=lambda gap: (gap.end is None, _length(gap)), default=None)


def _length(gap: ObservedGap) -> timedelta:
    return timedelta(0) if gap.end is None else gap.end - gap.start


def _extent(one: ReportedFailover, gap: ObservedGap | None) -> tuple[datetime, datetime]:
    """Return from when to when a change lasted, its gap included as far as that has ended."""
    times = [_first_mark(one), _last_mark(one)]
    if gap is not None and gap.end is not None:
        times += [gap.start, gap.end]
    return min(times), max(times)


def _elected(one: ReportedFailover) -> datetime:
    return one.times.get("committed", one.proposed)


def _first_mark(one: ReportedFailover) -> datetime:
    return min(one.times.get("suspected", one.proposed), one.proposed, _elected(one))


def _last_mark(one: ReportedFailover) -> datetime:
    """Return when the new master acted for the first time, as far as that is known and not too long after.

    Not: when the group was whole again. A broker that comes back may cost a gap of its own.
    """
    elected = _elected(one)
    return min(max(elected, taken_at(one) or elected), elected + SETTLE_MAX)
