"""A real broker whose controllers and log replica fall silent: its companion stops the writes in time and gives them back."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controller_core.remoting.codes import RequestCode
from ha_sidecar.roles.asking import Asker, AskError
from ha_sidecar.roles.config import host_port
from ha_sidecar.roles.fencing import CLOSED_BASE, SETTING
from testkit.controllers import ControllerCluster, command_path
from testkit.demo.story import wait_whole
from testkit.demo.under_load import UnderLoad, under_load
from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings, read_back
from testkit.ports import free_port
from testkit.process import ManagedProcess
from testkit.replica import LogReplica
from testkit.rocketmq import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, Broker, BrokerPlace, NameServer
from testkit.witness import DirectWriter, RoleLog

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
BOOT_TIMEOUT_S = 150.0
FENCE_AFTER_S = 3.0
ANSWERED_WITHIN_S = 60.0
HAD = int(ZERO_LOSS_SETTINGS["minInSyncReplicas"])
CONTROLLERS_TIMEOUT_S = 10.0
"""controllerHeartBeatTimeoutMills of the broker."""
FILE_BYTES = str(1 << 20)


def companion_of(
    broker: Broker, controllers: list[str], directory: Path, **given: str
) -> tuple[ManagedProcess, str]:
    """Describe a companion with a fence; return it and its HTTP address."""
    http = f"127.0.0.1:{free_port()}"
    settings = {
        "cluster": broker.place.cluster,
        "group": broker.place.group,
        "broker": broker.address,
        "controllers": ";".join(controllers),
        "http": http,
        "fence": "true",
        "fence-after-ms": str(int(FENCE_AFTER_S * 1000)),
        **given,
    }
    arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
    command = [command_path("ha-sidecar"), "companion", *arguments]
    name = f"companion of {broker.place.name}"
    return ManagedProcess(name, command, directory / f"{broker.place.name}-companion.log"), http


async def wait_fenced(http: str, value: int, timeout_s: float) -> None:
    """Wait until the companion's metrics say so."""
    async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{http}/metrics") as response:
                    lines = (await response.text()).splitlines()
            except (aiohttp.ClientError, TimeoutError):
                lines = []
            found = [line for line in lines if line.startswith("rmqha_ha_fenced{")]
            if found and float(found[0].rpartition(" ")[2]) == value:
                return
            await asyncio.sleep(0.05)


async def setting_of(broker: Broker) -> int:
    """Return the broker's minInSyncReplicas; a JVM may take longer for its first answers than an ask waits."""
    asker = Asker(host_port(broker.address))
    text = ""
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            while not text:
                with contextlib.suppress(AskError):
                    text = (await asker.ask(RequestCode.GET_BROKER_CONFIG)).body.decode()
                await asyncio.sleep(0.05)
    finally:
        asker.close()
    return int(next(line for line in text.splitlines() if line.startswith(f"{SETTING}=")).partition("=")[2])


async def wait_setting(broker: Broker, value: int) -> None:
    """Wait until the broker's minInSyncReplicas is this: a machine that stands still for long closes a fence, too."""
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        while await setting_of(broker) != value:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def test_a_master_that_hears_nobody_takes_no_writes_before_another_may_be_elected(
    tmp_path: Path,
) -> None:
    jar_directory = await jars("5.5.0")
    name_server = NameServer(jar_directory, tmp_path / "ns")
    cluster = ControllerCluster(tmp_path / "controllers", 3)
    addresses = cluster.remoting_addresses
    place = BrokerPlace(CLUSTER, GROUP, "broker", tmp_path / "broker")
    settings = {
        **QUICK_SETTINGS,
        **ZERO_LOSS_SETTINGS,
        "mappedFileSizeCommitLog": FILE_BYTES,
        "controllerHeartBeatTimeoutMills": str(int(CONTROLLERS_TIMEOUT_S * 1000)),
    }
    broker = Broker(jar_directory, place, name_server.address, settings, controllers=addresses)
    replica = LogReplica(tmp_path / "replica", CLUSTER, GROUP, addresses, {"mapped-file-bytes": FILE_BYTES})
    companion, http = companion_of(broker, addresses, tmp_path)

    def load(name: str) -> LoadClient:
        settings = LoadSettings(threads=1, rate=50)
        return LoadClient(jar_directory, name_server.address, TOPIC, tmp_path / name, settings)

    try:
        await asyncio.gather(name_server.start(), cluster.start())
        await broker.start(BOOT_TIMEOUT_S)
        await replica.start()
        await replica.wait_in_sync()
        await name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        await companion.start()
        await wait_fenced(http, 0, 60.0)
        async with load("before") as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await producer.stop()
        await wait_setting(broker, HAD)
        # Silence and not an end: connections stay open, as behind a wire that is cut.
        silent_since_s = time.monotonic()
        for index in range(len(cluster)):
            cluster.freeze_node(index)
        replica.process.signal(signal.SIGSTOP)
        await wait_fenced(http, 1, CONTROLLERS_TIMEOUT_S)
        took_s = time.monotonic() - silent_since_s
        assert await setting_of(broker) == CLOSED_BASE + HAD
        assert FENCE_AFTER_S - 2.0 < took_s < CONTROLLERS_TIMEOUT_S - 1.0
        for index in range(len(cluster)):
            cluster.thaw_node(index)
        replica.process.signal(signal.SIGCONT)
        await wait_fenced(http, 0, 60.0)
        await wait_setting(broker, HAD)
        await replica.wait_in_sync()
        async with load("after") as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await producer.stop()
    finally:
        await companion.stop()
        await replica.process.stop()
        await broker.stop()
        await cluster.stop()
        await name_server.stop()


class Witnessed:
    """One broker with its companion, a writer of its own and a log of its role, all on this process's clock."""

    def __init__(self, running: UnderLoad, broker: Broker, first_sequence: int) -> None:
        self.broker = broker
        controllers = running.cluster.controllers.remoting_addresses
        self.companion, self.http = companion_of(
            broker, controllers, running.directory, **{"poll-interval-ms": "300"}
        )
        self.writer = DirectWriter(broker.address, broker.place.group, TOPIC, first_sequence)
        self.roles = RoleLog(broker.address)

    def signal(self, number: signal.Signals) -> None:
        """To the broker and its companion, which share a node."""
        self.broker.process.signal(number)
        self.companion.signal(number)

    def told(self) -> str:
        """Say in a line what was seen."""
        acks = self.writer.acknowledged
        period = f"{acks[0].end_ns} to {acks[-1].end_ns}" if acks else "never"
        return (
            f"{self.broker.place.name}: {len(acks)} of {len(self.writer.sends)} acknowledged, {period}; "
            f"master in epochs {sorted(self.roles.epochs_as_master)}"
        )


@contextlib.asynccontextmanager
async def witnessed(running: UnderLoad) -> AsyncIterator[list[Witnessed]]:
    """Let both brokers be watched and written to."""
    sides = [Witnessed(running, broker, 1_000_000 * i) for i, broker in enumerate(running.cluster.brokers)]
    tasks: list[asyncio.Task[None]] = []
    try:
        for side in sides:
            await side.companion.start()
            await wait_fenced(side.http, 0, 60.0)
            tasks += [asyncio.create_task(side.writer.run()), asyncio.create_task(side.roles.run())]
        yield sides
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(side.companion.stop() for side in sides))


async def test_a_master_frozen_under_load_with_the_fence_on_is_never_a_second_writer(tmp_path: Path) -> None:
    settings = {"controllerHeartBeatTimeoutMills": "6000"}
    async with under_load(tmp_path, rate=200, settings=settings) as running:
        controllers = running.cluster.controllers
        before = await wait_whole(running.cluster)
        async with witnessed(running) as sides:
            old, new = sorted(sides, key=lambda side: side.broker.address != before["master_address"])
            await old.writer.wait_acknowledged(50, 60.0)
            old.signal(signal.SIGSTOP)
            try:
                after = await controllers.wait_group(
                    before["cluster"],
                    before["name"],
                    lambda group: group["master_address"] == new.broker.address,
                    60.0,
                )
                await new.writer.wait_acknowledged(50, 60.0)
            finally:
                old.signal(signal.SIGCONT)
            thawed_ns = time.time_ns()
            await wait_whole(running.cluster)
            await new.writer.wait_acknowledged(50, 60.0)
            for side in sides:
                await wait_fenced(side.http, 0, 60.0)
        for side in sides:
            running.progress.say(side.told())
        acks = [side.writer.acknowledged for side in (old, new)]
        # Everything that the old master acknowledged was acknowledged before the new one did so for the first time.
        assert max(send.end_ns for send in acks[0]) < min(send.end_ns for send in acks[1])
        assert any(send.start_ns > thawed_ns for send in old.writer.sends)
        # A broker that is confirmed as master before it has written anything keeps the epoch of its first election.
        assert max(old.roles.epochs_as_master) <= before["master_epoch"] < after["master_epoch"]
        assert new.roles.epochs_as_master == {after["master_epoch"]}
        assert not old.roles.seen[-1].is_master
        for side in sides:
            await wait_setting(side.broker, HAD)
        result = await running.read_back()
        assert result.lost == frozenset()
        address, directory = running.cluster.name_server.address, tmp_path / "direct"
        result = await read_back(running.release, address, TOPIC, acks[0] + acks[1], directory)
        assert result.acknowledged >= 150
        assert result.lost == frozenset()
