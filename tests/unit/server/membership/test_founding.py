"""Whether a node without a log founds a cluster: each line of the table, and the node's status until then."""

import asyncio

import pytest

from controller_core.server.membership import founding
from controller_core.server.membership.founding import Founding, FoundingVerdict, weigh
from controller_core.server.peers.codec import GreetingAnswer, GreetingReply
from controller_core.server.settings.peer_list import Peer, parse_peers

MEMBER = GreetingReply()
FRESH = GreetingReply(why=GreetingAnswer.FOUNDING)
EMPTY = GreetingReply("no log", GreetingAnswer.EMPTY)
STRANGER = GreetingReply("no peer", GreetingAnswer.UNKNOWN)
LOST = GreetingReply("another store", GreetingAnswer.INCARNATION)
ODD = GreetingReply("another cluster", GreetingAnswer.PROTOCOL)
OTHERS = parse_peers("n1-host1:9878;n2-host2:9878")


@pytest.mark.parametrize(
    ("replies", "with_majority", "verdict"),
    [
        ((EMPTY, EMPTY), False, FoundingVerdict.FOUND),
        ((FRESH, EMPTY), False, FoundingVerdict.FOUND),
        ((), False, FoundingVerdict.FOUND),
        ((EMPTY, None), False, FoundingVerdict.ASK_ON),
        ((EMPTY, None), True, FoundingVerdict.FOUND),
        ((None, None), True, FoundingVerdict.ASK_ON),
        ((EMPTY, ODD), False, FoundingVerdict.ASK_ON),
        ((EMPTY, STRANGER), True, FoundingVerdict.WAIT),
        ((LOST, None), True, FoundingVerdict.WAIT),
        ((EMPTY, EMPTY, EMPTY, LOST), True, FoundingVerdict.WAIT),
        ((EMPTY, MEMBER), True, FoundingVerdict.WAIT),
    ],
)
def test_a_node_founds_only_where_nobody_has_a_log(
    replies: tuple[GreetingReply | None, ...], with_majority: bool, verdict: FoundingVerdict
) -> None:
    assert weigh(replies, with_majority=with_majority) is verdict


async def test_it_asks_until_everybody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(founding, "ASK_PAUSE_S", 0.0)
    answers = {"n1": [None, EMPTY, EMPTY], "n2": [None, None, FRESH]}
    asking = Founding(OTHERS, lambda peer: asyncio.sleep(0, answers[peer.name].pop(0)), with_majority=False)
    await asyncio.wait_for(asking.run(), 60)
    assert answers == {"n1": [], "n2": []}
    assert asking.problem == "this node is without a log and waits for an answer of n2 at host2:9878"


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (LOST, "to be added to the cluster; n1 answers: another store"),
        (MEMBER, "for its log: n1 counts it as a member"),
    ],
)
async def test_it_says_what_it_waits_for(
    reply: GreetingReply, problem: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(founding, "WAIT_PAUSE_S", 0.01)
    asked: list[str] = []
    often = asyncio.Event()

    async def answer(peer: Peer) -> GreetingReply:
        asked.append(peer.name)
        if asked.count("n1") == 3:
            often.set()
        return reply

    asking = Founding(OTHERS, answer, with_majority=False)
    running = asyncio.create_task(asking.run())
    await asyncio.wait_for(often.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert asking.problem == f"this node waits {problem}"
    assert [record.getMessage() for record in caplog.records] == [asking.problem]
