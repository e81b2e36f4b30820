"""Where a leader's request goes while leaders come and go, and that it is always answered in time."""

import asyncio

import pytest

from controller_core.channel.errors import CallTimeoutError, ConnectError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.requests import leader_rule
from controller_core.server.requests.forwarding import FORWARDED_BY_FIELD
from controller_core.server.requests.leader_rule import LeaderRule

READ = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "b"})
ALTER = RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, {"brokerName": "b"})
WITHIN_S = 60.0
SELF = 1
OTHER = 2
THIRD = 3


class FakeNode:
    """Who leads, as a test says."""

    def __init__(self, leader_id: int | None) -> None:
        self.leader_id = leader_id

    @property
    def is_leader(self) -> bool:
        """Whether it is this node."""
        return self.leader_id == SELF


class FakeForwarder:
    """Answers of the other node, in order; an exception is raised, a function called."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[int, str]] = []

    async def call(self, leader_id: int, request: RemotingCommand, cluster: str) -> RemotingCommand:
        """Give the next answer."""
        self.calls.append((leader_id, cluster))
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, RemotingCommand)
        return answer


@pytest.fixture(autouse=True)
def _long_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_rule, "ANSWER_WITHIN_S", 120.0)
    monkeypatch.setattr(leader_rule, "HOLD_S", WITHIN_S)
    monkeypatch.setattr(leader_rule, "_RETRY_S", 0.005)


def _answer(code: int, request: RemotingCommand = READ) -> RemotingCommand:
    return RemotingCommand.response_to(request, code)


async def _serve(
    node: FakeNode, forwarder: FakeForwarder, request: RemotingCommand = READ, *here: object
) -> RemotingCommand:
    answers = FakeForwarder(*here)
    rule = LeaderRule(node, SELF, forwarder)  # type: ignore[arg-type] # a stand-in with the one method used
    return await rule.serve(request, lambda: answers.call(SELF, request, ""), lambda: "c1")


async def test_the_leader_serves_by_itself() -> None:
    assert (await _serve(FakeNode(SELF), FakeForwarder(), READ, _answer(0))).code == 0


async def test_a_follower_asks_the_leader_and_tells_it_the_cluster() -> None:
    forwarder = FakeForwarder(_answer(2008))
    assert (await _serve(FakeNode(OTHER), forwarder)).code == 2008
    assert forwarder.calls == [(OTHER, "c1")]


async def test_a_forwarded_request_is_never_forwarded_again() -> None:
    forwarder = FakeForwarder()
    request = RemotingCommand.request(READ.code, {FORWARDED_BY_FIELD: "n2"})
    assert (await _serve(FakeNode(OTHER), forwarder, request)).code == ResponseCode.CONTROLLER_NOT_LEADER
    assert forwarder.calls == []


async def test_without_a_leader_a_request_is_held_for_a_while_then_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_rule, "HOLD_S", 0.1)
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    answer = await _serve(FakeNode(None), FakeForwarder())
    assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
    assert answer.remark == "The controller is not in leader state"
    assert 0.1 <= loop.time() - begin_s < 1.0


async def test_a_held_request_is_served_once_there_is_a_leader() -> None:
    node = FakeNode(None)
    asyncio.get_running_loop().call_later(0.03, setattr, node, "leader_id", OTHER)
    assert (await _serve(node, FakeForwarder(_answer(0)))).code == 0


async def test_a_leader_that_has_just_lost_its_office_is_not_the_last_word() -> None:
    forwarder = FakeForwarder(
        _answer(ResponseCode.CONTROLLER_NOT_LEADER), ConnectError("refused"), _answer(0)
    )
    assert (await _serve(FakeNode(OTHER), forwarder)).code == 0


@pytest.mark.parametrize("error", [NotLeaderError(None), CommandDroppedError()])
async def test_what_was_refused_unserved_is_tried_anew_even_if_it_must_not_be_repeated(
    error: Exception,
) -> None:
    assert (await _serve(FakeNode(SELF), FakeForwarder(), ALTER, error, _answer(0, ALTER))).code == 0


async def test_a_write_of_unknown_fate_is_repeated_only_if_that_is_harmless() -> None:
    lost = ProposalLostError("leadership lost")
    answer = await _serve(FakeNode(SELF), FakeForwarder(), ALTER, lost, _answer(0, ALTER))
    assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
    claim = RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID)
    assert (await _serve(FakeNode(SELF), FakeForwarder(), claim, lost, _answer(0, claim))).code == 0


async def test_a_forwarded_write_of_unknown_fate_is_not_sent_again() -> None:
    """A 1001 that was carried out, taken for a refusal and sent again, is answered as changing nothing."""
    forwarded = RemotingCommand.request(ALTER.code, {FORWARDED_BY_FIELD: "n2"})
    lost = ProposalLostError("leadership lost")
    told = await _serve(FakeNode(SELF), FakeForwarder(), forwarded, lost)
    assert told.code == ResponseCode.CONTROLLER_NOT_LEADER
    forwarder = FakeForwarder(told, _answer(0, ALTER))
    answer = await _serve(FakeNode(OTHER), forwarder, ALTER)
    assert (answer.code, answer.ext) == (ResponseCode.CONTROLLER_NOT_LEADER, None)
    assert len(forwarder.calls) == 1


async def test_a_leader_that_hangs_does_not_use_up_the_wait_for_the_next() -> None:
    node = FakeNode(OTHER)

    def hang() -> Exception:
        node.leader_id = None
        asyncio.get_running_loop().call_later(0.05, setattr, node, "leader_id", SELF)
        return CallTimeoutError("no answer")

    assert (await _serve(node, FakeForwarder(hang), READ, _answer(0))).code == 0


async def test_an_answer_comes_in_time_whatever_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_rule, "ANSWER_WITHIN_S", 0.3)
    loop = asyncio.get_running_loop()
    begin_s = loop.time()

    async def never() -> RemotingCommand:
        await asyncio.Event().wait()
        raise AssertionError

    rule = LeaderRule(FakeNode(SELF), SELF, FakeForwarder())  # type: ignore[arg-type] # a stand-in with the one method used
    answer = await rule.serve(READ, never, str)
    assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
    assert loop.time() - begin_s < 1.0


class SilentLeader(FakeForwarder):
    """The first leader never answers; while it is asked, another node begins to lead."""

    def __init__(self, node: FakeNode, *answers: object) -> None:
        super().__init__(*answers)
        self._node = node
        self.asked = asyncio.Event()

    async def call(self, leader_id: int, request: RemotingCommand, cluster: str) -> RemotingCommand:
        """Answer for the second leader only."""
        if leader_id == OTHER:
            self._node.leader_id = THIRD
            self.asked.set()
            await asyncio.Event().wait()
        return await super().call(leader_id, request, cluster)


async def test_a_leader_that_is_lost_delays_a_read_only_until_another_leads() -> None:
    node = FakeNode(OTHER)
    forwarder = SilentLeader(node, _answer(0))
    assert (await _serve(node, forwarder)).code == 0
    assert forwarder.calls == [(THIRD, "c1")]


async def test_a_request_that_must_not_be_repeated_waits_for_the_leader_that_has_it() -> None:
    node = FakeNode(OTHER)
    forwarder = SilentLeader(node, _answer(0, ALTER))
    serving = asyncio.create_task(_serve(node, forwarder, ALTER))
    await forwarder.asked.wait()
    done, _ = await asyncio.wait({serving}, timeout=4 * leader_rule._LOOK_AGAIN_S)
    assert not done
    assert forwarder.calls == []
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
