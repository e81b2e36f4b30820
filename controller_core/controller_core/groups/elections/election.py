"""What an election does to a group (1002, and the leader's own decision when a master dies).

    a suspicion of a master or epoch that has changed,
    or a guarded election of an epoch that has ended       ->  keep: 2011 with a master, 2004 without
    a group that never had a master, members with a past   ->  see `first_elections`
    another group that never had a master                  ->  the requester, if registered, alive, electable
    the logs that members told allow nobody                ->  no winner, see `log_ends`
    otherwise the policy (see `policy`) chooses:
      the recorded master                                  ->  keep: 2011; no change
      another member                                       ->  0: master, higher epoch, set := {winner} and
                                                               `kept_replicas`, set epoch + 1
      no winner, a broker or a person asked                ->  2012; no change of master or epoch
      no winner, the controller asked, with a master       ->  2004: master := none, epoch + 1; the set stays
      no winner, the controller asked, without a master    ->  2004; no change of epoch

The last line differs from RocketMQ, where each of three immediate retries raises the epoch again; and so does
the first, which makes the repetition of a decision harmless. The epoch is raised above all that living
members told (`first_elections.next_epoch`): by one, as a rule. An epoch is raised exactly when the master
changes, to none included, and never for a master that stays: a broker whose epoch is raised while it is
master misses an entry in its epoch file and transfer stalls (apache/rocketmq#9689).

A failed election of a group without a master is reported once for each reason (`ElectionFailed`,
`Group.failure_reason`), however often brokers ask.

Source: ReplicasInfoManager.java 5.4.0, electMaster; ElectMasterEvent.java.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from controller_core.groups.commands import ElectMaster, LiveBroker
from controller_core.groups.elections import log_ends
from controller_core.groups.elections.failovers import elected, failed, suspected
from controller_core.groups.elections.first_elections import (
    is_first,
    is_log_replica_ahead,
    longest_log,
    next_epoch,
    next_set_epoch,
)
from controller_core.groups.elections.kept_replicas import set_of_winner
from controller_core.groups.elections.policy import elect, is_electable
from controller_core.groups.group import Change, Group, lost_master
from controller_core.groups.keys import BrokerId
from controller_core.groups.replies import ElectionView, GroupReply, RoleNotice
from controller_core.remoting.codes import ResponseCode


class FailureReason(StrEnum):
    """Why an election failed, in one word."""

    NO_LIVE_REPLICA = "NoLiveReplica"
    NO_ELECTABLE_REPLICA = "NoElectableReplica"
    REQUESTER_NOT_ALIVE = "RequesterNotAlive"
    DESIGNATED_NOT_IN_SYNC_STATE_SET = "DesignatedNotInSyncStateSet"
    DESIGNATED_NOT_ALIVE = "DesignatedNotAlive"
    DESIGNATED_NOT_ELECTABLE = "DesignatedNotElectable"
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    LOG_REPLICA_AHEAD = log_ends.LOG_REPLICA_AHEAD
    LOGS_UNKNOWN = log_ends.LOGS_UNKNOWN
    MEMBER_AHEAD = log_ends.MEMBER_AHEAD


_EXPLAINED: Final[dict[str, str]] = {
    # RocketMQ knows neither log replicas nor this wait, so its remarks do not cover them.
    FailureReason.NO_ELECTABLE_REPLICA: "",
    FailureReason.DESIGNATED_NOT_ELECTABLE: "",
    FailureReason.WAITING_FOR_MEMBERS: ", the logs are of an earlier life of this group: "
    "start all members, or designate one",
    FailureReason.LOG_REPLICA_AHEAD: ", a log replica holds more than every broker: "
    "start the last master, or designate a broker",
    FailureReason.LOGS_UNKNOWN: ", members that are away may be all that have some acknowledged message: "
    "start them, or designate a broker",
    FailureReason.MEMBER_AHEAD: ", a member outside the set holds more than every broker of the set: "
    "start the last master, or designate a broker",
}
"""Reasons that a refusal names, and what more it says."""


def elect_master(group: Group | None, command: ElectMaster, index: int, term: int) -> Change:
    """Judge one election; `index` and `term` of its log entry go into the record."""
    if group is None:
        return _not_registered("Broker hasn't been registered")
    if _is_stale(group, command):
        return Change(_keep_reply(group) if group.master_id is not None else _nobody_reply(None, None))
    if command.withheld:
        return _fail(group, command, command.withheld)
    alive = {broker.id: broker for broker in command.alive}
    first = is_first(group)
    if first and command.requester_id is not None and command.requester_id not in group.replicas:
        name = command.broker_name
        return _not_registered(
            f"BrokerId: {command.requester_id} hasn't been registered in broker-set: {name}"
        )
    if first and command.told_epoch > 0 and not command.designate:
        winner = _winner_with_a_past(group, command, alive)
    else:
        winner = _winner(group, command, alive, first=first)
    if isinstance(winner, FailureReason):
        return _fail(group, command, winner)
    if winner is None:
        return _fail(group, command, _failure_reason(group, command, alive, first=first))
    if winner == group.master_id:
        return Change(_keep_reply(group))
    return _take(group, command, winner, index, term)


def would_replace(group: Group | None, command: ElectMaster) -> bool:
    """Return whether an election, judged now, would replace a recorded master that lives."""
    if group is None or group.master_id not in {broker.id for broker in command.alive}:
        return False
    after = elect_master(group, command, index=0, term=0).group
    return after is not None and after.master_id not in (None, group.master_id)


def would_end(group: Group | None, command: ElectMaster) -> bool:
    """Say whether an election, judged now, would end the epoch of a recorded master, dead or alive."""
    if group is None or group.master_id is None:
        return False
    after = elect_master(group, command, index=0, term=0).group
    return after is not None and after.master_id != group.master_id


def _is_stale(group: Group, command: ElectMaster) -> bool:
    if command.replaced_epoch not in (None, group.master_epoch):
        return True
    suspicion = command.suspicion
    return suspicion is not None and (suspicion.master_id, suspicion.master_epoch) != (
        group.master_id,
        group.master_epoch,
    )


def _winner(
    group: Group, command: ElectMaster, alive: dict[BrokerId, LiveBroker], *, first: bool
) -> BrokerId | None:
    if first and command.requester_id is not None:
        # No log is ahead of another before the first master, so the first broker that asks wins.
        asked = command.requester_id
        return asked if asked in alive and is_electable(group, asked) else None
    preferred_id = command.requester_id if command.designate else None
    return elect(group, alive, preferred_id, unclean_allowed=command.unclean_allowed)


def _winner_with_a_past(
    group: Group, command: ElectMaster, alive: dict[BrokerId, LiveBroker]
) -> BrokerId | FailureReason | None:
    if command.requester_id is not None:
        return FailureReason.WAITING_FOR_MEMBERS
    winner = longest_log(group, command, alive)
    if winner is not None and is_log_replica_ahead(group, winner, command, alive):
        return FailureReason.LOG_REPLICA_AHEAD
    return None if winner is None else winner.id


def _take(group: Group, command: ElectMaster, winner: BrokerId, index: int, term: int) -> Change:
    members = set_of_winner(group, command, winner)
    after = replace(
        group,
        master_id=winner,
        master_epoch=next_epoch(group, command),
        sync_state_set=members,
        preceding_set=_preceding(group, winner) if len(members) == 1 else (),
        set_epoch=next_set_epoch(group, command),
        lost_master=None,
        failure_reason="",
    )
    record, fact = elected(group, after, winner, command, index, term)
    addresses = {broker_id: replica.address for broker_id, replica in sorted(after.replicas.items())}
    body = ElectionView(after.key, after.sync_state_set, addresses)
    reply = GroupReply(ResponseCode.SUCCESS, after.master_ext(), body=body)
    facts = (*suspected(command, after.master_epoch), fact)
    notices = role_notices(after, (broker.id for broker in command.alive))
    return Change(reply, after, facts=facts, notices=notices, failovers=(record,))


def _preceding(group: Group, winner: BrokerId) -> tuple[BrokerId, ...]:
    """Return the members that hold every message acknowledged before `winner` was elected.

    Empty if `winner` was not in the set.
    """
    if winner not in group.sync_state_set:
        return ()
    # A set of one member is that of the last winner, and no slave has joined it yet: the previous set still
    # counts.
    return group.sync_state_set if len(group.sync_state_set) > 1 else group.preceding_set


def _fail(group: Group, command: ElectMaster, reason: str) -> Change:
    """Refuse an election; the controller's own attempt clears a recorded master, once."""
    reply = _nobody_reply(command.requester_id, reason)
    if command.designate:
        # A person designated a member that cannot win: the state of the group itself is unchanged.
        return Change(reply, facts=(failed(group, group, command, reason),))
    after = replace(group, failure_reason=reason)
    if group.master_id is not None:
        if command.requester_id is not None:
            # Only the controller, which judges liveness for all, takes the recorded master away.
            return Change(reply)
        lost = lost_master(group, command.cause, command.suspicion)
        after = replace(after, master_id=None, master_epoch=next_epoch(group, command), lost_master=lost)
    if after == group:
        return Change(reply)
    facts = (*suspected(command, after.master_epoch), failed(group, after, command, reason))
    return Change(reply, after, facts=facts)


def _failure_reason(
    group: Group, command: ElectMaster, alive: dict[BrokerId, LiveBroker], *, first: bool
) -> FailureReason:
    asked = command.requester_id
    if command.designate and asked is not None:
        if asked not in alive:
            return FailureReason.DESIGNATED_NOT_ALIVE
        if asked in group.replicas and not is_electable(group, asked):
            return FailureReason.DESIGNATED_NOT_ELECTABLE
        return FailureReason.DESIGNATED_NOT_IN_SYNC_STATE_SET
    if first and asked is not None and asked not in alive:
        return FailureReason.REQUESTER_NOT_ALIVE
    anybody = command.unclean_allowed or (first and asked is not None)
    pool = set(group.replicas if anybody else group.sync_state_set)
    return FailureReason.NO_ELECTABLE_REPLICA if pool & set(alive) else FailureReason.NO_LIVE_REPLICA


def _keep_reply(group: Group) -> GroupReply:
    remark = (
        f"The old master {group.master_id} is still alive, not need to elect new master for broker "
        f"{group.key.broker_name}"
    )
    body = ElectionView(group.key, group.sync_state_set, None)
    return GroupReply(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, group.master_ext(), remark, body)


def _nobody_reply(requester_id: BrokerId | None, reason: str | None) -> GroupReply:
    if requester_id is None:
        code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
        remark = "Old master has down and failed to elect a new broker master"
    else:
        code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        remark = "Failed to elect a new master"
    if reason is not None and reason in _EXPLAINED:
        remark = f"{remark}: {reason}{_EXPLAINED[reason]}"
    return GroupReply(code, {}, remark)


def _not_registered(remark: str) -> Change:
    return Change(GroupReply(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, {}, remark))


def role_notices(group: Group, alive: Iterable[BrokerId]) -> tuple[RoleNotice, ...]:
    """Return a notice for each living member, the master first: it is the one that clients wait for."""
    if group.master_id is None:
        return ()
    live = set(alive) & set(group.replicas)
    return tuple(
        RoleNotice(
            key=group.key,
            broker_id=broker_id,
            address=group.replicas[broker_id].address,
            master_id=group.master_id,
            master_address=group.master_address or "",
            master_epoch=group.master_epoch,
            set_epoch=group.set_epoch,
            sync_state_set=group.sync_state_set,
        )
        for broker_id in sorted(live, key=lambda member: (member != group.master_id, member))
    )
