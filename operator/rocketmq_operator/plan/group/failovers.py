"""From the controllers' history to Failover objects.

There is one for each change of master, named `<group>-<new epoch>`.

The name makes it idempotent: a second read of the history finds the existing object. The first election of a
group is not a failover: it is not recorded. The operator keeps the newest `RECORDS_MAX` of each group. It
writes measured values (`write_gaps`) again each time: a status without them would remove them.

Names of members are found when a record is made, and never again: an address may be another member's by then.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from rocketmq_operator.api.failover import FailoverPhase, FailoverSpec, FailoverStatus
from rocketmq_operator.api.names import API_VERSION, FAILOVER_KIND
from rocketmq_operator.plan.common.actions import (
    Apply,
    ApplyStatus,
    Delete,
    ResourcePlan,
    Step,
    Wait,
    name_taken,
)
from rocketmq_operator.plan.common.objects import (
    Json,
    ObjectKey,
    Owner,
    belonging_labels,
    child,
    controller_of,
    covers,
    is_ours,
)
from rocketmq_operator.plan.group.observed import ObservedGroup, ReportedFailover

RECORDS_MAX: Final = 50
PHASES: Final = {
    "last_heartbeat": "LastHeartbeat",
    "suspected": "Suspected",
    "proposed": "Proposed",
    "committed": "Committed",
    "noticed": "Noticed",
    "role_taken": "RoleTaken",
    "first_beat": "FirstBeat",
}


def record_name(group: str, new_epoch: int) -> str:
    """Return the name of the record of a change of master."""
    return f"{group}-{new_epoch}"


def record_steps(observed: ObservedGroup) -> ResourcePlan:
    """Return what brings the records to what the controllers remember.

    One whose name is somebody else's is not written.
    """
    kept = [failover for failover in observed.failovers if failover.had_master][:RECORDS_MAX]
    wait: Wait | None = None
    steps: list[Step] = []
    for failover in kept:
        foreign = _foreign(observed, failover)
        wait = wait or foreign
        steps += () if foreign is not None else _record(observed, failover)
    return ResourcePlan((*steps, *_surplus(observed, kept)), wait)


def _foreign(observed: ObservedGroup, failover: ReportedFailover) -> Wait | None:
    live = observed.name_lookup.live.get(
        ObjectKey(FAILOVER_KIND.kind, record_name(failover.group, failover.new_epoch))
    )
    if live is None or is_ours(live, observed.owner, belonging_labels(failover.cluster, failover.group)):
        return None
    return name_taken(live, observed.owner)


def _surplus(observed: ObservedGroup, kept: Sequence[ReportedFailover]) -> Iterator[Delete]:
    # Why only with new ones: controllers that lost their state must not take the records with them.
    oldest = min((failover.new_epoch for failover in kept), default=0)
    surplus = len(observed.records) - RECORDS_MAX
    if surplus > 0:
        for name, live in sorted(observed.records.items(), key=lambda one: one[1]["spec"]["newEpoch"])[
            :surplus
        ]:
            if live["spec"]["newEpoch"] < oldest:
                uid = live["metadata"].get("uid", "")
                yield Delete(ObjectKey(FAILOVER_KIND.kind, name), uid, f"older than the newest {RECORDS_MAX}")


def _record(observed: ObservedGroup, failover: ReportedFailover) -> Iterator[Step]:
    name = record_name(failover.group, failover.new_epoch)
    live = observed.records.get(name)
    if live is None:
        yield Apply(_body(observed, failover, name), "new failover")
    elif controller_of(live) is None:
        yield Apply(_record_of(observed, name, live["spec"]), "of a former group")
    step = status_step(observed.owner, name, failover_status(observed, failover))
    if live is None or not covers(live.get("status", {}), step.body["status"]):
        yield step


def status_step(owner: Owner, name: str, status: FailoverStatus) -> ApplyStatus:
    """Return the step that writes the status of a group's record."""
    return ApplyStatus(
        {
            "apiVersion": API_VERSION,
            "kind": FAILOVER_KIND.kind,
            "metadata": {"name": name, "namespace": owner.namespace},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    )


def _body(observed: ObservedGroup, failover: ReportedFailover, name: str) -> Json:
    spec = FailoverSpec(
        cluster=failover.cluster,
        group=failover.group,
        correlation_id=_correlation_id(failover),
        cause=failover.cause,
        from_=_member(observed, failover.old_master_id, failover.old_master_address),
        to=_member(observed, failover.new_master_id, failover.new_master_address),
        reelection=failover.is_reelection,
        old_epoch=failover.old_epoch,
        new_epoch=failover.new_epoch,
        sync_state_set_before=failover.sync_state_set_before,
        sync_state_set_after=failover.sync_state_set_after,
        unclean=failover.unclean,
    )
    return _record_of(observed, name, spec.model_dump(mode="json", by_alias=True, exclude_none=True))


def _record_of(observed: ObservedGroup, name: str, spec: Json) -> Json:
    """Return a record that belongs to the group; the spec of one that exists stays as it is."""
    labels = belonging_labels(spec["cluster"], spec["group"])
    return child(observed.owner, FAILOVER_KIND.kind, name, labels=labels, spec=dict(spec))


def _member(observed: ObservedGroup, broker_id: int | None, address: str) -> str:
    """Return the member that announced an address, or its address if the member is unknown.

    The member is the current owner of the broker id.
    """
    named = observed.member_at(address)
    if not named and observed.group is not None and broker_id is not None:
        now = next((one.address for one in observed.group.members if one.broker_id == broker_id), "")
        named = observed.member_at(now)
    return named or address


def failover_status(observed: ObservedGroup, failover: ReportedFailover) -> FailoverStatus:
    """Return the status of a failover.

    It has the times, the address of the page, and the measured values from the record.
    """
    start = failover.times.get("suspected", failover.proposed)
    phases = tuple(
        FailoverPhase(name=PHASES[name], at=at, after_ms=milliseconds(at - start))
        for name, at in sorted(failover.times.items(), key=lambda one: one[1])
    )
    end = taken_at(failover)
    took = "" if end is None else f"{milliseconds(end - start)}ms"
    record = observed.records.get(record_name(failover.group, failover.new_epoch), {})
    written = record.get("status") or {}
    return FailoverStatus(
        phases=phases,
        took=took,
        write_gap=written.get("writeGap"),
        lost_messages=written.get("lostMessages"),
        page=_page(observed, failover) or written.get("page", ""),
    )


def _page(observed: ObservedGroup, failover: ReportedFailover) -> str:
    """Return the address of a failover's page on the report server.

    The result is empty unless exactly one server exists, since with several the right one is unknown.
    """
    if len(observed.report_servers) != 1:
        return ""
    return f"{observed.report_servers[0].url(observed.owner.namespace)}/failovers/{_correlation_id(failover)}"


def _correlation_id(failover: ReportedFailover) -> str:
    return f"{failover.cluster}/{failover.group}/{failover.new_epoch}"


def taken_at(failover: ReportedFailover) -> datetime | None:
    """Return when the new master first acted in its epoch; None if it has not been observed yet."""
    marks = [failover.times[name] for name in ("role_taken", "first_beat") if name in failover.times]
    return min(marks, default=None)


def milliseconds(span: timedelta) -> int:
    """Return a span in whole milliseconds."""
    return round(span / timedelta(milliseconds=1))
