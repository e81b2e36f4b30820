"""Elect the furthest log where an acknowledgement needs fewer copies than the SyncStateSet has members.

Heartbeats tell the ends of logs, and are up to one interval old. That does not matter with
`allAckInSyncStateSet=true`: every acknowledged message is on every member of the set. With
`inSyncReplicas=2` of three members it is on the master and *one* other, perhaps not the one whose last
heartbeat told the greater end. So the leader asks the living members before it proposes
(`server.proposals.log_ends`), and this module says what the answers allow. An example, three brokers, two
copies, heartbeats at 40:

    master A writes to 100, B copies to 100, C to 70        acknowledged: all up to 100
    A dies; heartbeats of B and C both told 40              by heartbeats the lower priority wins, perhaps C
    B tells 100, C tells 70                                 B is elected; nothing is lost

The rule, with `copies` the number that an acknowledgement needs, the master included:

    copies of every member (all acknowledge), or one     ->  elect, by the ends that members told
    fewer than `copies` members of the set are unheard   ->  elect the furthest: of any `copies` members at
                                                             least one answered, so one that answered has
                                                             every acknowledged message
    `copies` or more are unheard                         ->  no member: only they may have some message
    a log replica is ahead of every broker               ->  no member: only the replica may have some
                                                             message, and it is never elected
    a living member outside the set is ahead of every    ->  no member: it may have acknowledged in the
    broker of the set                                        moment in which it joined
    unclean elections are allowed                        ->  elect, by the ends that members told

Without a winner the group waits for a master until a member comes back, above all the last master, which has
every message that it acknowledged; or until a person designates a broker, whose log then decides.

Members of the set are compared by their ends alone. Each joined the master of the recorded epoch, so its log
is a beginning of that master's log, and of two beginnings of one log the longer one has all of the other.
Their lists of epochs are not compared, because a broker may keep a wrong label (`member_logs`).

Members outside the set are compared by the newest epoch with messages, then by the end. One that joined the
lost master has the epoch of its messages; a tail of an earlier master has an earlier one. The two look alike
while the newest epoch is empty: then the group may wait for a member that it does not need.

A member that is alive and does not answer counts as unheard, and is ranked last.

What this does not cover:
    - a master that lives, but is cut off from the controllers: it may go on acknowledging with a slave that
      told its end already. Its companion stops its writes
    - members that are away and outside the set: they left before the others had copied what they had
      acknowledged, or they ended in the moment in which they joined. RocketMQ's master counts the
      acknowledgement of every connected slave. Less than `copies` members that are away have no message
      alone

Source: CommitLog.asyncPutMessage and GroupTransferService.doWaitTransfer of 5.4.0.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from controller_core.groups.commands import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    ElectMaster,
    LiveBroker,
    MemberLog,
)
from controller_core.groups.elections.first_elections import is_first
from controller_core.groups.elections.policy import is_electable
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, LogOffset
from controller_core.remoting.numbers import whole_number

LOGS_UNKNOWN: Final = "LogsUnknown"
"""Too few members of the set told the end of their log."""
LOG_REPLICA_AHEAD: Final = "LogReplicaAhead"
"""A log replica has a longer log than every broker that told its own."""

MEMBER_AHEAD: Final = "MemberAhead"
"""A member outside the set has a longer log than every broker of the set that told its own."""

COPIES_DIGITS_MAX: Final = 9
_COPIES_BY_DEFAULT: Final = "1"


def copies_of(settings: Mapping[str, str]) -> int | None:
    """Return how many members have a message when the broker with these settings acknowledges it.

    None stands for every member of the SyncStateSet. A number that cannot be read counts as 1.
    """
    if settings.get("allAckInSyncStateSet", "").strip().lower() == "true":
        return None
    told = whole_number(settings.get("inSyncReplicas", _COPIES_BY_DEFAULT).strip(), COPIES_DIGITS_MAX)
    return 1 if told is None else told


def fewest_copies(told: Iterable[int | None]) -> int | None:
    """Return the number that allows least, of what several brokers of a group tell.

    Brokers differ while their settings are being changed, and the one that was master does not answer. The
    smallest number above 1 leaves most in doubt. 1 promises nothing, so it counts only without another.
    """
    numbers = sorted(copies for copies in told if copies is not None)
    return next((copies for copies in numbers if copies > 1), numbers[0] if numbers else None)


def must_ask(group: Group, command: ElectMaster) -> bool:
    """Return whether the members' answers could change this election.

    Not if a living master stays or is replaced under a write guard, a person designates the winner, or the
    group never had a master. Not if no broker of the set lives, or the only member that does is all that the
    set has but for one.
    """
    alive = {broker.id for broker in command.alive}
    if is_first(group) or command.designate or group.master_id in alive:
        return False
    candidates = [
        member for member in group.sync_state_set if member in alive and is_electable(group, member)
    ]
    others = alive - set(group.sync_state_set)
    return len(candidates) > 1 or (len(candidates) == 1 and (len(group.sync_state_set) > 2 or bool(others)))


def with_log_ends(
    group: Group, command: ElectMaster, logs: Mapping[BrokerId, MemberLog], copies: int | None
) -> ElectMaster:
    """Return the election with what members told.

    Args:
        group: as it is now; with a set.
        command: the election, with the ends of the last heartbeats.
        logs: of members that answered, those outside the set included.
        copies: what an acknowledgement needs, as `copies_of` says.
    """
    ends = {member: log.max_offset for member, log in logs.items() if member in group.sync_state_set}
    objection = _objection(group, command, ends, copies) or _outside(group, command, logs, copies)
    if not any(is_electable(group, member) for member in ends):
        # Heartbeats are all that is known of the brokers.
        return replace(command, withheld=objection)
    alive = tuple(_told(group, broker, ends) for broker in command.alive)
    return replace(command, alive=alive, withheld=objection)


def _told(group: Group, broker: LiveBroker, ends: Mapping[BrokerId, LogOffset]) -> LiveBroker:
    if broker.id not in group.sync_state_set:
        return broker
    if broker.id not in ends:
        return replace(broker, epoch=UNKNOWN_EPOCH, max_offset=UNKNOWN_OFFSET)
    return replace(broker, epoch=group.master_epoch, max_offset=ends[broker.id])


def _objection(
    group: Group, command: ElectMaster, ends: Mapping[BrokerId, LogOffset], copies: int | None
) -> str:
    """Return why no member may be elected, one word; empty if one may."""
    if copies is None or copies < 2 or command.unclean_allowed:
        return ""
    if len(group.sync_state_set) - len(ends) >= copies:
        return LOGS_UNKNOWN
    brokers = [end for member, end in ends.items() if is_electable(group, member)]
    furthest = max(ends.values(), default=UNKNOWN_OFFSET)
    return LOG_REPLICA_AHEAD if furthest > max(brokers, default=UNKNOWN_OFFSET) else ""


def _outside(
    group: Group, command: ElectMaster, logs: Mapping[BrokerId, MemberLog], copies: int | None
) -> str:
    """Return why no member may be elected because of logs outside the set, one word; empty if one may."""
    if copies is None or copies < 2 or command.unclean_allowed:
        return ""
    within = {member for member in logs if member in group.sync_state_set}
    brokers = [_rank(logs[member]) for member in within if is_electable(group, member)]
    # No log can have a later epoch than the controllers.
    told = [log for member, log in logs.items() if member not in within]
    others = [_rank(log) for log in told if log.written_epoch <= group.master_epoch]
    return MEMBER_AHEAD if brokers and others and max(others) > max(brokers) else ""


def _rank(log: MemberLog) -> tuple[int, int]:
    return log.written_epoch, log.max_offset
