"""Unmodified Java brokers, name server and clients that know only the address ::1.

Controllers and log replica have addresses of IPv6 too. RocketMQ's own broker, name server, client and HA work
with brackets in `brokerIP1`, `brokerIP2`, `namesrvAddr` and `controllerAddr`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import host_port
from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.consumers.pop_consumer import PopConsumer
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    NameServer,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP, TOPIC = "main", "orders", "Payments"
HOST = "[::1]"
SENDS = 200
BOOT_S = 180.0
SETTLE_S = 120.0
INVISIBLE_S = 60.0
POPPED = ("first", "second", "third")
SETTINGS = {
    **ZERO_LOSS_SETTINGS,
    **QUICK_SETTINGS,
    # The master is killed, which closes its connections; silence would only be that of a busy machine.
    "controllerHeartBeatTimeoutMills": "15000",
    # As in a pod, whose start script writes the pod's address as Kubernetes does.
    "brokerIP2": "::1",
}


@dataclass(frozen=True, slots=True)
class GroupOnV6:
    """Two brokers and a log replica, all of them in the SyncStateSet."""

    release: Path
    name_server: NameServer
    cluster: ControllerCluster
    brokers: tuple[JavaBroker, JavaBroker]

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the group, as the leader serves it, is as wanted."""
        return await self.cluster.wait_group(CLUSTER, GROUP, holds, SETTLE_S)

    async def master(self, other_than: int | None = None) -> tuple[int, JavaBroker]:
        """Return the master's broker id and process, once it has a second copy."""
        group = await self.until(
            lambda now: now["master_id"] not in (None, other_than) and len(now["sync_state_set"]) > 1
        )
        address = next(one["address"] for one in group["replicas"] if one["broker_id"] == group["master_id"])
        return group["master_id"], next(one for one in self.brokers if one.address == address)


@contextlib.asynccontextmanager
async def _group_on_v6(directory: Path) -> AsyncIterator[GroupOnV6]:
    release = await jars()
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(ControllerCluster(directory / "controllers", host=HOST))
        addresses = cluster.remoting_addresses
        name_server = NameServer(release, directory / "namesrv", host=HOST)
        stack.push_async_callback(name_server.stop)

        def broker(name: str) -> JavaBroker:
            place = BrokerPlace(CLUSTER, GROUP, name, directory / name)
            return JavaBroker(release, place, name_server.address, SETTINGS, controllers=addresses, host=HOST)

        brokers = broker("orders-0"), broker("orders-1")
        replica = LogReplicaProcess(directory / "replica", CLUSTER, GROUP, addresses, host=HOST)
        for one in (*brokers, replica):
            stack.push_async_callback(one.process.kill)
        await asyncio.gather(name_server.start(), *(one.start(BOOT_S) for one in brokers), replica.start())
        group = GroupOnV6(release, name_server, cluster, brokers)
        await group.until(lambda now: now["master_id"] is not None and len(now["sync_state_set"]) == 3)
        await name_server.wait_for_master(GROUP)
        yield group


async def test_a_group_on_ipv6_fails_over_and_loses_no_message(tmp_path: Path) -> None:
    async with _group_on_v6(tmp_path) as group:
        first_id, first = await group.master()
        assert first.address.startswith("[::1]:")
        servers = group.name_server.address
        settings = LoadSettings(threads=2, rate=100, poll_name_server_ms=500, send_timeout_ms=10_000)
        async with LoadClient(group.release, servers, TOPIC, tmp_path / "load", settings) as load:
            await load.wait_for_acknowledged(SENDS, SETTLE_S)
            killed_ns = time.time_ns()
            await first.kill()
            _, second = await group.master(other_than=first_id)
            await load.wait_for_acknowledged(SENDS, SETTLE_S, after_ns=killed_ns)
            await load.stop()
            sends = load.sends()
        result = await read_back(group.release, servers, TOPIC, sends, tmp_path / "read")
        assert (result.acknowledged >= 2 * SENDS, result.lost) == (True, frozenset())

        consumer = PopConsumer("Popped", "consumers", GROUP, INVISIBLE_S)
        await consumer.send(second.address, POPPED)
        taken = await consumer.take(second.address, POPPED, SETTLE_S)
        await consumer.acknowledge(second.address, taken)


async def test_a_client_of_ipv6_does_not_hide_a_broker_of_ipv4_from_its_companion(
    tmp_path: Path, name_server: NameServer
) -> None:
    """RocketMQ cannot tell the time of its oldest message then (request 28); a companion does without."""
    place = BrokerPlace(CLUSTER, GROUP, "orders-0", tmp_path / "broker")
    async with ControllerCluster(tmp_path / "controllers", 1) as cluster:
        addresses = cluster.remoting_addresses
        broker = JavaBroker(await jars(), place, name_server.address, QUICK_SETTINGS, controllers=addresses)
        metrics = broker.metrics_url.split("/")[2]
        companion = BrokerCompanion(broker, addresses, **{"broker-metrics": metrics})
        try:
            await broker.start(BOOT_S)
            through_v6 = f"[::1]:{broker.port}"
            await PopConsumer(TOPIC, "consumers", GROUP, INVISIBLE_S).send(through_v6, POPPED, SETTLE_S)
            asker = Asker(host_port(broker.address))
            with contextlib.closing(asker), pytest.raises(AskError, match="IndexOutOfBoundsException"):
                await asker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            await companion.process.start()
            await companion.wait_metric("is_master", 1.0, SETTLE_S)
        finally:
            await companion.process.kill()
            await broker.stop()
