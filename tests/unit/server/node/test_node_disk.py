"""A node whose disk is full, slow, stuck or broken.

Which nodes stay leader, which end, and which writes are never acknowledged.
"""

import asyncio
import errno
from pathlib import Path

import pytest

from controller_core.log.errors import LogFailedError, LogFullError
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, LogIndex, NodeId, Snapshot, Term
from controller_core.server.node.types import NodeConfig, NotLeaderError, ProposalLostError, Store
from testkit.processes.troubled_disk import TroubledFile, TroubledFiles
from testkit.raft.nodes import LEADER_WITHIN_S, NodeCluster

INITIAL = Snapshot(LogIndex(1), Term(1), ConfState(voters=(NodeId(1), NodeId(2), NodeId(3))))


class TroubledCluster(NodeCluster):
    """Three nodes, each with a disk of its own to be troubled."""

    def __init__(self, directory: Path, config: NodeConfig | None = None) -> None:
        self.disks: dict[int, TroubledFiles] = {}

        def make_store(node_id: int) -> Store:
            disk = self.disks[node_id] = TroubledFiles()
            return DiskStore.open(directory / f"n{node_id}", INITIAL, files=disk)

        super().__init__(3, make_store=make_store, config=config)


async def test_a_leader_whose_disk_is_stuck_loses_its_office_and_the_others_go_on(tmp_path: Path) -> None:
    async with TroubledCluster(tmp_path) as cluster:
        leader = await cluster.leader()
        own = leader.node.config.node_id
        await leader.node.propose(b"before")
        disk = cluster.disks[own]
        disk.unstuck.clear()
        try:
            command = asyncio.ensure_future(leader.node.propose(b"stuck"))
            second = await cluster.leader(other_than=own)
            await second.node.propose(b"after")
            assert not leader.node.is_leader
            assert not leader.node.has_read_lease()
            with pytest.raises((ProposalLostError, NotLeaderError)):
                await asyncio.wait_for(command, LEADER_WITHIN_S)
        finally:
            disk.unstuck.set()
        await leader.machine.reached(len(second.machine.commands))
        assert leader.machine.commands == second.machine.commands


async def test_a_broken_fsync_ends_the_node_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    async with TroubledCluster(tmp_path) as cluster:
        leader = await cluster.leader()
        own = leader.node.config.node_id
        cluster.disks[own].broken = True
        with pytest.raises(ProposalLostError):
            await leader.node.propose(b"x")
        assert isinstance(leader.fatal[0], LogFailedError)
        second = await cluster.leader(other_than=own)
        await second.node.propose(b"after")


async def test_a_full_disk_is_waited_out(tmp_path: Path) -> None:
    async with TroubledCluster(tmp_path) as cluster:
        leader = await cluster.leader()
        own = leader.node.config.node_id
        await leader.node.propose(b"before")
        cluster.disks[own].full = True
        lost = asyncio.ensure_future(leader.node.propose(b"full"))
        second = await cluster.leader(other_than=own)
        for number in range(10):
            await second.node.propose(f"after{number}".encode())
        cluster.disks[own].full = False
        await leader.machine.reached(len(second.machine.commands))
        assert leader.machine.commands == second.machine.commands
        assert not leader.fatal
        await asyncio.gather(lost, return_exceptions=True)


async def test_a_snapshot_without_space_is_given_up_and_made_later(tmp_path: Path) -> None:
    config = NodeConfig(1, snapshot_entries=10, entries_kept=0)
    async with TroubledCluster(tmp_path, config) as cluster:
        leader = await cluster.leader()
        disk = cluster.disks[leader.node.config.node_id]
        create = disk.create

        def full(path: Path) -> TroubledFile:
            raise OSError(errno.ENOSPC, str(path))

        disk.create = full  # type: ignore[method-assign] # new files find no space, the log's own goes on
        for number in range(30):
            await leader.node.propose(f"c{number}".encode())
        with pytest.raises(LogFullError):
            await leader.node.make_snapshot()  # So none is under way any more.
        assert leader.node.status().snapshot_index == 1
        assert not leader.fatal
        disk.create = create  # type: ignore[method-assign] # and now they do
        index = await leader.node.make_snapshot()
        assert leader.node.status().snapshot_index == index > 30


async def test_followers_of_a_slow_disk_do_not_hold_the_leader(tmp_path: Path) -> None:
    async with TroubledCluster(tmp_path) as cluster:
        leader = await cluster.leader()
        slow = next(node_id for node_id, member in cluster.members.items() if member is not leader)
        cluster.disks[slow].unstuck.clear()
        try:
            async with asyncio.timeout(LEADER_WITHIN_S):
                await asyncio.gather(*(leader.node.propose(f"c{number}".encode()) for number in range(200)))
            assert cluster.members[slow].node.applied_index < leader.node.applied_index
        finally:
            cluster.disks[slow].unstuck.set()
        await cluster.settle(200)


async def test_an_entry_is_not_acknowledged_while_only_one_disk_has_it(tmp_path: Path) -> None:
    async with TroubledCluster(tmp_path) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"before")
        follower, gone = (node_id for node_id, member in cluster.members.items() if member is not leader)
        await cluster.stop(gone)
        disk = cluster.disks[follower]
        disk.unstuck.clear()
        try:
            command = asyncio.ensure_future(leader.node.propose(b"x"))
            done, _ = await asyncio.wait((command,), timeout=0.15)
            assert not done, "acknowledged although no other disk has it"
        finally:
            disk.unstuck.set()
        await asyncio.gather(command, return_exceptions=True)
