"""Followers that are far behind, deaf or gone: the rest goes on as if they were not there."""

import asyncio
import statistics
import time

import pytest

from controller_core.server.node.types import (
    INFLIGHT_BYTES_MAX,
    NodeConfig,
    NotLeaderError,
    ProposalLostError,
)
from controller_core.server.peers import links, transport
from testkit.raft.nodes import LEADER_WITHIN_S, ClusterNode, NodeCluster

FAR_BEHIND_ENTRIES = 20_000
ENTRIES_AT_ONCE = 1_000
PART_BYTES = 32 * 1024


async def propose(cluster: NodeCluster, data: bytes) -> None:
    """Have the current leader apply a command.

    All members share one loop, and on a busy machine one can appear dead.
    """
    while True:
        try:
            await (await cluster.leader()).node.propose(data)
        except (NotLeaderError, ProposalLostError):
            continue
        return


def follower_of(cluster: NodeCluster, leader: ClusterNode) -> int:
    return next(node_id for node_id, member in cluster.members.items() if member is not leader)


async def test_a_follower_far_behind_is_brought_up_in_parts_while_the_leader_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts: list[int] = []
    encode = links.encode_parts

    def counted(data: bytes) -> object:
        for part in encode(data, PART_BYTES):
            parts.append(len(part))
            yield part

    monkeypatch.setattr(links, "encode_parts", counted)
    monkeypatch.setattr(transport, "PART_BYTES", PART_BYTES)
    config = NodeConfig(1, snapshot_entries=5_000, entries_kept=100)
    async with NodeCluster(3, config=config) as cluster:
        leader = await cluster.leader()
        late = follower_of(cluster, leader)
        await cluster.stop(late)
        for _ in range(FAR_BEHIND_ENTRIES // ENTRIES_AT_ONCE):
            await asyncio.gather(*(propose(cluster, b"x" * 100) for _ in range(ENTRIES_AT_ONCE)))
        back = await cluster.start(late)
        waits_s: list[float] = []
        while len(back.machine.commands) < FAR_BEHIND_ENTRIES:
            begun_s = time.monotonic()
            await asyncio.wait_for(propose(cluster, b"meanwhile"), LEADER_WITHIN_S)
            waits_s.append(time.monotonic() - begun_s)
        leader = await cluster.leader()
        await cluster.settle(len(leader.machine.commands))
        assert back.machine.commands == leader.machine.commands
    assert back.node.status().snapshot_index > FAR_BEHIND_ENTRIES // 2
    assert len(parts) > 20
    assert max(parts) < PART_BYTES + 100
    # Generous, for a machine that does other things too; without parts the longest is the whole transfer.
    assert statistics.median(waits_s) < 0.2


@pytest.mark.parametrize("trouble", ["deaf", "gone"])
async def test_a_follower_in_trouble_slows_nobody_and_costs_bounded_memory(trouble: str) -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        other = follower_of(cluster, leader)
        await leader.node.propose(b"before")
        if trouble == "gone":
            await cluster.stop(other)
        else:
            for link in cluster.members[other].transport._incoming:
                assert link._transport is not None
                link._transport.pause_reading()  # As a process that was stopped.
        waits_s, held_bytes = [], [0]
        for _ in range(60):
            begun_s = time.monotonic()
            await asyncio.wait_for(leader.node.propose(bytes(400_000)), LEADER_WITHIN_S)
            waits_s.append(time.monotonic() - begun_s)
            link = leader.transport._links.get(other)
            if link is not None and link._transport is not None:
                held_bytes.append(link._transport.get_write_buffer_size())
        assert leader.node.is_leader
        assert max(held_bytes) < INFLIGHT_BYTES_MAX + 1_000_000
        assert statistics.median(waits_s) < 0.2
