"""Forgetting members that will not come back (1011).

Dangerous by nature: a broker whose id is forgotten never asks for another one and stays refused for ever. So
whatever is unclear is refused (2009).

Differences from RocketMQ's controller, on purpose:
- `cleanLiving` with ids is refused. RocketMQ then ignores the ids and wipes the whole group;
- without ids, a group stays while any member lives, not only while a master is recorded;
- if the recorded master is among the ids, the group is without a master afterwards, in a new epoch. RocketMQ
  keeps the forgotten id as master;
- the SyncStateSet's epoch goes up when the set loses a member, so that the master takes over the new set;
- the last electable member of the SyncStateSet is not forgotten while others stay, because no member could be
  elected any more. RocketMQ drops the row of an empty set; the group is then unknown until its ids are
  claimed again, from epoch 0.

Source: ReplicasInfoManager.java 5.4.0, cleanBrokerData; CleanBrokerDataEvent.java.
"""

import re

from msgspec.structs import replace

from controller_core.groups.commands import Cause, CleanBrokerData
from controller_core.groups.elections.policy import is_electable
from controller_core.groups.group import Change, Group, lost_master
from controller_core.groups.history import EventKind, Fact
from controller_core.groups.keys import BrokerId, MasterEpoch, SetEpoch, comma_list
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode

# What Long.valueOf accepts, less the digits of other scripts.
_JAVA_LONG = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class _IdsFormatError(ValueError):
    """The text is not a list of ids."""


def clean_broker_data(group: Group | None, command: CleanBrokerData) -> Change:
    """Forget the named ids, or without ids the whole group."""
    try:
        ids = _parse_ids(command.ids_text)
    except _IdsFormatError as error:
        return _refuse(
            f"Please set the option <brokerControllerIdsToClean> according to the format, exception: {error}"
        )
    refusal = _liveness_refusal(group, ids, command)
    if refusal is not None:
        return _refuse(refusal)
    if group is None:
        return _refuse(f"Broker {command.broker_name} is not existed,clean broker data failure.")
    if not ids or set(group.replicas) <= set(ids):
        cleaned = tuple(sorted(group.replicas))
        fact = Fact(
            EventKind.BROKER_CLEANED, command.stamp, None, group.master_epoch, _attrs(cleaned, whole=True)
        )
        return Change(GroupReply(ResponseCode.SUCCESS), forget=True, facts=(fact,))
    if not _leaves_electable(group, ids):
        return _refuse(
            f"Broker {command.broker_name} would keep replicas of which none could become master: "
            f"among the ids {comma_list(ids)} is the last electable member "
            f"of the syncStateSet {comma_list(group.sync_state_set)}"
        )
    return _clean_some(group, ids, command)


def _liveness_refusal(group: Group | None, ids: tuple[BrokerId, ...], command: CleanBrokerData) -> str | None:
    """Return why the request is refused, None if it is not: members that may live are not forgotten.

    The order is RocketMQ's.
    """
    name = command.broker_name
    if command.clean_living and ids:
        return (
            f"Cleaning living brokers of {name} forgets the whole broker-set, and cannot be limited to "
            f"the ids {command.ids_text}: leave out one of the two options"
        )
    if not command.clean_living:
        if not ids and group is not None and group.master_id is not None:
            return f"Broker {name} is still alive, clean up failure"
        members = tuple(sorted(group.replicas)) if group is not None else ()
        alive = [broker_id for broker_id in ids or members if broker_id in command.alive]
        if alive:
            return f"Broker [{name},  {alive[0]}] is still alive, clean up failure"
    return None


def _leaves_electable(group: Group, ids: tuple[BrokerId, ...]) -> bool:
    kept = [member for member in group.sync_state_set if member not in ids]
    if len(kept) == len(group.sync_state_set):
        return True
    return any(is_electable(group, member) for member in kept)


def _clean_some(group: Group, ids: tuple[BrokerId, ...], command: CleanBrokerData) -> Change:
    cleaned = tuple(sorted(set(ids) & set(group.replicas)))
    kept_set = tuple(member for member in group.sync_state_set if member not in ids)
    master_cleaned = group.master_id in cleaned
    after = replace(
        group,
        replicas={
            broker_id: replica for broker_id, replica in group.replicas.items() if broker_id not in ids
        },
        sync_state_set=kept_set,
        preceding_set=tuple(member for member in group.preceding_set if member not in ids),
        set_epoch=SetEpoch(group.set_epoch + (kept_set != group.sync_state_set)),
        master_id=None if master_cleaned else group.master_id,
        master_epoch=MasterEpoch(group.master_epoch + master_cleaned),
        lost_master=lost_master(group, Cause.MASTER_MISSING) if master_cleaned else group.lost_master,
        write_guards={
            broker_id: setting for broker_id, setting in group.write_guards.items() if broker_id not in ids
        },
    )
    attrs = _attrs(cleaned, whole=False) | {"sync_state_set_after": comma_list(kept_set)}
    fact = Fact(EventKind.BROKER_CLEANED, command.stamp, None, after.master_epoch, attrs)
    return Change(
        GroupReply(ResponseCode.SUCCESS), after if cleaned else None, facts=(fact,) if cleaned else ()
    )


def _parse_ids(text: str) -> tuple[BrokerId, ...]:
    parts = text.split(";")
    while parts and not parts[-1]:
        parts.pop()  # as Java's split does
    for part in parts:
        if not _JAVA_LONG.fullmatch(part):
            raise _IdsFormatError(f'java.lang.NumberFormatException: For input string: "{part}"')
    return tuple(sorted({BrokerId(int(part)) for part in parts}))


def _attrs(cleaned: tuple[BrokerId, ...], *, whole: bool) -> dict[str, str]:
    return {"cleaned": comma_list(cleaned), "whole_group": str(whole).lower()}


def _refuse(remark: str) -> Change:
    return Change(GroupReply(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, None, remark))
