"""Elections that no broker asks for: silence, cold start, successive deaths, the recorded reasons."""

import asyncio

import pytest

from controller_core.groups.commands import DEFAULT_HEARTBEAT_TIMEOUT_MS
from controller_core.groups.history import FailoverRecord
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.remoting.codes import ResponseCode
from ha_sidecar.decisions.write_lease import CLOSED_MS
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

B1 = GroupKey("c1", "b1")
WITHIN_S = 60.0


async def _master_and_slave(one: OneNode) -> tuple[FakeBroker, FakeBroker]:
    master, slave = one.broker(), one.broker()
    await master.start()
    await master.elect()
    master.epoch = 1
    await slave.start()
    assert (await master.alter((1, 2), set_epoch=1)).code == ResponseCode.SUCCESS
    return master, slave


def _has_run_for_long(one: OneNode) -> None:
    """Let neither the node nor the first member be starting: the silence that it announces counts."""
    one.heartbeats.table._judges_from_ms = 0
    entry = one.heartbeats.table.get(ReplicaKey(*B1, 1))
    assert entry is not None
    entry.starting_until_ms = 0


async def _record(one: OneNode, epoch: int) -> FailoverRecord:
    """Return the record of the group's election once its times are complete."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            record = one.machine.state.history.failover(B1, epoch)
            if record is not None and record.role_taken_ns is not None:
                return record
            await one.machine.news()


async def test_a_node_that_has_just_started_judges_no_silence(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    started_ms = one.heartbeats.listening_since_ms
    master.timeout_ms = 300
    master.beat()
    await master.fall_silent()
    entry = one.heartbeats.table.get(ReplicaKey(*B1, 1))
    assert entry is not None
    assert entry.deadline_ms >= started_ms + DEFAULT_HEARTBEAT_TIMEOUT_MS > started_ms + CLOSED_MS
    await slave.die()
    await master.die()


async def test_silence_is_a_death_when_the_announced_time_is_over(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    loop = asyncio.get_running_loop()
    await master.fall_silent()
    _has_run_for_long(one)
    master.timeout_ms = 300
    begin_s = loop.time()
    master.beat()
    notice = await slave.wait_notice(2)
    assert 0.29 < notice.at_s - begin_s < 3.0  # and not the 10 s of the beats before
    record = await _record(one, 2)
    assert record.cause == "HeartbeatTimeout"
    await slave.die()
    await master.die()


async def test_the_times_of_a_failover_are_recorded_in_their_order(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    await master.die()
    await slave.wait_notice(2)
    record = await _record(one, 2)
    times = [
        record.last_heartbeat_ns,
        record.suspected_ns,
        record.proposed_ns,
        record.committed_ns,
        record.noticed_ns,
        record.role_taken_ns,
    ]
    assert None not in times
    assert times == sorted(times, key=lambda one_ns: one_ns or 0)
    assert record.cause == "ConnectionClosed"
    await slave.die()


async def test_an_alter_in_the_new_epoch_shows_that_the_role_is_taken(one: OneNode) -> None:
    async with one.broker(beats=False) as broker:
        await broker.elect()
        broker.epoch = 1
        await broker.alter((1,), set_epoch=1)  # refused, being equal, but sent as master of epoch 1
        broker.beat()
        assert (await _record(one, 1)).role_taken_ns is not None


async def test_when_all_die_the_old_master_is_fenced_by_a_new_epoch(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    await slave.die()
    await master.die()
    await _epoch(one, 2)
    group = one.machine.state.get(B1)
    assert group is not None
    assert (group.master_id, group.sync_state_set) == (None, (1, 2))


async def _epoch(one: OneNode, epoch: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while (group := one.machine.state.get(B1)) is None or group.master_epoch < epoch:
            await one.machine.news()


async def test_the_winner_that_dies_before_it_is_elected_is_replaced_too(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    third = one.broker()
    await third.start()
    assert (await master.alter((1, 2, 3), set_epoch=2)).code == ResponseCode.SUCCESS
    await asyncio.gather(master.die(), slave.die())
    notice = await third.wait_notice(2)
    async with asyncio.timeout(WITHIN_S):
        while notice.header.master_broker_id != 3:
            notice = await third.wait_notice((notice.header.master_epoch or 0) + 1)
    await third.die()


async def test_who_only_just_began_to_listen_does_not_judge_by_silence(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    table = one.heartbeats.table
    # As after a cold start: the state is there, the master has not been heard and not been seen to die.
    master_entry = table.get(ReplicaKey(*B1, 1))
    assert master_entry is not None
    await master.fall_silent()
    table.channel_closed(master_entry.channel_id, one.heartbeats.listening_since_ms)
    table.__dict__["_deaths"].clear()
    refused = await slave.elect()
    assert refused.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    one.heartbeats.listening_since_ms -= 60_000
    assert (await slave.elect()).code == ResponseCode.SUCCESS
    await master.die()
    await slave.die()


@pytest.mark.parametrize("given", [{"scanInactiveMasterInterval": "100"}])
async def test_the_scan_finds_what_no_death_told(one: OneNode) -> None:
    master, slave = await _master_and_slave(one)
    entry = one.heartbeats.table.get(ReplicaKey(*B1, 1))
    assert entry is not None
    await master.fall_silent()
    one.heartbeats.table.channel_closed(entry.channel_id, entry.last_beat_ms)  # this death causes no notice
    notice = await slave.wait_notice(2)
    assert notice.header.master_broker_id == 2
    await master.die()
    await slave.die()


@pytest.mark.parametrize("given", [{"notifyBrokerRoleChanged": "false"}])
async def test_a_new_leader_tells_of_an_election_that_the_one_before_did_not(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
        assert broker.notices == []
        one.config.update("notifyBrokerRoleChanged=true")
        one.controller.leader_elections.wake()  # as on gaining leadership
        assert (await broker.wait_notice(1)).header.master_address == broker.address
        assert (await _record(one, 1)).noticed_ns is not None
