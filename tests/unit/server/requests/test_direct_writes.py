"""Requests that are proposed at once: each is answered once, whatever becomes of its command."""

import asyncio
from pathlib import Path

import pytest

from controller_core.groups.replies import GroupReply, Outcome
from controller_core.raft.errors import ProposalDroppedError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.common.metrics import Metrics
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.requests.deadlines import Deadlines
from controller_core.server.requests.direct.direct_writes import DirectWrite, DirectWrites
from controller_core.server.requests.forwarding import FATE_UNKNOWN_FIELD, FORWARDED_BY_FIELD
from testkit.products.one_controller import one_node

REQUEST = RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET).with_opaque(7)
DONE = Outcome(GroupReply(ResponseCode.SUCCESS, {"newSyncStateSetEpoch": 2}))


class Waiting:
    """A direct write, and what it was told to do."""

    def __init__(self, request: RemotingCommand = REQUEST) -> None:
        self.metrics = Metrics()
        self.answers: list[RemotingCommand] = []
        self.again = 0
        self.write = DirectWrite(request, self.metrics)
        self.write.on_answer = self.answers.append
        self.write.on_again = self._again

    def _again(self) -> None:
        self.again += 1

    def counted(self, result: str) -> bool:
        """Return whether one command was counted with this result."""
        return f'rmqha_controller_commit_total{{result="{result}"}} 1.0' in self.metrics.text().decode()


def test_an_applied_command_is_answered_at_once() -> None:
    waiting = Waiting()
    waiting.write.set_result(DONE)
    assert [(answer.code, answer.opaque) for answer in waiting.answers] == [(0, 7)]
    assert waiting.write.done()
    assert waiting.counted("applied")


def test_a_command_whose_fate_is_unknown_is_answered_with_2007_and_marked_for_a_forwarding_node() -> None:
    for ext, marked in ((None, False), ({FORWARDED_BY_FIELD: "n1"}, True)):
        waiting = Waiting(RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext))
        waiting.write.set_exception(ProposalLostError("lost"))
        (answer,) = waiting.answers
        assert answer.code == ResponseCode.CONTROLLER_NOT_LEADER
        assert (FATE_UNKNOWN_FIELD in (answer.ext or {})) is marked
        assert waiting.counted("lost")


@pytest.mark.parametrize(
    ("error", "counted"), [(NotLeaderError(2), "not_leader"), (CommandDroppedError("full"), "dropped")]
)
def test_a_command_that_was_not_proposed_after_all_is_served_anew(error: Exception, counted: str) -> None:
    waiting = Waiting()
    waiting.write.set_exception(error)
    assert (waiting.again, waiting.answers, waiting.write.done()) == (1, [], True)
    assert waiting.counted(counted)


async def test_a_request_whose_time_is_over_is_answered_with_2007_and_not_again() -> None:
    waiting = Waiting()
    waiting.write.deadline = Deadlines(0.01).begin(waiting.write)
    async with asyncio.timeout(2):
        while not waiting.answers:  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.01)
    waiting.write.cancel()
    assert [answer.code for answer in waiting.answers] == [ResponseCode.CONTROLLER_NOT_LEADER]
    assert waiting.write.done()


def test_an_answer_that_cannot_be_made_or_sent_does_not_end_the_node() -> None:
    waiting = Waiting()
    waiting.write.set_result("nonsense")
    assert [answer.code for answer in waiting.answers] == [ResponseCode.SYSTEM_ERROR]

    def broken(_answer: RemotingCommand) -> None:
        raise ValueError("broken pipe")

    unsent = Waiting()
    unsent.write.on_answer = broken
    unsent.write.set_result(DONE)
    assert unsent.write.done()


def test_a_command_that_the_log_cannot_take_is_not_waited_for() -> None:
    def full(_command: object, _waiter: object) -> Outcome | None:
        raise CommandDroppedError("full")

    direct = DirectWrites(full, Deadlines(1.0).begin, Metrics())
    assert direct.propose(REQUEST, None) is None  # type: ignore[arg-type] # any command


async def test_over_the_wire_a_dropped_proposal_is_proposed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_node(tmp_path, {"notifyBrokerRoleChanged": "false"}) as one:
        broker = one.broker()
        await broker.start()
        await broker.elect()
        propose_many, dropped = one.node._raw.propose_many, []

        def drop_once(commands: list[bytes]) -> None:
            if not dropped:
                dropped.extend(commands)
                raise ProposalDroppedError("leadership is being handed over")
            propose_many(commands)

        monkeypatch.setattr(type(one.node._raw), "propose_many", lambda _raw, commands: drop_once(commands))
        answer = await broker.alter((broker.broker_id,), one.group().set_epoch)
        assert len(dropped) == 1
        # The set is as it was: the state machine refuses it, so the command was applied after all.
        assert answer.code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        await broker.die()
