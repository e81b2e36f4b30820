"""The first master of a group whose members have a past: controllers lost their stores, or replace others.

Such a group does not have a SyncStateSet here, so the controllers do not know which members hold every
acknowledged message. They compare the members' logs (`member_logs`). The rules:

    no living member tells an epoch                   ->  a new group: the first broker that asks wins
                                                          (`election`)
    a broker asks (1002)                              ->  no election: `WaitingForMembers`
    a person designates a member (1002, or HTTP)      ->  that member is elected, if it is alive and electable
    the controller elects, when the wait is over      ->  the acting master wins; without one, the longest log
    a log replica holds more than the longest log     ->  no election: `LogReplicaAhead`

The member with the greatest (last epoch with messages, end of log) holds every acknowledged message, provided
that all members are compared. So the leader waits (`server.elections.first_elections`) until each registered
member is alive and has sent a heartbeat, and no new member has come for `firstElectionWait`.

Meantime a member that acts as master keeps writing, and two members report at different moments. So an acting
master stays master, unless another log has messages of a later epoch than the acting master's last one. That
last epoch counts even if it is empty, because the master may write in it at any moment.

Every election raises the master epoch above the epochs that living members tell. A broker refuses an epoch
below that of its own log and does not serve: the group would show a master that serves no client.

The first election leaves a margin besides (`IDLE_EPOCHS_MAX`). A broker writes no entry for an epoch that
begins where the last one begins: an epoch without a write hides the next one from the epoch file, and so from
heartbeats. A running broker knows that epoch all the same, and accepts only a master of a higher one.

Epochs are 32-bit integers, and one member must not exhaust them. A told epoch counts up to `EPOCH_JUMP_MAX`
above the recorded one; a higher one is ignored.

The same holds for the epoch of the SyncStateSet. A broker takes a set only if its epoch is above that of the
set it knows, and knows that as long as its process lives. A master that kept running would keep the set of
the earlier life, and would not add any slave to the new one. No member tells its set's epoch, so the first
one here is the time in seconds (`next_set_epoch`).

Source: AutoSwitchHAService.changeToMaster, ReplicasManager.changeSyncStateSet, EpochFileCache.appendEntry,
ReplicasManager.schedulingSyncBrokerMetadata of 5.5.0.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from controller_core.groups.commands import ElectMaster, LiveBroker
from controller_core.groups.elections.member_logs import compared_logs, rank_of_log
from controller_core.groups.elections.policy import is_electable
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, LogOffset, MasterEpoch, SetEpoch

EPOCH_JUMP_MAX = 100_000
"""How far above the recorded master epoch a told epoch counts.

A group that changes its master hourly needs 11 years for it.
"""
IDLE_EPOCHS_MAX = 1_000
"""How many epochs, one after another, may have passed without a write before the controllers lost their
store."""
UNHEARD_IDS_MAX = 1_000
"""How many unheard ids are named.

A member's id must not decide how long the leader counts, or how much it logs.
"""

SET_EPOCHS_SINCE_S = 1_735_689_600
"""The start of 2025, UTC: set epochs are 32-bit integers, and few seconds may be wasted."""
SET_EPOCH_TIME_MAX = 1 << 30
"""The highest set epoch that a clock makes; it is reached in 2059.

One that is far ahead must not exhaust them.
"""
_SECOND_NS = 1_000_000_000


def has_absurd_epoch(group: Group, member: LiveBroker) -> bool:
    """Say whether a member tells an epoch too far above the recorded one to be true."""
    return member.epoch - group.master_epoch > EPOCH_JUMP_MAX


def told_epoch(group: Group, alive: Iterable[LiveBroker]) -> int:
    """Return the greatest epoch above the recorded one that living registered members tell.

    0 if none is above it.

    For a group that never had a master here, epochs that are not above count too: its log may be of an
    earlier life.
    """
    told = [
        member.epoch
        for member in alive
        if member.id in group.replicas and not has_absurd_epoch(group, member)
    ]
    greatest = max(told, default=0)
    return greatest if greatest > group.master_epoch or (greatest > 0 and is_first(group)) else 0


def next_epoch(group: Group, command: ElectMaster) -> MasterEpoch:
    """Return the master epoch that an election makes.

    Above the recorded one, above what members told, and above what they cannot tell.
    """
    told = command.told_epoch if command.told_epoch - group.master_epoch <= EPOCH_JUMP_MAX else 0
    untold = IDLE_EPOCHS_MAX if told and is_first(group) else 0
    return MasterEpoch(max(group.master_epoch, told + untold) + 1)


def next_set_epoch(group: Group, command: ElectMaster) -> SetEpoch:
    """Return the epoch of the set that an election makes.

    The next one, and above those of an earlier life that members told of.

    A set changes less than once a second, so no life comes as far as the time at which the next one begins.
    """
    if command.told_epoch <= 0:
        return SetEpoch(group.set_epoch + 1)
    elapsed_s = command.stamp.utc_ns // _SECOND_NS - SET_EPOCHS_SINCE_S
    return SetEpoch(max(group.set_epoch, min(elapsed_s, SET_EPOCH_TIME_MAX)) + 1)


def is_first(group: Group) -> bool:
    """Say whether the group never had a master here."""
    return not group.sync_state_set


def unheard_ids(group: Group, told: Mapping[BrokerId, LogOffset]) -> tuple[BrokerId, ...]:
    """Return the ids that must be heard before the first election of a group with a past.

    The lowest `UNHEARD_IDS_MAX` of them, ascending. These are registered members that are not alive, or have
    not told where their log ends. They are also the unregistered ids below the greatest one: controllers give
    ids in order, so such a member exists, or was removed once.

    Args:
        group: it never had a master here.
        told: the end of the log, in bytes, of each living member that told it.
    """
    ids = map(BrokerId, range(1, max(group.replicas, default=0) + 1))
    return tuple(islice((broker_id for broker_id in ids if broker_id not in told), UNHEARD_IDS_MAX))


def longest_log(
    group: Group, command: ElectMaster, alive: Mapping[BrokerId, LiveBroker]
) -> LiveBroker | None:
    """Return the member that acts as master, else the electable member with the longest log."""
    logs = compared_logs(command, alive)
    candidates = [
        member
        for member in alive.values()
        if is_electable(group, member.id) and not has_absurd_epoch(group, member)
    ]
    acting = next((member for member in candidates if member.id == command.acting_id), None)
    if acting is not None and _acts_in_newest_epoch(group, acting, command, alive):
        return acting
    return min(candidates, key=lambda member: rank_of_log(logs[member.id], member.priority), default=None)


def _acts_in_newest_epoch(
    group: Group, acting: LiveBroker, command: ElectMaster, alive: Mapping[BrokerId, LiveBroker]
) -> bool:
    """Say whether no registered member has messages of an epoch above the acting master's last one.

    A command without lists (of the release before, or no member answered) is judged by what heartbeats told.
    """
    if not command.logs:
        return acting.epoch >= command.told_epoch
    logs = compared_logs(command, alive)
    written = (
        logs[member.id].written_epoch
        for member in alive.values()
        if member.id in group.replicas and not has_absurd_epoch(group, member)
    )
    return logs[acting.id].last_epoch >= max(written)


def is_log_replica_ahead(
    group: Group, winner: LiveBroker, command: ElectMaster, alive: Mapping[BrokerId, LiveBroker]
) -> bool:
    """Say whether a living log replica has a longer log than the winner, or messages of a later epoch.

    False for an acting master in the newest epoch, which has everything.

    A heartbeat of a log replica does not tell an epoch, so without its list only the ends are compared.
    """
    is_acting = winner.id == command.acting_id
    if is_acting and (not command.logs or _acts_in_newest_epoch(group, winner, command, alive)):
        return False
    logs = compared_logs(command, alive)
    best, listed = logs[winner.id], {log.id for log in command.logs}
    return any(
        logs[member.id].max_offset > best.max_offset
        or (member.id in listed and logs[member.id].written_epoch > best.written_epoch)
        for member in alive.values()
        if member.id in group.replicas and not is_electable(group, member.id)
    )
