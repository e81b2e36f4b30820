"""Take groups over from another controller that served them: RocketMQ's own.

All groups come in one command, and only into a state that never had a group. Until then the controllers may
stand by (`server.common.standby`) beside the ones that serve. The command is where the decisions change
hands, for all groups at once.

Masters, SyncStateSets and ids stay as they are. Both epochs rise by `EPOCH_MARGIN`. So whatever the other
controllers decide afterwards, if somebody starts them again, has a lower epoch. Brokers that know the new one
ignore it.

If one group breaks an invariant, the whole command is refused.
"""

from collections.abc import Iterable
from typing import Final

from controller_core.groups.commands import ImportedGroup, ImportGroups, Stamp
from controller_core.groups.elections.election import role_notices
from controller_core.groups.group import FIRST_BROKER_ID, Change, Group, Replica
from controller_core.groups.history import EventKind, Fact
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch, SetEpoch, comma_list
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.text_bounds import (
    ADDRESS_BYTES_MAX,
    GROUP_MEMBERS_MAX,
    NAME_BYTES_MAX,
    text_problem,
)

EPOCH_MARGIN: Final = 1_000
"""How far both epochs rise above those of the other controllers."""
_EPOCH_MAX: Final = 2**31 - 1 - EPOCH_MARGIN


def import_groups(command: ImportGroups, *, is_new: bool) -> tuple[GroupReply, list[Change]]:
    """Return the answer and a change for each group; no change if anything is refused.

    `is_new` says that this state never had a group.
    """
    if not is_new:
        return _refuse("these controllers have had groups of their own"), []
    if (problem := import_problem(command.groups)) is not None:
        return _refuse(problem), []
    return GroupReply(ResponseCode.SUCCESS), [_imported(group, command.stamp) for group in command.groups]


def import_problem(groups: Iterable[ImportedGroup]) -> str | None:
    """Return why these groups cannot be taken over; None if they can."""
    names: set[tuple[str, str]] = set()
    for group in groups:
        key = (group.cluster, group.broker_name)
        if key in names:
            return f"group {group.cluster}/{group.broker_name} is named twice"
        names.add(key)
        if (problem := _problem(group)) is not None:
            return f"group {group.cluster}/{group.broker_name}: {problem}"
    return None if names else "no group is named"


def _problem(group: ImportedGroup) -> str | None:
    ids = {member.id for member in group.members}
    texts = [(group.cluster, NAME_BYTES_MAX), (group.broker_name, NAME_BYTES_MAX)]
    texts += [(member.address, ADDRESS_BYTES_MAX) for member in group.members]
    problems = [problem for text, bytes_max in texts if (problem := text_problem(text, bytes_max))]
    checks = (
        (bool(problems), f"a text {problems[0] if problems else ''}"),
        (not all(text for text, _ in texts), "a name or address is empty"),
        (not ids, "it has no member"),
        (len(group.members) > GROUP_MEMBERS_MAX, f"it has more than {GROUP_MEMBERS_MAX} members"),
        (len(ids) < len(group.members), "an id is named twice"),
        (min(ids, default=FIRST_BROKER_ID) < FIRST_BROKER_ID, f"an id is below {FIRST_BROKER_ID}"),
        (group.next_broker_id <= max(ids, default=0), "the next id is not above every id"),
        (not ids.issuperset(group.sync_state_set), "the SyncStateSet has an unknown id"),
        (
            group.master_id is not None and group.master_id not in group.sync_state_set,
            "the master is not in the SyncStateSet",
        ),
        (
            not all(0 <= epoch <= _EPOCH_MAX for epoch in (group.master_epoch, group.set_epoch)),
            "an epoch is out of range",
        ),
    )
    return next((text for is_wrong, text in checks if is_wrong), None)


def _imported(told: ImportedGroup, stamp: Stamp) -> Change:
    replicas = {
        member.id: Replica(member.address, f"{member.address};")
        for member in sorted(told.members, key=lambda member: member.id)
    }
    group = Group(
        GroupKey(told.cluster, told.broker_name),
        next_broker_id=BrokerId(told.next_broker_id),
        replicas=replicas,
        master_id=told.master_id,
        master_epoch=MasterEpoch(told.master_epoch + EPOCH_MARGIN),
        set_epoch=SetEpoch(told.set_epoch + EPOCH_MARGIN),
        sync_state_set=tuple(sorted(set(told.sync_state_set))),
    )
    facts = [
        Fact(
            EventKind.BROKER_REGISTERED,
            stamp,
            broker_id,
            group.master_epoch,
            {"address": replica.address, "electable": "true", "imported": "true"},
        )
        for broker_id, replica in replicas.items()
    ]
    attrs = {
        "sync_state_set_before": "",
        "sync_state_set_after": comma_list(group.sync_state_set),
        "set_epoch": str(group.set_epoch),
        "imported": "true",
    }
    facts.append(Fact(EventKind.SYNC_STATE_SET_CHANGED, stamp, group.master_id, group.master_epoch, attrs))
    notices = role_notices(group, told.alive)
    return Change(GroupReply(ResponseCode.SUCCESS), group, facts=tuple(facts), notices=notices)


def _refuse(problem: str) -> GroupReply:
    return GroupReply(
        ResponseCode.CONTROLLER_INVALID_REQUEST, None, f"The groups cannot be imported: {problem}"
    )
