"""The order of notices of a new master, with the old master's writes stopped and without."""

import asyncio
from collections.abc import Sequence

import pytest

from controller_core.channel.errors import CallTimeoutError
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.notices import notice_order
from controller_core.server.notices.notice_order import RoleChanges
from controller_core.server.notices.notifier import Notifier

WITHIN_S = 60.0
GROUP = GroupKey("c1", "g")


class RecordingNotifier(Notifier):
    """Replaces the notifier: records the recipients, and answers 906 as the old master would."""

    def __init__(self) -> None:
        super().__init__(lambda _notice: None)
        self.told: list[int] = []
        self.asked = asyncio.Event()
        self.stepped_down = asyncio.Event()
        self.answers = True
        self.refuses = False

    def notify(self, notices: Sequence[RoleNotice]) -> None:  # type: ignore[override]  # tests pass sequences only
        """Note who is told."""
        self.told += [notice.broker_id for notice in notices]

    async def ask(self, address: str, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Answer as a master until it has stepped down, then as a slave; or not at all."""
        self.asked.set()
        if not self.answers:
            raise CallTimeoutError(address, request.code, timeout_s)
        if self.refuses:
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="username is null")
        ext = {} if self.stepped_down.is_set() else {"masterAddress": address, "masterFlushOffset": "0"}
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, ext)


def _notices(*ids: int, master: int) -> list[RoleNotice]:
    return [
        RoleNotice(GroupKey("c", "g"), broker_id, f"h:{broker_id}", master, f"h:{master}", 5, 6, (master,))
        for broker_id in ids
    ]


async def test_nobody_else_is_told_before_the_old_master_has_stepped_down() -> None:
    brokers = RecordingNotifier()
    telling = asyncio.create_task(
        RoleChanges(brokers).tell(_notices(1, 2, 3, master=2), old_master_id=1, writes_stopped=False)
    )
    await asyncio.wait_for(brokers.asked.wait(), WITHIN_S)
    assert brokers.told == [1]
    brokers.stepped_down.set()
    await asyncio.wait_for(telling, WITHIN_S)
    assert brokers.told == [1, 2, 3]


async def test_a_dead_old_master_is_not_waited_for() -> None:
    brokers = RecordingNotifier()
    await RoleChanges(brokers).tell(_notices(2, 3, master=2), old_master_id=1, writes_stopped=False)
    assert brokers.told == [2, 3]
    assert not brokers.asked.is_set()


async def test_the_first_master_of_a_group_is_told_at_once_with_all() -> None:
    brokers = RecordingNotifier()
    await RoleChanges(brokers).tell(_notices(1, 2, master=1), old_master_id=None, writes_stopped=False)
    assert brokers.told == [1, 2]


async def test_an_old_master_that_is_elected_again_is_not_waited_for() -> None:
    brokers = RecordingNotifier()
    await RoleChanges(brokers).tell(_notices(1, 2, master=1), old_master_id=1, writes_stopped=False)
    assert brokers.told == [1, 2]


@pytest.mark.parametrize("answers", [True, False])
async def test_an_old_master_that_does_not_step_down_holds_its_group_up_no_longer_than_the_bound(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notice_order, "DEMOTED_WITHIN_S", 0.05)
    brokers = RecordingNotifier()
    brokers.answers = answers
    await asyncio.wait_for(
        RoleChanges(brokers).tell(_notices(1, 2, master=2), old_master_id=1, writes_stopped=False), WITHIN_S
    )
    assert brokers.told == [1, 2]


async def test_a_refusal_is_not_taken_for_a_step_down_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = RecordingNotifier()
    brokers.refuses = True
    monkeypatch.setattr(notice_order, "ASK_PAUSE_S", 0.0)
    monkeypatch.setattr(notice_order, "DEMOTED_WITHIN_S", WITHIN_S)
    telling = asyncio.create_task(
        RoleChanges(brokers).tell(_notices(1, 2, master=2), old_master_id=1, writes_stopped=False)
    )
    for _ in range(3):
        brokers.asked.clear()
        await asyncio.wait_for(brokers.asked.wait(), WITHIN_S)
    assert brokers.told == [1]
    brokers.refuses = False
    brokers.stepped_down.set()
    await asyncio.wait_for(telling, WITHIN_S)
    assert brokers.told == [1, 2]
    refusals = [
        record for record in caplog.records if "was answered 16: username is null" in record.getMessage()
    ]
    assert len(refusals) == 1


async def test_others_are_told_also_when_the_telling_is_cancelled() -> None:
    brokers = RecordingNotifier()
    telling = asyncio.create_task(
        RoleChanges(brokers).tell(_notices(1, 2, master=2), old_master_id=1, writes_stopped=False)
    )
    await asyncio.wait_for(brokers.asked.wait(), WITHIN_S)
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    assert brokers.told == [1, 2]


async def test_the_new_master_is_told_first_when_the_writes_are_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notice_order, "HEAD_START_S", 0.0)
    brokers = RecordingNotifier()
    notices = _notices(1, 2, 3, master=2)
    telling = asyncio.create_task(RoleChanges(brokers).tell(notices, old_master_id=1, writes_stopped=True))
    await asyncio.sleep(0)
    assert brokers.told == [2]
    await asyncio.wait_for(brokers.asked.wait(), WITHIN_S)
    assert brokers.told == [2, 1, 3]
    assert not telling.done()
    brokers.stepped_down.set()
    await asyncio.wait_for(telling, WITHIN_S)


async def test_others_are_told_also_when_the_new_masters_head_start_is_cancelled() -> None:
    brokers = RecordingNotifier()
    notices = _notices(1, 2, 3, master=2)
    telling = asyncio.create_task(RoleChanges(brokers).tell(notices, old_master_id=1, writes_stopped=True))
    await asyncio.sleep(0)
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    assert brokers.told == [2, 1, 3]


async def test_a_group_is_settled_when_its_last_open_change_has_ended() -> None:
    changes = RoleChanges(RecordingNotifier())
    with changes.open(GROUP):
        with changes.open(GROUP):
            waiting = asyncio.create_task(changes.settled(GROUP))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert changes.is_open(GROUP)
        assert not changes.is_open(GroupKey("c2", "g"))
        assert not waiting.done()
    await asyncio.wait_for(waiting, WITHIN_S)
    assert not changes.is_open(GROUP)
