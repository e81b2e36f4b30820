"""Which reads a node answers while another leads, and when it has the leader answer them."""

import pytest

from controller_core.groups.reads import get_next_broker_id, get_replica_info
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import PreparedAnswer
from controller_core.remoting.headers import GetReplicaInfoRequestHeader
from controller_core.server.common.metrics import Metrics
from controller_core.server.node.proposals import Waiter
from controller_core.server.node.types import FollowerLagsError, NotLeaderError, ReadLateError
from controller_core.server.requests.direct.follower_answers import (
    MASTER_NEW_MS,
    FollowerAnswers,
    WaitingRead,
)
from controller_core.server.requests.forwarding import FORWARDED_BY_FIELD
from testkit.clocks.stepped import SteppedClock
from testkit.raft.groups import GroupsDriver

POLL = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "b1"}).with_opaque(7)
NEXT_ID = RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"brokerName": "b1"})


class NodeThatFollows:
    """A node that does not lead, and what its port was told."""

    def __init__(self) -> None:
        self.is_leader = False
        self.leader_id: int | None = 2
        self.waiters: list[Waiter] = []
        self.driver = GroupsDriver()
        self.clock = SteppedClock()
        self.metrics = Metrics()
        self.told: list[RemotingCommand | PreparedAnswer] = []
        self.again = 0
        self.answers = FollowerAnswers(
            self, self.driver.state, lambda _channel, _name: "", self.clock, self.metrics
        )

    def has_read_lease(self) -> bool:
        """Have no lease."""
        return False

    async def read_barrier(self) -> None:
        """Refuse a leader's read."""
        raise NotLeaderError(self.leader_id)

    def read_for(self, waiter: Waiter) -> None:
        """Keep a read that waits."""
        if self.leader_id is None:
            raise NotLeaderError(None)
        self.waiters.append(waiter)

    def ask(self, request: RemotingCommand = POLL) -> WaitingRead | None:
        """Send a request."""
        waiting = self.answers.ask(1, request, self._read)
        if waiting is not None:
            waiting.on_answer = self.told.append
            waiting.on_again = self._again
        return waiting

    def _again(self) -> None:
        self.again += 1

    def _read(self, _channel_id: int, request: RemotingCommand) -> GroupReply:
        if request.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
            return get_next_broker_id(self.driver.state, "c1", "b1")
        header = GetReplicaInfoRequestHeader.from_ext(request.ext)
        return get_replica_info(self.driver.state, header.broker_name)

    def has_master(self, master_id: int = 1) -> None:
        """Have the group elect a member."""
        for broker_id in (1, 2):
            self.driver.claim(broker_id)
            self.driver.register(broker_id, f"h{broker_id}:1")
        self.driver.elect(master_id, by=master_id, designate=True)

    def answer(self, request: RemotingCommand = POLL) -> RemotingCommand | PreparedAnswer | None:
        """Send a request whose index is applied at once; return its answer, None if the leader has to."""
        self.ask(request)
        self.waiters.pop().set_result(None)
        return self.told.pop() if self.told else None

    def counted(self, result: str) -> float:
        """Return how many reads ended so."""
        name = f'rmqha_controller_follower_reads_total{{result="{result}"}} '
        return float(self.metrics.text().decode().partition(name)[2].split()[0])


def told_code(answer: RemotingCommand | PreparedAnswer | None) -> int | None:
    return None if answer is None else answer.code if isinstance(answer, RemotingCommand) else -1


def test_a_read_is_answered_once_its_index_is_applied() -> None:
    follower = NodeThatFollows()
    waiting = follower.ask()
    assert waiting is not None
    assert follower.told == []
    follower.waiters[0].set_result(None)
    (answer,) = follower.told
    assert isinstance(answer, RemotingCommand)
    assert (answer.code, answer.opaque) == (ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, 7)
    assert waiting.done()
    assert follower.counted("served") == 1


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.CONTROLLER_REGISTER_BROKER,
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
        RequestCode.CONTROLLER_ELECT_MASTER,
    ],
)
def test_answers_that_tell_whom_a_node_hears_and_writes_stay_with_the_leader(code: int) -> None:
    assert NodeThatFollows().ask(RemotingCommand.request(code, {"brokerName": "b1"})) is None


def test_a_leader_and_a_node_that_was_asked_by_another_do_not_answer_as_followers() -> None:
    follower = NodeThatFollows()
    assert follower.ask(RemotingCommand.request(POLL.code, {FORWARDED_BY_FIELD: "n2"})) is None
    follower.is_leader = True
    assert follower.ask() is None


def test_without_a_leader_the_request_takes_the_way_of_all_others() -> None:
    follower = NodeThatFollows()
    follower.leader_id = None
    assert follower.ask() is None
    assert follower.counted("no_leader") == 1


@pytest.mark.parametrize(
    ("error", "result"),
    [(NotLeaderError(3), "no_leader"), (FollowerLagsError(2_000), "lags"), (ReadLateError(), "late")],
)
def test_a_read_that_fails_here_is_served_by_the_leader_once(error: Exception, result: str) -> None:
    follower = NodeThatFollows()
    waiting = follower.ask()
    assert waiting is not None
    waiting.set_exception(error)
    assert (follower.again, follower.told, waiting.done()) == (1, [], True)
    assert follower.counted(result) == 1


def test_a_new_master_is_told_by_the_leader_alone_until_the_old_one_had_its_time() -> None:
    follower = NodeThatFollows()
    follower.has_master(1)
    assert follower.answer() is None
    follower.clock.at_ms += MASTER_NEW_MS - 1
    assert follower.answer() is None
    follower.clock.at_ms += 1
    assert told_code(follower.answer()) == ResponseCode.SUCCESS
    follower.driver.alter([1, 2])
    follower.driver.elect(1, 2, by=2, designate=True)
    assert follower.answer() is None
    follower.clock.at_ms += MASTER_NEW_MS
    assert told_code(follower.answer()) == ResponseCode.SUCCESS
    assert (follower.counted("new_master"), follower.counted("served"), follower.again) == (3, 2, 3)


def test_the_next_id_reveals_no_master_and_is_told_at_once() -> None:
    follower = NodeThatFollows()
    follower.has_master()
    assert told_code(follower.answer(NEXT_ID)) == ResponseCode.SUCCESS


def test_a_request_that_cannot_be_read_is_answered_with_code_1_and_ends_nothing() -> None:
    follower = NodeThatFollows()
    assert told_code(follower.answer(RemotingCommand.request(POLL.code, {}))) == ResponseCode.SYSTEM_ERROR
