"""What a follower or a candidate does with each message at its own term.

    message            follower                              candidate, pre-candidate
    APP                append, acknowledge or refuse         there is a leader: follow it, then as a follower
    HEARTBEAT          take the commit index, answer         the same
    SNAP               restore, acknowledge                  the same
    VOTE_RESP          -                                     count it (PRE_VOTE_RESP likewise)
    PROP               pass to the leader, or drop           drop
    TRANSFER_LEADER    pass to the leader                    -
    READ_INDEX         pass to the leader                    drop
    READ_INDEX_RESP    hand to the caller                    -
    TIMEOUT_NOW        campaign at once                      -
    FORGET_LEADER      know no leader                        -

Source: Raft thesis 3; etcd raft 3.6.
"""

from collections.abc import Callable

from controller_core.raft.core import NONE, Raft
from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.membership import restore_snapshot
from controller_core.raft.roles.election import hup, take_vote
from controller_core.raft.types import Message, MessageType, ReadState

Handler = Callable[[Raft, Message], None]


def _follow(handle: Handler) -> Handler:
    """Return `handle` for a follower: first note the sign of life of the leader."""

    def heard(raft: Raft, message: Message) -> None:
        raft.election_elapsed = 0
        raft.lead = message.from_
        raft.promise_leader()
        if raft.patience.calm(raft.tick_count):
            raft.draw_election_timeout()
        handle(raft, message)

    return heard


def _concede(handle: Handler) -> Handler:
    """Return `handle` for a candidate: somebody leads at our term, so first become its follower."""

    def conceded(raft: Raft, message: Message) -> None:
        raft.become_follower(message.term, message.from_)
        raft.promise_leader()
        handle(raft, message)

    return conceded


def _pass_proposal(raft: Raft, message: Message) -> None:
    if raft.lead == NONE:
        raise ProposalDroppedError("no leader")
    if raft.config.disable_proposal_forwarding:
        raise ProposalDroppedError("not the leader")
    raft.forward(message, raft.lead)


def _pass_transfer(raft: Raft, message: Message) -> None:
    if raft.lead != NONE:
        raft.forward(message, raft.lead, term=raft.term)


def _pass_read(raft: Raft, message: Message) -> None:
    # One that comes from the node that leads by now asked while it followed this one: it reads by itself.
    if raft.lead in (NONE, message.from_):
        raise ProposalDroppedError("no leader")
    raft.forward(message, raft.lead)


def _take_read_index(raft: Raft, message: Message) -> None:
    if len(message.entries) == 1:
        raft.read_states.append(ReadState(message.index, message.entries[0].data))


def _forget_leader(raft: Raft, _message: Message) -> None:
    """Know no leader, so that a vote may be given at once.

    Refused under leases, which rely on its being withheld.
    """
    if not raft.has_lease_option():
        raft.lead = NONE


def _campaign_now(raft: Raft, _message: Message) -> None:
    hup(raft, transfer=True)


def _drop_proposal(_raft: Raft, _message: Message) -> None:
    raise ProposalDroppedError("no leader")


def _handle_append(raft: Raft, message: Message) -> None:
    """Append what fits our log and acknowledge it, or refuse with a hint where the logs may meet.

    The hint is our last (index, term) at or before the one refused whose term is not above the leader's
    there: one refusal then skips a whole term of ours that the leader cannot have.
    """
    log = raft.log
    if message.index < log.committed:
        raft.send(MessageType.APP_RESP, message.from_, index=log.committed)
        return
    last = log.maybe_append(message.index, message.log_term, message.entries, message.commit)
    if last is not None:
        raft.send(MessageType.APP_RESP, message.from_, index=last)
        return
    hint, hint_term = log.find_conflict_by_term(min(message.index, log.last_index()), message.log_term)
    raft.send(
        MessageType.APP_RESP,
        message.from_,
        index=message.index,
        reject=True,
        reject_hint=hint,
        log_term=hint_term,
    )


def _handle_heartbeat(raft: Raft, message: Message) -> None:
    raft.log.commit_to(message.commit)
    raft.send(MessageType.HEARTBEAT_RESP, message.from_, context=message.context)


def _handle_snapshot(raft: Raft, message: Message) -> None:
    restored = message.snapshot is not None and restore_snapshot(raft, message.snapshot)
    index = raft.log.last_index() if restored else raft.log.committed
    raft.send(MessageType.APP_RESP, message.from_, index=index)


FOLLOWER: dict[MessageType, Handler] = {
    MessageType.APP: _follow(_handle_append),
    MessageType.HEARTBEAT: _follow(_handle_heartbeat),
    MessageType.SNAP: _follow(_handle_snapshot),
    MessageType.PROP: _pass_proposal,
    MessageType.TRANSFER_LEADER: _pass_transfer,
    MessageType.READ_INDEX: _pass_read,
    MessageType.READ_INDEX_RESP: _take_read_index,
    MessageType.TIMEOUT_NOW: _campaign_now,
    MessageType.FORGET_LEADER: _forget_leader,
}

CANDIDATE: dict[MessageType, Handler] = {
    MessageType.APP: _concede(_handle_append),
    MessageType.HEARTBEAT: _concede(_handle_heartbeat),
    MessageType.SNAP: _concede(_handle_snapshot),
    MessageType.PROP: _drop_proposal,
    MessageType.READ_INDEX: _drop_proposal,
    MessageType.VOTE_RESP: take_vote,
    MessageType.PRE_VOTE_RESP: take_vote,
}
