"""Linearizable reads without a log entry: by a quorum's confirmation, or by a lease.

ReadIndex. The leader notes its commit index, makes sure that it still leads, and hands out the index: once
the state machine has applied that much, it holds everything acknowledged before the read began. A fresh
leader first waits for the commit of an entry of its own term, since before that its commit index may be
behind.

Lease. With check-quorum on everywhere, a follower that heard a heartbeat refuses to vote for `election_ticks`
of its own ticks. So from the moment a heartbeat *left* (not: was answered), and if a quorum answers it, no
other leader can exist for nearly as long. Each heartbeat therefore carries the leader's tick count, the
answers bring it back, and the lease holds while the tick that a quorum has answered is younger than
`election_ticks - lease_margin_ticks`. Not: the interval of check-quorum itself, which only tells that a
quorum answered within the last two election timeouts. Three things would break the promise and are excluded:
a transfer of leadership (its votes ignore the promise) voids the lease for the rest of the term;
forget-leader is refused; a restarted voter waits before it votes.

The leader's ticks are its clock. A process that was stopped must first catch up the ticks it missed, then
ask.

Source: Raft thesis 6.4, 6.4.1; etcd raft 3.6 read_only.go.
"""

from controller_core.raft.core import NONE, Raft
from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.quorum.joint import joint_index, joint_vote
from controller_core.raft.quorum.majority import VoteResult
from controller_core.raft.tracker.progress import Progress
from controller_core.raft.types import LogIndex, Message, MessageType, ReadState, StateType

STAMP_BYTES = 8


def committed_in_term(raft: Raft) -> bool:
    """Return whether an entry of the present term is committed."""
    return raft.log.term_or_zero(raft.log.committed) == raft.term


def lease_ticks_left(raft: Raft) -> int:
    """Return for how many more ticks this leader's lease holds; 0 or less without one."""
    leads = raft.role == StateType.LEADER and raft.has_lease_option() and not raft.lease_void
    if not leads or raft.id not in raft.tracker.progress or not committed_in_term(raft):
        return 0
    membership = raft.tracker.membership
    # One more than the tick, so that 0 can mean "never" as the quorum functions want it.
    confirmed = (
        joint_index(membership.voters, membership.outgoing, lambda node: _confirmed_tick(raft, node) + 1) - 1
    )
    if confirmed < 0:
        return 0
    return confirmed + raft.config.election_ticks - raft.config.lease_margin_ticks - raft.tick_count


def heartbeat_context(raft: Raft, read_context: bytes) -> bytes:
    """Return what a heartbeat carries: the read's context, behind our tick count if leases are in use."""
    if not raft.has_lease_option():
        return read_context
    return raft.tick_count.to_bytes(STAMP_BYTES, "big") + read_context


def take_heartbeat_context(raft: Raft, progress: Progress, context: bytes) -> bytes:
    """Note the tick that an answer brings back, and return the read's context."""
    if not raft.has_lease_option():
        return context
    if len(context) >= STAMP_BYTES:
        # No answer can be to a heartbeat that has not left yet: a later tick would make a lease out of
        # nothing.
        tick = min(int.from_bytes(context[:STAMP_BYTES], "big"), raft.tick_count)
        progress.lease_tick = max(progress.lease_tick, tick)
    return context[STAMP_BYTES:]


def lead_read_index(raft: Raft, request: Message) -> bytes | None:
    """Take a read as leader; return the context that a heartbeat must carry now, if one must go out.

    Raises:
        ProposalDroppedError: too many reads are waiting.
    """
    if raft.tracker.is_singleton() and raft.id in raft.tracker.membership.voters:
        _respond(raft, request, raft.log.committed)
        return None
    if not committed_in_term(raft):
        _require_room(raft, len(raft.pending_read_requests))
        raft.pending_read_requests.append(request)
        return None
    if lease_ticks_left(raft) > 0:
        _respond(raft, request, raft.log.committed)
        return None
    _require_room(raft, len(raft.read_only))
    context = request.entries[0].data
    raft.read_only.add(raft.log.committed, request)
    raft.read_only.record_ack(raft.id, context)
    return context


def release_pending(raft: Raft) -> bytes:
    """Start the reads that waited for the first commit of the term.

    Return the context that confirms them, or b"".
    """
    if not raft.pending_read_requests or not committed_in_term(raft):
        return b""
    requests, raft.pending_read_requests = raft.pending_read_requests, []
    for request in requests:
        raft.read_only.add(raft.log.committed, request)
        raft.read_only.record_ack(raft.id, request.entries[0].data)
    return raft.read_only.last_context()


def confirm_reads(raft: Raft, node: int, context: bytes) -> None:
    """Take `node`'s answer to the heartbeat of a read; respond to all reads that it completes."""
    membership = raft.tracker.membership
    acks = raft.read_only.record_ack(node, context)
    if joint_vote(membership.voters, membership.outgoing, acks) != VoteResult.WON:
        return
    for pending in raft.read_only.confirm(context):
        _respond(raft, pending.request, pending.index)


def _confirmed_tick(raft: Raft, node: int) -> int:
    return raft.tick_count if node == raft.id else raft.tracker.progress[node].lease_tick


def _respond(raft: Raft, request: Message, index: int) -> None:
    """Answer a read: to our own caller through the Ready, to a follower by a message."""
    if request.from_ in (NONE, raft.id):
        raft.read_states.append(ReadState(LogIndex(index), request.entries[0].data))
    else:
        raft.send(MessageType.READ_INDEX_RESP, request.from_, index=index, entries=request.entries)


def _require_room(raft: Raft, waiting: int) -> None:
    if waiting >= raft.config.pending_reads_max:
        raise ProposalDroppedError("too many reads are waiting")
