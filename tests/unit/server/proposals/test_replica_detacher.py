"""A master is replaced only after the log replica of its set has left it."""

import asyncio

import pytest

from controller_core.channel import Connection
from controller_core.groups.commands import Cause, ElectMaster, LiveBroker, Stamp, Suspicion
from controller_core.groups.group import Group
from controller_core.groups.keys import MasterEpoch
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.proposals import replica_detacher
from controller_core.server.proposals.replica_detacher import ReplicaDetacher
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode


class FakeLogReplica(FakeBroker):
    """A log replica that records the group's record at each request to detach."""

    one: OneNode
    parted: list[tuple[int, int]]
    is_mute = False

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        notice = headers.NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext)
        if request.code != RequestCode.NOTIFY_BROKER_ROLE_CHANGED or notice.master_broker_id is not None:
            return super()._on_request(connection, request)
        assert not request.is_oneway
        self.parted.append((notice.master_epoch or 0, self.one.group().master_epoch))
        return None if self.is_mute else RemotingCommand.response_to(request, ResponseCode.SUCCESS)


def log_replica(one: OneNode) -> FakeLogReplica:
    replica = FakeLogReplica([one.remoting], "b1", beat_interval_s=0.05, log_replica=True)
    replica.one, replica.parted = one, []
    return replica


async def replaced(one: OneNode, epoch: int) -> Group:
    async with asyncio.timeout(60):
        while one.group().master_epoch <= epoch:
            await one.machine.news()
    return one.group()


async def test_the_log_replica_parts_from_a_dead_master_before_another_is_elected(one: OneNode) -> None:
    async with one.broker() as old, one.broker() as new, log_replica(one) as replica:
        await old.elect()
        await old.alter((1, 2, 3), set_epoch=1)
        await old.die()
        group = await replaced(one, epoch=1)
        assert (group.master_id, group.master_epoch) == (new.broker_id, 2)
        assert replica.parted == [(1, 1)]


async def test_a_log_replica_that_does_not_answer_is_not_waited_for(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_detacher, "ANSWER_WITHIN_S", 0.05)
    async with one.broker() as old, one.broker() as new, log_replica(one) as replica:
        replica.is_mute = True
        await old.elect()
        await old.alter((1, 2, 3), set_epoch=1)
        await old.die()
        assert (await replaced(one, epoch=1)).master_id == new.broker_id
        assert replica.parted == [(1, 1)]


@pytest.mark.parametrize(
    ("cause", "wait_ms"),
    [(Cause.NODE_LOST, replica_detacher.LOST_NODE_WAIT_MS), (Cause.HEARTBEAT_TIMEOUT, None)],
)
async def test_a_master_that_is_lost_with_its_node_is_given_little_time_to_notice(
    one: OneNode, cause: Cause, wait_ms: int | None
) -> None:
    async with one.broker() as old, one.broker() as new, log_replica(one) as replica:
        await old.elect()
        await old.alter((1, 2, 3), set_epoch=1)
        stamp = Stamp(0, 0, "test")
        command = ElectMaster(
            cluster="c1",
            broker_name="b1",
            stamp=stamp,
            cause=cause,
            alive=(LiveBroker(new.broker_id), LiveBroker(replica.broker_id)),
            suspicion=Suspicion(old.broker_id, MasterEpoch(1), stamp),
        )
        waits_ms = []

        async def ask(_address: str, request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
            waits_ms.append(headers.NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext).part_wait_ms)
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS)

        assert await ReplicaDetacher(one.machine.state, ask).detach_before(command) == (replica.broker_id,)
        assert waits_ms == [wait_ms]


async def test_a_log_replica_outside_the_set_is_not_asked(one: OneNode) -> None:
    async with one.broker() as old, one.broker(), log_replica(one) as replica:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        await old.die()
        await replaced(one, epoch=1)
        assert replica.parted == []


async def test_a_master_that_nobody_can_follow_is_left_all_the_same(one: OneNode) -> None:
    async with one.broker() as old, log_replica(one) as replica:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        await old.die()
        group = await replaced(one, epoch=1)
        assert (group.master_id, replica.parted) == (None, [(1, 1)])


async def test_nobody_parts_for_an_election_that_changes_nothing(one: OneNode) -> None:
    async with one.broker() as master, one.broker() as other, log_replica(one) as replica:
        await master.elect()
        await master.alter((1, 2, 3), set_epoch=1)
        answer = await other.elect()
        assert answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        assert replica.parted == []
