"""The face of Raft's core: feed it messages and ticks, do what each Ready says, tell it when that is done.

The loop of a caller:

    while True:
        node.step(message) or node.tick() or node.propose_many(...)    whatever happens next
        if node.has_ready() and no Ready is being worked on:
            ready = node.ready()
            persist, send, apply                                       in the order that `Ready` states
            node.advance()

Between `ready` and `advance` messages, ticks and proposals may come in; they show in the next Ready. So the
write may be done on another thread while this one goes on listening. No other use by several threads is safe.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller_core.raft.confchange.changes import ConfChange, ConfChangeV2, encode_conf_change
from controller_core.raft.config import Config
from controller_core.raft.core import Raft
from controller_core.raft.errors import LocalError, LocalMessageError, PeerNotFoundError
from controller_core.raft.log.sizes import entries_size_bytes, payload_size_bytes
from controller_core.raft.log.storage import Storage
from controller_core.raft.membership import apply_conf_change, note_applied, restore_membership
from controller_core.raft.reads import lease_ticks_left
from controller_core.raft.replication import forget_uncommitted
from controller_core.raft.step import step, tick, ticks_until_due
from controller_core.raft.tracker.progress import ProgressStatus
from controller_core.raft.types import (
    NO_INDEX,
    NO_TERM,
    ConfState,
    Entry,
    EntryType,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Ready,
    Snapshot,
    StateType,
    Term,
)

_LOCAL = frozenset(
    (
        MessageType.HUP,
        MessageType.BEAT,
        MessageType.UNREACHABLE,
        MessageType.SNAP_STATUS,
        MessageType.CHECK_QUORUM,
        MessageType.STORAGE_APPEND,
        MessageType.STORAGE_APPEND_RESP,
        MessageType.STORAGE_APPLY,
        MessageType.STORAGE_APPLY_RESP,
        MessageType.FORGET_LEADER,
    )
)
_RESPONSES = frozenset(
    (
        MessageType.APP_RESP,
        MessageType.VOTE_RESP,
        MessageType.PRE_VOTE_RESP,
        MessageType.HEARTBEAT_RESP,
        MessageType.READ_INDEX_RESP,
    )
)


@dataclass(frozen=True, slots=True)
class Status:
    """A node as seen from inside; `progress` is filled on a leader only."""

    id: NodeId
    term: Term
    vote: NodeId
    lead: NodeId
    role: StateType
    commit: LogIndex
    applied: LogIndex
    last_index: LogIndex
    lead_transferee: NodeId
    conf_state: ConfState
    progress: dict[int, ProgressStatus]


@dataclass(slots=True)
class _Accepted:
    """What `advance` has to do for the Ready that was handed out."""

    term: int
    to_self: list[Message]
    last_index: int = 0
    last_term: int = 0
    snapshot: Snapshot | None = None
    committed: tuple[Entry, ...] = field(default=())
    committed_bytes: int = 0


class RawNode:
    """One node of a Raft cluster, without clock, network or disk."""

    __slots__ = ("_accepted", "_previous_hard", "_previous_soft", "_raft")

    def __init__(self, config: Config, storage: Storage) -> None:
        """Start from what `storage` holds.

        Raises:
            RaftConfigError: a setting is out of range.
            ConfChangeError: the stored membership is not a valid one.
        """
        raft = Raft(config, storage)
        hard_state, conf_state = storage.initial_state()
        restore_membership(raft, conf_state)
        raft.load(hard_state)
        raft.become_follower(raft.term, 0)
        self._raft = raft
        self._accepted: _Accepted | None = None
        self._previous_hard = raft.hard_state()
        self._previous_soft = raft.soft_state()

    # -- input

    def tick(self) -> None:
        """Let one tick pass."""
        tick(self._raft)

    def ticks_until_due(self) -> int:
        """Return after how many ticks one does more than count, at least 1, unless a message comes first."""
        return ticks_until_due(self._raft)

    def step(self, message: Message) -> None:
        """Take a message from another node.

        Raises:
            LocalMessageError: its type never travels between nodes.
            PeerNotFoundError: it is a response from a node that is not a member.
            ProposalDroppedError: it is a forwarded proposal or read, and this node cannot take it now.
        """
        if message.type in _LOCAL:
            raise LocalMessageError
        if message.type in _RESPONSES and message.from_ not in self._raft.tracker.progress:
            raise PeerNotFoundError
        step(self._raft, message)

    def propose(self, data: bytes) -> None:
        """Propose one command; see `propose_many`."""
        self.propose_many((data,))

    def propose_many(self, commands: Iterable[bytes]) -> None:
        """Propose commands to be appended as consecutive entries: all or none, in one message a follower.

        A follower passes them to the leader; it does not learn whether the leader took them.

        Raises:
            ProposalDroppedError: no leader, or it cannot take them now; nothing was appended here.
        """
        entries = tuple(Entry(NO_TERM, NO_INDEX, EntryType.NORMAL, data) for data in commands)
        if entries:
            self._propose(entries)

    def propose_conf_change(self, change: ConfChange | ConfChangeV2) -> None:
        """Propose a change of membership; it is replaced by an empty entry if it may not be made now.

        Raises:
            ProposalDroppedError: as for `propose_many`.
        """
        kind, data = encode_conf_change(change)
        self._propose((Entry(NO_TERM, NO_INDEX, kind, data),))

    def apply_conf_change(self, change: ConfChange | ConfChangeV2) -> ConfState:
        """Make a committed change take effect when it is applied, and return the new membership.

        Raises:
            ConfChangeError: it does not fit; nothing changed. Every node gets this error.
        """
        return apply_conf_change(self._raft, change.as_v2())

    def campaign(self) -> None:
        """Begin an election now if this node may."""
        self._step_own(MessageType.HUP)

    def read_index(self, context: bytes) -> None:
        """Ask for the index at which a linearizable read is good.

        It comes in `Ready.read_states` with `context`.

        It may never come (no leader, messages lost): ask again with a new context. Contexts must be unique,
        also across nodes and restarts.

        Raises:
            ProposalDroppedError: no leader is known, or too many reads are waiting.
        """
        if not context:
            raise LocalError("read_index needs a context that is not empty")
        entries = (Entry(NO_TERM, NO_INDEX, EntryType.NORMAL, context),)
        step(self._raft, Message(MessageType.READ_INDEX, from_=NodeId(self._raft.id), entries=entries))

    def transfer_leadership(self, to: int) -> None:
        """Ask that `to` become the leader; it may not come about, watch `status`."""
        step(self._raft, Message(MessageType.TRANSFER_LEADER, from_=NodeId(to)))

    def forget_leader(self) -> None:
        """Make a follower forget its leader, so that it may vote at once; ignored under leases."""
        self._step_own(MessageType.FORGET_LEADER)

    def report_unreachable(self, node: int) -> None:
        """Tell that the last message to `node` could not be sent."""
        step(self._raft, Message(MessageType.UNREACHABLE, from_=NodeId(node)))

    def report_snapshot(self, node: int, ok: bool) -> None:
        """Tell whether the snapshot sent to `node` arrived.

        Without this call, `node` gets no more messages.
        """
        step(self._raft, Message(MessageType.SNAP_STATUS, from_=NodeId(node), reject=not ok))

    # -- output

    def has_ready(self) -> bool:
        """Return whether `ready` would tell of anything."""
        raft = self._raft
        log = raft.log
        return bool(
            raft.messages
            or raft.messages_after_append
            or log.unstable.has_next_entries()
            or log.has_next_committed()
            or raft.read_states
            or log.unstable.next_snapshot() is not None
            or self._state_changed()
        )

    def ready(self) -> Ready:
        """Return the work to do now; `advance` must follow before the next call.

        Raises:
            LocalError: the Ready before was not advanced.
        """
        if self._accepted is not None:
            raise LocalError("two accepted Ready structs without call to advance")
        raft = self._raft
        soft, hard = raft.soft_state(), raft.hard_state()
        entries = raft.log.unstable.next_entries()
        to_self = [message for message in raft.messages_after_append if message.to == raft.id]
        promises = [message for message in raft.messages_after_append if message.to != raft.id]
        previous = self._previous_hard
        ready = Ready(
            soft_state=soft if soft != self._previous_soft else None,
            hard_state=hard if hard != previous else None,
            read_states=tuple(raft.read_states),
            entries=entries,
            snapshot=raft.log.unstable.next_snapshot(),
            committed_entries=raft.log.next_committed(),
            messages=(*raft.messages, *promises),
            must_sync=bool(entries) or hard.vote != previous.vote or hard.term != previous.term,
        )
        self._previous_soft, self._previous_hard = soft, hard
        self._accept(ready, to_self)
        return ready

    def advance(self) -> None:
        """Tell that the last Ready is persisted, sent and applied.

        Raises:
            LocalError: no Ready was handed out.
        """
        accepted = self._accepted
        if accepted is None:
            raise LocalError("advance without a Ready")
        self._accepted = None
        raft = self._raft
        for message in accepted.to_self:
            step(raft, message)
        # Entries written under a lower term may have been replaced since; their term does not show that.
        if accepted.last_index and accepted.term == raft.term:
            raft.log.unstable.stable_to(accepted.last_index, accepted.last_term)
        if accepted.snapshot is not None:
            raft.log.unstable.stable_snapshot_to(accepted.snapshot.index)
            note_applied(raft, accepted.snapshot.index, 0)
        if accepted.committed:
            note_applied(raft, accepted.committed[-1].index, accepted.committed_bytes)
            forget_uncommitted(raft, payload_size_bytes(accepted.committed))

    # -- what observers ask

    def status(self) -> Status:
        """Return a copy of the node's state."""
        raft = self._raft
        progress: dict[int, ProgressStatus] = {}
        if raft.role == StateType.LEADER:
            progress = {node: peer.status() for node, peer in raft.tracker.progress.items()}
        return Status(
            id=NodeId(raft.id),
            term=Term(raft.term),
            vote=NodeId(raft.vote),
            lead=NodeId(raft.lead),
            role=raft.role,
            commit=LogIndex(raft.log.committed),
            applied=LogIndex(raft.log.applied),
            last_index=LogIndex(raft.log.last_index()),
            lead_transferee=NodeId(raft.lead_transferee),
            conf_state=raft.tracker.membership.conf_state(),
            progress=progress,
        )

    @property
    def is_leader(self) -> bool:
        """Whether this node believes to lead."""
        return self._raft.role == StateType.LEADER

    @property
    def leader_id(self) -> NodeId:
        """The leader as far as known, 0 for none."""
        return NodeId(self._raft.lead)

    @property
    def term(self) -> Term:
        """The present term."""
        return Term(self._raft.term)

    @property
    def commit_index(self) -> LogIndex:
        """The highest index known to be committed."""
        return LogIndex(self._raft.log.committed)

    @property
    def commit_term(self) -> Term:
        """The term of the entry at the commit index; 0 without one."""
        return Term(self._raft.log.term_or_zero(self._raft.log.committed))

    @property
    def last_index(self) -> LogIndex:
        """The index of the last entry of the log, or of the snapshot it follows."""
        return LogIndex(self._raft.log.last_index())

    @property
    def vote(self) -> NodeId:
        """The node for which this node voted in the present term; 0 for none."""
        return NodeId(self._raft.vote)

    @property
    def hears_leader(self) -> bool:
        """Whether the leader that is known has shown itself lately, or is this node.

        A voter that hears nothing forgets its leader and campaigns; others do neither.
        """
        raft = self._raft
        patience_ticks = 2 * raft.patience.ticks
        return raft.lead != 0 and (raft.role == StateType.LEADER or raft.election_elapsed < patience_ticks)

    @property
    def conf_change_pending(self) -> bool:
        """Whether an unapplied membership change would turn another one proposed now into an empty entry."""
        raft = self._raft
        return raft.pending_conf_index > raft.log.applied or raft.tracker.membership.is_joint()

    def has_valid_lease(self) -> bool:
        """Return whether this leader may answer a read at its own commit index, without asking anybody.

        Needs `Config.read_only` LEASE_BASED. Ticks are the clock: if the process was stopped, tick for the
        time it missed before asking.
        """
        return lease_ticks_left(self._raft) > 0

    def set_randomized_election_ticks(self, ticks: int) -> None:
        """Replace the drawn election timeout of the present wait; for tests and scenarios."""
        self._raft.randomized_election_ticks = ticks

    def _state_changed(self) -> bool:
        """Return whether soft or hard state differs from the last reported ones. Runs after every message."""
        raft, soft, hard = self._raft, self._previous_soft, self._previous_hard
        return (
            raft.log.committed != hard.commit
            or raft.term != hard.term
            or raft.vote != hard.vote
            or raft.lead != soft.lead
            or raft.role != soft.state
        )

    def _propose(self, entries: Sequence[Entry]) -> None:
        step(self._raft, Message(MessageType.PROP, from_=NodeId(self._raft.id), entries=tuple(entries)))

    def _step_own(self, kind: MessageType) -> None:
        step(self._raft, Message(kind, from_=NodeId(self._raft.id)))

    def _accept(self, ready: Ready, to_self: list[Message]) -> None:
        raft = self._raft
        accepted = _Accepted(raft.term, to_self, snapshot=ready.snapshot, committed=ready.committed_entries)
        if raft.log.unstable.entries:
            accepted.last_index = raft.log.last_index()
            accepted.last_term = raft.log.last_term()
        self._accepted = accepted
        raft.messages, raft.messages_after_append, raft.read_states = [], [], []
        raft.log.unstable.accept_in_progress()
        if ready.committed_entries:
            last = ready.committed_entries[-1].index
            accepted.committed_bytes = entries_size_bytes(ready.committed_entries)
            raft.log.accept_applying(last, accepted.committed_bytes)
