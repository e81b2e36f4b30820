"""All controllers lose their stores under existing brokers.

The brokers come back, with their logs, in a higher epoch.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, Send, read_back
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
BOOT_S = 150.0
SETTLE_S = 240.0
SENDS = 200
WAIT_MS = "12000"
"""Longer than two Java brokers need to start one after the other here."""
SETTINGS = {**ZERO_LOSS_SETTINGS, **QUICK_SETTINGS, "controllerHeartBeatTimeoutMills": "15000"}


@dataclass
class RestartedControllers:
    """Controllers, two Java brokers and a log replica of one group."""

    release: Path
    directory: Path
    controllers: ControllerCluster
    name_server: NameServer
    brokers: list[JavaBroker]
    replica: LogReplicaProcess

    async def send(self, name: str) -> list[Send]:
        """Let a producer send until so many are acknowledged; return all its sends."""
        directory = self.directory / name
        settings = LoadSettings(threads=2, payload_bytes=500)
        async with LoadClient(self.release, self.name_server.address, TOPIC, directory, settings) as load:
            await load.wait_for_acknowledged(SENDS, SETTLE_S)
            await load.stop()
        return load.sends()

    async def until_all_in_sync(self) -> dict[str, Any]:
        """Wait until the group has a master and three members in sync."""
        return await self.controllers.wait_group(
            CLUSTER, GROUP, lambda now: now["master_id"] and len(now["sync_state_set"]) == 3, SETTLE_S
        )

    async def designate_the_other_broker(self) -> None:
        """Have the controllers elect the broker that is not master."""
        group = await self.until_all_in_sync()
        other = next(
            one["broker_id"]
            for one in group["replicas"]
            if one["electable"] and one["broker_id"] != group["master_id"]
        )
        http = self.controllers.http_addresses[await self.controllers.wait_leader()]
        url = f"http://{http}/v1/groups/{CLUSTER}/{GROUP}/elect"
        async with aiohttp.ClientSession() as session, asyncio.timeout(SETTLE_S):
            while True:
                async with session.post(url, json={"brokerId": other}) as answer:
                    if answer.status == 200:
                        break
                    # A master that answers late on a busy machine keeps its role, and says so.
                    assert answer.status == 409, await answer.text()
                await asyncio.sleep(1)
        await self.until_all_in_sync()

    async def lose_all_controllers(self) -> None:
        """Stop all controllers, delete what they stored, and start them again."""
        await self.controllers.stop()
        for index in range(len(self.controllers)):
            shutil.rmtree(self.controllers.store_path(index))
        await self.controllers.start()

    async def assert_nothing_is_lost(self, sends: list[Send]) -> None:
        """Read the topic, and find every acknowledged message."""
        result = await read_back(
            self.release, self.name_server.address, TOPIC, sends, self.directory / "read"
        )
        assert result.acknowledged >= SENDS
        assert not result.lost
        assert not result.unexpected


@asynccontextmanager
async def _world(directory: Path, controllers: int) -> AsyncIterator[RestartedControllers]:
    """Run all of it with every member in sync, in epoch 3; nothing was written, so the logs tell epoch 1."""
    release = await jars()
    cluster = ControllerCluster(
        directory / "controllers", controllers, settings={"firstElectionWaitMs": WAIT_MS}
    )
    name_server = NameServer(release, directory / "namesrv")
    brokers = [
        JavaBroker(
            release,
            BrokerPlace(CLUSTER, GROUP, f"b{number}", directory / f"b{number}"),
            name_server.address,
            SETTINGS,
            controllers=cluster.remoting_addresses,
        )
        for number in range(2)
    ]
    beats = {"heartbeat-interval-ms": "300", "heartbeat-timeout-ms": "3000"}
    replica = LogReplicaProcess(directory / "replica", CLUSTER, GROUP, cluster.remoting_addresses, beats)
    world = RestartedControllers(release, directory, cluster, name_server, brokers, replica)
    try:
        await asyncio.gather(cluster.start(), name_server.start())
        await asyncio.gather(*(broker.start(BOOT_S) for broker in brokers))
        await replica.start()
        await world.until_all_in_sync()
        await name_server.wait_for_master(GROUP, BOOT_S)
        for _ in range(2):
            await world.designate_the_other_broker()
        yield world
    finally:
        await replica.process.stop()
        await asyncio.gather(*(broker.stop() for broker in brokers))
        await cluster.stop()
        await name_server.stop()


def _last_epoch(broker: JavaBroker) -> int:
    """Return the last epoch of a broker's log, from its epoch file."""
    lines = (broker.store / "epochFileCheckpoint").read_text().split()
    return max(int(line.split("-")[0]) for line in lines if "-" in line)


async def test_members_that_run_are_taken_up_by_controllers_without_a_store_and_the_master_stays(
    tmp_path: Path,
) -> None:
    async with _world(tmp_path, 3) as world:
        sends = await world.send("before")
        before = await world.until_all_in_sync()
        await world.lose_all_controllers()
        after = await world.until_all_in_sync()
        assert after["master_address"] == before["master_address"]
        assert after["master_epoch"] > before["master_epoch"]
        sends += await world.send("after")
        await world.designate_the_other_broker()
        sends += await world.send("last")
        await world.assert_nothing_is_lost(sends)


@pytest.mark.parametrize("keeps_identity", [True, False])
async def test_members_that_start_again_are_taken_up_and_the_longest_log_is_elected(
    tmp_path: Path, keeps_identity: bool
) -> None:
    async with _world(tmp_path, 1) as world:
        sends = await world.send("before")
        before = await world.until_all_in_sync()
        await asyncio.gather(*(broker.kill() for broker in world.brokers), world.replica.process.kill())
        await world.lose_all_controllers()
        if not keeps_identity:
            for broker in world.brokers:
                (broker.store / "brokerIdentity").unlink()
            (world.replica.store / "brokerIdentity").unlink()
        epoch = max(_last_epoch(broker) for broker in world.brokers)
        await asyncio.gather(*(broker.process.start() for broker in world.brokers), world.replica.start())
        after = await world.until_all_in_sync()
        assert after["master_epoch"] > epoch
        assert after["next_broker_id"] == before["next_broker_id"]
        sends += await world.send("after")
        await world.assert_nothing_is_lost(sends)
