"""The state of one node of Raft, and the few moves every rule is made of: send a message, change role.

Roles and the moves between them:

                 timeout, pre-vote        quorum would vote            quorum voted
    FOLLOWER ------------------> PRE_CANDIDATE ------------> CANDIDATE ------------> LEADER
       ^                              |   ^                      |                      |
       |  higher term, vote lost,     |   | timeout              |                      |
       +-- a leader of this term -----+---+----------------------+--- higher term, quorum not active

Without pre-vote a follower becomes a candidate at once. The rules that move messages and terms are in `step`,
`roles`, `replication`, `membership` and `reads`; they are functions over this state,
so that each file holds one idea. This file decides nothing by itself and, like them, does no I/O: time comes
as `tick`, randomness as `Config.jitter`, and output leaves as `messages` and `messages_after_append`.

Two queues of output, because some messages are promises. A vote or an acknowledgement of entries says "this
is on my disk"; it waits in `messages_after_append` until the Ready that holds the vote or the entries has
been persisted. The node's own vote and its own acknowledgement wait there too, addressed to itself.

Source: Raft thesis 3; etcd raft 3.6.
"""

from dataclasses import replace

from controller_core.raft.config import Config, ReadOnlyOption, fixed_jitter
from controller_core.raft.errors import invariant
from controller_core.raft.log.raft_log import RaftLog
from controller_core.raft.log.storage import Storage
from controller_core.raft.patience import Patience
from controller_core.raft.read_only import ReadOnly
from controller_core.raft.tracker.progress import Progress
from controller_core.raft.tracker.tracker import ProgressTracker
from controller_core.raft.types import (
    Entry,
    HardState,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    ReadState,
    Snapshot,
    SoftState,
    StateType,
    Term,
)

NONE = 0
"""No node: no leader, no vote."""

PROMISES = frozenset((MessageType.APP_RESP, MessageType.VOTE_RESP, MessageType.PRE_VOTE_RESP))
"""Messages that may leave only when what they promise is on stable storage."""


class Raft:
    """The whole state of a node; see the module docstring for who changes what."""

    __slots__ = (
        "check_quorum",
        "config",
        "election_elapsed",
        "heartbeat_elapsed",
        "id",
        "is_learner",
        "jitter",
        "lead",
        "lead_transferee",
        "lease_void",
        "log",
        "messages",
        "messages_after_append",
        "patience",
        "pending_conf_index",
        "pending_read_requests",
        "randomized_election_ticks",
        "read_only",
        "read_states",
        "role",
        "term",
        "tick_count",
        "tracker",
        "uncommitted_bytes",
        "vote",
        "vote_refused_until_tick",
    )

    def __init__(self, config: Config, storage: Storage) -> None:
        config.validate()
        self.config = config
        self.id = config.id
        self.check_quorum = config.check_quorum
        self.jitter = config.jitter or fixed_jitter(config.id)
        self.log = RaftLog(storage, config.applying_limit_bytes())
        self.tracker = ProgressTracker(config.inflight_messages_max, config.inflight_bytes_max)
        self.term = 0
        self.vote = NONE
        self.lead = NONE
        self.role = StateType.FOLLOWER
        self.is_learner = False
        # The transferee: the node to which this leader hands leadership over.
        self.lead_transferee = NONE
        # Highest index that may hold a change of membership not applied yet; the next waits until it is
        # applied.
        self.pending_conf_index = 0
        # Payload bytes of our proposals that are not known to be committed (an estimate, see `replication`).
        self.uncommitted_bytes = 0
        self.messages: list[Message] = []
        self.messages_after_append: list[Message] = []
        self.read_only = ReadOnly()
        self.read_states: list[ReadState] = []
        # Reads that came before our first commit in this term.
        self.pending_read_requests: list[Message] = []
        # Ticks since we last heard from a leader (follower), or since the last check of the quorum (leader).
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.patience = Patience(config.election_ticks, config.patience_factor_max)
        self.randomized_election_ticks = config.election_ticks
        # Ticks since the start; stamps heartbeats for the lease.
        self.tick_count = 0
        # A transfer of leadership makes others vote in spite of our lease: no lease until the next term.
        self.lease_void = False
        # Under leases: what we owe to the leader we answered last. After a start we may have forgotten whom.
        self.vote_refused_until_tick = 0

    def load(self, hard_state: HardState) -> None:
        """Take over the hard state of storage and the caller's applied index.

        The stored commit index may be behind: it is not worth an fsync. What a snapshot holds, and what the
        caller has applied, is committed whatever it says.
        """
        last = self.log.last_index()
        committed = max(hard_state.commit, self.log.committed, self.config.applied)
        invariant(
            committed <= last,
            "committed past the stored log: was it truncated?",
            committed=committed,
            last=last,
        )
        self.log.committed, self.term, self.vote = committed, hard_state.term, hard_state.vote
        if self.config.applied > self.log.applied:
            self.log.applied_to(self.config.applied, 0)
        if self.has_lease_option() and self.term > 0:
            self.vote_refused_until_tick = self.config.election_ticks

    # -- state for observers and the Ready

    def soft_state(self) -> SoftState:
        """Return role and leader."""
        return SoftState(lead=NodeId(self.lead), state=self.role)

    def hard_state(self) -> HardState:
        """Return the state that must be on stable storage."""
        return HardState(term=Term(self.term), vote=NodeId(self.vote), commit=LogIndex(self.log.committed))

    # -- output

    def send(
        self,
        kind: MessageType,
        to: int,
        *,
        term: int | None = None,
        log_term: int = 0,
        index: int = 0,
        entries: tuple[Entry, ...] = (),
        commit: int = 0,
        snapshot: Snapshot | None = None,
        reject: bool = False,
        reject_hint: int = 0,
        context: bytes = b"",
    ) -> None:
        """Queue a message from this node; its term is our own unless `term` is given."""
        message = Message(
            kind,
            NodeId(to),
            NodeId(self.id),
            Term(self.term if term is None else term),
            Term(log_term),
            LogIndex(index),
            entries,
            LogIndex(commit),
            NodeId(NONE),
            snapshot,
            reject,
            LogIndex(reject_hint),
            context,
        )
        self.enqueue(message)

    def forward(self, message: Message, to: int, *, term: int = 0) -> None:
        """Queue a request for the leader on behalf of its sender (this node if the sender is not set)."""
        self.enqueue(replace(message, to=NodeId(to), from_=NodeId(message.from_ or self.id), term=Term(term)))

    def enqueue(self, message: Message) -> None:
        """Queue a finished message, behind the write that it promises where it promises one."""
        if message.type in PROMISES:
            self.messages_after_append.append(message)
            return
        invariant(message.to != self.id, "a message to ourselves", type=message.type)
        self.messages.append(message)

    # -- roles

    def reset(self, term: int) -> None:
        """Forget everything that belonged to the role and, if `term` is new, the vote."""
        if self.term != term:
            self.term = term
            self.vote = NONE
        self.lead = NONE
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.draw_election_timeout()
        self.lead_transferee = NONE
        self.lease_void = False
        self.tracker.votes.clear()
        self._reset_progress()
        self.pending_conf_index = 0
        self.uncommitted_bytes = 0
        self.read_only = ReadOnly()
        self.pending_read_requests.clear()

    def become_follower(self, term: int, lead: int) -> None:
        """Follow `lead` (0: unknown) at `term`."""
        self.reset(term)
        self.lead = lead
        self.role = StateType.FOLLOWER

    def become_candidate(self) -> None:
        """Enter the next term and vote for ourselves."""
        invariant(self.role != StateType.LEADER, "invalid transition [leader -> candidate]")
        self.reset(self.term + 1)
        self.vote = self.id
        self.role = StateType.CANDIDATE

    def become_pre_candidate(self) -> None:
        """Ask around without touching term or vote; the timers go on."""
        invariant(self.role != StateType.LEADER, "invalid transition [leader -> pre-candidate]")
        self.tracker.votes.clear()
        self.lead = NONE
        self.role = StateType.PRE_CANDIDATE

    def become_leader(self) -> None:
        """Lead at the present term; the caller appends the first entry of the term (see `roles.election`)."""
        invariant(self.role != StateType.FOLLOWER, "invalid transition [follower -> leader]")
        self.reset(self.term)
        self.lead = self.id
        self.role = StateType.LEADER
        own = self.tracker.progress[self.id]
        own.become_replicate()
        own.recent_active = True
        # There may be an unapplied change of membership in the log; finding out could be slow, assuming so is
        # safe.
        self.pending_conf_index = self.log.last_index()

    def promotable(self) -> bool:
        """Return whether this node may campaign: a voter, with no snapshot still to be applied."""
        own = self.tracker.progress.get(self.id)
        return own is not None and not own.is_learner and self.log.unstable.snapshot is None

    def draw_election_timeout(self) -> None:
        """Draw the ticks of silence after which we campaign, from [n, 2n) for a patience of n."""
        self.randomized_election_ticks = self.patience.ticks + self.jitter(self.patience.ticks)

    def has_lease_option(self) -> bool:
        """Return whether reads may rely on a lease."""
        return self.config.read_only == ReadOnlyOption.LEASE_BASED

    def promise_leader(self) -> None:
        """Under leases.

        After a message from a leader, do not vote for another node for one election timeout.
        """
        if self.has_lease_option():
            self.vote_refused_until_tick = self.tick_count + self.config.election_ticks

    def _reset_progress(self) -> None:
        last = self.log.last_index()
        for node, old in self.tracker.progress.items():
            self.tracker.progress[node] = Progress(
                match=last if node == self.id else 0,
                next_=last + 1,
                inflights=self.tracker.new_inflights(),
                is_learner=old.is_learner,
            )
