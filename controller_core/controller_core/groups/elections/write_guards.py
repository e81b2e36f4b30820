"""Write guards in the replicated state: which masters must refuse writes, so that no guard is ever forgotten.

Before a master that lives is replaced on purpose, the leader stops its writes: it sets the broker's
minInSyncReplicas so high that the broker refuses every write. The broker keeps that setting in its file,
through crashes and restarts. So the leader records the guard with the earlier setting before it changes the
broker, and removes the record after it restored the setting; a leader that finds a guard it does not know of
sets it back (`server.write_guards.write_guard`).

    raise, of the recorded master in its epoch     ->  noted; a setting that is noted already stays
    raise, of anybody else, or in another epoch    ->  refused: 2002 or 2000, as 1001 is
    lift                                           ->  struck off; if none is noted, nothing
"""

from msgspec.structs import replace

from controller_core.groups.commands import LiftWriteGuard, RaiseWriteGuard
from controller_core.groups.group import Change, Group
from controller_core.groups.history import EventKind, Fact
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode


def raise_write_guard(group: Group | None, command: RaiseWriteGuard) -> Change:
    """Note that the master is about to be kept from taking writes."""
    if group is None or group.master_id != command.master_id:
        remark = f"Writes of {command.master_id} are not stopped: it is not master of {command.broker_name}"
        return Change(GroupReply(ResponseCode.CONTROLLER_INVALID_MASTER, None, remark))
    if group.master_epoch != command.master_epoch:
        why = f"its epoch is {group.master_epoch}, not {command.master_epoch}"
        remark = f"Writes of {command.master_id} are not stopped: {why}"
        return Change(GroupReply(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, None, remark))
    if command.master_id in group.write_guards:
        return Change(GroupReply(ResponseCode.SUCCESS))
    guards = {**group.write_guards, command.master_id: command.min_in_sync_replicas}
    after = replace(group, write_guards=dict(sorted(guards.items())))
    fact = Fact(
        EventKind.WRITES_STOPPED,
        command.stamp,
        command.master_id,
        group.master_epoch,
        {"min_in_sync_replicas": str(command.min_in_sync_replicas)},
    )
    return Change(GroupReply(ResponseCode.SUCCESS), after, facts=(fact,))


def lift_write_guard(group: Group | None, command: LiftWriteGuard) -> Change:
    """Strike off a guard whose broker has its setting back."""
    if group is None or command.broker_id not in group.write_guards:
        return Change(GroupReply(ResponseCode.SUCCESS))
    setting = group.write_guards[command.broker_id]
    guards = {member: value for member, value in group.write_guards.items() if member != command.broker_id}
    fact = Fact(
        EventKind.WRITES_ALLOWED,
        command.stamp,
        command.broker_id,
        group.master_epoch,
        {"min_in_sync_replicas": str(setting)},
    )
    return Change(GroupReply(ResponseCode.SUCCESS), replace(group, write_guards=guards), facts=(fact,))
