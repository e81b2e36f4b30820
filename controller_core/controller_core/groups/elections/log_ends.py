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
    unclean elections are allowed                        ->  elect, by the ends that members told

Without a winner the group waits for a master until a member comes back, above all the last master, which has
every message that it acknowledged; or until a person designates a broker, whose log then decides.

Members of the set are compared by their ends alone. Each joined the master of the recorded epoch, so its log
is a beginning of that master's log, and of two beginnings of one log the longer one has all of the other.
Their lists of epochs are not compared, because a broker may keep a wrong label (`member_logs`).

A member that is alive and does not answer counts as unheard, and is ranked last.

What this does not cover:
    - a master that lives, but is cut off from the controllers: it may go on acknowledging with a slave that
      told its end already. Its companion stops its writes
    - a member that left the set before the others had copied what it had acknowledged, if the master dies in
      the same moment; and a member that acknowledges in the moment in which it joins the set. RocketMQ's
      master counts the acknowledgement of every connected slave

Source: CommitLog.asyncPutMessage and GroupTransferService.doWaitTransfer of 5.4.0.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from controller_core.groups.commands import UNKNOWN_EPOCH, UNKNOWN_OFFSET, ElectMaster, LiveBroker
from controller_core.groups.elections.first_elections import is_first
from controller_core.groups.elections.policy import is_electable
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, LogOffset

LOGS_UNKNOWN: Final = "LogsUnknown"
"""Too few members of the set told the end of their log."""
LOG_REPLICA_AHEAD: Final = "LogReplicaAhead"
"""A log replica has a longer log than every broker that told its own."""

COPIES_DIGITS_MAX: Final = 9
_COPIES_BY_DEFAULT: Final = "1"


def copies_of(settings: Mapping[str, str]) -> int | None:
    """Return how many members have a message when the broker with these settings acknowledges it.

    None stands for every member of the SyncStateSet. A number that cannot be read counts as 1.
    """
    if settings.get("allAckInSyncStateSet", "").strip().lower() == "true":
        return None
    text = settings.get("inSyncReplicas", _COPIES_BY_DEFAULT).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= COPIES_DIGITS_MAX else 1


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
    group never had a master. Not if no broker of the set lives, or the only one that does is all that the set
    has but for one member.
    """
    alive = {broker.id for broker in command.alive}
    if is_first(group) or command.designate or group.master_id in alive:
        return False
    candidates = [
        member for member in group.sync_state_set if member in alive and is_electable(group, member)
    ]
    return len(candidates) > 1 or (len(candidates) == 1 and len(group.sync_state_set) > 2)


def with_log_ends(
    group: Group, command: ElectMaster, ends: Mapping[BrokerId, LogOffset], copies: int | None
) -> ElectMaster:
    """Return the election with what members told.

    Args:
        group: as it is now; with a set.
        command: the election, with the ends of the last heartbeats.
        ends: of members of the set that answered, where their logs end.
        copies: what an acknowledgement needs, as `copies_of` says.
    """
    ends = {member: end for member, end in ends.items() if member in group.sync_state_set}
    if not any(is_electable(group, member) for member in ends):
        # Heartbeats are all that is known of the brokers.
        return replace(command, withheld=_objection(group, command, ends, copies))
    alive = tuple(_told(group, broker, ends) for broker in command.alive)
    return replace(command, alive=alive, withheld=_objection(group, command, ends, copies))


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
