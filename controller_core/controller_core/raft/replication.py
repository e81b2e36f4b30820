"""How entries travel: a leader's appends, snapshots and heartbeats, and the commit index that follows.

A leader keeps one `Progress` a follower and sends what that allows. An append names the entry before its
first; when the follower's log differs there, it refuses with a hint, and the leader tries earlier. If the
needed entries are compacted already, the leader sends a snapshot instead. Heartbeats carry no entries and
never wait: they keep the office and, as a side effect, tell a follower the commit index as far as the
follower is known to have it.

Proposals are bounded: payload bytes that are not known to be committed are counted, and new ones are dropped
over the limit. The count is an estimate (entries of former leaders are not in it), and never refuses when
nothing is pending.

Source: Raft thesis 3.5, 10.2; etcd raft 3.6.
"""

from collections.abc import Sequence

from controller_core.raft.core import Raft
from controller_core.raft.errors import invariant
from controller_core.raft.log.sizes import payload_size_bytes
from controller_core.raft.log.storage import (
    CompactedError,
    SnapshotTemporarilyUnavailableError,
    UnavailableError,
)
from controller_core.raft.reads import heartbeat_context, release_pending
from controller_core.raft.tracker.progress import Progress, ProgressState
from controller_core.raft.types import Entry, EntryType, LogIndex, MessageType, Term


def append_proposals(raft: Raft, proposals: Sequence[tuple[EntryType, bytes]]) -> bool:
    """Append proposals to the leader's own log.

    Return False, changing nothing, if that exceeds the byte limit.
    """
    term = Term(raft.term)
    first = raft.log.last_index() + 1
    entries = tuple(
        Entry(term, LogIndex(index), kind, data) for index, (kind, data) in enumerate(proposals, start=first)
    )
    if not _count_uncommitted(raft, payload_size_bytes(entries)):
        return False
    last = raft.log.append(entries)
    # Our own acknowledgement, which counts once the entries are on our disk.
    raft.send(MessageType.APP_RESP, raft.id, index=last)
    return True


def forget_uncommitted(raft: Raft, size_bytes: int) -> None:
    """Take payload that was applied, hence committed, off the count."""
    raft.uncommitted_bytes = max(raft.uncommitted_bytes - size_bytes, 0)


def broadcast_append(raft: Raft) -> None:
    """Send to each follower what its progress allows, if only the commit index."""
    for node, progress in raft.tracker.progress.items():
        if node != raft.id:
            maybe_send_append(raft, node, progress, send_if_empty=True)


def broadcast_new(raft: Raft) -> None:
    """Send entries to each follower that has some to come; nothing to the others."""
    for node, progress in raft.tracker.progress.items():
        if node != raft.id:
            maybe_send_append(raft, node, progress, send_if_empty=False)


def broadcast_heartbeat(raft: Raft, read_context: bytes) -> None:
    """Send a heartbeat to everybody, with the context of a pending read or b""."""
    context = heartbeat_context(raft, read_context)
    for node, progress in raft.tracker.progress.items():
        if node != raft.id:
            # What the follower has not acknowledged must not be committed there: it may have something else.
            commit = min(progress.match, raft.log.committed)
            raft.send(MessageType.HEARTBEAT, node, commit=commit, context=context)
            progress.sent_commit = commit


def maybe_send_append(raft: Raft, to: int, progress: Progress, *, send_if_empty: bool) -> bool:
    """Send one append, or a snapshot where the log begins too late; return whether anything was sent."""
    if progress.paused():
        return False
    log = raft.log
    previous = progress.next - 1
    try:
        previous_term = log.term(previous)
        # With a full window an empty append still goes: if all in flight was lost, only its rejection gets us
        # on.
        full = progress.state == ProgressState.REPLICATE and progress.inflights.full()
        entries = () if full else log.entries(progress.next, raft.config.message_bytes_max)
    except (CompactedError, UnavailableError):
        return _maybe_send_snapshot(raft, to, progress)
    if not entries and not send_if_empty:
        return False
    raft.send(
        MessageType.APP, to, log_term=previous_term, index=previous, entries=entries, commit=log.committed
    )
    progress.sent_entries(len(entries), payload_size_bytes(entries))
    progress.sent_commit = log.committed
    return True


def maybe_commit(raft: Raft) -> bool:
    """Commit what a quorum has of this term; return whether the commit index rose."""
    return raft.log.maybe_commit(raft.tracker.committed(), raft.term)


def commit_and_broadcast(raft: Raft) -> bool:
    """Do `maybe_commit` and, if it rose, release the reads that waited for it and tell everybody."""
    if not maybe_commit(raft):
        return False
    context = release_pending(raft)
    if context:
        broadcast_heartbeat(raft, context)
    broadcast_append(raft)
    return True


def _maybe_send_snapshot(raft: Raft, to: int, progress: Progress) -> bool:
    """Send the newest snapshot to a follower that shows signs of life; return whether it was sent."""
    if not progress.recent_active:
        return False
    try:
        snapshot = raft.log.snapshot()
    except SnapshotTemporarilyUnavailableError:
        return False
    invariant(snapshot.index > 0, "entries are compacted and the snapshot is missing", to=to)
    progress.become_snapshot(snapshot.index)
    raft.send(MessageType.SNAP, to, snapshot=snapshot)
    return True


def _count_uncommitted(raft: Raft, size_bytes: int) -> bool:
    """Add to the count of uncommitted payload unless that exceeds the limit.

    Empty entries are never refused.
    """
    over = raft.uncommitted_bytes + size_bytes > raft.config.uncommitted_limit_bytes()
    if raft.uncommitted_bytes > 0 and size_bytes > 0 and over:
        return False
    raft.uncommitted_bytes += size_bytes
    return True
