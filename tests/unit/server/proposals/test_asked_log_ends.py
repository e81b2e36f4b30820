"""The leader asks living members for the ends of their logs: answers, refusals and silence."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller_core.channel.errors import ConnectError
from controller_core.groups.commands import Cause, ElectMaster, LiveBroker
from controller_core.remoting.bodies import EpochEntryCache
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.proposals import log_ends
from controller_core.server.proposals.log_ends import VERSION_V5_2_0, LogEnds
from testkit.raft.groups import CLUSTER, NAME, GroupsDriver, ids_of, stamp

QUORUM = "allAckInSyncStateSet=false\ninSyncReplicas=2\n"
VERSION_V5_1_1 = 435
ALL = "allAckInSyncStateSet=true\ninSyncReplicas=2\n"
Answer = Callable[[RemotingCommand], RemotingCommand]


def tells(
    broker_id: int, end: int, settings: str = QUORUM, *, name: str = NAME, version: int = VERSION_V5_2_0
) -> Answer:
    """Return a broker that answers; without `settings` it is asked only for its log, as a log replica is."""

    def answer(request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.GET_BROKER_EPOCH_CACHE:
            body = EpochEntryCache(broker_id, name, CLUSTER, (), end).encode()
        else:
            assert request.code == RequestCode.GET_BROKER_CONFIG
            assert settings
            body = settings.encode()
        told = RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)
        return replace(told, version=version)

    return answer


def refuses(request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="no")


def is_silent(_request: RemotingCommand) -> RemotingCommand:
    raise ConnectError("it does not answer")


class AskingLeader:
    """A leader whose group lost its master 1; members 2, 3, ... answer in their ways."""

    def __init__(self, *members: Answer, log_replica: int = 0, outside: int = 0) -> None:
        ids = tuple(range(1, len(members) + 2))
        self.members = {f"a:{broker_id}": answer for broker_id, answer in enumerate(members, 2)}
        self.driver = GroupsDriver()
        for broker_id in ids:
            self.driver.register(
                broker_id, f"a:{broker_id}", take_up=True, log_replica=broker_id == log_replica
            )
        self.driver.elect(1, by=1)
        self.driver.alter(tuple(broker_id for broker_id in ids if broker_id != outside))
        self.asked: list[str] = []
        self.forgotten: list[str] = []
        self.alive = tuple(LiveBroker(broker_id, 1, 40) for broker_id in ids[1:])

    async def _ask(self, address: str, request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
        self.asked.append(address)
        await asyncio.sleep(0)
        return self.members[address](request)

    async def told(self, *, kept: tuple[int, ...] = ()) -> ElectMaster:
        """Prepare the election, in which these log replicas may stay in the set."""
        command = ElectMaster(
            cluster=CLUSTER,
            broker_name=NAME,
            stamp=stamp(1),
            cause=Cause.CONNECTION_CLOSED,
            alive=self.alive,
        )
        ends_of_logs = LogEnds(self.driver.state, self._ask, self.forgotten.append)
        return await ends_of_logs.before(command, ids_of(kept))


def ends(command: ElectMaster) -> dict[int, int]:
    return {broker.id: broker.max_offset for broker in command.alive}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "AWAITED_S", 0.1)
    monkeypatch.setattr(log_ends, "GRACE_S", 0.02)
    monkeypatch.setattr(log_ends, "PAUSE_S", 0.001)


async def test_the_ends_that_members_tell_replace_those_of_their_heartbeats() -> None:
    command = await AskingLeader(tells(2, 70), tells(3, 100)).told()
    assert (ends(command), command.withheld) == ({2: 70, 3: 100}, "")


async def test_a_silent_member_is_asked_again() -> None:
    answers = iter((is_silent, is_silent, is_silent, is_silent))

    def answers_late(request: RemotingCommand) -> RemotingCommand:
        return next(answers, tells(3, 100))(request)

    command = await AskingLeader(tells(2, 70), answers_late).told()
    assert (ends(command), command.withheld) == ({2: 70, 3: 100}, "")


async def test_nobody_is_elected_if_two_copies_may_be_on_members_that_do_not_answer() -> None:
    command = await AskingLeader(tells(2, 70), is_silent).told()
    assert command.withheld == "LogsUnknown"


async def test_a_silent_member_is_not_needed_where_every_member_acknowledges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_ends, "AWAITED_S", 3_600.0)
    command = await AskingLeader(tells(2, 70, ALL), is_silent).told()
    assert (ends(command), command.withheld) == ({2: 70, 3: -1}, "")


async def test_a_log_replica_that_is_ahead_is_found() -> None:
    command = await AskingLeader(tells(2, 70), tells(3, 100, ""), log_replica=3).told()
    assert command.withheld == "LogReplicaAhead"


@pytest.mark.parametrize(("end", "withheld"), [(101, "MemberAhead"), (100, "")])
async def test_a_member_that_had_not_joined_yet_is_asked_for_its_log_only(end: int, withheld: str) -> None:
    command = await AskingLeader(tells(2, 100), tells(3, end, ""), outside=3).told()
    assert command.withheld == withheld


@pytest.mark.parametrize(
    ("settings", "kept"), [(ALL, (3,)), (QUORUM, ()), ("a=\\u12", ())], ids=["all", "quorum", "unreadable"]
)
async def test_log_replicas_are_kept_only_where_every_member_acknowledges(
    settings: str, kept: tuple[int, ...]
) -> None:
    asking = AskingLeader(tells(2, 100, settings), tells(3, 100, ""), log_replica=3)
    assert (await asking.told(kept=(3,))).kept == kept


async def test_log_replicas_are_not_kept_beside_a_broker_that_forgets_unconfirmed_messages() -> None:
    old = tells(2, 100, ALL, version=VERSION_V5_1_1)
    asking = AskingLeader(old, tells(3, 100, ""), log_replica=3)
    assert (await asking.told(kept=(3,))).kept == ()


@pytest.mark.parametrize("other", [tells(3, 100, ALL, version=VERSION_V5_1_1), is_silent])
async def test_nor_beside_two_brokers_of_which_one_is_old_or_does_not_tell(other: Answer) -> None:
    asking = AskingLeader(tells(2, 100, ALL), other, tells(4, 100, ""), log_replica=4)
    assert (await asking.told(kept=(4,))).kept == ()


async def test_brokers_that_refuse_are_compared_by_their_heartbeats_and_not_asked_again() -> None:
    asking = AskingLeader(refuses, refuses)
    command = await asking.told()
    assert (ends(command), command.withheld) == ({2: 40, 3: 40}, "")
    assert sorted(asking.asked) == ["a:2", "a:2", "a:3", "a:3"]


async def test_the_answer_of_another_group_is_not_used_and_its_connection_is_closed() -> None:
    asking = AskingLeader(tells(2, 70), tells(3, 100, name="other"))
    assert (await asking.told()).withheld == "LogsUnknown"
    assert asking.forgotten == ["a:3"]


async def test_settings_that_cannot_be_read_do_not_hide_the_end_of_a_log() -> None:
    command = await AskingLeader(tells(2, 70, "a=\\u12"), tells(3, 100)).told()
    assert (ends(command), command.withheld) == ({2: 70, 3: 100}, "")


async def test_nobody_is_asked_where_the_answers_cannot_matter() -> None:
    asking = AskingLeader(tells(2, 70))
    assert ends(await asking.told()) == {2: 40}
    assert asking.asked == []
