"""Controllers that stand by beside RocketMQ's: they listen, name no leader, and begin with an import."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

from controller_core.groups.commands import ImportedGroup, ImportedMember
from controller_core.groups.members.imported_groups import EPOCH_MARGIN
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

WITHIN_S = 60.0


@pytest.fixture
def given() -> dict[str, str]:
    """Stand by."""
    return {"controllerStandby": "true", "scanInactiveMasterInterval": "100"}


@asynccontextmanager
async def _brokers(one: OneNode, *ids: int) -> AsyncIterator[list[FakeBroker]]:
    """Run members that other controllers serve, and that beat here too."""
    brokers = [
        FakeBroker([one.remoting], "b1", broker_id=broker_id, beat_interval_s=0.02) for broker_id in ids
    ]
    try:
        for broker in brokers:
            broker.epoch = 3
            await broker.start(register=False)
            broker._beating = asyncio.create_task(broker._beat_for_ever())
        async with asyncio.timeout(WITHIN_S):
            while len(one.heartbeats.unregistered) < len(ids):  # noqa: ASYNC110 - heartbeats are not told here
                await asyncio.sleep(0.005)
        yield brokers
    finally:
        for broker in brokers:
            await broker.die()


def _told(brokers: list[FakeBroker], **other: object) -> dict[str, object]:
    group = ImportedGroup(
        cluster="c1",
        broker_name="b1",
        next_broker_id=3,
        members=tuple(ImportedMember(broker.broker_id, broker.address) for broker in brokers),
        master_id=2,
        master_epoch=3,
        set_epoch=5,
        sync_state_set=(1, 2),
        alive=(1, 2),
    )
    return msgspec.to_builtins(group) | other


async def _import(one: OneNode, *groups: dict[str, object], check: bool = False) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        url = f"http://{one.http}/v1/import"
        async with session.post(url, json={"groups": groups, "check": check}) as answer:
            return answer.status, await answer.text()


async def _leader(broker: FakeBroker) -> str | None:
    answer = await broker.must(RequestCode.CONTROLLER_GET_METADATA_INFO)
    return headers.GetMetaDataResponseHeader.from_ext(answer.ext).controller_leader_address


async def test_nothing_is_served_before_the_import_and_everything_after_it(one: OneNode) -> None:
    async with _brokers(one, 1, 2) as brokers:
        slave, master = brokers
        assert not await _leader(slave)
        for refused in (slave.announce(), slave.elect(), slave.replica_info_or_refusal()):
            assert (await refused).code == ResponseCode.CONTROLLER_NOT_LEADER
        assert (await _import(one, _told(brokers), check=True))[0] == 200
        assert not await _leader(slave)
        assert (await _import(one, _told(brokers)))[0] == 200
        for broker in brokers:
            notice = await broker.wait_notice(3 + EPOCH_MARGIN)
            assert (notice.header.master_broker_id, notice.sync_state_set.sync_state_set) == (2, (1, 2))
        assert await _leader(slave) == one.remoting
        group = one.group()
        # No election: a master that beat here was alive from the first moment on.
        assert (group.master_id, group.master_epoch) == (2, 3 + EPOCH_MARGIN)
        assert one.heartbeats.table.alive_ids(group.key, (1, 2)) == (1, 2)
        assert len(one.heartbeats.unregistered) == 0
        assert (await master.replica_info())[0].master_epoch == 3 + EPOCH_MARGIN
        await master.die()
        notice = await slave.wait_notice(4 + EPOCH_MARGIN)
        assert notice.header.master_broker_id == 1
        assert (await _import(one, _told(brokers)))[0] == 409


async def test_a_member_that_does_not_beat_here_or_that_is_not_recorded_stops_the_import(
    one: OneNode,
) -> None:
    async with _brokers(one, 1, 2) as brokers:
        status, text = await _import(one, _told(brokers, alive=[1, 2, 3]))
        assert status == 409
        assert "broker 3 of c1/b1 sends no heartbeats" in text
        told = _told(brokers, members=[{"id": 1, "address": "h:1"}], master_id=1, sync_state_set=[1])
        status, text = await _import(one, told)
        assert "broker 2 of c1/b1 sends heartbeats and is not recorded" in text
        status, text = await _import(one, _told(brokers, broker_name="b2", alive=[], master_id=None))
        assert "brokers of c1/b1 send heartbeats" in text
        assert one.machine.state.is_new


async def test_a_dead_master_stops_the_import(one: OneNode) -> None:
    async with _brokers(one, 1) as brokers:
        members = [{"id": 1, "address": brokers[0].address}, {"id": 2, "address": "127.0.0.1:1"}]
        status, text = await _import(one, _told(brokers, members=members, alive=[1]))
        assert status == 409
        assert "does not live: wait for another one" in text


@pytest.mark.parametrize("given", [{}])
async def test_controllers_that_serve_refuse_an_import(one: OneNode) -> None:
    status, text = await _import(one, {})
    assert (status, one.machine.state.is_new) == (400, True)
    async with FakeBroker([one.remoting], "b1") as broker:
        status, text = await _import(one, _told([broker], sync_state_set=[1], master_id=1, alive=[]))
        assert status == 409
        assert "do not stand by" in text
