"""What a leader does with each message at its own term.

    message            leader
    BEAT               send heartbeats (our own timer)
    CHECK_QUORUM       step down unless a quorum has answered (our own timer)
    PROP               append and replicate
    READ_INDEX         see `reads`
    APP_RESP           move the follower's progress, commit, send on
    HEARTBEAT_RESP     send what the follower lacks; confirm reads
    SNAP_STATUS        the snapshot arrived or failed: probe
    UNREACHABLE        appends in flight are probably lost: probe
    TRANSFER_LEADER    bring the follower up to date, then have it campaign

Source: Raft thesis 3.5, 3.10, 6; etcd raft 3.6.
"""

from controller_core.raft.core import NONE, Raft
from controller_core.raft.errors import ProposalDroppedError, invariant
from controller_core.raft.membership import filter_conf_changes
from controller_core.raft.reads import confirm_reads, lead_read_index, take_heartbeat_context
from controller_core.raft.replication import (
    append_proposals,
    broadcast_append,
    broadcast_heartbeat,
    commit_and_broadcast,
    maybe_send_append,
)
from controller_core.raft.roles.follower import Handler
from controller_core.raft.tracker.progress import Progress, ProgressState
from controller_core.raft.types import EntryType, Message, MessageType


def _beat(raft: Raft, _message: Message) -> None:
    broadcast_heartbeat(raft, raft.read_only.last_context())


def _check_quorum(raft: Raft, _message: Message) -> None:
    if not raft.tracker.quorum_active():
        silent = [
            node
            for node, progress in raft.tracker.progress.items()
            if not (progress.recent_active or progress.is_learner)
        ]
        raft.patience.suspect(silent, raft.tick_count)
        raft.become_follower(raft.term, NONE)
    for node, progress in raft.tracker.progress.items():
        if node != raft.id:
            progress.recent_active = False


def _propose(raft: Raft, message: Message) -> None:
    invariant(bool(message.entries), "a proposal without entries")
    if raft.id not in raft.tracker.progress:
        raise ProposalDroppedError("removed from the membership")
    if raft.lead_transferee != NONE:
        raise ProposalDroppedError("leadership is being transferred")
    if all(entry.type == EntryType.NORMAL for entry in message.entries):
        proposals = [(entry.type, entry.data) for entry in message.entries]
    else:
        proposals = filter_conf_changes(raft, message.entries)
    if not append_proposals(raft, proposals):
        raise ProposalDroppedError("too many bytes are not committed yet")
    broadcast_append(raft)


def _read_index(raft: Raft, message: Message) -> None:
    context = lead_read_index(raft, message)
    if context is not None:
        broadcast_heartbeat(raft, context)


def _append_response(raft: Raft, message: Message) -> None:
    progress = raft.tracker.progress.get(message.from_)
    if progress is None:
        return
    progress.recent_active = True
    if message.reject:
        _append_rejected(raft, message, progress)
        return
    # A repeated acknowledgement still brings a probed follower back to replication; one that waits for a
    # snapshot not.
    news = progress.maybe_update(message.index)
    if news or (progress.match == message.index and progress.state == ProgressState.PROBE):
        _append_accepted(raft, message, progress)


def _append_rejected(raft: Raft, message: Message, progress: Progress) -> None:
    """Place the next probe.

    Not above our own last entry whose term is not above the follower's at its hint.
    """
    hint: int = message.reject_hint
    if message.log_term > 0:
        hint, _ = raft.log.find_conflict_by_term(hint, message.log_term)
    if progress.maybe_decrease_to(message.index, hint):
        if progress.state == ProgressState.REPLICATE:
            progress.become_probe()
        maybe_send_append(raft, message.from_, progress, send_if_empty=True)


def _append_accepted(raft: Raft, message: Message, progress: Progress) -> None:
    """Move the follower on, commit, and send it all that its window now allows."""
    match progress.state:
        case ProgressState.PROBE:
            progress.become_replicate()
        case ProgressState.SNAPSHOT if progress.match + 1 >= raft.log.first_index():
            # Whichever snapshot it got and from whom: the log reaches back far enough to go on.
            progress.become_probe()
            progress.become_replicate()
        case ProgressState.REPLICATE:
            progress.inflights.free_up_to(message.index)
        case _:
            pass
    follower = message.from_
    own = follower == raft.id
    if not commit_and_broadcast(raft) and not own and progress.can_bump_commit(raft.log.committed):
        maybe_send_append(raft, follower, progress, send_if_empty=True)
    if not own:
        while maybe_send_append(raft, follower, progress, send_if_empty=False):
            pass
    if follower == raft.lead_transferee and progress.match == raft.log.last_index():
        raft.send(MessageType.TIMEOUT_NOW, follower)


def _heartbeat_response(raft: Raft, message: Message) -> None:
    progress = raft.tracker.progress.get(message.from_)
    if progress is None:
        return
    progress.recent_active = True
    progress.flow_paused = False
    # It lacks entries, or a probe may have been lost: an append, even an empty one, brings an answer that
    # tells.
    if progress.match < raft.log.last_index() or progress.state == ProgressState.PROBE:
        maybe_send_append(raft, message.from_, progress, send_if_empty=True)
    context = take_heartbeat_context(raft, progress, message.context)
    if context:
        confirm_reads(raft, message.from_, context)


def _snapshot_status(raft: Raft, message: Message) -> None:
    progress = raft.tracker.progress.get(message.from_)
    if progress is None or progress.state != ProgressState.SNAPSHOT:
        return
    if message.reject:
        progress.pending_snapshot = 0  # Else the probe would start after a snapshot that never arrived.
    progress.become_probe()
    # Wait for its acknowledgement, or after a failure for the next heartbeat, before anything else is sent.
    progress.flow_paused = True


def _unreachable(raft: Raft, message: Message) -> None:
    progress = raft.tracker.progress.get(message.from_)
    if progress is not None and progress.state == ProgressState.REPLICATE:
        progress.become_probe()


def _transfer_leader(raft: Raft, message: Message) -> None:
    """Begin to make `message.from_` leader; one transfer at a time, the last wish counts."""
    target = message.from_
    progress = raft.tracker.progress.get(target)
    if progress is None or progress.is_learner or raft.lead_transferee == target:
        return
    raft.lead_transferee = NONE
    if target == raft.id:
        return
    # It has one election timeout to take over.
    raft.election_elapsed = 0
    raft.lead_transferee = target
    raft.lease_void = True
    if progress.match == raft.log.last_index():
        raft.send(MessageType.TIMEOUT_NOW, target)
    else:
        maybe_send_append(raft, target, progress, send_if_empty=True)


LEADER: dict[MessageType, Handler] = {
    MessageType.BEAT: _beat,
    MessageType.CHECK_QUORUM: _check_quorum,
    MessageType.PROP: _propose,
    MessageType.READ_INDEX: _read_index,
    MessageType.APP_RESP: _append_response,
    MessageType.HEARTBEAT_RESP: _heartbeat_response,
    MessageType.SNAP_STATUS: _snapshot_status,
    MessageType.UNREACHABLE: _unreachable,
    MessageType.TRANSFER_LEADER: _transfer_leader,
}
