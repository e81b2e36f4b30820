"""Guests pass when the broker can acknowledge, and wait for no longer than `WAIT_S`."""

import asyncio
from dataclasses import replace

import pytest

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.bodies import HAConnectionRuntimeInfo, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.header import Header
from ha_sidecar.companion.guests import admission
from ha_sidecar.companion.guests.admission import Admission
from ha_sidecar.decisions.broker_facts import GroupFacts
from testkit.fakes.held_broker import BEFORE

WITHIN_S = 5.0

SLAVE = HARuntimeInfo(master=False)
ALONE = HARuntimeInfo(master=True)
COPIED = HARuntimeInfo(master=True, ha_connection_info=(HAConnectionRuntimeInfo("a:1", in_sync=True),))
THREE = replace(BEFORE, members=(1, 2, 3))


class ScriptedBroker(Asker):
    """Answers with what it is given, the last one again and again; None for no answer."""

    def __init__(self, *answers: HARuntimeInfo | None) -> None:
        super().__init__(("127.0.0.1", 1))
        self.answers = list(answers)
        self.asked = self.closed = 0

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        """Return the next answer."""
        del header, body
        assert code == RequestCode.GET_BROKER_HA_STATUS
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise AskError("nobody is there")
        return RemotingCommand(code=ResponseCode.SUCCESS, body=answer.encode())

    def close(self) -> None:
        """Note it."""
        self.closed += 1


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([COPIED], 1),
        ([SLAVE, SLAVE, ALONE, COPIED], 4),
        ([SLAVE, None], 2),
        ([None], 1),
    ],
    ids=["can acknowledge", "becomes master and gets its copy", "dies", "is dead"],
)
async def test_a_guest_passes_when_the_broker_can_acknowledge_or_does_not_answer(
    answers: list[HARuntimeInfo | None], asked: int
) -> None:
    broker = ScriptedBroker(*answers)
    await asyncio.wait_for(Admission(lambda: broker, lambda: THREE).passed(), WITHIN_S)
    assert (broker.asked, broker.closed) == (asked, 1)


@pytest.mark.parametrize("before", [None, replace(BEFORE, members=(1, 2))], ids=["unknown", "of two"])
async def test_no_copy_is_waited_for_where_none_can_be_had(before: GroupFacts | None) -> None:
    broker = ScriptedBroker(SLAVE, ALONE)
    await asyncio.wait_for(Admission(lambda: broker, lambda: before).passed(), WITHIN_S)
    assert broker.asked == 2


async def test_a_late_answer_is_not_waited_for_and_the_question_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "answer_within_s", lambda: 0.01)

    class _Hangs(ScriptedBroker):
        async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
            if not self.closed:
                await asyncio.Event().wait()
            return await super().ask(code, header, body)

    broker = _Hangs(COPIED)
    await asyncio.wait_for(Admission(lambda: broker, lambda: THREE).passed(), WITHIN_S)
    assert (broker.asked, broker.closed) == (1, 2), "a new connection for the second question"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(SLAVE, "it is not master"), (ALONE, "it lacks a copy")],
)
async def test_it_says_what_a_guest_waited_for(
    answer: HARuntimeInfo, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admission, "WAIT_S", 0.05)
    broker = ScriptedBroker(answer)
    await asyncio.wait_for(Admission(lambda: broker, lambda: THREE).passed(), WITHIN_S)
    assert reason in caplog.text


async def test_all_that_wait_share_the_questions() -> None:
    broker = ScriptedBroker(SLAVE, SLAVE, COPIED)
    made = Admission(lambda: broker, lambda: THREE)
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(made.passed() for _ in range(100)))
    assert broker.asked == 3


async def test_guests_that_come_right_after_another_has_passed_cost_the_broker_no_question() -> None:
    broker = ScriptedBroker(COPIED, SLAVE)
    made = Admission(lambda: broker, lambda: THREE)
    async with asyncio.timeout(WITHIN_S):
        for _ in range(100):
            await made.passed()
    assert broker.asked == 1


@pytest.mark.parametrize("answer", [None, SLAVE], ids=["no answer", "a slave's"])
async def test_an_answer_that_is_not_a_master_s_counts_for_no_further_guest(
    answer: HARuntimeInfo | None,
) -> None:
    broker = ScriptedBroker(answer, None)
    made = Admission(lambda: broker, lambda: THREE)
    await asyncio.wait_for(made.passed(), WITHIN_S)
    asked = broker.asked
    await asyncio.wait_for(made.passed(), WITHIN_S)
    assert broker.asked > asked


async def test_nobody_waits_for_a_copy_that_was_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WAIT_S", 0.05)
    broker, before = ScriptedBroker(ALONE), [THREE]
    made = Admission(lambda: broker, lambda: before[0])
    await asyncio.wait_for(made.passed(), WITHIN_S)
    asked = broker.asked
    assert asked > 1
    await asyncio.wait_for(made.passed(), WITHIN_S)
    assert broker.asked == asked + 1
    before[0] = replace(THREE, master_epoch=THREE.master_epoch + 2)
    await asyncio.wait_for(made.passed(), WITHIN_S)
    assert broker.asked > asked + 2, "another was master since, so its copy may be on its way"


async def test_a_master_that_lost_its_copy_after_guests_have_passed_takes_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "OPEN_FOR_S", 0.0)
    broker = ScriptedBroker(COPIED, ALONE)
    made = Admission(lambda: broker, lambda: THREE)
    for _ in range(2):
        await asyncio.wait_for(made.passed(), WITHIN_S)
    assert broker.asked == 2


async def test_the_questions_end_with_the_last_guest_that_waits() -> None:
    broker = ScriptedBroker(SLAVE)
    waiting = asyncio.ensure_future(Admission(lambda: broker, lambda: THREE).passed())
    async with asyncio.timeout(WITHIN_S):
        while broker.asked < 2:  # noqa: ASYNC110 - of a task
            await asyncio.sleep(0.001)
    waiting.cancel()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    assert broker.closed == 1
    asked = broker.asked
    await asyncio.sleep(3 * admission.AGAIN_S)
    assert broker.asked == asked
