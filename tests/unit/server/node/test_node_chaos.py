"""Three nodes on a network that loses, delays, repeats and splits.

No acknowledged write is lost, and no read is stale.

The nodes are real, the network is a function of a seed. Time is real too, so a schedule is not exactly
repeatable; the deterministic simulation of the core is elsewhere. This test checks the shell: each
caller's answers and their times.
"""

import asyncio
import contextlib
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from controller_core.log.memory import MemoryStore
from controller_core.raft.errors import ProposalDroppedError, RefusedMessageError
from controller_core.raft.types import ConfState, LogIndex, Message, NodeId, Snapshot, Term
from controller_core.server.node.raft_node import Node
from controller_core.server.node.types import (
    NodeConfig,
    NotLeaderError,
    ProposalLostError,
    Receiver,
)
from testkit.raft.nodes import LEADER_WITHIN_S, ListMachine

IDS = (1, 2, 3)
CONFIG = NodeConfig(
    1, tick_ms=4, election_timeout_ms=80, heartbeat_interval_ms=16, snapshot_entries=30, entries_kept=5
)
CHAOS_S = 1.2
DONE_MIN = 6
"""Commands acknowledged and reads answered, without which nothing was checked; chaos goes on until then."""
FAILED = (NotLeaderError, ProposalDroppedError, ProposalLostError)


class LossyNetwork:
    """Carries messages between transports, with the configured faults."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loss = 0.0
        self.delay_max_s = 0.0
        self.repeat = 0.0
        self.cut: set[frozenset[int]] = set()
        self.receivers: dict[int, Receiver] = {}

    def carry(self, message: Message) -> None:
        """Deliver a message at some time, perhaps."""
        times = 2 if self.rng.random() < self.repeat else 1
        for _ in range(times):
            if self.rng.random() >= self.loss:
                delay_s = self.rng.uniform(0, self.delay_max_s)
                asyncio.get_running_loop().call_later(delay_s, self._deliver, message)

    def _deliver(self, message: Message) -> None:
        receiver = self.receivers.get(message.to)
        if receiver is not None and frozenset((message.from_, message.to)) not in self.cut:
            with contextlib.suppress(RefusedMessageError):  # A snapshot, after a restart.
                receiver.receive(message)


class NetworkTransport:
    """One node's end of a `LossyNetwork`."""

    def __init__(self, network: LossyNetwork, node_id: int) -> None:
        self._network = network
        self._node_id = node_id

    async def start(self, receiver: Receiver) -> None:
        """Begin to hear."""
        self._network.receivers[self._node_id] = receiver

    def send(self, messages: Iterable[Message]) -> None:
        """Give messages to the network; every snapshot counts as sent."""
        for message in messages:
            self._network.carry(message)
            if message.snapshot is not None:
                receiver = self._network.receivers[self._node_id]
                asyncio.get_running_loop().call_soon(receiver.snapshot_sent, message.to, True)

    async def stop(self) -> None:
        """Hear no more."""
        self._network.receivers.pop(self._node_id, None)


class Chaos:
    """The nodes, their clients, and the clients' answers."""

    def __init__(self, seed: int) -> None:
        self.network = LossyNetwork(seed)
        self.rng = random.Random(seed + 1)
        initial = Snapshot(LogIndex(1), Term(1), ConfState(voters=tuple(NodeId(each) for each in IDS)))
        self.stores = {node_id: MemoryStore(initial) for node_id in IDS}
        self.nodes: dict[int, Node] = {}
        self.machines: dict[int, ListMachine] = {}
        self.acknowledged: set[bytes] = set()
        self.reads = 0
        self.fatal: list[BaseException] = []
        self.over = False

    async def start(self, node_id: int) -> None:
        """Start a node with what it stored."""
        self.stores[node_id].reopen()
        machine = self.machines[node_id] = ListMachine()
        config = replace(CONFIG, node_id=node_id)
        node = Node(config, self.stores[node_id], machine, NetworkTransport(self.network, node_id))
        node.on_fatal(self.fatal.append)
        await node.start()
        self.nodes[node_id] = node

    async def write(self, client: int) -> None:
        """Propose numbered commands wherever somebody claims to lead."""
        for number in range(100_000):
            command = f"{client}-{number}".encode()
            leaders = [node for node in self.nodes.values() if node.is_leader]
            if leaders:
                with contextlib.suppress(*FAILED, TimeoutError):
                    async with asyncio.timeout(0.3):
                        await self.rng.choice(leaders).propose(command)
                    self.acknowledged.add(command)
            await asyncio.sleep(0.001)

    async def read(self) -> None:
        """Read wherever somebody claims to lead; the state must contain all entries acknowledged earlier."""
        while True:
            for node_id, node in list(self.nodes.items()):
                before = set(self.acknowledged)
                with contextlib.suppress(*FAILED, TimeoutError):
                    async with asyncio.timeout(0.3):
                        await node.read_barrier()
                    missing = before - set(self.machines[node_id].commands)
                    assert not missing, f"node {node_id} answered a read without {sorted(missing)[:3]}"
                    self.reads += 1
            await asyncio.sleep(0.001)

    async def trouble(self) -> None:
        """Change the network and restart nodes, again and again."""
        while not self.over:
            self.network.loss = self.rng.choice((0, 0, 0.05, 0.3))
            self.network.delay_max_s = self.rng.choice((0, 0.002, 0.02, 0.08))
            self.network.repeat = self.rng.choice((0, 0.2))
            alone = self.rng.choice(IDS)
            others = [other for other in IDS if other != alone]
            self.network.cut = {
                frozenset((alone, other)) for other in self.rng.choice(([], others, others[:1]))
            }
            if self.rng.random() < 0.3:
                node_id = self.rng.choice(IDS)
                await self.nodes.pop(node_id).stop()
                await self.start(node_id)
            await asyncio.sleep(self.rng.uniform(0.02, 0.25))

    async def heal(self) -> None:
        """End the trouble and wait until a command goes through and everybody has it."""
        self.network.loss = self.network.repeat = self.network.delay_max_s = 0
        self.network.cut = set()
        async with asyncio.timeout(LEADER_WITHIN_S):
            while b"last" not in self.acknowledged:
                for node in self.nodes.values():
                    with contextlib.suppress(*FAILED, TimeoutError):
                        async with asyncio.timeout(0.5):
                            await node.propose(b"last")
                        self.acknowledged.add(b"last")
                        break
                await asyncio.sleep(0.005)
            count = max(len(machine.commands) for machine in self.machines.values())
            for machine in self.machines.values():
                await machine.reached(count)


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_acknowledged_stays_and_reads_see_it(seed: int) -> None:
    chaos = Chaos(seed)
    for node_id in IDS:
        await chaos.start(node_id)
    tasks = [asyncio.ensure_future(chaos.write(client)) for client in range(4)]
    tasks.append(asyncio.ensure_future(chaos.read()))
    trouble = asyncio.ensure_future(chaos.trouble())
    everybody = [*tasks, trouble]
    done, _ = await asyncio.wait(everybody, timeout=CHAOS_S, return_when=asyncio.FIRST_EXCEPTION)
    while not done and min(len(chaos.acknowledged), chaos.reads) < DONE_MIN:
        done, _ = await asyncio.wait(everybody, timeout=0.1, return_when=asyncio.FIRST_EXCEPTION)
    chaos.over = True
    await trouble
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
    await chaos.heal()
    logs = [machine.commands for machine in chaos.machines.values()]
    for node in chaos.nodes.values():
        await node.stop()
    assert not chaos.fatal
    assert logs[0] == logs[1] == logs[2]
    assert chaos.acknowledged <= set(logs[0])
    assert len(logs[0]) == len(set(logs[0])) or logs[0].count(b"last") > 1
    assert min(len(chaos.acknowledged), chaos.reads) >= DONE_MIN
