"""Changing the membership of running nodes: starts, refused changes, the state after a restart."""

import asyncio
from pathlib import Path

import pytest

from controller_core.raft.confchange.changes import (
    ConfChange,
    ConfChangeSingle,
    ConfChangeTransition,
    ConfChangeType,
    ConfChangeV2,
)
from controller_core.raft.types import ConfState, Message, MessageType, NodeId, Term
from controller_core.server.node.member_book import ControllerMember, encode_member
from controller_core.server.node.types import (
    ChangeRefusedError,
    ChangeUnderWayError,
    NotLeaderError,
    ProposalLostError,
)
from testkit.processes.troubled_disk import UnsyncedFiles
from testkit.raft.nodes import LEADER_WITHIN_S, NodeCluster
from testkit.raft.nodes import ClusterNode as RunningNode


def add(node_id: int, kind: ConfChangeType = ConfChangeType.ADD_LEARNER_NODE) -> ConfChange:
    member = ControllerMember(f"n{node_id - 1}", f"127.0.0.1:{node_id}")
    return ConfChange(kind, NodeId(node_id), encode_member(member))


def promote(node_id: int) -> ConfChange:
    return ConfChange(ConfChangeType.ADD_NODE, NodeId(node_id))


def remove(node_id: int) -> ConfChange:
    return ConfChange(ConfChangeType.REMOVE_NODE, NodeId(node_id))


@pytest.fixture(params=["memory", "disk"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "disk" else None


async def catch_up(member: RunningNode, count: int) -> None:
    async with asyncio.timeout(LEADER_WITHIN_S):
        await member.machine.reached(count)


async def test_an_empty_node_is_added_brought_up_promoted_and_removed(directory: Path | None) -> None:
    async with NodeCluster(1, directory, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        await asyncio.gather(*(leader.node.propose(f"c{number}".encode()) for number in range(100)))
        second = await cluster.start_empty(2)
        assert await leader.node.change_members(add(2)) == leader.node.conf_state
        assert leader.node.conf_state.learners == (2,)
        await catch_up(second, 100)
        assert second.machine.commands == leader.machine.commands
        conf_state = await leader.node.change_members(promote(2))
        assert (conf_state.voters, conf_state.learners) == ((1, 2), ())
        assert await leader.node.propose(b"by both") == 101
        await catch_up(second, 101)
        assert second.node.book == leader.node.book
        assert (await leader.node.change_members(remove(2))).voters == (1,)
        assert leader.node.book.get(2) is None
        assert await leader.node.propose(b"alone again") == 102


async def test_a_restart_remembers_the_members_without_any_setting(directory: Path | None) -> None:
    cluster = NodeCluster(1, directory, files=UnsyncedFiles())
    async with cluster:
        leader = await cluster.leader()
        await cluster.start_empty(2)
        await leader.node.change_members(add(2))
        await asyncio.wait_for(leader.node.make_snapshot(), LEADER_WITHIN_S)
        await leader.node.change_members(add(3))
        await cluster.stop(2)
        await cluster.stop(1)
        again = await cluster.start(1)
        assert again.node.book.get(2) == ControllerMember("n1", "127.0.0.1:2")
        await cluster.leader()
        assert again.node.conf_state.learners == (2, 3)
        assert again.node.book.get(3) == ControllerMember("n2", "127.0.0.1:3")


async def test_a_snapshot_is_written_right_after_a_change() -> None:
    async with NodeCluster(1) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"x")
        for node_id in (2, 3, 4):
            await leader.node.change_members(add(node_id))
        async with asyncio.timeout(LEADER_WITHIN_S):
            while leader.store.snapshot().index < leader.node.applied_index:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.005)
        assert leader.store.snapshot().conf_state.learners == (2, 3, 4)


async def test_a_second_change_is_refused_while_one_is_under_way() -> None:
    async with NodeCluster(1) as cluster:
        leader = await cluster.leader()
        first = asyncio.ensure_future(leader.node.change_members(add(2)))
        await asyncio.sleep(0)
        with pytest.raises(ChangeUnderWayError, match="another change of membership is under way"):
            await leader.node.change_members(add(3))
        assert (await first).learners == (2,)
        assert (await leader.node.change_members(add(3))).learners == (2, 3)


async def test_a_change_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    async with NodeCluster(1) as cluster:
        leader = await cluster.leader()
        with pytest.raises(ChangeRefusedError):
            await leader.node.change_members(remove(1))
        assert leader.node.conf_state.voters == (1,)
        assert await leader.node.propose(b"still here") == 1


async def test_a_follower_changes_nothing() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        follower = next(member for member in cluster.members.values() if member is not leader)
        with pytest.raises(NotLeaderError):
            await follower.node.change_members(add(4))


async def test_a_change_without_a_quorum_has_an_unknown_outcome() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        others = [one for one in cluster.ids if one != leader.node.config.node_id]
        stopping = asyncio.gather(*(cluster.stop(node_id) for node_id in others))
        await asyncio.sleep(0)  # They do not take part any more, and the leader cannot know yet.
        with pytest.raises(ProposalLostError):
            await asyncio.wait_for(leader.node.change_members(add(4)), LEADER_WITHIN_S)
        await stopping


async def test_a_leader_that_is_removed_steps_down_and_the_others_go_on() -> None:
    async with NodeCluster(3) as cluster:
        leader = await cluster.leader()
        own = leader.node.config.node_id
        await leader.node.propose(b"before")
        conf_state = await leader.node.change_members(remove(own))
        assert own not in conf_state.voters
        assert not leader.node.is_leader
        second = await cluster.leader(other_than=own)
        assert await second.node.propose(b"after") == 2


async def test_a_node_without_a_membership_gives_no_vote_and_stands_for_none() -> None:
    async with NodeCluster(1) as cluster:
        empty = await cluster.start_empty(2)
        for kind in (MessageType.VOTE, MessageType.PRE_VOTE):
            empty.node.receive(Message(kind, NodeId(2), NodeId(7), Term(99)))
        await asyncio.sleep(0.7)  # Longer than it would take to stand for election.
        assert empty.node.term == 0
        assert empty.node.leader_id is None
        assert empty.node.role == 2


async def test_all_members_are_replaced_in_one_joint_change(directory: Path | None) -> None:
    async with NodeCluster(3, directory, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        await leader.node.propose(b"before")
        for node_id in (4, 5, 6):
            await cluster.start_empty(node_id)
            await leader.node.change_members(add(node_id))
            await catch_up(cluster.members[node_id], 1)
        singles = [*(promote(node_id) for node_id in (4, 5, 6)), *(remove(node_id) for node_id in (1, 2, 3))]
        joint = await leader.node.change_members(
            ConfChangeV2(
                tuple(ConfChangeSingle(one.type, one.node_id) for one in singles),
                ConfChangeTransition.JOINT_IMPLICIT,
            )
        )
        assert (joint.voters, joint.voters_outgoing) == ((4, 5, 6), (1, 2, 3))
        second = await cluster.leader(other_than=leader.node.config.node_id)
        assert second.node.conf_state == ConfState(voters=(NodeId(4), NodeId(5), NodeId(6)))
        assert [raft_id for raft_id, _ in second.node.book.items()] == [4, 5, 6]
        for node_id in (1, 2, 3):
            await cluster.stop(node_id)
        assert await second.node.propose(b"after") == 2
