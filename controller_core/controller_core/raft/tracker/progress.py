"""What a leader knows of one follower's log, and what it may therefore send.

A follower is in one of three states:

    PROBE      where the logs meet is unknown; one append message with entries at a time, then wait
    REPLICATE  `match` is known and moves; entries are streamed optimistically, as far as the window allows
    SNAPSHOT   the entries it needs are compacted; the leader sends a snapshot, and nothing else until it ends

    PROBE --acknowledged--> REPLICATE --rejected or unreachable--> PROBE
    PROBE or REPLICATE --entries compacted--> SNAPSHOT --acknowledged--> REPLICATE, --reported--> PROBE

Indexes: `match` is the highest index known to be on the follower, `next` the next one to send. Everything in
between is in flight.

Source: etcd raft 3.6, design.md "Progress".
"""

from dataclasses import dataclass
from enum import IntEnum

from controller_core.raft.errors import invariant
from controller_core.raft.tracker.inflights import Inflights


class ProgressState(IntEnum):
    """How the leader sends to a follower."""

    PROBE = 0
    REPLICATE = 1
    SNAPSHOT = 2


@dataclass(frozen=True, slots=True)
class ProgressStatus:
    """A copy of a follower's progress for observers."""

    state: ProgressState
    match: int
    next: int
    is_learner: bool
    paused: bool
    pending_snapshot: int
    recent_active: bool
    inflight_count: int
    inflight_full: bool


class Progress:
    """A follower's progress; every method keeps the invariant 0 <= match < next."""

    __slots__ = (
        "flow_paused",
        "inflights",
        "is_learner",
        "lease_tick",
        "match",
        "next",
        "pending_snapshot",
        "recent_active",
        "sent_commit",
        "state",
    )

    def __init__(
        self,
        match: int,
        next_: int,
        inflights: Inflights,
        *,
        is_learner: bool = False,
        recent_active: bool = False,
    ) -> None:
        self.match = match
        self.next = next_
        self.state = ProgressState.PROBE
        self.inflights = inflights
        self.is_learner = is_learner
        # Whether anything came from the follower since the last check of the quorum.
        self.recent_active = recent_active
        # The highest commit index in flight. In SNAPSHOT it equals pending_snapshot.
        self.sent_commit = 0
        # Index of the snapshot sent, in SNAPSHOT only.
        self.pending_snapshot = 0
        # No append may leave until an answer comes: a probe is out, or the window is full.
        self.flow_paused = False
        # Newest of our ticks at whose heartbeat the follower is known to have answered (see core.Lease).
        self.lease_tick = -1

    def clone(self) -> "Progress":
        """Return a copy that shares the window of messages in flight."""
        copy = Progress(
            self.match,
            self.next,
            self.inflights,
            is_learner=self.is_learner,
            recent_active=self.recent_active,
        )
        copy.state = self.state
        copy.sent_commit = self.sent_commit
        copy.pending_snapshot = self.pending_snapshot
        copy.flow_paused = self.flow_paused
        copy.lease_tick = self.lease_tick
        return copy

    def become_probe(self) -> None:
        """Search again for the point where the logs meet, from `match` or from the accepted snapshot."""
        taken = self.pending_snapshot if self.state == ProgressState.SNAPSHOT else 0
        self._reset(ProgressState.PROBE)
        self.next = max(self.match, taken) + 1
        self.sent_commit = min(self.sent_commit, self.next - 1)

    def become_replicate(self) -> None:
        """Stream entries from `match` + 1."""
        self._reset(ProgressState.REPLICATE)
        self.next = self.match + 1

    def become_snapshot(self, index: int) -> None:
        """Wait for the snapshot at `index`; the stream goes on after it."""
        self._reset(ProgressState.SNAPSHOT)
        self.pending_snapshot = index
        self.next = index + 1
        self.sent_commit = index

    def sent_entries(self, count: int, size_bytes: int) -> None:
        """Account for an append message just sent with `count` entries of `size_bytes` payload.

        An empty one in PROBE does not pause the flow: it carries nothing worth waiting for.
        """
        if self.state == ProgressState.REPLICATE:
            if count > 0:
                self.next += count
                self.inflights.add(self.next - 1, size_bytes)
            # When this message filled the window, or it was full before, treat the message as a probe.
            self.flow_paused = self.inflights.full()
        else:
            invariant(self.state == ProgressState.PROBE, "an append sent while a snapshot is awaited")
            if count > 0:
                self.flow_paused = True

    def can_bump_commit(self, commit: int) -> bool:
        """Return whether sending `commit` now could raise the follower's commit index.

        Up to `next` - 1 it can; entries that are on their way need not be sent twice.
        """
        return commit > self.sent_commit and self.sent_commit < self.next - 1

    def maybe_update(self, index: int) -> bool:
        """Take an acknowledgement of `index`; return False if it tells nothing new."""
        if index <= self.match:
            return False
        self.match = index
        self.next = max(self.next, index + 1)
        self.flow_paused = False
        return True

    def maybe_decrease_to(self, rejected: int, match_hint: int) -> bool:
        """Take a rejection of the append after `rejected`; return False if it is stale.

        In REPLICATE everything after `match` may be lost: go back to it. Otherwise the rejection is of the
        one probe in flight, and the next is placed by the follower's hint.
        """
        if self.state == ProgressState.REPLICATE:
            if rejected <= self.match:
                return False
            self.next = self.match + 1
        else:
            if self.next - 1 != rejected:
                return False
            self.next = max(min(rejected, match_hint + 1), self.match + 1)
            self.flow_paused = False
        self.sent_commit = min(self.sent_commit, self.next - 1)
        return True

    def paused(self) -> bool:
        """Return whether no append may be sent now."""
        return self.flow_paused or self.state == ProgressState.SNAPSHOT

    def status(self) -> ProgressStatus:
        """Return a copy for observers."""
        return ProgressStatus(
            state=self.state,
            match=self.match,
            next=self.next,
            is_learner=self.is_learner,
            paused=self.paused(),
            pending_snapshot=self.pending_snapshot,
            recent_active=self.recent_active,
            inflight_count=self.inflights.count(),
            inflight_full=self.inflights.full(),
        )

    def _reset(self, state: ProgressState) -> None:
        self.flow_paused = False
        self.pending_snapshot = 0
        self.state = state
        self.inflights.reset()
