"""What a node takes and answers: its settings, its state machine, its transport, its errors, its status."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from controller_core.log.view import Batch
from controller_core.raft.config import Config, ReadOnlyOption
from controller_core.raft.log.storage import Storage
from controller_core.raft.tracker.progress import ProgressStatus
from controller_core.raft.types import ConfState, LogIndex, Message, Ready, Snapshot, StateType

TICK_MS = 10
ELECTION_TIMEOUT_MS = 300
PATIENCE_FACTOR_MAX = 4
"""A node that lacks CPU comes to wait as long as etcd's nodes do by default, 1,000 to 2,000 ms."""
HEARTBEAT_INTERVAL_MS = 70
SNAPSHOT_ENTRIES = 10_000
ENTRIES_KEPT = 1_000
PROPOSALS_MAX = 20_000
ENTRY_BYTES_MAX = 1 << 20
"""Bytes of one command in the log; a larger one is never proposed."""
INFLIGHT_BYTES_MAX = 8 * 1024 * 1024
"""Entries on their way to one follower: 1 Gbit/s filled over 64 ms, and all that a deaf follower costs in
memory."""

ROLE_NUMBERS = {
    StateType.FOLLOWER: 2,
    StateType.CANDIDATE: 1,
    StateType.PRE_CANDIDATE: 1,
    StateType.LEADER: 3,
}
"""What a node's status shows for its role; 0 is a node that has ended."""


class NotLeaderError(Exception):
    """This node does not lead; nothing happened.

    Attributes:
        leader_id: Raft id of the leader; None if unknown.
    """

    def __init__(self, leader_id: int | None) -> None:
        super().__init__(
            "this node does not lead; " + (f"node {leader_id} does" if leader_id else "nobody is known to")
        )
        self.leader_id = leader_id


class CommandDroppedError(Exception):
    """The log could not take the command now; nothing happened."""


class FollowerLagsError(Exception):
    """This node is too many entries behind the leader to serve a read; nothing was read."""

    def __init__(self, lag: int) -> None:
        super().__init__(f"this node is {lag} entries behind the leader")


class ReadLateError(Exception):
    """The leader's index did not come, or was not applied here in time; nothing was read."""

    def __init__(self) -> None:
        super().__init__("the leader's index did not come, or was not applied here in time")


class ProposalLostError(Exception):
    """Leadership was lost, or the node ended, before the command was applied here; it may yet be applied."""


class ChangeUnderWayError(Exception):
    """Another change of membership is not applied yet; nothing happened."""

    def __init__(self) -> None:
        super().__init__("another change of membership is under way")


class ChangeRefusedError(Exception):
    """A change of membership does not fit the membership that there is; nothing changed."""


class StateMachine(Protocol):
    """What the log is for. Calls come from the loop's thread, one at a time."""

    def apply(self, index: int, term: int, data: bytes) -> object:
        """Apply one command and return its result; an exception ends the node."""
        ...

    def snapshot(self) -> bytes:
        """Return the whole state as bytes; never none."""
        ...

    def restore(self, data: bytes) -> None:
        """Replace the state by what `snapshot` returned here or on another node."""
        ...

    def problem_with(self, index: int, data: bytes) -> str | None:
        """Say why `data`, from a snapshot at `index`, cannot replace the state; None if it can."""
        ...


class Store(Storage, Protocol):
    """The log with both of its sides: what `DiskStore` and `MemoryStore` have in common."""

    def prepare(self, ready: Ready) -> Batch:
        """Take the durable part of a `Ready`."""
        ...

    def write(self, batch: Batch) -> None:
        """Put a batch on disk; blocks."""
        ...

    def commit(self, batch: Batch) -> None:
        """Make a written batch visible to the reads."""
        ...

    def build_snapshot(self, index: LogIndex, conf_state: ConfState, data: bytes) -> Snapshot:
        """Return a snapshot with the log's term at its index."""
        ...

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Put a snapshot on disk; blocks."""
        ...

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Make a written snapshot the newest one."""
        ...

    def compact(self, index: LogIndex) -> None:
        """Forget entries up to and including `index`."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


class Receiver(Protocol):
    """What a transport tells the node."""

    def receive(self, message: Message) -> None:
        """Take a message from another node.

        Raises:
            RefusedMessageError: no member sends such a message; nothing happened.
        """
        ...

    def peer_unreachable(self, node_id: int) -> None:
        """Learn that a message to a node could not be sent."""
        ...

    def snapshot_sent(self, node_id: int, ok: bool) -> None:
        """Learn whether a snapshot message left this process."""
        ...


class Transport(Protocol):
    """Carries messages between nodes; may lose, delay and repeat them, never blocks."""

    async def start(self, receiver: Receiver) -> None:
        """Begin to carry."""
        ...

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages in order to each node."""
        ...

    async def stop(self) -> None:
        """Stop carrying."""
        ...


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings of a node that drive Raft."""

    node_id: int
    """Raft id of this node, from 1."""
    tick_ms: int = TICK_MS
    """Length of a tick; all times below are rounded to it.

    A shorter tick costs CPU, a longer one precision.
    """
    election_timeout_ms: int = ELECTION_TIMEOUT_MS
    """Silence of the leader before a node campaigns, randomised up to twice that."""
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    """Time between a leader's heartbeats; at most a third of the election timeout is sensible."""
    snapshot_entries: int = SNAPSHOT_ENTRIES
    """Applied entries between two snapshots."""
    entries_kept: int = ENTRIES_KEPT
    """Entries kept behind a snapshot for followers that are a little late."""
    proposals_max: int = PROPOSALS_MAX
    """Commands that wait for the log or for their commit; more are dropped."""

    @property
    def election_ticks(self) -> int:
        """Return the election timeout in ticks."""
        return max(self.election_timeout_ms // self.tick_ms, self.heartbeat_ticks + 1)

    @property
    def heartbeat_ticks(self) -> int:
        """Return the heartbeat interval in ticks."""
        return max(self.heartbeat_interval_ms // self.tick_ms, 1)

    @property
    def ticks_at_once_max(self) -> int:
        """Return how many ticks may pass without a look at what others sent.

        It is less than half an election timeout.
        """
        return max(self.election_ticks // 3, 1)

    @property
    def lease_margin_ticks(self) -> int:
        """Return how much earlier than followers' patience the lease ends.

        It covers rounding, and clocks 10 % apart.
        """
        return min(2 + -(-self.election_ticks // 10), self.election_ticks - 1)

    def core_config(self, applied: int) -> Config:
        """Return the core's settings: pre-vote, check-quorum and leases, and no forwarding of commands.

        Args:
            applied: index up to which the state machine holds the log already.
        """
        return Config(
            id=self.node_id,
            election_ticks=self.election_ticks,
            patience_factor_max=PATIENCE_FACTOR_MAX,
            heartbeat_ticks=self.heartbeat_ticks,
            pre_vote=True,
            check_quorum=True,
            read_only=ReadOnlyOption.LEASE_BASED,
            lease_margin_ticks=self.lease_margin_ticks,
            applied=applied,
            inflight_bytes_max=INFLIGHT_BYTES_MAX,
            disable_proposal_forwarding=True,
            step_down_on_removal=True,
            jitter=random.SystemRandom().randrange,
        )


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as seen from inside; `progress` is filled on a leader only."""

    node_id: int
    role: int
    term: int
    leader_id: int | None
    is_leader: bool
    first_index: int
    last_index: int
    commit_index: int
    applied_index: int
    snapshot_index: int
    conf_state: ConfState
    progress: dict[int, ProgressStatus]
