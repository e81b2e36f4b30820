"""Raft nodes over loopback in one process: what the tests of the node and of its transport share.

All of them live on one loop. A test in which a leader is to stay one runs on
`loop_time.PatientUvloop`, and leaves the syncing to `troubled_disk.UnsyncedFiles`: else a stall of the
machine or of its disk would depose it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from controller_core.log.files import Files
from controller_core.log.memory import MemoryStore
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, LogIndex, NodeId, Snapshot, Term
from controller_core.server.node.raft_node import Node
from controller_core.server.node.types import NodeConfig, Store
from controller_core.server.peers.transport import PeerTransport
from testkit.processes.ports import free_port

LEADER_WITHIN_S = 60.0
"""How long anything of these nodes is waited for; only a test that hangs waits so long."""


class ListMachine:
    """A state machine that keeps the commands it applied, one a line; applying answers with their number."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.applied: list[tuple[int, int]] = []
        self.refuse: bytes | None = None
        self._news = asyncio.Event()

    def apply(self, index: int, term: int, data: bytes) -> object:
        """Keep a command."""
        if data == self.refuse:
            raise ValueError(f"cannot apply {data!r}")
        self.commands.append(data)
        self.applied.append((index, term))
        self._ring()
        return len(self.commands)

    def snapshot(self) -> bytes:
        """Return all commands, after a first line that is always there."""
        return b"\n".join([b"commands", *self.commands])

    def restore(self, data: bytes) -> None:
        """Replace the commands."""
        self.commands = data.split(b"\n")[1:]
        self._ring()

    def problem_with(self, index: int, data: bytes) -> str | None:
        """Take any commands."""
        return None

    async def reached(self, count: int) -> None:
        """Wait until so many commands are in the state."""
        while len(self.commands) < count:
            await self._news.wait()

    def _ring(self) -> None:
        bell, self._news = self._news, asyncio.Event()
        bell.set()


@dataclass
class ClusterNode:
    """One node of a `NodeCluster`."""

    node: Node
    machine: ListMachine
    transport: PeerTransport
    store: Store
    fatal: list[BaseException] = field(default_factory=list)
    leading: list[tuple[bool, int]] = field(default_factory=list)


class NodeCluster:
    """Nodes 1..n over loopback; with a directory their logs are on disk, else in memory."""

    def __init__(
        self,
        count: int = 3,
        directory: Path | None = None,
        *,
        make_store: Callable[[int], Store] | None = None,
        make_machine: Callable[[], ListMachine] = ListMachine,
        config: NodeConfig | None = None,
        files: Files | None = None,
    ) -> None:
        self.ids = list(range(1, count + 1))
        self.addresses = {node_id: ("127.0.0.1", free_port()) for node_id in self.ids}
        self.members: dict[int, ClusterNode] = {}
        self._directory = directory
        self._files = files
        self._make_machine = make_machine
        self._make_store = make_store or self._default_store
        self._config = config or NodeConfig(1)
        self._kept: dict[int, MemoryStore] = {}

    async def __aenter__(self) -> Self:
        """Start all nodes."""
        try:
            for node_id in self.ids:
                await self.start(node_id)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the nodes that run."""
        for node_id in list(self.members):
            await self.stop(node_id)

    async def start(self, node_id: int) -> ClusterNode:
        """Start a node, with the log it left."""
        store = self._make_store(node_id)
        machine = self._make_machine()
        transport = PeerTransport("test", node_id, self.addresses, bind_host="127.0.0.1")
        node = Node(replace(self._config, node_id=node_id), store, machine, transport)
        member = ClusterNode(node, machine, transport, store)
        node.on_fatal(member.fatal.append)
        node.on_leadership(lambda leads, term: member.leading.append((leads, term)))
        try:
            await node.start()
        except BaseException:
            await node.stop()
            raise
        self.members[node_id] = member
        return member

    async def start_empty(self, node_id: int) -> ClusterNode:
        """Start a node that belongs to no cluster and waits for an admission; others know its address."""
        self.addresses[node_id] = ("127.0.0.1", free_port())
        for member in self.members.values():
            member.transport.set_peer(node_id, self.addresses[node_id])
        if self._directory is not None:
            self._open(node_id, None).close()
        else:
            self._kept[node_id] = MemoryStore()
        return await self.start(node_id)

    async def stop(self, node_id: int) -> None:
        """Stop a node."""
        await self.members.pop(node_id).node.stop()

    async def leader(self, other_than: int = 0) -> ClusterNode:
        """Wait for a leader that has applied its first entry."""
        async with asyncio.timeout(LEADER_WITHIN_S):
            while True:
                for node_id, member in self.members.items():
                    if member.node.is_leader and node_id != other_than:
                        return member
                await asyncio.sleep(0.005)

    async def settle(self, count: int) -> None:
        """Wait until every running node has applied `count` commands."""
        async with asyncio.timeout(LEADER_WITHIN_S):
            for member in self.members.values():
                await member.machine.reached(count)

    def _default_store(self, node_id: int) -> Store:
        voters = ConfState(voters=tuple(NodeId(each) for each in self.ids))
        initial = Snapshot(LogIndex(1), Term(1), voters)
        if self._directory is not None:
            return self._open(node_id, initial)
        store = self._kept.setdefault(node_id, MemoryStore(initial))
        store.reopen()
        return store

    def _open(self, node_id: int, initial: Snapshot | None) -> DiskStore:
        assert self._directory is not None
        where, owner = self._directory / f"n{node_id}", f"test/{node_id}"
        return DiskStore.open(where, initial, owner=owner, files=self._files)
