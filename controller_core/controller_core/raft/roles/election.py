"""How a leader comes to be: campaigning, asking for votes, giving them, counting them.

A campaign is a pre-vote (would you vote for me at the next term?), a vote, or a vote in a transfer of
leadership, which the voters grant even though they hear from a leader, since that leader asked for it.

A vote is given when it was not given to another at this term, no leader of this term is known, and the
candidate's log is at least as up to date as ours. Learners vote too when asked: they may have become voters
without knowing it yet.

Source: Raft thesis 3.4, 3.6, 3.10, 9.6; etcd raft 3.6.
"""

from controller_core.raft.core import NONE, Raft
from controller_core.raft.errors import invariant
from controller_core.raft.quorum.majority import VoteResult
from controller_core.raft.replication import append_proposals, broadcast_append
from controller_core.raft.types import EntryType, Message, MessageType, StateType

TRANSFER_CONTEXT = b"CampaignTransfer"
"""The context of a vote request in a transfer of leadership."""

_RESPONSE_TO = {MessageType.VOTE: MessageType.VOTE_RESP, MessageType.PRE_VOTE: MessageType.PRE_VOTE_RESP}
_CONF_CHANGES = (EntryType.CONF_CHANGE, EntryType.CONF_CHANGE_V2)


def hup(raft: Raft, *, transfer: bool = False) -> None:
    """Campaign if that makes sense.

    Not as leader, not as non-voter, not with a change of membership to be applied.
    """
    if raft.role == StateType.LEADER or not raft.promotable() or _has_unapplied_conf_change(raft):
        return
    if transfer:
        # The leader asked for this campaign, so this node does not return from a partition: skip the
        # pre-vote.
        campaign(raft, context=TRANSFER_CONTEXT)
    elif raft.config.pre_vote:
        campaign_pre_vote(raft)
    else:
        campaign(raft)


def campaign_pre_vote(raft: Raft) -> None:
    """Ask whether we would be elected at the next term."""
    raft.become_pre_candidate()
    _ask_for_votes(raft, MessageType.PRE_VOTE, raft.term + 1, b"")


def campaign(raft: Raft, *, context: bytes = b"") -> None:
    """Enter the next term and ask for votes."""
    raft.become_candidate()
    _ask_for_votes(raft, MessageType.VOTE, raft.term, context)


def refuses_for_lease(raft: Raft, message: Message) -> bool:
    """Return whether a request for a vote is ignored, because a leader sent a message lately.

    Ignored, not answered: our term, and with it that leader, must not be disturbed. Under leases, the answer
    to a heartbeat promised the leader not to vote; the promise holds even if this node has forgotten that
    leader since.

    Source: Raft thesis 4.2.3, 6.4.1.
    """
    if message.context == TRANSFER_CONTEXT:
        return False
    if raft.tick_count < raft.vote_refused_until_tick:
        return True
    hears_leader = raft.lead != NONE and raft.election_elapsed < raft.config.election_ticks
    return raft.check_quorum and hears_leader and message.term > raft.term


def answer_vote_request(raft: Raft, message: Message) -> None:
    """Grant or reject a vote or pre-vote at our own term (a pre-vote: or a later one)."""
    pre_vote = message.type == MessageType.PRE_VOTE
    can_vote = (
        raft.vote == message.from_
        or (raft.vote == NONE and raft.lead == NONE)
        or (pre_vote and message.term > raft.term)
    )
    response = _RESPONSE_TO[message.type]
    if not can_vote or not raft.log.is_up_to_date(message.index, message.log_term):
        raft.send(response, message.from_, reject=True)
        return
    # The term of the request, not ours: a candidate drops what it takes for an answer to an older request.
    raft.send(response, message.from_, term=message.term)
    if not pre_vote:
        raft.election_elapsed = 0
        raft.vote = message.from_


def take_vote(raft: Raft, message: Message) -> None:
    """Count an answer to our own campaign and act when the vote is decided."""
    expected = MessageType.PRE_VOTE_RESP if raft.role == StateType.PRE_CANDIDATE else MessageType.VOTE_RESP
    if message.type != expected:
        return  # An answer to a campaign we have left behind.
    raft.tracker.record_vote(message.from_, not message.reject)
    match raft.tracker.vote_result():
        case VoteResult.WON if raft.role == StateType.PRE_CANDIDATE:
            campaign(raft)
        case VoteResult.WON:
            _take_office(raft)
            broadcast_append(raft)
        case VoteResult.LOST:
            # The answer to a pre-vote may be of a future term; ours stays.
            raft.become_follower(raft.term, NONE)
        case VoteResult.PENDING:
            pass


def _take_office(raft: Raft) -> None:
    """Become leader and append an empty entry: committing it commits all that came before.

    Source: Raft thesis 3.6.2, 6.4.
    """
    raft.become_leader()
    invariant(append_proposals(raft, [(EntryType.NORMAL, b"")]), "the first entry of a term was dropped")


def _ask_for_votes(raft: Raft, kind: MessageType, term: int, context: bytes) -> None:
    last = raft.log.last_index()
    last_term = raft.log.term(last)
    for voter in sorted(raft.tracker.membership.all_voters):
        if voter == raft.id:
            # Our own vote counts once it is on our disk.
            raft.send(_RESPONSE_TO[kind], voter, term=term)
        else:
            raft.send(kind, voter, term=term, index=last, log_term=last_term, context=context)


def _has_unapplied_conf_change(raft: Raft) -> bool:
    log = raft.log
    pages = log.pages(log.applied + 1, log.committed + 1, log.applying_bytes_max)
    return any(entry.type in _CONF_CHANGES for page in pages for entry in page)
