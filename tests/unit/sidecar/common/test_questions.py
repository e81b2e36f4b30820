"""Questions are repeated until the controllers answer; the caller hears of each failed attempt."""

from typing import Any

import pytest

from controller_core.channel.asking import AskError
from controller_core.remoting.bodies import EpochEntryCache, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.common import questions
from ha_sidecar.common.controllers import ControllersUnavailableError
from ha_sidecar.common.questions import UnknownGroupError, ask_broker, ask_electable, ask_group_until_answered
from ha_sidecar.decisions.broker_facts import GroupFacts

FACTS = GroupFacts(1, "10.0.0.1:10911", 1, (1, 2), ())
UNAVAILABLE = ControllersUnavailableError("no majority")
UNKNOWN = UnknownGroupError("the controllers do not know group g")


async def _ask(monkeypatch: pytest.MonkeyPatch, *answers: GroupFacts | Exception, note: Any) -> GroupFacts:
    left = list(answers)

    async def ask_group(*_: object) -> GroupFacts:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(questions, "ask_group", ask_group)
    controllers: Any = None
    return await ask_group_until_answered(controllers, "c1", "g", note, pause_s=0)


async def test_the_group_is_asked_for_until_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Exception] = []
    assert await _ask(monkeypatch, UNAVAILABLE, UNKNOWN, FACTS, note=heard.append) == FACTS
    assert heard == [UNAVAILABLE, UNKNOWN]


async def test_the_caller_ends_the_attempts_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(error: Exception) -> None:
        raise error

    with pytest.raises(UnknownGroupError, match="do not know group g"):
        await _ask(monkeypatch, UNKNOWN, FACTS, note=end)


class _Broker:
    """Answers the questions for its facts, and notes them; a log replica does not tell settings."""

    def __init__(self, *, is_log_replica: bool = False) -> None:
        self._is_log_replica = is_log_replica
        self.asked: list[int] = []

    async def ask(self, code: int, *_: object) -> RemotingCommand:
        self.asked.append(code)
        match code:
            case RequestCode.GET_BROKER_EPOCH_CACHE:
                body = EpochEntryCache(1, "g", "c", (), 7).encode()
            case RequestCode.GET_BROKER_HA_STATUS:
                body = HARuntimeInfo(master=True).encode()
            case RequestCode.GET_BROKER_CONFIG if not self._is_log_replica:
                body = b"brokerIP1=10.0.0.1\nlistenPort=10911\n"
            case _:
                raise AskError("not supported", ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return RemotingCommand(code, body=body)


async def test_a_broker_is_not_asked_for_its_figures_which_cost_it_much() -> None:
    broker: Any = _Broker()
    facts = await ask_broker(broker, "10.0.0.1:10911")
    assert (facts.is_master, facts.max_offset) == (True, 7)
    assert broker.asked == [RequestCode.GET_BROKER_EPOCH_CACHE, RequestCode.GET_BROKER_HA_STATUS]


async def test_a_broker_that_may_be_elected_is_known_by_its_settings() -> None:
    broker: Any = _Broker()
    assert (await ask_electable(broker)).address == "10.0.0.1:10911"


async def test_a_log_replica_may_not_be_elected() -> None:
    replica: Any = _Broker(is_log_replica=True)
    with pytest.raises(AskError, match="not supported"):
        await ask_electable(replica)
