"""One whole controller in this process: real ports on loopback, a log in memory, no peers."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller_core.channel.connection import Connection
from controller_core.groups.commands import Stamp
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.log.memory import MemoryStore
from controller_core.raft.types import ConfState, LogIndex, Message, NodeId, Snapshot, Term
from controller_core.server.clock import Clock
from controller_core.server.controller import Controller
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.node.raft_node import Node
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import NodeConfig, Receiver
from controller_core.server.settings.certificates import Tls
from controller_core.server.settings.config import load
from controller_core.server.settings.live_config import LiveConfig
from controller_core.tls.dialling import ClientTls
from testkit.clocks.patient_loop import patient_clocks
from testkit.fakes.broker import FakeBroker
from testkit.processes.ports import free_ports

_NS_PER_MS = 1_000_000
_LEADS_WITHIN_S = 60.0


class LoopClock(Clock):
    """Goes with the running loop: by this clock brokers are silent as long as by their own."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._monotonic_ns, self._utc_ns = patient_clocks()

    def stamp(self) -> Stamp:
        """Read both clocks now."""
        return Stamp(utc_ns=self._utc_ns(), monotonic_ns=self._monotonic_ns(), clock_id=self.clock_id)

    def stamp_at(self, monotonic_ms: int) -> Stamp:
        """Return the stamp of an earlier reading of the monotonic clock (milliseconds)."""
        now = self.stamp()
        monotonic_ns = monotonic_ms * _NS_PER_MS
        utc_ns = now.utc_ns - (now.monotonic_ns - monotonic_ns)
        return Stamp(utc_ns=utc_ns, monotonic_ns=monotonic_ns, clock_id=self.clock_id)

    def now_ms(self) -> int:
        """Read the monotonic clock in whole milliseconds."""
        return self._monotonic_ns() // _NS_PER_MS


class NoPeers:
    """The transport of a node that is alone."""

    async def start(self, receiver: Receiver) -> None:
        """Begin to carry nothing."""

    def send(self, messages: Iterable[Message]) -> None:
        """Nobody is there."""

    async def stop(self) -> None:
        """Stop carrying nothing."""


@dataclass
class OneNode:
    """A running node and where it listens."""

    controller: Controller
    machine: GroupsMachine
    node: Node
    config: LiveConfig
    heartbeats: HeartbeatReceiver
    remoting: str
    http: str

    def group(self, name: str = "b1") -> Group:
        """Return the record of a group of cluster c1, which must be there."""
        found = self.machine.state.get(GroupKey("c1", name))
        assert found is not None
        return found

    def broker(
        self, group: str = "b1", *, cluster: str = "c1", beats: bool = True, timeout_ms: int = 10_000
    ) -> FakeBroker:
        """Return a broker that speaks to this node; not started."""
        interval_s = 0.05 if beats else 3600.0
        return FakeBroker(
            [self.remoting], group, cluster=cluster, beat_interval_s=interval_s, timeout_ms=timeout_ms
        )

    @contextlib.asynccontextmanager
    async def dialled_from(self, host: str) -> AsyncIterator[Connection]:
        """Connect from a source address of loopback, which stands for a host."""
        loop = asyncio.get_running_loop()
        dialled = socket.socket()
        dialled.setblocking(False)
        dialled.bind((host, 0))
        target, _, port = self.remoting.rpartition(":")
        await loop.sock_connect(dialled, (target, int(port)))
        _, connection = await loop.create_connection(Connection, sock=dialled)
        try:
            yield connection
        finally:
            connection.abort()


@contextlib.asynccontextmanager
async def one_node(
    directory: Path, given: Mapping[str, str], client_ssl: ssl.SSLContext | None = None
) -> AsyncIterator[OneNode]:
    """Run a node that leads; `given` are settings over the usual ones, `client_ssl` the TLS they ask for."""
    port, _, http_port = free_ports(3)
    values = {
        "controllerDLegerGroup": "unit",
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerStorePath": str(directory),
        "bindAddress": "127.0.0.1",
        **given,
    }
    config = LiveConfig(load(values)[0], values)
    machine = GroupsMachine()
    initial = Snapshot(LogIndex(1), Term(1), ConfState(voters=(NodeId(1),)), machine.snapshot())
    node_config = NodeConfig(1, election_timeout_ms=50, heartbeat_interval_ms=10)
    node = Node(node_config, MemoryStore(initial), machine, NoPeers())
    controller = Controller(config, LoopClock("unit"), node, machine, tls=Tls(config.settings))
    try:
        await controller.start()
        remoting, http = f"127.0.0.1:{port}", f"127.0.0.1:{http_port}"
        running = OneNode(controller, machine, node, config, controller.heartbeats, remoting, http)
        probe = running.broker()
        probe.client_tls = None if client_ssl is None else ClientTls(client_ssl)
        await probe.start(register=False)
        async with asyncio.timeout(_LEADS_WITHIN_S):
            while not node.is_leader:
                await probe.replica_info_or_refusal()  # held for a while until this node leads
        await probe.die()
        yield running
    finally:
        await controller.stop()
