"""Membership of a group: claiming an id (1013) and announcing an address (1003).

A broker claims an id once in its life and keeps it on disk; losing a claim bricks it, since it never asks
again. Two brokers that claim the same id differ in the check code that each invented, so that a repetition
after a lost answer succeeds and a second claimant fails and asks for the next id.

A broker that has its id on disk only registers (1003), and RocketMQ's controller refuses an id that it does
not know, for ever. Here such an id is taken up when the leader asks for it (`RegisterBroker.take_up`, see
`server.requests.unknown_members`) and no other broker has it. No broker invents its check code, so no broker
can claim the id with it.

Differences from RocketMQ's controller, on purpose:
- the next id is higher than every id ever claimed. There it counts claims, so that after ids 1, 2, 7 it is 4
  and the seventh broker to ask collides for ever;
- ids below 1 are refused: -1 means "no broker" in elections;
- an id far above the next one is refused (`id_problem`): after a claim of 2^63-1 no id would be left;
- an answer shows the address that the request has just announced, not the previous one.

Source: ReplicasInfoManager.java 5.4.0, applyBrokerId, registerBroker.
"""

from msgspec.structs import replace

from controller_core.groups.commands import ApplyBrokerId, RegisterBroker, Stamp
from controller_core.groups.group import FIRST_BROKER_ID, Change, EpochFloor, Group, Replica, group_ext
from controller_core.groups.history import EventKind, Fact
from controller_core.groups.keys import BrokerId, GroupKey
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode

BROKER_ID_MAX = 1_000_000
"""The highest id that a group takes, unless it is the next one.

Controllers give ids in order, so no broker has one above.
"""


def id_problem(group: Group | None, broker_id: BrokerId) -> str | None:
    """Return why a group must not record an id that it does not have; None if it may.

    The next id is always possible, so a claim of `BROKER_ID_MAX` does not exhaust the ids. A claim (1013) is
    judged before it is proposed, as a controller of the release before applies every claim. A take-up (1003)
    is judged there, so that repeating it does not fill the log, and again when it is applied.
    """
    next_id = FIRST_BROKER_ID if group is None else group.next_broker_id
    id_max = max(BROKER_ID_MAX, next_id)
    if FIRST_BROKER_ID <= broker_id <= id_max:
        return None
    return f"the ids {FIRST_BROKER_ID} to {id_max} are possible"


def apply_broker_id(group: Group | None, key: GroupKey, floor: EpochFloor, command: ApplyBrokerId) -> Change:
    """Claim an id; the first claim of a group must be id 1 and makes the group."""
    ext = group_ext(command.cluster, command.broker_name)
    broker_id = command.broker_id
    if group is None:
        if broker_id != FIRST_BROKER_ID:
            remark = (
                f"Broker-set: {command.broker_name} hasn't been registered in controller, "
                f"but broker try to apply brokerId: {broker_id}"
            )
            return Change(GroupReply(ResponseCode.CONTROLLER_BROKER_ID_INVALID, ext, remark))
        group = _new_group(key, floor)
    taken = group.replicas.get(broker_id)
    if taken is not None and taken.check_code == command.check_code:
        return Change(GroupReply(ResponseCode.SUCCESS, ext))
    if taken is not None or broker_id < FIRST_BROKER_ID:
        remark = f"Fail to apply brokerId: {broker_id} in broker-set: {command.broker_name}"
        return Change(GroupReply(ResponseCode.CONTROLLER_BROKER_ID_INVALID, ext, remark))
    replica = Replica(
        command.check_code.split(";", 1)[0], command.check_code, electable=not command.log_replica
    )
    return Change(
        GroupReply(ResponseCode.SUCCESS, ext),
        replace(
            group,
            next_broker_id=max(group.next_broker_id, broker_id + 1),
            replicas=dict(sorted({**group.replicas, broker_id: replica}.items())),
        ),
        facts=(_registered(group, broker_id, replica, command.stamp),),
    )


def registered_group(
    group: Group | None, cluster: str, broker_name: str, broker_id: BrokerId
) -> Group | GroupReply:
    """Return the group if it has this id, else the answer (2010) that names the missing group or id."""
    if group is not None and broker_id in group.replicas:
        return group
    if group is None:
        remark = f"Broker-set: {broker_name} hasn't been registered in controller"
    else:
        remark = f"BrokerId: {broker_id} hasn't been registered in broker-set: {broker_name}"
    return GroupReply(
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, group_ext(cluster, broker_name), remark
    )


def register_reply(group: Group, cluster: str, broker_name: str, *, master_alive: bool) -> GroupReply:
    """Answer a registration: the master only if it is recorded and alive, the SyncStateSet always."""
    ext = group_ext(cluster, broker_name)
    if group.master_id is not None and master_alive:
        ext |= group.master_ext()
    return GroupReply(ResponseCode.SUCCESS, ext, body=group.set_view())


def register_broker(found: Group | None, key: GroupKey, floor: EpochFloor, command: RegisterBroker) -> Change:
    """Announce an id's address and kind; the check code stays."""
    if command.take_up and (found is None or command.broker_id not in found.replicas):
        return _take_up(found or _new_group(key, floor), command)
    group = registered_group(found, command.cluster, command.broker_name, command.broker_id)
    if isinstance(group, GroupReply):
        return Change(group)
    before = group.replicas[command.broker_id]
    after = replace(before, address=command.address, electable=not command.log_replica)
    facts: tuple[Fact, ...] = ()
    if after != before:
        group = replace(group, replicas={**group.replicas, command.broker_id: after})
        facts = (_registered(group, command.broker_id, after, command.stamp),)
    master_alive = group.master_id in command.alive
    reply = register_reply(group, command.cluster, command.broker_name, master_alive=master_alive)
    return Change(reply, group if facts else None, facts=facts)


def take_up_refusal(cluster: str, broker_name: str, broker_id: int, problem: str) -> GroupReply:
    """Answer a registration of an id that must not be taken up."""
    remark = f"BrokerId: {broker_id} of broker-set: {broker_name} cannot be taken up: {problem}"
    return GroupReply(ResponseCode.CONTROLLER_BROKER_ID_INVALID, group_ext(cluster, broker_name), remark)


def _take_up(group: Group, command: RegisterBroker) -> Change:
    """Record an id that controllers of another life gave."""
    broker_id = command.broker_id
    if (problem := id_problem(group, broker_id)) is not None:
        return Change(take_up_refusal(command.cluster, command.broker_name, broker_id, problem))
    replica = Replica(command.address, f"{command.address};", electable=not command.log_replica)
    after = replace(
        group,
        next_broker_id=max(group.next_broker_id, broker_id + 1),
        replicas=dict(sorted({**group.replicas, broker_id: replica}.items())),
    )
    reply = register_reply(
        after, command.cluster, command.broker_name, master_alive=after.master_id in command.alive
    )
    fact = _registered(after, broker_id, replica, command.stamp)
    return Change(reply, after, facts=(replace(fact, attrs={**fact.attrs, "taken_up": "true"}),))


def _new_group(key: GroupKey, floor: EpochFloor) -> Group:
    return Group(key, master_epoch=floor.master_epoch, set_epoch=floor.set_epoch)


def _registered(group: Group, broker_id: BrokerId, replica: Replica, stamp: Stamp) -> Fact:
    attrs = {"address": replica.address, "electable": str(replica.electable).lower()}
    return Fact(EventKind.BROKER_REGISTERED, stamp, broker_id, group.master_epoch, attrs)
