"""Unmodified Java brokers in controller mode against three of our controllers: the final word on the protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testkit.controllers import ControllerCluster
from testkit.jars import jars
from testkit.rocketmq import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, Broker, BrokerPlace, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER = "main"
GROUP = "orders"
SETTLE_S = 90.0
BOOT_S = 180.0
# Why the long heartbeat time-out: the test kills, which closes connections, and a JVM that starts beside others on a
# small machine may well stand still for seconds.
SETTINGS = {**ZERO_LOSS_SETTINGS, **QUICK_SETTINGS, "controllerHeartBeatTimeoutMills": "15000"}


@contextlib.asynccontextmanager
async def _two_java_brokers(
    version: str, directory: Path
) -> AsyncIterator[tuple[ControllerCluster, list[Broker]]]:
    """Run three controllers, a name server and two brokers of one group that are both in the SyncStateSet."""
    release = await jars(version)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(ControllerCluster(directory / "controllers"))
        name_server = NameServer(release, directory / "namesrv")
        stack.push_async_callback(name_server.stop)
        await name_server.start()
        brokers = []
        for index in range(2):
            place = BrokerPlace(CLUSTER, GROUP, f"{GROUP}-{index}", directory / f"{GROUP}-{index}")
            broker = Broker(
                release, place, name_server.address, SETTINGS, controllers=cluster.remoting_addresses
            )
            stack.push_async_callback(broker.stop)
            await broker.start(BOOT_S)
            brokers.append(broker)
        await cluster.wait_group(CLUSTER, GROUP, _both_in_sync, SETTLE_S)
        yield cluster, brokers


def _both_in_sync(group: dict[str, Any]) -> bool:
    """Say whether there is a master whose request in its epoch put the other one into the set."""
    return group["master_id"] is not None and len(group["sync_state_set"]) == 2


def _by_id(group: dict[str, Any], brokers: list[Broker], broker_id: int) -> Broker:
    address = next(one["address"] for one in group["replicas"] if one["broker_id"] == broker_id)
    return next(broker for broker in brokers if broker.address == address)


@pytest.mark.parametrize("version", ["5.5.0", "5.2.0"])
async def test_java_brokers_fail_over_return_and_switch_over(version: str, tmp_path: Path) -> None:
    """One life of a group: a master killed, back as slave, made master by a person, the leading controller killed."""
    async with _two_java_brokers(version, tmp_path) as (cluster, brokers):
        group = await cluster.wait_group(CLUSTER, GROUP, _both_in_sync, SETTLE_S)
        first_id, first_epoch = group["master_id"], group["master_epoch"]
        killed = _by_id(group, brokers, first_id)

        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        await killed.kill()
        group = await cluster.wait_group(CLUSTER, GROUP, lambda now: now["master_id"] not in (None, first_id))
        assert loop.time() - begin_s < 3.0
        assert group["master_epoch"] == first_epoch + 1

        await killed.start(BOOT_S)
        group = await cluster.wait_group(CLUSTER, GROUP, _both_in_sync, SETTLE_S)
        assert group["master_epoch"] == first_epoch + 1

        await _designate(cluster, first_id)
        group = await cluster.wait_group(CLUSTER, GROUP, _both_in_sync, SETTLE_S)
        assert (group["master_id"], group["master_epoch"]) == (first_id, first_epoch + 2)

        await cluster.kill_node(await cluster.wait_leader())
        group = await cluster.wait_group(CLUSTER, GROUP, _both_in_sync, SETTLE_S)
        assert (group["master_id"], group["master_epoch"]) == (first_id, first_epoch + 2)


async def _designate(cluster: ControllerCluster, broker_id: int) -> None:
    leader = await cluster.wait_leader()
    url = f"http://{cluster.http_addresses[(leader + 1) % 3]}/v1/groups/{CLUSTER}/{GROUP}/elect"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"brokerId": broker_id}) as response,
    ):
        assert response.status == 200, await response.text()
