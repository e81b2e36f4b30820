"""Brokers with an identity and a log meet a controller without a store, and get a master."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller_core.groups.elections.first_elections import EPOCH_JUMP_MAX, IDLE_EPOCHS_MAX
from controller_core.groups.keys import ReplicaKey
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.server.requests import unknown_members
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode, one_node

WITHIN_S = 30.0
QUICK = {"firstElectionWaitMs": "200", "scanInactiveMasterInterval": "100"}


@asynccontextmanager
async def fresh(tmp_path: Path, **given: str) -> AsyncIterator[OneNode]:
    async with one_node(tmp_path, QUICK | given) as node:
        yield node


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_members, "TAKE_UP_AFTER_MS", 100)


async def old_broker(
    node: OneNode, broker_id: int, epoch: int, max_offset: int, *, acts: bool = False
) -> FakeBroker:
    """Start a broker with an identity of another life and a log; it beats and is not registered."""
    broker = node.broker()
    broker.broker_id, broker.epoch, broker.max_offset, broker.acts_as_master = (
        broker_id,
        epoch,
        max_offset,
        acts,
    )
    await broker.start(register=False)
    broker.beat()
    return broker


async def taken_up(broker: FakeBroker) -> None:
    """Register until it succeeds, as a Java broker does, and beat from then on."""
    async with asyncio.timeout(WITHIN_S):
        while (await broker.announce()).code != ResponseCode.SUCCESS:  # noqa: ASYNC110 - a broker retries so
            await asyncio.sleep(0.02)  # as its retries do
    broker.beat()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - a state emits no event
            await asyncio.sleep(0.01)


async def test_an_unknown_id_is_refused_once_and_taken_up_when_it_is_asked_for_again(tmp_path: Path) -> None:
    async with fresh(tmp_path) as node:
        broker = await old_broker(node, 3, 4, 100)
        first = await broker.announce()
        assert first.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
        assert first.remark == "Broker-set: b1 hasn't been registered in controller"
        await taken_up(broker)
        assert (node.group().address(3), node.group().next_broker_id) == (broker.address, 4)
        await broker.die()


async def test_an_id_that_two_addresses_ask_for_is_given_to_neither(tmp_path: Path) -> None:
    async with fresh(tmp_path) as node:
        one, other = node.broker(), node.broker()
        for broker in (one, other):
            broker.broker_id = 1
            await broker.start(register=False)
            await broker.announce()
        await asyncio.sleep(0.15)
        for broker in (one, other):
            answer = await broker.announce()
            assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
            assert one.address in (answer.remark or "")
            assert other.address in (answer.remark or "")
        assert len(node.machine.state) == 0
        await one.die()
        await other.die()


async def test_the_id_of_a_living_broker_is_refused_to_another_address_until_that_broker_is_dead(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as node:
        holder = node.broker()
        await holder.start()
        thief = node.broker()
        thief.broker_id = 1
        await thief.start(register=False)
        refused = await thief.announce()
        assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert f"held by the living broker at {holder.address}" in (refused.remark or "")
        assert node.group().address(1) == holder.address
        await holder.die()
        await until(lambda: not node.heartbeats.table.is_alive(ReplicaKey("c1", "b1", 1)))
        assert (await thief.announce()).code == ResponseCode.SUCCESS
        await thief.die()


async def test_a_member_that_runs_is_told_to_register_also_when_another_one_has(tmp_path: Path) -> None:
    async with fresh(tmp_path) as node:
        first, second = await old_broker(node, 1, 4, 100), await old_broker(node, 2, 4, 100)
        await taken_up(first)
        assert (await first.replica_info_or_refusal()).code == ResponseCode.SUCCESS
        unknown = (await second.replica_info_or_refusal()).code
        assert unknown == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
        await taken_up(second)
        assert (await second.replica_info_or_refusal()).code == ResponseCode.SUCCESS
        await first.die()
        await second.die()


async def test_the_longest_log_is_elected_once_all_are_heard_and_the_first_to_ask_is_not(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as node:
        stale, newest = await old_broker(node, 1, 3, 900), await old_broker(node, 2, 4, 500)
        await taken_up(stale)
        answer = await stale.elect()
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        await taken_up(newest)
        answer = await newest.elect()
        assert "WaitingForMembers" in (answer.remark or "")
        notice = await stale.wait_notice(5)
        assert (notice.header.master_broker_id, notice.header.master_epoch) == (2, 5 + IDLE_EPOCHS_MAX)
        await stale.die()
        await newest.die()


def lists(broker: FakeBroker, *starts: tuple[int, int]) -> None:
    """Let a broker answer 1007 with these epochs."""
    broker.epoch_starts, broker.epochs_refusal = starts, ""


async def test_a_later_epoch_without_messages_does_not_outrank_a_longer_log(tmp_path: Path) -> None:
    """The example in `groups.elections.member_logs` over the wire.

    Heartbeats tell 2 and 3; the log of 2 is longer.
    """
    async with fresh(tmp_path) as node:
        longer, empty = await old_broker(node, 1, 2, 150), await old_broker(node, 2, 3, 100)
        lists(longer, (1, 0), (2, 100))
        lists(empty, (1, 0), (3, 100))
        await taken_up(longer)
        await taken_up(empty)
        for broker in (longer, empty):
            await broker.elect()
        notice = await empty.wait_notice(4)
        assert (notice.header.master_broker_id, notice.header.master_epoch) == (1, 4 + IDLE_EPOCHS_MAX)
        await longer.die()
        await empty.die()


async def test_a_member_that_refuses_to_tell_its_epochs_is_compared_by_its_heartbeat(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with fresh(tmp_path) as node:
        other, refuses = await old_broker(node, 1, 2, 150), await old_broker(node, 2, 3, 100)
        lists(other, (1, 0), (2, 100))
        await taken_up(other)
        await taken_up(refuses)
        for broker in (other, refuses):
            await broker.elect()
        assert (await other.wait_notice(4)).header.master_broker_id == 2
        fields = [
            vars(one)["rmqha_fields"] for one in caplog.records if "does not tell its epochs" in one.message
        ]
        assert fields[0]["id"] == 2
        assert "its epochs are a secret" in fields[0]["error"]
        await other.die()
        await refuses.die()


async def test_nobody_is_elected_while_a_member_is_not_heard_and_a_person_may_designate_one(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as node:
        second = await old_broker(node, 2, 4, 500)
        await taken_up(second)
        await asyncio.sleep(0.5)
        assert node.group().master_id is None
        assert "WaitingForMembers" in ((await second.elect()).remark or "")
        header = headers.ElectMasterRequestHeader("b1", "c1", 2, designate_elect=True)
        await second.must(RequestCode.CONTROLLER_ELECT_MASTER, header)
        assert (node.group().master_id, node.group().master_epoch) == (2, 5 + IDLE_EPOCHS_MAX)
        await second.die()


async def test_a_member_that_acts_as_master_stays_master_and_one_that_asked_for_a_master_does_not_act(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as node:
        acting = await old_broker(node, 1, 4, 500, acts=True)
        starting = await old_broker(node, 2, 4, 510, acts=True)
        await taken_up(acting)
        await taken_up(starting)
        await starting.elect()
        notice = await starting.wait_notice(5)
        assert notice.header.master_broker_id == 1
        await acting.die()
        await starting.die()


async def test_a_living_member_that_does_not_tell_its_role_is_waited_for(tmp_path: Path) -> None:
    async with fresh(tmp_path) as node:
        broker = await old_broker(node, 1, 4, 500, acts=True)
        broker.min_in_sync_replicas = None  # it answers no question of an administrator
        await taken_up(broker)
        await asyncio.sleep(0.6)
        assert node.group().master_id is None
        broker.min_in_sync_replicas = 2
        assert (await broker.wait_notice(5)).header.master_broker_id == 1
        await broker.die()


async def test_a_new_broker_is_not_elected_at_once_while_members_of_an_earlier_life_are_not_registered(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as node:
        old = await old_broker(node, 2, 4, 500)
        async with node.broker() as new:
            answer = await new.elect()
            assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
            assert "members 2 of an earlier life" in (answer.remark or "")
            old.beat()
            await asyncio.sleep(0.25)
            assert (await new.elect()).code == ResponseCode.SUCCESS, (
                "a stranger's heartbeats hold it for one wait"
            )
            await old.die()


async def test_a_broker_whose_heartbeat_has_not_come_is_not_elected(tmp_path: Path) -> None:
    async with fresh(tmp_path) as node:
        broker = node.broker()
        broker.broker_id = 1
        await broker.start(register=False)
        await broker.register()
        answer = await broker.elect()
        assert "no heartbeat of broker 1" in (answer.remark or "")
        asking = asyncio.ensure_future(broker.elect())
        await asyncio.sleep(0.05)
        broker.beat()
        assert (await asking).code == ResponseCode.SUCCESS
        await broker.die()


async def test_an_epoch_that_cannot_be_true_neither_raises_the_masters_nor_stops_the_group(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as node, node.broker() as master, node.broker() as liar:
        await master.elect()
        liar.epoch = 1 + EPOCH_JUMP_MAX + 1
        liar.beat()
        await master.wait_notice(1)
        assert (await master.alter((1, 2), set_epoch=1)).code == ResponseCode.SUCCESS
        await master.die()
        notice = await liar.wait_notice(2)
        assert (notice.header.master_broker_id, notice.header.master_epoch) == (2, 2)
