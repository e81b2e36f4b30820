"""A group of Raft nodes in one process, without time: messages move when `pump` is called.

For unit tests that look at one rule. Each node has a memory store and applies by collecting data. A link can
be cut; a filter can look at every message and drop it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from controller_core.log.memory import MemoryStore
from controller_core.raft.confchange.changes import decode_conf_change
from controller_core.raft.config import Config
from controller_core.raft.errors import PeerNotFoundError, ProposalDroppedError
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import (
    ConfState,
    EntryType,
    HardState,
    LogIndex,
    Message,
    NodeId,
    ReadState,
    Ready,
    Snapshot,
    StateType,
    Term,
)

ROUNDS_MAX = 1000
"""Rounds of `pump` before a group is called restless."""


@dataclass(slots=True)
class RaftMember:
    """One node with its store and what it has applied."""

    config: Config
    store: MemoryStore
    raw: RawNode = field(init=False)
    applied: list[bytes] = field(default_factory=list)
    reads: list[ReadState] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.raw = RawNode(self.config, self.store)

    def work(self) -> list[Message]:
        """Do what all Readys ask for and return the messages to be sent."""
        messages: list[Message] = []
        while self.raw.has_ready():
            ready = self.raw.ready()
            self.store.commit(self.store.prepare(ready))
            self._apply(ready)
            messages.extend(ready.messages)
            self.raw.advance()
        return messages

    def _apply(self, ready: Ready) -> None:
        if ready.snapshot is not None:
            self.applied = ready.snapshot.data.split(b"\n")[:-1]
        for entry in ready.committed_entries:
            if entry.type != EntryType.NORMAL:
                self.raw.apply_conf_change(decode_conf_change(entry))
            elif entry.data:
                self.applied.append(entry.data)
        self.reads.extend(ready.read_states)

    def compact(self) -> None:
        """Snapshot all that is applied and forget the entries."""
        status = self.raw.status()
        self.store.create_snapshot(
            status.applied, status.conf_state, b"".join(one + b"\n" for one in self.applied)
        )
        self.store.compact(status.applied)


class RaftGroup:
    """Nodes, and the messages between them."""

    def __init__(self, *nodes: int, learners: Iterable[int] = (), **settings: object) -> None:
        """Start `nodes` as voters with `learners`, from a common snapshot at index 1."""
        learners = tuple(learners)
        members = ConfState(tuple(map(NodeId, nodes)), learners=tuple(map(NodeId, learners)))
        snapshot = Snapshot(LogIndex(1), Term(0), members)
        self.dropped: Callable[[Message], bool] = lambda _message: False
        self.members: dict[int, RaftMember] = {}
        for node in (*nodes, *learners):
            self.add(node, snapshot, **settings)

    def add(self, node: int, snapshot: Snapshot | None = None, **settings: object) -> RaftMember:
        """Add a node; without a snapshot it knows no member."""
        store = MemoryStore()
        if snapshot is not None:
            store.apply_snapshot(snapshot)
        config = replace(Config(id=node), **settings)  # type: ignore[arg-type]  # settings are Config's fields
        self.members[node] = RaftMember(config, store)
        return self.members[node]

    def __getitem__(self, node: int) -> RawNode:
        return self.members[node].raw

    def pump(self) -> None:
        """Do all work and deliver all messages until nothing is left."""
        for _ in range(ROUNDS_MAX):
            messages = [message for member in self.members.values() for message in member.work()]
            if not messages:
                return
            self.deliver(messages)
        raise AssertionError(f"the group is not quiet after {ROUNDS_MAX} rounds")

    def deliver(self, messages: Iterable[Message]) -> None:
        """Deliver messages unless the filter drops them."""
        for message in messages:
            if message.to in self.members and not self.dropped(message):
                try:
                    self[message.to].step(message)
                except (ProposalDroppedError, PeerNotFoundError):
                    continue

    def isolate(self, *nodes: int) -> None:
        """Cut `nodes` off from everybody."""
        self.dropped = lambda message: message.to in nodes or message.from_ in nodes

    def heal(self) -> None:
        """Let all messages through again."""
        self.dropped = lambda _message: False

    def elect(self, node: int) -> None:
        """Make `node` leader and let the group settle."""
        self[node].campaign()
        self.pump()
        assert self[node].is_leader, f"node {node} was not elected"

    def tick(self, ticks: int, *nodes: int) -> None:
        """Let ticks pass on `nodes` (default all), settling after each."""
        for _ in range(ticks):
            for node in nodes or self.members:
                self[node].tick()
            self.pump()

    def leaders(self) -> list[int]:
        """Return who believes to lead."""
        return [node for node, member in self.members.items() if member.raw.status().role == StateType.LEADER]

    def restart(self, node: int) -> None:
        """Restart `node` from its store; it applies again what the store's snapshot does not cover."""
        old = self.members[node]
        snapshot = old.store.snapshot()
        member = RaftMember(old.config, old.store)
        member.applied = snapshot.data.split(b"\n")[:-1]
        self.members[node] = member

    def hard_state(self, node: int) -> HardState:
        """Return what `node` has on stable storage."""
        return self.members[node].store.initial_state()[0]
