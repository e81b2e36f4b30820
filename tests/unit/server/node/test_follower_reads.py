"""Reads at a node that does not lead: as new as the leader's, one question for all that wait, or refused."""

import asyncio

import pytest

from controller_core import limits
from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import LogIndex, Message, MessageType, NodeId, ReadState
from controller_core.server.node import follower_reads
from controller_core.server.node.follower_reads import LAG_ENTRIES_MAX, FollowerReads
from controller_core.server.node.ticker import Ticker
from controller_core.server.node.types import (
    CommandDroppedError,
    FollowerLagsError,
    NotLeaderError,
    ReadLateError,
)
from testkit.raft.nodes import ClusterNode, NodeCluster


class FollowerCore:
    """Stands in for the core of a follower: keeps the questions."""

    def __init__(self) -> None:
        self.term = 3
        self.leader_id = NodeId(2)
        self.contexts: list[bytes] = []

    def read_index(self, context: bytes) -> None:
        """Keep a question; without a leader, refuse it."""
        if not self.leader_id:
            raise ProposalDroppedError("no leader")
        self.contexts.append(context)


class AskingFollower:
    """The reads of a follower, and the answers of its leader by hand."""

    def __init__(self) -> None:
        self.core = FollowerCore()
        self._left = asyncio.Event()
        self.reads = FollowerReads(self.core, b"nonce", self._left.set)

    def read(self) -> "asyncio.Future[object]":
        """Begin a read."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.reads.add(future)
        return future

    async def asked(self, questions: int) -> None:
        """Wait until so many questions have left."""
        while len(self.core.contexts) < questions:
            self._left.clear()
            await self._left.wait()

    def answer(self, index: int, applied: int, question: int = -1) -> None:
        """Give the leader's answer to a question, the newest by default, with so much applied here."""
        self.reads.confirmed(ReadState(LogIndex(index), self.core.contexts[question]), applied)
        self.reads.applied(applied)


async def test_reads_that_wait_share_one_question() -> None:
    asking = AskingFollower()
    reads = [asking.read() for _ in range(50)]
    await asking.asked(1)
    asking.answer(7, applied=7)
    await asyncio.gather(*reads)
    assert len(asking.core.contexts) == 1


async def test_a_read_is_served_when_the_leaders_index_is_applied_and_not_before() -> None:
    asking = AskingFollower()
    read = asking.read()
    await asking.asked(1)
    asking.answer(7, applied=6)
    assert not read.done()
    asking.reads.applied(7)
    await read


async def test_a_read_never_joins_a_question_that_has_left() -> None:
    asking = AskingFollower()
    first = asking.read()
    await asking.asked(1)
    second = asking.read()
    asking.answer(7, applied=7)
    assert (first.done(), second.done()) == (True, False)
    await asking.asked(2)
    asking.answer(7, applied=7, question=0)
    assert not second.done()
    asking.answer(8, applied=8)
    await second


async def test_a_node_that_is_far_behind_serves_no_read() -> None:
    asking = AskingFollower()
    near = asking.read()
    await asking.asked(1)
    asking.answer(LAG_ENTRIES_MAX + 5, applied=5)
    assert not near.done()
    asking.reads.applied(LAG_ENTRIES_MAX + 5)
    await near
    far = asking.read()
    await asking.asked(2)
    asking.answer(2 * LAG_ENTRIES_MAX + 6, applied=LAG_ENTRIES_MAX + 5)
    with pytest.raises(FollowerLagsError, match="1001 entries behind"):
        await far


async def test_an_index_of_a_leader_that_was_replaced_serves_no_read() -> None:
    asking = AskingFollower()
    for change in ({"leader_id": NodeId(3)}, {"term": 4}, {"leader_id": NodeId(0)}):
        read = asking.read()
        await asking.asked(len(asking.core.contexts) + 1)
        vars(asking.core).update(change)
        asking.reads.check_leader()
        with pytest.raises(NotLeaderError):
            await read
        asking.answer(7, applied=7)


async def test_as_many_reads_wait_as_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUESTS_WAITING_MAX", 2)
    asking = AskingFollower()
    reads = [asking.read()]
    await asking.asked(1)
    reads.append(asking.read())
    with pytest.raises(CommandDroppedError):
        asking.read()
    asking.answer(7, applied=7)
    await reads[0]
    asking.read()


async def test_without_a_leader_reads_fail_at_once() -> None:
    asking = AskingFollower()
    asking.core.leader_id = NodeId(0)
    with pytest.raises(NotLeaderError):
        await asking.read()


@pytest.mark.parametrize("confirmed", [False, True])
async def test_a_question_without_an_answer_and_an_index_that_is_not_applied_end_in_time(
    monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    monkeypatch.setattr(follower_reads, "ROUND_WITHIN_S", 0.02)
    asking = AskingFollower()
    read = asking.read()
    await asking.asked(1)
    if confirmed:
        asking.answer(7, applied=6)
    with pytest.raises(ReadLateError):
        await read
    later = asking.read()
    await asking.asked(2)
    asking.answer(8, applied=8)
    await later


async def _read(member: ClusterNode) -> None:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    member.node.read_for(future)
    await future


async def test_a_follower_has_every_command_that_was_acknowledged_before_the_read() -> None:
    async with NodeCluster() as cluster:
        leader = await cluster.leader()
        followers = [one for one in cluster.members.values() if one is not leader]
        for number in range(20):
            await leader.node.propose(b"%d" % number)
            follower = followers[number % 2]
            await _read(follower)
            assert len(follower.machine.commands) == number + 1


async def test_a_leader_that_owes_ticks_answers_no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease may be over: it was paused, and another may lead."""
    async with NodeCluster() as cluster:
        leader = await cluster.leader()
        follower = next(one for one in cluster.members.values() if one is not leader)
        await _read(follower)
        stepped: list[MessageType] = []
        step = RawNode.step

        def noted(raw: RawNode, message: Message) -> None:
            stepped.append(message.type)
            step(raw, message)

        monkeypatch.setattr(RawNode, "step", noted)
        monkeypatch.setattr(Ticker, "catch_up", lambda _ticker: False)
        with pytest.raises(ReadLateError):
            await _read(follower)
        assert MessageType.READ_INDEX not in stepped
