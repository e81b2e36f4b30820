"""The members that have caught up: the master's request to replace the SyncStateSet (1001).

Only a member of the last committed set may be elected without loss, so this set is what zero loss rests on.
The master proposes, the controller decides; both epochs fence a master, or a view of the set, that has been
overtaken. A master whose answer got lost sees the new set in its next poll (1004), because the epoch went up.

Checks are in RocketMQ's order, which shows in the codes: "equal" is answered before any fence, and of several
unfit members the lowest id is named.

Source: ReplicasInfoManager.java 5.4.0, alterSyncStateSet.
"""

from msgspec.structs import replace

from controller_core.groups.commands import AlterSyncStateSet
from controller_core.groups.group import Change, Group
from controller_core.groups.history import EventKind, Fact
from controller_core.groups.keys import BrokerId, SetEpoch, comma_list
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode

_REJECTING = "Rejecting alter syncStateSet request because"


def alter_sync_state_set(group: Group | None, command: AlterSyncStateSet) -> Change:
    """Replace the SyncStateSet if the sender is the master of now and knows the set of now."""
    wanted = tuple(sorted(set(command.members)))
    if group is None:
        return _refuse(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "Broker metadata is not existed")
    refusal = _fence(group, wanted, command) or _unfit_member(group, wanted, command)
    if refusal is not None:
        return refusal
    after = replace(group, sync_state_set=wanted, set_epoch=SetEpoch(group.set_epoch + 1), preceding_set=())
    attrs = {
        "sync_state_set_before": comma_list(group.sync_state_set),
        "sync_state_set_after": comma_list(wanted),
        "set_epoch": str(after.set_epoch),
    }
    fact = Fact(EventKind.SYNC_STATE_SET_CHANGED, command.stamp, after.master_id, after.master_epoch, attrs)
    reply = GroupReply(ResponseCode.SUCCESS, {"newSyncStateSetEpoch": after.set_epoch}, body=after.set_view())
    return Change(reply, after, facts=(fact,))


def _fence(group: Group, wanted: tuple[BrokerId, ...], command: AlterSyncStateSet) -> Change | None:
    if wanted == group.sync_state_set:
        remark = "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
        return _refuse(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)
    if group.master_id is None or group.master_id != command.master_id:
        current = "null" if group.master_id is None else str(group.master_id)
        remark = f"{_REJECTING} the current leader is:{{{current}}}, not {{{command.master_id}}}"
        return _refuse(ResponseCode.CONTROLLER_INVALID_MASTER, remark)
    if group.master_epoch != command.master_epoch:
        epochs = f"{{{group.master_epoch}}}, not {{{command.master_epoch}}}"
        remark = f"{_REJECTING} the current master epoch is:{epochs}"
        return _refuse(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark)
    if group.set_epoch != command.set_epoch:
        epochs = f"{{{group.set_epoch}}}, not {{{command.set_epoch}}}"
        remark = f"{_REJECTING} the current syncStateSet epoch is:{epochs}"
        return _refuse(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark)
    return None


def _unfit_member(group: Group, wanted: tuple[BrokerId, ...], command: AlterSyncStateSet) -> Change | None:
    for member in wanted:
        if member not in group.replicas:
            remark = f"{_REJECTING} the replicas {{{member}}} don't exist"
            return _refuse(ResponseCode.CONTROLLER_INVALID_REPLICAS, remark)
        if member not in command.alive:
            remark = f"{_REJECTING} the replicas {{{member}}} don't alive"
            return _refuse(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, remark)
    if group.master_id not in wanted:
        remark = f"{_REJECTING} the newSyncStateSet don't contains origin leader {{{group.master_id}}}"
        return _refuse(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)
    return None


def _refuse(code: ResponseCode, remark: str) -> Change:
    # The header is there on errors too, with epoch 0: what RocketMQ sends, seen on 5.4.0.
    return Change(GroupReply(code, {"newSyncStateSetEpoch": 0}, remark))
