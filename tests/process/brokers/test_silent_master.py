"""A master that falls silent, still connected to everybody, and comes back.

It has not acknowledged a message that is lost.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from testkit.demo.cluster import CLUSTER, GROUP, DemoCluster
from testkit.demo.story import GroupInfo, wait_whole
from testkit.demo.under_load import UnderLoad, under_load
from testkit.rocketmq.processes import JavaBroker

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

FAULTS = 2
Silence = Callable[[DemoCluster, JavaBroker], AbstractContextManager[None]]
FAILOVER_WITHIN_S = 60.0
SETTINGS = {"controllerHeartBeatTimeoutMills": "3000"}
"""When the brokers here are dead: silence is what this is about."""


def _has_master_after(epoch: int) -> Callable[[GroupInfo], bool]:
    return lambda group: group["master_epoch"] > epoch and group["master_id"] is not None


async def _replaced(running: UnderLoad, before: GroupInfo) -> GroupInfo:
    """Wait until another master takes writes; return the group."""
    is_replaced = _has_master_after(before["master_epoch"])
    after = await running.cluster.controllers.wait_group(CLUSTER, GROUP, is_replaced, FAILOVER_WITHIN_S)
    assert after["master_address"] != before["master_address"]
    await running.load.wait_for_acknowledged(500, 120.0, after_ns=running.load.sends()[-1].end_ns)
    return after


@contextmanager
def _frozen(_cluster: DemoCluster, master: JavaBroker) -> Iterator[None]:
    master.process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        master.process.signal(signal.SIGCONT)


@contextmanager
def _unheard(cluster: DemoCluster, master: JavaBroker) -> Iterator[None]:
    """Hold its heartbeats.

    It takes sends as before, and follows another master a second after its slaves have left it.
    """
    relays = cluster.relays_of(master)
    for relay in relays:
        relay.hold()
    try:
        yield
    finally:
        for relay in relays:
            relay.release()


async def _loses_nothing(running: UnderLoad, silenced: Silence) -> None:
    epochs = []
    for _ in range(FAULTS):
        before = await wait_whole(running.cluster)
        with silenced(running.cluster, running.cluster.broker_at(before["master_address"])):
            after = await _replaced(running, before)
        await wait_whole(running.cluster)
        epochs.append(after["master_epoch"])
    result = await running.read_back()
    assert result.acknowledged > 1_000
    assert result.lost == frozenset()
    assert epochs == sorted(set(epochs))


async def test_a_master_frozen_under_load_and_thawed_after_the_failover_loses_nothing(tmp_path: Path) -> None:
    async with under_load(tmp_path, settings=SETTINGS) as running:
        await _loses_nothing(running, _frozen)


async def test_a_master_unheard_by_controllers_only_acknowledges_nothing_alone(tmp_path: Path) -> None:
    async with under_load(tmp_path, relayed=True, settings=SETTINGS) as running:
        await _loses_nothing(running, _unheard)
