"""A leader that is new keeps the log replica that detached in the set, until the new master has met it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from controller_core.channel import Connection
from controller_core.groups.commands import AnyCommand
from controller_core.groups.elections.election import role_notices
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, MasterEpoch, ReplicaKey
from controller_core.groups.replies import GroupReply, Outcome
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server import controller
from controller_core.server.clock import Clock
from controller_core.server.proposals import failover_times
from controller_core.server.proposals.log_ends import VERSION_V5_2_0
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode
from testkit.raft.groups import GroupsDriver, ids_of

WITHIN_S = 60.0


class AllAckBroker(FakeBroker):
    """A broker whose acknowledgement needs every member of the set; it tells the end of its log."""

    def __init__(self, one: OneNode) -> None:
        super().__init__([one.remoting], "b1", beat_interval_s=0.05)
        self.epochs_refusal = ""

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.GET_BROKER_CONFIG:
            body = b"allAckInSyncStateSet=true\nminInSyncReplicas=2\n"
            answer = RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)
            return replace(answer, version=VERSION_V5_2_0)
        return super()._on_request(connection, request)


class DetachingReplica(FakeBroker):
    """A log replica that detaches when it is asked to."""

    def __init__(self, one: OneNode) -> None:
        super().__init__([one.remoting], "b1", beat_interval_s=0.05, log_replica=True)
        self.epochs_refusal = ""
        self.is_mute = False

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        notice = headers.NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext)
        if request.code != RequestCode.NOTIFY_BROKER_ROLE_CHANGED or notice.master_broker_id is not None:
            return super()._on_request(connection, request)
        return None if self.is_mute else RemotingCommand.response_to(request, ResponseCode.SUCCESS)


@asynccontextmanager
async def replaced(one: OneNode, *, is_mute: bool = False) -> AsyncIterator[tuple[FakeBroker, Group]]:
    """Kill the master of two brokers and a log replica; yield its successor, and the group with it."""
    async with AllAckBroker(one) as old, AllAckBroker(one) as new, DetachingReplica(one) as replica:
        replica.is_mute = is_mute
        await old.elect()
        await old.alter((1, 2, 3), set_epoch=1)
        await old.die()
        async with asyncio.timeout(WITHIN_S):
            while one.group().master_epoch == 1:
                await one.machine.news()
        yield new, one.group()


async def test_the_log_replica_is_in_the_set_from_the_election_on(one: OneNode) -> None:
    async with replaced(one) as (new, group):
        assert (group.master_id, group.sync_state_set) == (2, (2, 3))
        notice = await new.wait_notice(2)
        assert notice.sync_state_set.sync_state_set == (2, 3)


async def test_a_leader_of_a_while_elects_as_rocketmq_does(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "NEW_LEADER_MS", 0)
    async with replaced(one) as (_, group):
        assert group.sync_state_set == (2,)


async def test_a_log_replica_that_does_not_answer_is_not_kept(one: OneNode) -> None:
    async with replaced(one, is_mute=True) as (_, group):
        assert group.sync_state_set == (2,)


async def test_the_new_master_may_not_drop_it_in_the_moment_in_which_it_takes_its_role(one: OneNode) -> None:
    async with replaced(one) as (new, group):
        await new.wait_notice(2)
        refusal = await new.alter((2,), set_epoch=group.set_epoch)
        assert refusal.code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        assert refusal.remark == "The election has just kept 3 in the SyncStateSet"
        assert one.group() == group


@pytest.mark.parametrize(("members", "count"), [((2, 3), 1), ((2,), 0)], ids=["kept", "alone"])
async def test_the_first_act_of_a_master_with_a_copy_is_recorded_at_once(
    monkeypatch: pytest.MonkeyPatch, members: tuple[int, ...], count: int
) -> None:
    monkeypatch.setattr(failover_times, "RECORD_SOON_S", 3_600.0)
    proposed: list[AnyCommand] = []
    was_proposed = asyncio.Event()

    async def propose(command: AnyCommand) -> Outcome:
        proposed.append(command)
        was_proposed.set()
        return Outcome(GroupReply(ResponseCode.SUCCESS))

    recorder = failover_times.FailoverTimesRecorder(Clock("unit"), propose)
    group = GroupsDriver().group_of_three(log_replicas=(3,)).group
    after = replace(group, master_id=2, master_epoch=MasterEpoch(2), sync_state_set=ids_of(members))
    recorder.watch(role_notices(after, ids_of((2, 3))), None)
    recorder.saw_epoch(ReplicaKey(*group.key, BrokerId(2)), 2, is_beat=False)
    if count:
        async with asyncio.timeout(WITHIN_S):
            await was_proposed.wait()
    else:
        await asyncio.sleep(0)
    await recorder.stop()
    assert len(proposed) == count
