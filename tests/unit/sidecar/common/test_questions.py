"""Questions are repeated until the controllers answer; the caller hears of each failed attempt."""

from typing import Any

import pytest

from controller_core.channel.asking import AskError
from controller_core.remoting.bodies import EpochEntryCache, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.common import questions
from ha_sidecar.common.controllers import ControllersUnavailableError
from ha_sidecar.common.questions import UnknownGroupError, ask_broker, ask_group_until_answered
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
    """Answers the questions for its facts, one of them with an error."""

    def __init__(self, code: int | None) -> None:
        self._code = code

    async def ask(self, code: int, *_: object) -> RemotingCommand:
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            raise AskError("IndexOutOfBoundsException", self._code)
        cache, status = EpochEntryCache(1, "g", "c", (), 7), HARuntimeInfo(master=True)
        body = cache.encode() if code == RequestCode.GET_BROKER_EPOCH_CACHE else status.encode()
        return RemotingCommand(code, body=body)


async def test_a_broker_that_fails_at_its_figures_still_tells_its_role() -> None:
    broker: Any = _Broker(ResponseCode.SYSTEM_ERROR)
    facts = await ask_broker(broker, "10.0.0.1:10911")
    assert (facts.is_master, facts.max_offset, facts.dispatch_behind_bytes) == (True, 7, None)


@pytest.mark.parametrize("code", [None, ResponseCode.NO_PERMISSION])
async def test_a_broker_that_refuses_its_figures_or_does_not_answer_tells_nothing(code: int | None) -> None:
    broker: Any = _Broker(code)
    with pytest.raises(AskError):
        await ask_broker(broker, "10.0.0.1:10911")
