"""The leader asks members for their epochs (1007): answers, refusals, silence and how long it waits."""

import asyncio
from collections.abc import Callable

import pytest

from controller_core.channel.errors import ConnectError
from controller_core.groups.commands import LiveBroker, MemberLog
from controller_core.groups.elections.first_elections import EPOCH_JUMP_MAX
from controller_core.remoting.bodies import EpochEntryBody, EpochEntryCache
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.elections.member_logs import (
    ASKED_AT_ONCE_MAX,
    LIST_BYTES_MAX,
    LISTS_AWAITED_MS,
    LogUnknownError,
    MemberLogs,
)
from testkit.clocks.stepped import SteppedClock
from testkit.raft.groups import CLUSTER, NAME, GroupsDriver

Answer = Callable[[RemotingCommand], RemotingCommand]


def body(broker_id: int, *starts: tuple[int, int], end: int = 150, name: str = NAME) -> bytes:
    entries = tuple(EpochEntryBody(7, epoch, start) for epoch, start in starts)
    return EpochEntryCache(broker_id, name, CLUSTER, entries, end).encode()


def tells(content: bytes) -> Answer:
    return lambda request: RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=content)


def refuses(request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="no")


def is_silent(_request: RemotingCommand) -> RemotingCommand:
    raise ConnectError("it does not answer")


class Asking:
    """A leader that asks members 1, 2, ...; each answers in its way."""

    def __init__(self, *members: Answer) -> None:
        self.members = {f"a:{broker_id}": answer for broker_id, answer in enumerate(members, 1)}
        self.driver = GroupsDriver()
        for broker_id in range(1, len(members) + 1):
            self.driver.register(broker_id, f"a:{broker_id}", take_up=True)
        self.clock = SteppedClock()
        self.forgotten: list[str] = []
        self.at_once = self.at_once_max = 0
        self.logs = MemberLogs(self._ask, self.clock, self.forgotten.append)

    async def _ask(self, address: str, request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
        assert request.code == RequestCode.GET_BROKER_EPOCH_CACHE
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self.members[address](request)

    async def told(self) -> tuple[MemberLog, ...]:
        """Ask everybody once."""
        alive = [LiveBroker(broker_id, 3, 100) for broker_id in range(1, len(self.members) + 2)]
        return await self.logs.of(self.driver.group, alive)


async def test_the_lists_of_all_members_are_told_whatever_their_role() -> None:
    asking = Asking(
        tells(body(0, (1, 0), (2, 100))), tells(body(2, (1, 0), (3, 150))), tells(body(-1, end=9))
    )
    assert await asking.told() == (
        MemberLog(1, 2, 2, 150),
        MemberLog(2, 3, 1, 150),
        MemberLog(3, -1, -1, 9),
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refuses, id="refused"),
        pytest.param(tells(b"{}"), id="unreadable"),
        pytest.param(tells(b" " * (LIST_BYTES_MAX + 1)), id="too long"),
        pytest.param(tells(body(2, (EPOCH_JUMP_MAX + 1, 0))), id="an epoch that cannot be true"),
        pytest.param(tells(body(2, (1, 0), end=-1)), id="an end that cannot be true"),
    ],
)
async def test_a_list_that_cannot_be_used_is_left_out_at_once(answer: Answer) -> None:
    asking = Asking(tells(body(1, (1, 0))), answer)
    assert [log.id for log in await asking.told()] == [1]


async def test_a_silent_member_is_waited_for_to_the_millisecond_and_no_longer() -> None:
    asking = Asking(tells(body(1, (1, 0))), is_silent)
    for elapsed_ms in (0, LISTS_AWAITED_MS - 1):
        asking.clock.at_ms += elapsed_ms
        with pytest.raises(LogUnknownError, match=r"members 2 .*it does not answer"):
            await asking.told()
    asking.clock.at_ms += 1
    assert [log.id for log in await asking.told()] == [1]


async def test_a_member_that_answers_late_ends_the_wait() -> None:
    asking = Asking(is_silent)
    with pytest.raises(LogUnknownError):
        await asking.told()
    asking.members["a:1"] = tells(body(1, (1, 0)))
    assert [log.id for log in await asking.told()] == [1]


async def test_the_wait_begins_anew_when_the_group_was_not_due_in_between() -> None:
    asking = Asking(is_silent)
    with pytest.raises(LogUnknownError):
        await asking.told()
    asking.clock.at_ms += LISTS_AWAITED_MS
    asking.logs.keep(())
    with pytest.raises(LogUnknownError):
        await asking.told()


@pytest.mark.parametrize("other", [body(7, (1, 0)), body(0, (1, 0), name="other")])
async def test_the_answer_of_another_member_does_not_count_and_its_connection_is_closed(other: bytes) -> None:
    asking = Asking(tells(other))
    with pytest.raises(LogUnknownError, match="answers for 1"):
        await asking.told()
    assert asking.forgotten == ["a:1"]


async def test_only_so_many_members_are_asked_at_once() -> None:
    asking = Asking(*(tells(body(0, (1, 0))) for _ in range(3 * ASKED_AT_ONCE_MAX)))
    assert len(await asking.told()) == 3 * ASKED_AT_ONCE_MAX
    assert asking.at_once_max == ASKED_AT_ONCE_MAX
