"""Three nodes over loopback: elections, group commit, restarts, reads, snapshots, and every way to fail."""

import asyncio
from pathlib import Path

import pytest

from controller_core.server.node.types import NodeConfig, NotLeaderError, ProposalLostError
from testkit.processes.troubled_disk import UnsyncedFiles
from testkit.raft.nodes import LEADER_WITHIN_S, NodeCluster


@pytest.fixture(params=["memory", "disk"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "disk" else None


async def test_a_thousand_commands_at_once_are_applied_everywhere_in_one_order(
    directory: Path | None,
) -> None:
    async with NodeCluster(3, directory, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        results = await asyncio.gather(
            *(leader.node.propose(f"c{number}".encode()) for number in range(1000))
        )
        assert results == list(range(1, 1001))
        await cluster.settle(1000)
        logs = [member.machine.commands for member in cluster.members.values()]
        assert logs[0] == logs[1] == logs[2] == [f"c{number}".encode() for number in range(1000)]


async def test_the_others_elect_when_the_leader_stops_and_it_comes_back(directory: Path | None) -> None:
    async with NodeCluster(3, directory, files=UnsyncedFiles()) as cluster:
        first = await cluster.leader()
        await asyncio.gather(*(first.node.propose(f"a{number}".encode()) for number in range(100)))
        stopped = first.node.config.node_id
        await cluster.stop(stopped)
        second = await cluster.leader()
        assert second.node.term > first.node.term
        await asyncio.gather(*(second.node.propose(f"b{number}".encode()) for number in range(100)))
        await cluster.start(stopped)
        await cluster.settle(200)
        logs = [member.machine.commands for member in cluster.members.values()]
        assert logs[0] == logs[1] == logs[2]


async def test_all_nodes_restart_from_what_they_wrote(directory: Path | None) -> None:
    cluster = NodeCluster(3, directory, files=UnsyncedFiles())
    async with cluster:
        leader = await cluster.leader()
        await asyncio.gather(*(leader.node.propose(f"c{number}".encode()) for number in range(50)))
    async with cluster:
        leader = await cluster.leader()
        assert leader.machine.commands == [f"c{number}".encode() for number in range(50)]
        await cluster.settle(50)


async def test_a_node_alone_leads_itself(tmp_path: Path) -> None:
    async with NodeCluster(1, tmp_path, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        assert await leader.node.propose(b"x") == 1
        await leader.node.read_barrier()


async def test_a_follower_refuses_and_names_the_leader() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"x")
        await cluster.settle(1)
        follower = next(member for member in cluster.members.values() if member is not leader)
        with pytest.raises(NotLeaderError) as caught:
            await follower.node.propose(b"y")
        assert caught.value.leader_id == leader.node.config.node_id == follower.node.leader_id
        with pytest.raises(NotLeaderError):
            await follower.node.read_barrier()
        assert not follower.node.has_read_lease()


async def test_an_empty_command_is_our_mistake() -> None:
    async with NodeCluster(1) as cluster:
        leader = await cluster.leader()
        with pytest.raises(ValueError, match="0 bytes"):
            await leader.node.propose(b"")


async def test_a_leader_cut_off_loses_its_office_its_lease_and_what_was_under_way() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"before")
        others = [node_id for node_id, member in cluster.members.items() if member is not leader]
        stopping = asyncio.gather(*(cluster.stop(node_id) for node_id in others))
        await asyncio.sleep(0)  # They do not take part any more, and the leader cannot know yet.
        command = asyncio.ensure_future(leader.node.propose(b"alone"))
        await stopping
        with pytest.raises(ProposalLostError):
            await asyncio.wait_for(command, LEADER_WITHIN_S)
        assert not leader.node.is_leader
        assert not leader.node.has_read_lease()
        assert leader.leading[-1][0] is False
        with pytest.raises(NotLeaderError):
            await leader.node.read_barrier()
        assert leader.node.leader_id is None


async def test_reads_wait_for_a_quorum_when_there_is_no_lease() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"x")
        await asyncio.gather(*(leader.node.read_barrier() for _ in range(100)))
        leader.node.has_read_lease = lambda: False  # type: ignore[method-assign] # force the round
        waiting = [asyncio.ensure_future(leader.node.read_barrier()) for _ in range(100)]
        await asyncio.sleep(0)
        assert not any(read.done() for read in waiting)
        await asyncio.gather(*waiting)


async def test_a_lease_holds_under_a_quiet_leader() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"x")
        await asyncio.sleep(0.1)
        for _ in range(20):
            await asyncio.sleep(0.02)
            assert leader.node.has_read_lease()


async def test_a_late_node_is_brought_up_by_a_snapshot(directory: Path | None) -> None:
    config = NodeConfig(1, snapshot_entries=40, entries_kept=5)
    async with NodeCluster(3, directory, config=config, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        late = next(node_id for node_id, member in cluster.members.items() if member is not leader)
        await cluster.stop(late)
        leader = await cluster.leader()
        for _ in range(10):
            await asyncio.gather(*(leader.node.propose(b"c" * 100) for _ in range(30)))
        async with asyncio.timeout(LEADER_WITHIN_S):  # A thread writes the snapshots.
            while leader.node.status().first_index <= 10:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.005)
        back = await cluster.start(late)
        await cluster.settle(300)
        assert back.machine.commands == leader.machine.commands
        assert back.node.status().snapshot_index > 1


async def test_a_restart_from_a_snapshot_keeps_the_state(directory: Path | None) -> None:
    cluster = NodeCluster(1, directory, files=UnsyncedFiles())
    async with cluster:
        leader = await cluster.leader()
        await asyncio.gather(*(leader.node.propose(f"c{number}".encode()) for number in range(20)))
        index = await leader.node.make_snapshot()
        assert index == leader.node.applied_index
        assert await leader.node.make_snapshot() == index
        await leader.node.propose(b"after")
    async with cluster:
        leader = await cluster.leader()
        assert leader.machine.commands == [f"c{number}".encode() for number in range(20)] + [b"after"]
        assert leader.machine.applied[0][0] > index


async def test_leadership_is_handed_over_on_request() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        own = leader.node.config.node_id
        to = own % 3 + 1
        assert await leader.node.transfer_leadership(to)
        second = await cluster.leader(other_than=own)
        assert second.node.config.node_id == to
        assert await second.node.propose(b"x") == 1
        assert not leader.node.is_leader


async def test_observers_hear_when_leading_begins_and_ends() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        term = leader.node.term
        assert leader.leading == [(True, term)]
        assert await leader.node.transfer_leadership()
        assert leader.leading == [(True, term), (False, term)]


async def test_an_entry_that_cannot_be_applied_ends_the_node() -> None:
    async with NodeCluster(1) as cluster:
        leader = await cluster.leader()
        leader.machine.refuse = b"poison"
        with pytest.raises(ProposalLostError):
            await leader.node.propose(b"poison")
        assert isinstance(leader.fatal[0], ValueError)
        assert leader.node.role == 0
        assert leader.node.leader_id is None
        with pytest.raises(NotLeaderError):
            await leader.node.propose(b"x")


async def test_stopping_tells_those_who_wait() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        commands = [asyncio.ensure_future(leader.node.propose(b"x")) for _ in range(10)]
        await asyncio.sleep(0)
        await cluster.stop(leader.node.config.node_id)
        done = await asyncio.gather(*commands, return_exceptions=True)
        assert all(isinstance(one, int | NotLeaderError | ProposalLostError) for one in done)


async def test_a_caller_that_gave_up_disturbs_nobody() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        given_up = asyncio.ensure_future(leader.node.propose(b"x"))
        await asyncio.sleep(0)
        given_up.cancel()
        await leader.node.propose(b"y")  # The abandoned entry is applied before it, or never.
        before = len(leader.machine.commands)
        assert await leader.node.propose(b"z") == before + 1
