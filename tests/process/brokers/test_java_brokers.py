"""Unmodified Java brokers in controller mode against three of our controllers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    NameServer,
    mqadmin,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER = "main"
GROUP = "orders"
SETTLE_S = 90.0
BOOT_S = 180.0
# Why the long heartbeat time-out: the test kills, which closes connections, and a JVM that starts beside
# others on a small machine may well stand still for seconds.
HEARTBEAT_TIMEOUT_S = 15
SETTINGS = {
    **ZERO_LOSS_SETTINGS,
    **QUICK_SETTINGS,
    "controllerHeartBeatTimeoutMills": str(HEARTBEAT_TIMEOUT_S * 1000),
}


@dataclass
class JavaBrokerWorld:
    """Three controllers, a name server, and brokers of one group."""

    cluster: ControllerCluster
    name_server: NameServer
    release: Path
    directory: Path
    stack: contextlib.AsyncExitStack
    brokers: list[JavaBroker]

    async def add_broker(self) -> JavaBroker:
        """Start one more broker; it ends with the test."""
        name = f"{GROUP}-{len(self.brokers)}"
        place = BrokerPlace(CLUSTER, GROUP, name, self.directory / name)
        addresses = self.cluster.remoting_addresses
        broker = JavaBroker(self.release, place, self.name_server.address, SETTINGS, controllers=addresses)
        self.stack.push_async_callback(broker.stop)
        await broker.start(BOOT_S)
        self.brokers.append(broker)
        return broker

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the group, as the leader serves it, is as wanted."""
        return await self.cluster.wait_group(CLUSTER, GROUP, holds, SETTLE_S)


@contextlib.asynccontextmanager
async def _two_java_brokers(version: str, directory: Path) -> AsyncIterator[JavaBrokerWorld]:
    """Run all of it, with two brokers that are both in the SyncStateSet."""
    release = await jars(version)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(ControllerCluster(directory / "controllers"))
        name_server = NameServer(release, directory / "namesrv")
        stack.push_async_callback(name_server.stop)
        await name_server.start()
        world = JavaBrokerWorld(cluster, name_server, release, directory, stack, [])
        for _ in range(2):
            await world.add_broker()
        await world.until(_both_in_sync)
        yield world


def _both_in_sync(group: dict[str, Any]) -> bool:
    """Say whether there is a master whose request in its epoch put the other one into the set."""
    return group["master_id"] is not None and len(group["sync_state_set"]) == 2


def _by_id(group: dict[str, Any], brokers: list[JavaBroker], broker_id: int) -> JavaBroker:
    address = next(one["address"] for one in group["replicas"] if one["broker_id"] == broker_id)
    return next(broker for broker in brokers if broker.address == address)


@pytest.mark.parametrize("version", ["5.5.0", "5.4.0", "5.2.0"])
async def test_java_brokers_live_through_all_that_happens_to_a_group(version: str, tmp_path: Path) -> None:
    """Lead one group through its whole life, since a JVM takes long to start.

    A broker is lost and comes back, a switchover follows, the group shrinks and grows, and
    its controllers are replaced.
    """
    async with _two_java_brokers(version, tmp_path) as world:
        epoch = await _lose_the_master_and_switch_back(world)
        await _grow_and_shrink(world)
        await _restart_controllers_one_after_another(world.cluster)
        group = await world.until(_both_in_sync)
        assert group["master_epoch"] == epoch

        await world.cluster.kill_node(await world.cluster.wait_leader())
        group = await world.until(_both_in_sync)
        assert group["master_epoch"] == epoch


async def _lose_the_master_and_switch_back(world: JavaBrokerWorld) -> int:
    """Kill the master, let it return as a slave, make it master again; return the epoch then."""
    group = await world.until(_both_in_sync)
    first_id, first_epoch = group["master_id"], group["master_epoch"]
    killed = _by_id(group, world.brokers, first_id)

    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await killed.kill()
    group = await world.until(lambda now: now["master_id"] not in (None, first_id))
    assert loop.time() - begin_s < HEARTBEAT_TIMEOUT_S - 3.0, "it was its silence that was noticed"
    assert group["master_epoch"] == first_epoch + 1

    await killed.start(BOOT_S)
    group = await world.until(_both_in_sync)
    assert group["master_epoch"] == first_epoch + 1

    await _designate(world.cluster, first_id)
    group = await world.until(_both_in_sync)
    assert (group["master_id"], group["master_epoch"]) == (first_id, first_epoch + 2)
    return first_epoch + 2


async def _grow_and_shrink(world: JavaBrokerWorld) -> None:
    """Let a third broker join the set, leave it, and be forgotten by `mqadmin cleanBrokerMetadata`."""
    third = await world.add_broker()
    group = await world.until(lambda now: len(now["sync_state_set"]) == 3)
    third_id = next(one["broker_id"] for one in group["replicas"] if one["address"] == third.address)
    await third.stop()
    await world.until(lambda now: len(now["sync_state_set"]) == 2 and _is_gone(now, third_id))
    place = ("-b", str(third_id), "-bn", GROUP, "-c", CLUSTER)
    any_node = ("-a", world.cluster.remoting_addresses[0])
    text = await mqadmin(world.release, world.directory / "mqadmin", "cleanBrokerMetadata", *any_node, *place)
    assert "success" in text
    await world.until(lambda now: len(now["replicas"]) == 2)


def _is_gone(group: dict[str, Any], broker_id: int) -> bool:
    """Say whether a broker is neither in the set nor alive."""
    return not any(
        one["alive"] or one["in_sync"] for one in group["replicas"] if one["broker_id"] == broker_id
    )


async def _restart_controllers_one_after_another(cluster: ControllerCluster) -> None:
    for index in range(len(cluster)):
        await cluster.stop_node(index)
        await cluster.start_node(index)
        await cluster.wait_all_ready()


async def _designate(cluster: ControllerCluster, broker_id: int) -> None:
    """Ask until the broker is master.

    The controllers refuse while a slave is behind or no controller leads. A repeated request changes nothing.
    """
    deadline_s = asyncio.get_running_loop().time() + SETTLE_S
    while (refusal := await _refused(cluster, broker_id)) is not None:
        assert asyncio.get_running_loop().time() < deadline_s, refusal
        await asyncio.sleep(0.5)


async def _refused(cluster: ControllerCluster, broker_id: int) -> str | None:
    """Ask a node that does not lead; return why it was refused, None if it was not."""
    leader = await cluster.wait_leader()
    url = f"http://{cluster.http_addresses[(leader + 1) % 3]}/v1/groups/{CLUSTER}/{GROUP}/elect"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"brokerId": broker_id}) as response,
    ):
        return None if response.status == 200 else await response.text()
