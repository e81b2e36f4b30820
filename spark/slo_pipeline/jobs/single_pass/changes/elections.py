"""Changes of master and the marks that belong to each, of events in Python.

Problem, shape and rules: `transforms.master_changes`, `elections` and the first half of `failovers`. They
say the same of frames and stay as the second opinion in tests.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slo_pipeline.jobs.single_pass.changes.events import (
    SET_KINDS,
    Event,
    greatest,
    grouped,
    integer,
    least,
    members,
    micros_of_nanos,
    neighbours,
    of_kinds,
    set_after,
)
from slo_pipeline.jobs.single_pass.changes.rollouts import handovers_ordered
from slo_pipeline.transforms.master_changes.elections import (
    CLOCK_SLACK_US,
    FAULT_REACH_US,
    HANDOVER_US_MAX,
    PLANNED_CAUSES,
    REELECTION,
)
from slo_pipeline.transforms.master_changes.failovers import MARGIN_US, SETTLE_MAX_US

Mark = tuple[int, str]
NO_MARK: Final = (None, None)


@dataclass
class TimedChange:
    """One election with a master before it: the columns of `failovers.with_gaps`, times in microseconds."""

    failover_id: str
    cluster: str
    group: str
    epoch: int
    old_epoch: int | None
    cause: str
    booking: str
    old_master_id: int
    new_master_id: int | None
    old_master_address: str | None
    new_master_address: str | None
    sync_state_set_before: str
    sync_state_set_after: str
    last_heartbeat_ts: int | None
    suspected_ts: int | None
    proposed_ts: int | None
    elected_ts: int
    elected_clock: str
    previous_elected_ts: int | None
    next_elected_ts: int | None
    suspected_clock: str | None = None
    role_taken_ts: int | None = None
    role_taken_clock: str | None = None
    redundancy_ts: int | None = None
    redundancy_clock: str | None = None
    route_seen_ts: int | None = None
    route_seen_clock: str | None = None
    fault: str | None = None
    fault_ts: int | None = None
    fault_clock: str | None = None
    fault_healed_ts: int | None = None
    lower_ts: int = 0
    upper_ts: int = 0
    gap_start_ts: int | None = None
    first_ack_ts: int | None = None
    first_ack_clock: str | None = None
    write_gap_ms: float | None = None
    interval_start: int = 0
    interval_end: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what names the change in events."""
        return (self.cluster, self.group, self.epoch)


@dataclass(frozen=True)
class InjectedFault:
    """An injected fault, and when it was healed."""

    group: str
    broker_id: int | None
    ts: int
    clock_id: str
    fault: str
    healed_ts: int | None


def elections(events: Sequence[Event]) -> list[TimedChange]:
    """Find the changes of master, and re-elections of the same one."""
    elected = [one for one in of_kinds(events, "MasterElected") if one["epoch"] is not None]
    orders = grouped(handovers_ordered(events), lambda one: one["group"])
    found = []
    for of in grouped(elected, lambda one: (one["cluster"], one["group"])).values():
        in_order = sorted(of, key=lambda one: (one["epoch"], one["ts"]))
        for before, event, after in neighbours(in_order):
            change = _change(before, event, after, orders)
            if change is not None:
                found.append(change)
    return found


def _new_id(event: Event) -> int | None:
    told = _broker_id(event["attrs"].get("new_master_id"))
    return event["broker_id"] if told is None else told


def _broker_id(text: str | None) -> int | None:
    number = integer(text)
    return number if number is not None and number > 0 else None


def _change(
    before: Event | None, event: Event, after: Event | None, orders: dict[str, list[Event]]
) -> TimedChange | None:
    attrs = event["attrs"]
    old = _broker_id(attrs.get("old_master_id"))
    if old is None and before is not None:
        old = _new_id(before)
    if old is None:
        return None
    old_address = attrs.get("old_master_address")
    if old_address is None and before is not None:
        old_address = before["attrs"].get("new_master_address")
    cause = attrs.get("cause")
    change = TimedChange(
        failover_id="/".join([event["cluster"], event["group"], str(event["epoch"])]),
        cluster=event["cluster"],
        group=event["group"],
        epoch=event["epoch"],
        old_epoch=integer(attrs.get("old_epoch")),
        cause="unknown" if cause is None else cause,
        booking="switchover" if cause in PLANNED_CAUSES else "failover",
        old_master_id=old,
        new_master_id=_new_id(event),
        old_master_address=old_address,
        new_master_address=attrs.get("new_master_address"),
        sync_state_set_before=",".join(members(attrs.get("sync_state_set_before"))),
        sync_state_set_after=",".join(members(set_after(event))),
        last_heartbeat_ts=micros_of_nanos(attrs.get("last_heartbeat_ns")),
        suspected_ts=micros_of_nanos(attrs.get("suspected_ns")),
        proposed_ts=micros_of_nanos(attrs.get("proposed_ns")),
        elected_ts=event["ts"],
        elected_clock=event["clock_id"],
        previous_elected_ts=None if before is None else before["ts"],
        next_elected_ts=None if after is None else after["ts"],
    )
    if change.old_master_id == change.new_master_id:
        change.booking = REELECTION
    elif cause == "ConnectionClosed" and _was_ordered(change, orders.get(change.group, [])):
        change.booking = "switchover"
    return change


def _was_ordered(change: TimedChange, orders: Iterable[Event]) -> bool:
    """Tell whether the operator had told the old master to end."""
    since = greatest(change.elected_ts - HANDOVER_US_MAX, change.previous_elected_ts)
    until = change.elected_ts + CLOCK_SLACK_US
    return any(since < one["ts"] <= until and one["cluster"] in ("", change.cluster) for one in orders)


def marked(changes: Sequence[TimedChange], events: Sequence[Event]) -> list[TimedChange]:
    """Add what all programs but the canary's sends say about each change, and where to look for its gap."""
    by_key = grouped(events, lambda one: (one["cluster"], one["group"], one["epoch"]))
    routes = grouped(of_kinds(events, "RouteSeen"), lambda one: one["group"])
    struck = with_healing(events)
    # Two elections of one epoch are one change to whoever joins by it.
    together = grouped(changes, lambda one: one.failover_id)
    for same in together.values():
        told = [(change, by_key.get(change.key, [])) for change in same]
        seen = [mark for change in same for mark in _routes_seen(change, routes.get(change.group, []))]
        suspected = _earliest(mark for change, of in told for mark in _suspicions(change, of))
        committed = _earliest(mark for _, of in told for mark in _commits(of))
        taken = _earliest([*seen, *(mark for change, of in told for mark in _roles_taken(change, of))])
        redundant = _earliest(mark for change, of in told for mark in _redundancies(change, of))
        faults = [one for change in same for one in _faults(change, struck)]
        for change in same:
            _mark(change, suspected, committed)
            change.role_taken_ts, change.role_taken_clock = taken
            change.redundancy_ts, change.redundancy_clock = redundant
            change.route_seen_ts, change.route_seen_clock = _earliest(seen)
            if faults:
                last = max(faults, key=_order)
                change.fault, change.fault_ts = last.fault, last.ts
                change.fault_clock, change.fault_healed_ts = last.clock_id, last.healed_ts
            _bound(change)
    return list(changes)


def _order(fault: InjectedFault) -> tuple[Any, ...]:
    healed = fault.healed_ts
    return (fault.ts, fault.clock_id, fault.fault, healed is not None, healed or 0)


def _earliest(marks: Iterable[Mark]) -> tuple[int | None, str | None]:
    return min(marks, default=NO_MARK)


def _mark(change: TimedChange, suspected: Any, committed: Any) -> None:  # noqa: ANN401 - marks or nothing
    if committed[0] is not None:
        change.elected_ts, change.elected_clock = committed
    if change.booking == "switchover":
        change.suspected_ts = None
    elif change.suspected_ts is None:
        change.suspected_ts, change.suspected_clock = suspected
    else:
        change.suspected_clock = change.elected_clock


def _bound(change: TimedChange) -> None:
    earliest = least(change.fault_ts, change.suspected_ts, change.proposed_ts, change.elected_ts)
    latest = greatest(change.elected_ts, change.role_taken_ts, change.route_seen_ts)
    settled = min(latest, change.elected_ts + SETTLE_MAX_US)
    change.lower_ts = greatest(earliest - MARGIN_US, change.previous_elected_ts)
    change.upper_ts = least(settled + MARGIN_US, change.next_elected_ts)


def _suspicions(change: TimedChange, events: Iterable[Event]) -> list[Mark]:
    told = of_kinds(events, "BrokerSuspected")
    return [(one["ts"], one["clock_id"]) for one in told if one["broker_id"] == change.old_master_id]


def _commits(events: Iterable[Event]) -> list[Mark]:
    told = of_kinds(events, "MasterElected", "RoleNotified", "RoleTaken")
    timed = ((micros_of_nanos(one["attrs"].get("committed_ns")), one["clock_id"]) for one in told)
    return [(us, clock) for us, clock in timed if us is not None]


def _roles_taken(change: TimedChange, events: Iterable[Event]) -> list[Mark]:
    told = of_kinds(events, "RoleTaken", "HandshakeDone")
    return [
        (one["ts"], one["clock_id"])
        for one in told
        if one["kind"] == "HandshakeDone"
        or None in (one["broker_id"], change.new_master_id)
        or one["broker_id"] == change.new_master_id
    ]


def _redundancies(change: TimedChange, events: Iterable[Event]) -> list[Mark]:
    before = len(members(change.sync_state_set_before))
    return [
        (one["ts"], one["clock_id"])
        for one in events
        if one["kind"] in SET_KINDS and 0 < before <= len(members(set_after(one)))
    ]


def _routes_seen(change: TimedChange, events: Iterable[Event]) -> list[Mark]:
    found = []
    for one in events:
        attrs = one["attrs"]
        address = attrs.get("master_address")
        address = attrs.get("address") if address is None else address
        by_address = one["epoch"] is None and address is not None and address == change.new_master_address
        after = one["ts"] >= change.elected_ts - CLOCK_SLACK_US
        before_next = change.next_elected_ts is None or one["ts"] < change.next_elected_ts
        if after and before_next and (one["epoch"] == change.epoch or by_address):
            found.append((one["ts"], one["clock_id"]))
    return found


def _faults(change: TimedChange, struck: Iterable[InjectedFault]) -> list[InjectedFault]:
    """Return the injected faults that a change of master answers."""
    if change.booking == "switchover":
        return []
    seen = next(
        one for one in (change.last_heartbeat_ts, change.suspected_ts, change.elected_ts) if one is not None
    )
    reach = seen - FAULT_REACH_US
    previous = change.previous_elected_ts
    return [
        one
        for one in struck
        if one.group in ("", change.group)
        and one.broker_id in (None, change.old_master_id)
        and (previous is None or one.ts > previous)
        and reach <= one.ts <= change.elected_ts + CLOCK_SLACK_US
        and (one.healed_ts is None or one.healed_ts >= reach)
    ]


def with_healing(events: Iterable[Event]) -> list[InjectedFault]:
    """Pair each FaultInjected with the first FaultHealed of the same fault after it."""
    struck = of_kinds(events, "FaultInjected", "FaultHealed")
    found = []
    same = grouped(
        struck,
        lambda one: (one["cluster"], one["group"], one["broker_id"], _name(one), one["attrs"].get("target")),
    )
    for of in same.values():
        for _, event, after in neighbours(sorted(of, key=lambda one: one["ts"])):
            if event["kind"] != "FaultInjected":
                continue
            healed = after["ts"] if after is not None and after["kind"] == "FaultHealed" else None
            found.append(
                InjectedFault(
                    event["group"], event["broker_id"], event["ts"], event["clock_id"], _name(event), healed
                )
            )
    return found


def _name(event: Event) -> str:
    attrs = event["attrs"]
    return next((attrs[name] for name in ("fault", "action") if attrs.get(name) is not None), "fault")
