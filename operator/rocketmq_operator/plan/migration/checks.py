"""The obstacles to a migration and its reasons to wait: each is one line that names the object and its problem.

Checks come before the step that they are for, and refuse by themselves nothing that a person could not see and change. Empty
means that nothing is in the way.
"""

from collections.abc import Iterator
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.migration.observed import (
    Course,
    Holder,
    ObservedMigration,
    OldMember,
    Said,
    set_of,
)

STILL_S: Final = 40.0
"""For how long logs must have stood still: clients ask for routes every 30 s, and write until then."""
MEBIBYTE: Final = 1 << 20
DEFAULT_STORE: Final = "default"


def in_the_way(observed: ObservedMigration) -> str:
    """Return the obstacle to creating the new group; empty once it exists."""
    return next(_in_the_way(observed), "")


def _in_the_way(observed: ObservedMigration) -> Iterator[str]:
    wish = observed.wish
    if observed.cluster is None:
        yield f"there is no RocketMQCluster {wish.spec.cluster} in namespace {wish.namespace}: create it first"
    handed = any(member.holder in {Holder.HELD, Holder.NEW} for member in observed.members)
    if observed.group is not None and not handed:
        yield f"there is a BrokerGroup {wish.group} already, which has volumes of its own"
    if observed.taken:
        yield f"{observed.taken[0]} has the name that the operator needs: give the BrokerGroup another name"
    if wish.spec.replicas != len(observed.members):
        yield (
            f"spec.replicas of the BrokerGroup is {wish.spec.replicas}, and there are {len(observed.members)} volumes: "
            "ask for as many brokers, and for more when it is done"
        )
    for member in observed.members:
        yield from _set_problems(observed, member)
        if member.new_claim is not None and not handed:
            yield f"there is a claim {names.claim(member.member)} already, which would be taken for the new volume's"


def _set_problems(observed: ObservedMigration, member: OldMember) -> Iterator[str]:
    name = set_of(member.pod)
    if member.stateful_set is None:
        yield f"StatefulSet {name} of pod {member.pod} does not exist in namespace {observed.wish.namespace}"
        return
    owners = member.stateful_set["metadata"].get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is not None:
        yield (
            f"StatefulSet {name} belongs to {owner['kind']} {owner['name']}, which would start its pods again: "
            "take it from its owner first"
        )
    missing = {
        f"{name}-{ordinal}" for ordinal in range(member.stateful_set["spec"].get("replicas", 0))
    } - set(observed.wish.pods)
    if missing:
        yield f"{min(missing)} is of StatefulSet {name} too, and would be stopped with it: name it as well"


def at_old_brokers(observed: ObservedMigration) -> str:
    """Return the first problem of the old brokers while they run."""
    return next((text for member in observed.members for text in _at_broker(observed, member)), "")


def _at_broker(observed: ObservedMigration, member: OldMember) -> Iterator[str]:
    if member in observed.asked:
        yield from _as_it_says(observed, member)
    if isinstance(member.spot, str):
        yield member.spot or f"it is not known where the store of {member.pod} lies"
    elif member.volume is None:
        yield f"claim {member.spot.claim} of {member.pod} is not bound to a volume"


def _as_it_says(observed: ObservedMigration, member: OldMember) -> Iterator[str]:
    if not member.runs:
        yield f"{member.pod} does not run: start it, so that it can be asked what it has"
    said = member.said
    if said is None:
        yield f"{member.pod} does not answer at port {observed.wish.port}: {member.silence or 'no broker listens there'}"
        return
    wish = observed.wish
    if said.name != wish.broker_name:
        yield f"{member.pod} is of {said.name}, and not of {wish.broker_name}: say so with --broker-name"
    if said.controller_mode:
        yield f"{member.pod} has controllers already (enableControllerMode): this is for brokers without any"
    if said.dledger is not (wish.course is Course.DLEDGER):
        other = Course.DLEDGER if said.dledger else Course.MASTER_SLAVE
        yield f"{member.pod} is not of that kind: its path is {other.value}"
    if said.kind != DEFAULT_STORE:
        yield f"{member.pod} has a store of type {said.kind}; only the default one can be moved"
    if "," in said.commit_log:
        yield f"{member.pod} has its log in several places: {said.commit_log}"
    if wish.course is Course.MASTER_SLAVE:
        yield from _as_master_or_slave(observed, member, said)


def _as_master_or_slave(observed: ObservedMigration, member: OldMember, said: Said) -> Iterator[str]:
    if (said.broker_id == 0) is not (member is observed.first):
        yield f"{member.pod} is a {'slave' if said.broker_id else 'master'}: its brokerId is {said.broker_id}"
    wanted = observed.wish.spec.log_file_bytes
    if said.file_bytes != wanted:
        asked = said.file_bytes // MEBIBYTE
        fits = (
            f"spec.logFileMebibytes must be {asked}"
            if said.file_bytes % MEBIBYTE == 0
            else "no spec can say so"
        )
        yield f"{member.pod} has log files of {said.file_bytes:,} bytes, the BrokerGroup asks for {wanted:,}: {fits}"


def unwritten(observed: ObservedMigration) -> str:
    """Return the remaining condition before the migration may stop the old brokers."""
    return next(_unwritten(observed), "")


def _unwritten(observed: ObservedMigration) -> Iterator[str]:
    first = observed.first.said
    if first is None:
        return
    if observed.wish.course is Course.DLEDGER:
        if observed.unread is None:
            yield "the unread messages are unknown"
        yield from observed.unread or ()
    else:
        for member in observed.asked[1:]:
            if member.said is not None and member.said.max_offset != first.max_offset:
                apart = first.max_offset - member.said.max_offset
                word = "behind" if apart > 0 else "ahead of"
                yield f"{member.pod} is {abs(apart):,} bytes {word} {observed.first.pod}"
    if observed.still_s < STILL_S:
        yield (
            f"the logs have stood still for {observed.still_s // 10 * 10:.0f} s of {STILL_S:.0f} s: "
            "clients learn within 30 s that they may not write"
        )


def is_equal(observed: ObservedMigration, member: OldMember) -> bool:
    """Tell whether a slave's log has the records that the master's has, from the same first to the same last one."""
    own, masters = member.log, observed.first.log
    keys = ("min_offset", "max_offset", "messages", "message_bytes")
    return own is not None and masters is not None and all(own[key] == masters[key] for key in keys)


def before_preparing(observed: ObservedMigration) -> str:
    """Return why the old master's store cannot be what the group goes on with."""
    log, note = observed.first.log, observed.first.note
    if observed.wish.course is Course.DLEDGER or log is None or note is None:
        return ""
    if log.get("first_damage"):
        where = log["first_damage"]
        return f"the log of {observed.first.pod} is damaged at {where['offset']:,}: {where['problem']}"
    if log["max_offset"] < note.max_offset:
        return (
            f"the log of {observed.first.pod} ends at {log['max_offset']:,}, and ended at {note.max_offset:,} "
            "when its broker ran: start it again (--undo), and find out why"
        )
    return ""


def before_proof(observed: ObservedMigration, said: Said) -> str:
    """Return what the new master lacks of what the old one had."""
    note = observed.first.note
    if note is None:
        return f"nothing is noted on StatefulSet {set_of(observed.first.pod)} any more of what {observed.first.pod} had"
    least = {"topics": note.topics, "groups": note.groups}
    if observed.wish.course is Course.MASTER_SLAVE:
        least |= {"offsets": note.offsets, "consumed": note.consumed, "max_offset": note.max_offset}
    for name, had in least.items():
        has = getattr(said, name)
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
