"""The two ways in: a message, and a tick of the clock.

A message is first judged by its term. A higher one makes us a follower, except pre-votes, which only ask, and
votes while a leader is alive, which would only disturb. A lower one is dropped, except where silence would
leave its sender stuck at its old term. All other messages are of our term and go to the table of our role.

A node whose suspicion was wrong waits longer from then on (`patience`).

A tick counts, and `ticks_until_due` tells how many will do no more, so that the shell need not wake for each.
A follower or candidate whose patience is over campaigns; a leader sends heartbeats and, once an election
timeout, checks that a quorum still answers and gives up a transfer of leadership that has not come about.

Source: Raft thesis 3.3, 3.4, 4.2.3, 6.2, 9.6; etcd raft 3.6.
"""

from controller_core.raft.core import NONE, Raft
from controller_core.raft.roles.election import answer_vote_request, hup, refuses_for_lease
from controller_core.raft.roles.follower import CANDIDATE, FOLLOWER, Handler
from controller_core.raft.roles.leader import LEADER
from controller_core.raft.types import Message, MessageType, NodeId, StateType

_HANDLERS: dict[StateType, dict[MessageType, Handler]] = {
    StateType.FOLLOWER: FOLLOWER,
    StateType.PRE_CANDIDATE: CANDIDATE,
    StateType.CANDIDATE: CANDIDATE,
    StateType.LEADER: LEADER,
}
_VOTE_REQUESTS = (MessageType.VOTE, MessageType.PRE_VOTE)
_FROM_A_LEADER = (MessageType.APP, MessageType.HEARTBEAT, MessageType.SNAP)


def step(raft: Raft, message: Message) -> None:
    """Let `message` take effect; term 0 marks one of this node's own.

    Raises:
        ProposalDroppedError: it was a proposal or a read, and cannot be taken now.
    """
    if message.type == MessageType.UNREACHABLE:
        raft.patience.gone(message.from_, raft.tick_count)
    elif raft.patience.has_suspects:
        raft.patience.heard(message.from_, raft.tick_count)
    if message.term != 0 and message.term < raft.term:
        _answer_stale(raft, message)
        return
    if message.type in _VOTE_REQUESTS and refuses_for_lease(raft, message):
        return
    if message.term > raft.term:
        _enter_term(raft, message)
    if message.type == MessageType.HUP:
        hup(raft)
    elif message.type in _VOTE_REQUESTS:
        answer_vote_request(raft, message)
    else:
        handler = _HANDLERS[raft.role].get(message.type)
        if handler is not None:
            handler(raft, message)


def tick(raft: Raft) -> None:
    """Let one tick pass."""
    raft.tick_count += 1
    raft.election_elapsed += 1
    if raft.role == StateType.LEADER:
        _tick_leader(raft)
    elif raft.election_elapsed >= raft.randomized_election_ticks and raft.promotable():
        raft.election_elapsed = 0
        if raft.lead != NONE:
            raft.patience.suspect((raft.lead,), raft.tick_count)
        hup(raft)


def ticks_until_due(raft: Raft) -> int:
    """Return after how many ticks one does more than count, at least 1, unless a message comes first."""
    config = raft.config
    if raft.role == StateType.LEADER:
        left = min(
            config.heartbeat_ticks - raft.heartbeat_elapsed, raft.patience.ticks - raft.election_elapsed
        )
    else:
        left = raft.randomized_election_ticks - raft.election_elapsed
    return max(1, left)


def _tick_leader(raft: Raft) -> None:
    raft.heartbeat_elapsed += 1
    if raft.election_elapsed >= raft.patience.ticks:
        raft.election_elapsed = 0
        raft.patience.calm(raft.tick_count)
        if raft.check_quorum:
            step(raft, Message(MessageType.CHECK_QUORUM, from_=NodeId(raft.id)))
        if raft.role != StateType.LEADER:
            return
        raft.lead_transferee = NONE
    if raft.heartbeat_elapsed >= raft.config.heartbeat_ticks:
        raft.heartbeat_elapsed = 0
        step(raft, Message(MessageType.BEAT, from_=NodeId(raft.id)))


def _enter_term(raft: Raft, message: Message) -> None:
    """Follow a message of a higher term into that term, where we must."""
    asks_only = message.type == MessageType.PRE_VOTE
    # A granted pre-vote is of the term we asked about; we enter it when a quorum has granted.
    would_elect_us = message.type == MessageType.PRE_VOTE_RESP and not message.reject
    if not asks_only and not would_elect_us:
        raft.become_follower(message.term, message.from_ if message.type in _FROM_A_LEADER else NONE)


def _answer_stale(raft: Raft, message: Message) -> None:
    """Answer a message of a lower term where its sender would otherwise never learn of ours.

    With check-quorum or pre-vote other nodes may ignore our campaigns while an old leader is alive. An answer
    with our term deposes that leader. An answer to a pre-candidate of a lower term lets it catch up.
    """
    if message.type == MessageType.PRE_VOTE:
        raft.send(MessageType.PRE_VOTE_RESP, message.from_, reject=True)
    elif (raft.check_quorum or raft.config.pre_vote) and message.type in (
        MessageType.APP,
        MessageType.HEARTBEAT,
    ):
        raft.send(MessageType.APP_RESP, message.from_)
