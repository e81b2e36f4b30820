"""Questions are repeated until the controllers answer; the caller hears of each failed attempt."""

from typing import Any

import pytest

from ha_sidecar.common import questions
from ha_sidecar.common.controllers import ControllersUnavailableError
from ha_sidecar.common.questions import UnknownGroupError, ask_group_until_answered
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
