"""Learners register and beat like brokers; no election and no SyncStateSet takes one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from controller_core.groups.keys import ReplicaKey
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import LEARNER_PRIORITY
from controller_core.server.common.json_views import group_json
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode, one_node

WITHIN_S = 60.0


Brokers = Callable[..., Awaitable[FakeBroker]]


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    """Start brokers, learners on request, which the node has heard; all end with the test."""
    started: list[FakeBroker] = []

    async def start(one: OneNode, *, is_learner: bool = False) -> FakeBroker:
        broker = one.broker()
        broker.priority = LEARNER_PRIORITY if is_learner else None
        started.append(broker)
        await broker.start()
        key = ReplicaKey("c1", "b1", broker.broker_id)
        async with asyncio.timeout(WITHIN_S):
            while not _has_beaten(one, key):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
        return broker

    yield start
    for broker in started:
        await broker.die()


def _has_beaten(one: OneNode, key: ReplicaKey) -> bool:
    entry = one.heartbeats.table.get(key)
    return entry is not None and entry.has_beaten


async def _designate(asker: FakeBroker, broker_id: int) -> RemotingCommand:
    header = headers.ElectMasterRequestHeader("b1", "c1", broker_id, designate_elect=True)
    return await asker.call(RequestCode.CONTROLLER_ELECT_MASTER, header)


async def test_a_learner_that_asks_first_is_refused(one: OneNode, brokers: Brokers) -> None:
    learner = await brokers(one, is_learner=True)
    answer = await learner.elect()
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "broker 1 is a learner, which is never elected" in (answer.remark or "")
    member = await brokers(one)
    assert (await member.elect()).code == ResponseCode.SUCCESS
    assert one.group().master_id == member.broker_id == 2


async def test_an_unclean_election_takes_no_learner(tmp_path: Path, brokers: Brokers) -> None:
    async with one_node(tmp_path, {"enableElectUncleanMaster": "true"}) as one:
        master = await brokers(one)
        await master.elect()
        learner = await brokers(one, is_learner=True)
        learner.max_offset = 1 << 40
        await master.die()
        async with asyncio.timeout(WITHIN_S):
            while one.heartbeats.table.is_alive(ReplicaKey("c1", "b1", 1)):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
        answer = await learner.elect()
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert one.group().master_id != learner.broker_id


async def test_nobody_can_designate_a_learner(one: OneNode, brokers: Brokers) -> None:
    master = await brokers(one)
    await master.elect()
    learner = await brokers(one, is_learner=True)
    answer = await _designate(master, learner.broker_id)
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "DesignatedNotElectable" in (answer.remark or "")
    assert one.group().master_id == master.broker_id


async def test_a_learner_is_told_the_living_master(one: OneNode, brokers: Brokers) -> None:
    master = await brokers(one)
    await master.elect()
    answer = await (await brokers(one, is_learner=True)).elect()
    assert answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert answer.ext["masterBrokerId"] == "1"


async def test_a_set_with_a_learner_is_refused(one: OneNode, brokers: Brokers) -> None:
    master = await brokers(one)
    await master.elect()
    master.epoch = 1
    learner = await brokers(one, is_learner=True)
    answer = await master.alter((1, learner.broker_id), set_epoch=1)
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE
    assert one.group().sync_state_set == (1,)


async def test_the_status_names_learners(one: OneNode, brokers: Brokers) -> None:
    await brokers(one, is_learner=True)
    (shown,) = group_json(one.group(), one.heartbeats.beat_of)["replicas"]
    assert (shown["learner"], shown["alive"], shown["electable"]) == (True, True, True)
