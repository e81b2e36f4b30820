"""The callers' answers: results by index and term, and a clear error when their leader or node is gone."""

import asyncio

import pytest

from controller_core.raft.types import Entry, LogIndex, NodeId, ReadState, Term
from controller_core.server.node.callers import Callers
from controller_core.server.node.proposals import Proposals
from controller_core.server.node.read_rounds import ReadRounds
from controller_core.server.node.types import NotLeaderError, ProposalLostError


class Core:
    """Stands in for the core: leads or not, in some term, and takes everything."""

    def __init__(self) -> None:
        self.is_leader = True
        self.term = 3
        self.leader_id = NodeId(1)
        self.proposed: list[bytes] = []
        self.contexts: list[bytes] = []

    def propose_many(self, commands: list[bytes]) -> None:
        """Keep commands."""
        self.proposed += commands

    def read_index(self, context: bytes) -> None:
        """Keep a context."""
        self.contexts.append(context)


def add(proposals: Proposals, data: bytes) -> "asyncio.Future[object]":
    """Queue a command for a future."""
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    proposals.add(data, future)
    return future


def placed(term: int = 3) -> tuple[Proposals, list[Entry], list]:
    proposals = Proposals()
    futures = [add(proposals, f"c{number}".encode()) for number in range(2)]
    waiting = proposals.take_queue()
    proposals.handed_over(waiting, term)
    entries = [Entry(Term(term), LogIndex(7 + number), data=data) for number, (data, _) in enumerate(waiting)]
    proposals.place(entries)
    return proposals, entries, futures


async def test_each_command_gets_the_answer_of_its_own_index() -> None:
    proposals, entries, futures = placed()
    for entry in entries:
        proposals.answer(entry, entry.index)
    assert [await future for future in futures] == [7, 8]
    assert len(proposals) == 0


async def test_a_command_replaced_by_another_terms_entry_is_lost_not_answered() -> None:
    proposals, _, futures = placed()
    proposals.answer(Entry(Term(4), LogIndex(7), data=b"another"), "another's answer")
    with pytest.raises(ProposalLostError, match="index 7"):
        await futures[0]
    assert not futures[1].done()


async def test_only_the_very_same_bytes_at_the_head_of_the_queue_are_ours() -> None:
    proposals = Proposals()
    future = add(proposals, b"mine")
    proposals.handed_over(proposals.take_queue(), 3)
    proposals.place(
        [Entry(Term(3), LogIndex(7), data=bytes(bytearray(b"mine"))), Entry(Term(3), LogIndex(8))]
    )
    proposals.answer(Entry(Term(3), LogIndex(7)), "wrong")
    assert not future.done()


@pytest.mark.parametrize(("leads", "term"), [(False, 3), (False, 4), (True, 5)])
async def test_commands_are_lost_with_the_leadership_they_were_proposed_under(leads: bool, term: int) -> None:
    core = Core()
    callers = Callers(core, b"nonce")  # type: ignore[arg-type] # a stand-in for the core
    future = add(callers.proposals, b"x")
    callers.hand_over()
    callers.check_leadership()
    assert not future.done()
    core.is_leader, core.term = leads, term
    callers.check_leadership()
    with pytest.raises(ProposalLostError):
        await future


async def test_commands_that_meet_no_leader_did_not_happen() -> None:
    core = Core()
    core.is_leader, core.leader_id = False, NodeId(2)
    callers = Callers(core, b"nonce")  # type: ignore[arg-type] # a stand-in for the core
    future = add(callers.proposals, b"x")
    callers.hand_over()
    with pytest.raises(NotLeaderError) as caught:
        await future
    assert caught.value.leader_id == 2
    assert core.proposed == []


async def test_reads_that_come_during_a_round_share_the_next() -> None:
    core = Core()
    callers = Callers(core, b"nonce")  # type: ignore[arg-type] # a stand-in for the core
    first = callers.reads.add()
    callers.hand_over()
    later = [callers.reads.add() for _ in range(3)]
    callers.hand_over()
    assert len(core.contexts) == 1
    callers.reads.confirmed(ReadState(LogIndex(5), core.contexts[0]))
    callers.reads.applied(5)
    assert first.done()
    assert not any(one.done() for one in later)
    callers.hand_over()
    assert len(set(core.contexts)) == 2


async def test_a_confirmed_read_waits_until_its_index_is_applied() -> None:
    reads = ReadRounds(b"nonce")
    future = reads.add()
    reads.confirmed(ReadState(LogIndex(5), reads.begin()))
    reads.applied(4)
    assert not future.done()
    reads.fail(NotLeaderError(None))
    reads.applied(5)
    await future


async def test_the_answer_to_an_older_round_confirms_nothing() -> None:
    reads = ReadRounds(b"nonce")
    lost = reads.add()
    old = reads.begin()
    reads.fail(NotLeaderError(None))
    future = reads.add()
    reads.begin()
    reads.confirmed(ReadState(LogIndex(1), old))
    reads.applied(9)
    assert not future.done()
    with pytest.raises(NotLeaderError):
        await lost
