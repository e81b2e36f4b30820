"""A process that was stopped: its expired leases, leaders it must not depose, offices not yet held."""

import asyncio
import threading
from collections.abc import Iterable

from controller_core.log.memory import MemoryStore
from controller_core.log.view import Batch
from controller_core.raft.types import ConfState, LogIndex, Message, MessageType, NodeId, Snapshot, Term
from controller_core.server.node.raft_node import Node
from controller_core.server.node.types import NodeConfig, Receiver
from testkit.clocks.loop_time import LoopTime
from testkit.raft.nodes import LEADER_WITHIN_S, ListMachine, NodeCluster


class SilentTransport:
    """Records sent messages."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def start(self, receiver: Receiver) -> None:
        """Carry nothing."""

    def send(self, messages: Iterable[Message]) -> None:
        """Keep messages."""
        self.sent += messages

    async def stop(self) -> None:
        """Carry nothing."""


class GatedStore(MemoryStore):
    """Holds back the writing of entries until told."""

    def __init__(self, initial: Snapshot) -> None:
        super().__init__(initial)
        self.gate = threading.Event()
        self.waiting = threading.Event()

    def write(self, batch: Batch) -> None:
        """Wait at the gate with entries."""
        if batch.entries:
            self.waiting.set()
            self.gate.wait()
        super().write(batch)


def first_snapshot(*voters: int) -> Snapshot:
    return Snapshot(LogIndex(1), Term(1), ConfState(voters=tuple(NodeId(voter) for voter in voters)))


async def test_a_leader_that_was_stopped_has_no_lease_when_it_wakes() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"x")
        await leader.node.read_barrier()
        with LoopTime() as clock:
            async with asyncio.timeout(LEADER_WITHIN_S):
                while not leader.node.has_read_lease():
                    await leader.node.propose(b"x")
            clock.ahead_s = 5.0
            assert leader.node.is_leader
            assert not leader.node.has_read_lease()
            for member in cluster.members.values():
                member.node._ticker.stop()


async def test_a_follower_that_was_stopped_does_not_count_its_own_pause_as_the_leaders_silence() -> None:
    node = Node(NodeConfig(1), MemoryStore(first_snapshot(1, 2, 3)), ListMachine(), SilentTransport())
    await node.start()
    node.receive(Message(MessageType.HEARTBEAT, NodeId(1), NodeId(2), Term(5)))
    assert node.leader_id == 2
    with LoopTime() as clock:
        clock.ahead_s = 60.0
        for _ in range(20):
            node._ticker.catch_up()
        assert node.leader_id == 2
        node._ticker.stop()
    await node.stop()


async def test_a_new_leader_is_none_until_its_first_entry_is_applied() -> None:
    store = GatedStore(first_snapshot(1))
    node = Node(
        NodeConfig(1, election_timeout_ms=60, heartbeat_interval_ms=20),
        store,
        ListMachine(),
        SilentTransport(),
    )
    heard: list[bool] = []
    leads = asyncio.Event()
    node.on_leadership(lambda leading, _: (heard.append(leading), leads.set()))
    await node.start()
    try:
        assert await asyncio.to_thread(store.waiting.wait, LEADER_WITHIN_S)
        assert node.status().role == 3
        assert not node.is_leader
        assert not node.has_read_lease()
        assert heard == []
    finally:
        store.gate.set()
    await asyncio.wait_for(leads.wait(), LEADER_WITHIN_S)
    assert node.is_leader
    await node.stop()
    assert heard == [True, False]
