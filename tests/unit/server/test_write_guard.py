"""A living master is replaced only when it takes no writes any more and its slaves have all of its log."""

import asyncio
from dataclasses import dataclass, field

import pytest

from controller_core.channel import Connection
from controller_core.groups import commands
from controller_core.groups.commands import RaiseWriteGuard, Stamp
from controller_core.remoting import headers
from controller_core.remoting.bodies import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server import asking_brokers
from controller_core.server import write_guard as module
from testkit.fake_broker import FakeBroker
from testkit.one_node import OneNode

GUARDED = module.OUT_OF_REACH


@dataclass
class Store:
    """What the master says of its log and settings, and what it was asked."""

    setting: int = 2
    end: int = 100
    slave_acks: list[int] = field(default_factory=lambda: [100])
    refuses: set[int] = field(default_factory=set)
    mute: set[int] = field(default_factory=set)
    hangs_up: int = 0
    asked: list[str] = field(default_factory=list)
    lent_to: set[int] = field(default_factory=set)
    looked: asyncio.Event = field(default_factory=asyncio.Event)


class Master(FakeBroker):
    """A broker with settings and slaves."""

    store: Store
    accepted: list[Connection]

    def _on_connection(self, connection: Connection) -> None:
        self.accepted.append(connection)
        super()._on_connection(connection)

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code in self.store.refuses:
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="not you")
        if request.code in self.store.mute:
            return None
        if request.code == RequestCode.GET_BROKER_CONFIG and self.store.hangs_up:
            self.store.hangs_up -= 1
            connection.abort()
            return None
        body = b""
        match request.code:
            case RequestCode.GET_BROKER_CONFIG:
                self.store.asked.append("setting?")
                port = "1" if id(connection) in self.store.lent_to else self.address.rpartition(":")[2]
                body = f"brokerIP1=127.0.0.1\nlistenPort={port}\nminInSyncReplicas={self.store.setting}\n".encode()
            case RequestCode.UPDATE_BROKER_CONFIG:
                self.store.setting = int(request.body.decode().removeprefix("minInSyncReplicas="))
                self.store.asked.append(f"set {self.store.setting}")
            case RequestCode.GET_BROKER_HA_STATUS:
                self.store.asked.append("slaves?")
                self.store.looked.set()
                slaves = tuple(
                    HAConnectionRuntimeInfo(in_sync=True, slave_ack_offset=ack)
                    for ack in self.store.slave_acks
                )
                body = HARuntimeInfo(
                    HAClientRuntimeInfo(), slaves, len(slaves), True, self.store.end
                ).encode()
            case RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
                self.store.asked.append("told")
                return super()._on_request(connection, request)
            case _:
                return super()._on_request(connection, request)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


def master_of(one: OneNode) -> Master:
    master = Master([one.remoting], "b1", beat_interval_s=0.05)
    master.store, master.accepted = Store(), []
    return master


async def switch_over(asker: FakeBroker, to: int) -> RemotingCommand:
    """Designate a master as mqadmin does."""
    return await asker.call(
        RequestCode.CONTROLLER_ELECT_MASTER,
        headers.ElectMasterRequestHeader("b1", "c1", to, designate_elect=True),
    )


async def lifted(one: OneNode) -> None:
    async with asyncio.timeout(60):
        while one.group().write_guards:
            await one.machine.news()


async def test_writes_are_stopped_and_drained_before_another_is_master_and_allowed_afterwards(
    one: OneNode,
) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.asked.clear()
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        await lifted(one)
        asked = old.store.asked
        assert asked[:4] == ["setting?", f"set {GUARDED}", "slaves?", "slaves?"]
        assert asked.index("told") < asked.index("set 2") == len(asked) - 1
        assert one.group().master_id == 2
        kinds = [str(event.kind) for event in one.machine.state.history.events]
        order = ["WritesStopped", "MasterElected", "WritesAllowed"]
        positions = [len(kinds) - 1 - kinds[::-1].index(kind) for kind in order]
        assert positions == sorted(positions)


async def test_a_connection_of_a_time_when_another_answered_at_the_address_is_not_used(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        await old.wait_notice(1)
        old.store.lent_to = {id(connection) for connection in old.accepted}
        assert old.store.lent_to
        old.store.asked.clear()
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert old.store.asked[:3] == ["setting?", "setting?", f"set {GUARDED}"]


async def test_nobody_is_elected_while_a_slave_lacks_part_of_the_log(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAINED_WITHIN_S", 60.0)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        assert not switching.done()
        assert one.group().master_id == 1
        old.store.slave_acks = [100]
        assert (await switching).code == ResponseCode.SUCCESS
        assert one.group().master_id == 2


async def test_a_switchover_whose_slaves_do_not_catch_up_is_refused_and_the_master_writes_on(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAINED_WITHIN_S", 0.05)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "Master 1 of b1 keeps its office" in (answer.remark or "")
        await lifted(one)
        assert (one.group().master_id, one.group().master_epoch) == (1, 1)
        assert old.store.setting == 2


async def test_a_log_that_still_grows_is_not_drained(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAINED_WITHIN_S", 0.1)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        growing = asyncio.create_task(_grow(old.store))
        answer = await switch_over(new, to=2)
        growing.cancel()
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED


async def _grow(store: Store) -> None:
    while True:
        store.looked.clear()
        await store.looked.wait()
        store.end += 1
        store.slave_acks = [store.end]


async def test_a_setting_that_somebody_else_changed_meanwhile_refuses_the_switchover(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        old.store.setting, old.store.slave_acks = 1, [100]
        answer = await switching
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "changed meanwhile" in (answer.remark or "")


async def test_a_master_that_does_not_tell_its_settings_is_replaced_without_a_guard(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.refuses = {RequestCode.GET_BROKER_CONFIG}
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert one.group().master_id == 2
        assert old.store.setting == 2


async def test_a_master_that_listens_and_gives_no_answer_keeps_its_office(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_brokers, "ASK_TIMEOUT_S", 0.05)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.mute = {RequestCode.GET_BROKER_CONFIG}
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "Master 1 of b1 keeps its office" in (answer.remark or "")
        assert (one.group().master_id, one.group().write_guards) == (1, {})


async def test_a_connection_that_ends_while_a_master_is_asked_costs_no_guard(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.hangs_up = 1
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert f"set {GUARDED}" in old.store.asked
        assert old.store.hangs_up == 0


async def test_a_master_that_does_not_say_whether_it_stopped_keeps_its_office(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_brokers, "ASK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "LIFT_PAUSE_S", 0.01)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.mute = {RequestCode.UPDATE_BROKER_CONFIG}
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert one.group().write_guards == {1: 2}
        old.store.mute.clear()
        await lifted(one)
        assert old.store.asked[-1] == "set 2"


async def test_the_death_of_a_master_is_not_held_up_by_a_guard(one: OneNode) -> None:
    old = master_of(one)
    await old.start()
    async with one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.asked.clear()
        await old.die()
        await new.wait_notice(2)
        assert old.store.asked == []
        assert one.group().master_id == 2


async def test_a_master_that_dies_while_it_is_guarded_is_followed_by_one_election_only(one: OneNode) -> None:
    old = master_of(one)
    await old.start()
    async with one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        await old.die()
        await new.wait_notice(2)
        answer = await switching
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert (one.group().master_id, one.group().master_epoch) == (2, 2)
        assert one.group().write_guards == {1: 2}  # until it is heard of again


async def test_a_guard_left_behind_is_lifted_when_its_broker_is_heard_of_again(one: OneNode) -> None:
    old = master_of(one)
    await old.start()
    await old.elect()
    await old.die()
    await _leave_a_guard(one, old, epoch=1)
    await old.start()
    await old.elect()
    await lifted(one)
    assert old.store.setting == 2
    await old.die()


async def test_a_new_leader_lifts_the_guards_that_the_leader_before_left(one: OneNode) -> None:
    async with master_of(one) as old:
        await old.elect()
        await _leave_a_guard(one, old, epoch=1)
        one.controller.leadership_changed(True, 2)
        await lifted(one)
        assert old.store.setting == 2


async def _leave_a_guard(one: OneNode, broker: Master, epoch: int) -> None:
    """Note a guard and set the broker, as a leader does that is gone before the end."""
    broker.store.setting = GUARDED
    note = RaiseWriteGuard(
        cluster="c1",
        broker_name="b1",
        stamp=Stamp(1, 1, "gone"),
        master_id=broker.broker_id,
        master_epoch=epoch,
        min_in_sync_replicas=2,
    )
    await one.node.propose(commands.encode(note))
