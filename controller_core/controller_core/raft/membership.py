"""How the membership changes in a running cluster.

A change is an entry. It takes effect on a node when the node *applies* it, so at most one may be between
proposal and application; the leader keeps the index of the last one (`pending_conf_index`) and replaces any
further proposal by an empty entry until that is applied. The check is made against the configuration active
at the leader when the change is proposed, which is why it is called validation and not safety, and why a
caller that orders changes itself may turn it off.

If a joint configuration is left automatically, the leader does so as soon as it has applied the entry that
entered it.

Source: Raft thesis 4; etcd raft 3.6.
"""

from controller_core.raft.confchange.changer import Changed, Changer
from controller_core.raft.confchange.changes import ConfChangeDecodeError, ConfChangeV2, decode_conf_change
from controller_core.raft.confchange.restore import restore
from controller_core.raft.core import NONE, Raft
from controller_core.raft.errors import ProposalDroppedError, invariant
from controller_core.raft.replication import (
    append_proposals,
    broadcast_append,
    broadcast_new,
    commit_and_broadcast,
)
from controller_core.raft.types import NO_INDEX, NO_TERM, ConfState, Entry, EntryType, Snapshot, StateType


def filter_conf_changes(raft: Raft, entries: tuple[Entry, ...]) -> list[tuple[EntryType, bytes]]:
    """Return what a leader appends for proposed `entries`.

    A change that may not be made now becomes an empty entry.

    Raises:
        ProposalDroppedError: an entry of a membership change cannot be decoded.
    """
    proposals: list[tuple[EntryType, bytes]] = []
    for entry in entries:
        kind, data = entry.type, entry.data
        if kind != EntryType.NORMAL:
            if _refused_now(raft, entry):
                kind, data = EntryType.NORMAL, b""
            else:
                raft.pending_conf_index = raft.log.last_index() + len(proposals) + 1
        proposals.append((kind, data))
    return proposals


def apply_conf_change(raft: Raft, change: ConfChangeV2) -> ConfState:
    """Make a committed change of membership take effect here.

    Raises:
        ConfChangeError: it does not fit the active configuration; nothing was changed.
    """
    changer = Changer(raft.tracker, raft.log.last_index())
    if change.leaves_joint():
        changed = changer.leave_joint()
    elif change.enters_joint():
        changed = changer.enter_joint(change.changes, auto_leave=change.auto_leaves())
    else:
        changed = changer.simple(change.changes)
    return _switch_to(raft, changed)


def restore_membership(raft: Raft, conf_state: ConfState) -> None:
    """Take over the membership of a snapshot, or of storage at the start."""
    restored = _switch_to(raft, restore(raft.tracker, raft.log.last_index(), conf_state))
    invariant(
        _equivalent(restored, conf_state), "membership restored differs", want=conf_state, have=restored
    )


def restore_snapshot(raft: Raft, snapshot: Snapshot) -> bool:
    """Replace log and membership by `snapshot` unless we are past it or know its last entry.

    Return whether we did.
    """
    if snapshot.index <= raft.log.committed:
        return False
    invariant(raft.role == StateType.FOLLOWER, "a snapshot for a node that is not a follower", role=raft.role)
    members = snapshot.conf_state
    if raft.id not in {*members.voters, *members.learners, *members.voters_outgoing}:
        return False  # A misrouted snapshot: in the place it describes, we do not exist.
    if raft.log.matches(snapshot.index, snapshot.term):
        raft.log.commit_to(snapshot.index)
        return False
    raft.log.restore(snapshot)
    restore_membership(raft, members)
    return True


def note_applied(raft: Raft, index: int, size_bytes: int) -> None:
    """Note that the state machine has applied up to `index`; leave a joint configuration if it is time.

    Leaving is a proposal like any other and may be dropped, during a transfer of leadership; it is tried
    again with each entry applied, here or at the next leader.
    """
    raft.log.applied_to(max(index, raft.log.applied), size_bytes)
    due = raft.tracker.membership.auto_leave and raft.log.applied >= raft.pending_conf_index
    if (
        due
        and raft.role == StateType.LEADER
        and raft.id in raft.tracker.progress
        and raft.lead_transferee == NONE
    ):
        proposals = filter_conf_changes(raft, (Entry(NO_TERM, NO_INDEX, EntryType.CONF_CHANGE_V2),))
        invariant(append_proposals(raft, proposals), "an entry without data was dropped for its size")
        broadcast_append(raft)


def _refused_now(raft: Raft, entry: Entry) -> bool:
    try:
        change = decode_conf_change(entry).as_v2()
    except ConfChangeDecodeError as error:
        raise ProposalDroppedError(str(error)) from error
    pending = raft.pending_conf_index > raft.log.applied
    joint = raft.tracker.membership.is_joint()
    unfit = pending or joint == bool(change.changes)
    return unfit and not raft.config.disable_conf_change_validation


def _switch_to(raft: Raft, changed: Changed) -> ConfState:
    """Make a new membership the active one, and as leader do what follows from it."""
    tracker = raft.tracker
    tracker.membership, tracker.progress = changed
    conf_state = tracker.membership.conf_state()
    own = tracker.progress.get(raft.id)
    raft.is_learner = own is not None and own.is_learner
    if raft.role != StateType.LEADER:
        return conf_state
    if own is None or raft.is_learner:
        if raft.config.step_down_on_removal:
            raft.become_follower(raft.term, NONE)
        return conf_state
    if not conf_state.voters:
        return conf_state
    # A smaller quorum may have committed more by now; otherwise at least begin to send to new members.
    if not commit_and_broadcast(raft):
        broadcast_new(raft)
    if raft.lead_transferee not in (NONE, *tracker.membership.all_voters):
        raft.lead_transferee = NONE
    return conf_state


def _equivalent(first: ConfState, second: ConfState) -> bool:
    """Return whether the two describe the same membership; their order within a set does not matter."""

    def normal(state: ConfState) -> tuple[object, ...]:
        groups = (state.voters, state.voters_outgoing, state.learners, state.learners_next)
        return (*map(sorted, groups), state.auto_leave)

    return normal(first) == normal(second)
