"""Answers that change nothing: 1004, 1006, 1012, and a registration that brings nothing new (1003).

They are given from the applied state, under a lease or after ReadIndex: that is the duty of the caller, who
also gives the liveness, because the state does not hold it. Nothing here goes through the log.

Source: ReplicasInfoManager.java 5.4.0, getReplicaInfo, getSyncStateData, getNextBrokerId, registerBroker.
"""

from collections.abc import Callable, Sequence
from itertools import count

from controller_core.groups.errors import AmbiguousGroupError
from controller_core.groups.group import FIRST_BROKER_ID, Group, group_ext
from controller_core.groups.keys import BrokerId, GroupKey, ReplicaKey
from controller_core.groups.members.broker_ids import registered_group
from controller_core.groups.replies import GroupReply, GroupSyncStateView, ReplicaView, ambiguous
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.header import JAVA_LONG_MAX

IsAlive = Callable[[ReplicaKey], bool]


def get_next_broker_id(state: GroupsState, cluster: str, broker_name: str) -> GroupReply:
    """Answer 1012: the id to claim next, 1 for an unknown group.

    A claim of Java's highest id that an older release let in leaves no next one: then it is the lowest id
    that nobody has.
    """
    ext = group_ext(cluster, broker_name)
    try:
        group = state.find(broker_name, cluster)
    except AmbiguousGroupError as error:
        return ambiguous(error, ext)
    next_id = FIRST_BROKER_ID if group is None else group.next_broker_id
    if group is not None and next_id > JAVA_LONG_MAX:
        next_id = next(free for free in map(BrokerId, count(FIRST_BROKER_ID)) if free not in group.replicas)
    return GroupReply(ResponseCode.SUCCESS, ext | {"nextBrokerId": next_id})


def get_replica_info(state: GroupsState, broker_name: str, cluster: str = "") -> GroupReply:
    """Answer 1004: the recorded master, alive or not, and the SyncStateSet.

    `masterEpoch` is there always: a broker's poll fails without it.
    """
    try:
        group = state.find(broker_name, cluster)
    except AmbiguousGroupError as error:
        return ambiguous(error, {})
    if group is None:
        return unknown_group()
    return replica_info_reply(group)


def unknown_group() -> GroupReply:
    """Answer 1004 for a group that is not there; a broker that hears it registers (1003)."""
    return GroupReply(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, {}, "Broker metadata is not existed")


def replica_info_reply(group: Group) -> GroupReply:
    """Answer 1004 for a known group."""
    ext = group.master_ext()
    del ext["syncStateSetEpoch"]  # 1004 has it in the body only
    return GroupReply(ResponseCode.SUCCESS, ext, body=group.set_view())


def get_sync_state_data(
    state: GroupsState,
    names: Sequence[str],
    is_alive: IsAlive,
    direct_address: Callable[[str], str] = str,
    cluster: str = "",
) -> GroupReply:
    """Answer 1006 for groups by name; names unknown in that cluster are left out.

    `direct_address` returns the address at which to reach the member that announced an address. Without a
    cluster, a name that several clusters have is refused.
    """
    if not names:
        return GroupReply(ResponseCode.SYSTEM_ERROR, None, "not set any response code")
    try:
        found = [state.find(name, cluster) for name in dict.fromkeys(names)]
    except AmbiguousGroupError as error:
        return ambiguous(error)
    return GroupReply(
        ResponseCode.SUCCESS,
        body=tuple(group_view(group, is_alive, direct_address) for group in found if group is not None),
    )


def registered_so(
    state: GroupsState,
    *,
    cluster: str,
    broker_name: str,
    broker_id: BrokerId,
    address: str,
    log_replica: bool,
) -> Group | GroupReply | None:
    """Return the group if a 1003 changes nothing, its refusal, or None if it must go through the log."""
    try:
        found = state.find(broker_name, cluster)
    except AmbiguousGroupError:
        return None
    group = registered_group(found, cluster, broker_name, broker_id)
    if isinstance(group, GroupReply):
        return group
    replica = group.replicas[broker_id]
    if replica.address != address or replica.electable == log_replica:
        return None
    return group


def has_living_master(group: Group, is_alive: IsAlive) -> bool:
    """Say whether the group has a master, and it is alive."""
    return group.master_id is not None and is_alive(ReplicaKey(*group.key, group.master_id))


def group_view(group: Group, is_alive: IsAlive, direct_address: Callable[[str], str]) -> GroupSyncStateView:
    """Return one group as 1006 shows it."""
    views = tuple(
        ReplicaView(
            broker_name=group.key.broker_name,
            broker_id=broker_id,
            address=replica.address,
            alive=is_alive(ReplicaKey(*group.key, broker_id)),
            log_replica=not replica.electable,
            direct_address=direct_address(replica.address),
        )
        for broker_id, replica in sorted(group.replicas.items())
    )
    return GroupSyncStateView(
        key=GroupKey(*group.key),
        master_id=group.master_id,
        master_address=group.master_address,
        master_epoch=group.master_epoch,
        set_epoch=group.set_epoch,
        in_sync=tuple(view for view in views if view.broker_id in group.sync_state_set),
        not_in_sync=tuple(view for view in views if view.broker_id not in group.sync_state_set),
        preceding_set=group.preceding_set if group.master_id is None else (),
    )
