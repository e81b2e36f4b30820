"""The obstacles to a migration and its reasons to wait.

Each is one line that names the object and its problem.

Checks come before the step that they are for, and refuse by themselves nothing that a person could not see
and change. Empty means that nothing is in the way.
"""

from collections.abc import Iterator
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.migration.observed import (
    BrokerReport,
    ObservedMigration,
    OldBrokerKind,
    OldMember,
    VolumeHolder,
    stateful_set_of,
)

STILL_S: Final = 40.0
"""For how long logs must have stood still: clients ask for routes every 30 s, and write until then."""
MEBIBYTE: Final = 1 << 20
DEFAULT_STORE: Final = "default"


def creation_obstacle(observed: ObservedMigration) -> str:
    """Return the obstacle to creating the new group; empty once it exists."""
    return next(_creation_obstacles(observed), "")


def _creation_obstacles(observed: ObservedMigration) -> Iterator[str]:
    request = observed.request
    if observed.cluster is None:
        yield (
            f"there is no RocketMQCluster {request.spec.cluster} in namespace {request.namespace}: create it "
            "first"
        )
    handed = any(member.holder in {VolumeHolder.HELD, VolumeHolder.NEW} for member in observed.members)
    if observed.group is not None and not handed:
        yield f"there is a BrokerGroup {request.group} already, which has volumes of its own"
    if observed.colliding_objects:
        yield (
            f"{observed.colliding_objects[0]} has the name that the operator needs: give the BrokerGroup "
            "another name"
        )
    if request.spec.replicas != len(observed.members):
        yield (
            f"spec.replicas of the BrokerGroup is {request.spec.replicas}, and there are "
            f"{len(observed.members)} volumes: ask for as many brokers, and for more when it is done"
        )
    if request.spec.storage.ephemeral:
        yield (
            "spec.storage.ephemeral of the BrokerGroup is true: its brokers would leave the volumes: set it "
            "to false"
        )
    if request.spec.hibernated:
        yield "spec.hibernated of the BrokerGroup is true: no broker would start: set it to false"
    for member in observed.members:
        yield from _set_problems(observed, member)
        if member.new_claim is not None and not handed:
            yield (
                f"there is a claim {names.claim(member.member)} already, which would be taken for the new "
                "volume's"
            )


def _set_problems(observed: ObservedMigration, member: OldMember) -> Iterator[str]:
    name = stateful_set_of(member.pod)
    if member.stateful_set is None:
        yield (
            f"StatefulSet {name} of pod {member.pod} does not exist in namespace {observed.request.namespace}"
        )
        return
    owners = member.stateful_set["metadata"].get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is not None:
        yield (
            f"StatefulSet {name} belongs to {owner['kind']} {owner['name']}, which would start its pods "
            "again: take it from its owner first"
        )
    missing = {
        f"{name}-{ordinal}" for ordinal in range(member.stateful_set["spec"].get("replicas", 0))
    } - set(observed.request.pods)
    if missing:
        yield f"{min(missing)} is of StatefulSet {name} too, and would be stopped with it: name it as well"


def old_broker_problem(observed: ObservedMigration) -> str:
    """Return the first problem of the old brokers while they run."""
    return next((text for member in observed.members for text in _broker_problems(observed, member)), "")


def _broker_problems(observed: ObservedMigration, member: OldMember) -> Iterator[str]:
    if member in observed.surveyed:
        yield from _report_problems(observed, member)
    if isinstance(member.store_location, str):
        yield member.store_location or f"it is not known where the store of {member.pod} lies"
    elif member.volume is None:
        yield f"claim {member.store_location.claim} of {member.pod} is not bound to a volume"


def _report_problems(observed: ObservedMigration, member: OldMember) -> Iterator[str]:
    if not member.runs:
        yield f"{member.pod} does not run: start it, so that it can be asked what it has"
    report = member.report
    if report is None:
        yield (
            f"{member.pod} does not answer at port {observed.request.port}: "
            f"{member.no_report_reason or 'no broker listens there'}"
        )
        return
    request = observed.request
    if report.name != request.broker_name:
        yield f"{member.pod} is of {report.name}, and not of {request.broker_name}: say so with --broker-name"
    if report.controller_mode:
        yield f"{member.pod} has controllers already (enableControllerMode): this is for brokers without any"
    if report.dledger is not (request.old_kind is OldBrokerKind.DLEDGER):
        other = OldBrokerKind.DLEDGER if report.dledger else OldBrokerKind.MASTER_SLAVE
        yield f"{member.pod} is not of that kind: its path is {other.value}"
    if report.kind != DEFAULT_STORE:
        yield f"{member.pod} has a store of type {report.kind}; only the default one can be moved"
    if "," in report.commit_log:
        yield f"{member.pod} has its log in several places: {report.commit_log}"
    if request.old_kind is OldBrokerKind.MASTER_SLAVE:
        yield from _master_slave_problems(observed, member, report)


def _master_slave_problems(
    observed: ObservedMigration, member: OldMember, report: BrokerReport
) -> Iterator[str]:
    if (report.broker_id == 0) is not (member is observed.first):
        yield (
            f"{member.pod} is a {'slave' if report.broker_id else 'master'}: its brokerId is "
            f"{report.broker_id}"
        )
    wanted = observed.request.spec.log_file_bytes
    if report.file_bytes != wanted:
        mebibytes = report.file_bytes // MEBIBYTE
        fits = (
            f"spec.logFileMebibytes must be {mebibytes}"
            if report.file_bytes % MEBIBYTE == 0
            else "no spec can say so"
        )
        yield (
            f"{member.pod} has log files of {report.file_bytes:,} bytes, the BrokerGroup asks for "
            f"{wanted:,}: {fits}"
        )


def why_not_stoppable(observed: ObservedMigration) -> str:
    """Return the remaining condition before the migration may stop the old brokers."""
    return next(_reasons_not_stoppable(observed), "")


def _reasons_not_stoppable(observed: ObservedMigration) -> Iterator[str]:
    first = observed.first.report
    if first is None:
        return
    if observed.request.old_kind is OldBrokerKind.DLEDGER:
        yield from _dledger_reasons(observed)
        if observed.unread is None:
            yield "the unread messages are unknown"
        yield from observed.unread or ()
    else:
        for member in observed.surveyed[1:]:
            if member.report is not None and member.report.max_offset != first.max_offset:
                apart = first.max_offset - member.report.max_offset
                word = "behind" if apart > 0 else "ahead of"
                yield f"{member.pod} is {abs(apart):,} bytes {word} {observed.first.pod}"
    if observed.unchanged_s < STILL_S:
        yield (
            f"the logs have stood still for {observed.unchanged_s // 10 * 10:.0f} s of {STILL_S:.0f} s: "
            "clients learn within 30 s that they may not write"
        )


def _dledger_reasons(observed: ObservedMigration) -> Iterator[str]:
    """Yield why the members are not ready: any of them may lead, and each keeps its topics and groups."""
    reports = [(member.pod, member.report) for member in observed.members if member.report is not None]
    leader = next(((pod, report) for pod, report in reports if report.broker_id == 0), None)
    if leader is None:
        yield "none of the members leads"
        return
    leading_pod, most = leader
    for pod, report in reports:
        for name in ("topics", "groups"):
            if getattr(report, name) < getattr(most, name):
                yield (
                    f"{pod} has {getattr(report, name):,} {_WORDS[name]}, {leading_pod}, which leads, "
                    f"has {getattr(most, name):,}"
                )


def is_equal(observed: ObservedMigration, member: OldMember) -> bool:
    """Tell whether a slave's log has the same first and last record as the master's, and as many."""
    own, masters = member.log, observed.first.log
    keys = ("min_offset", "max_offset", "messages", "message_bytes")
    return own is not None and masters is not None and all(own[key] == masters[key] for key in keys)


def master_log_problem(observed: ObservedMigration) -> str:
    """Return why the old master's store cannot be what the group goes on with."""
    log, record = observed.first.log, observed.first.record
    if observed.request.old_kind is OldBrokerKind.DLEDGER or log is None or record is None:
        return ""
    if log.get("first_damage"):
        where = log["first_damage"]
        return f"the log of {observed.first.pod} is damaged at {where['offset']:,}: {where['problem']}"
    if log["max_offset"] < record.max_offset:
        return (
            f"the log of {observed.first.pod} ends at {log['max_offset']:,}, and ended at "
            f"{record.max_offset:,} when its broker ran: start it again (--undo), and find out why"
        )
    return ""


def missing_at_new_master(observed: ObservedMigration, report: BrokerReport) -> str:
    """Return what the new master lacks of what the old one had."""
    record = observed.first.record
    if record is None:
        return (
            f"nothing is noted on StatefulSet {stateful_set_of(observed.first.pod)} any more of what "
            f"{observed.first.pod} had"
        )
    least = {"topics": record.topics, "groups": record.groups}
    if observed.request.old_kind is OldBrokerKind.MASTER_SLAVE:
        least |= {"offsets": record.offsets, "consumed": record.consumed, "max_offset": record.max_offset}
    for name, had in least.items():
        has = getattr(report, name)
        if has < had:
            return f"{observed.first.member} has {has:,} of {_WORDS[name]}, {observed.first.pod} had {had:,}"
    return ""


_WORDS: Final = {
    "topics": "topics",
    "groups": "subscription groups",
    "offsets": "queues with a consumer's offset",
    "consumed": "messages consumed, all offsets together",
    "max_offset": "bytes up to the log's end",
}
