"""A real broker whose controllers and log replica fall silent: its companion stops the writes in time and gives them back."""

import asyncio
import signal
import time
from pathlib import Path

import aiohttp
import pytest

from controller_core.remoting.codes import RequestCode
from ha_sidecar.roles.asking import Asker
from ha_sidecar.roles.config import host_port
from ha_sidecar.roles.fencing import CLOSED_BASE, SETTING
from testkit.controllers import ControllerCluster, command_path
from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings
from testkit.ports import free_port
from testkit.process import ManagedProcess
from testkit.replica import LogReplica
from testkit.rocketmq import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, Broker, BrokerPlace, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
BOOT_TIMEOUT_S = 150.0
FENCE_AFTER_S = 3.0
CONTROLLERS_TIMEOUT_S = 10.0
"""controllerHeartBeatTimeoutMills of the broker."""
FILE_BYTES = str(1 << 20)


def companion_of(broker: Broker, controllers: list[str], directory: Path) -> tuple[ManagedProcess, str]:
    """Describe a companion with a fence; return it and its HTTP address."""
    http = f"127.0.0.1:{free_port()}"
    settings = {
        "cluster": CLUSTER,
        "group": GROUP,
        "broker": broker.address,
        "controllers": ";".join(controllers),
        "http": http,
        "fence": "true",
        "fence-after-ms": str(int(FENCE_AFTER_S * 1000)),
    }
    arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
    command = [command_path("ha-sidecar"), "companion", *arguments]
    return ManagedProcess("companion", command, directory / "companion.log"), http


async def wait_fenced(http: str, value: int, timeout_s: float) -> None:
    """Wait until the companion's metrics say so."""
    async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{http}/metrics") as response:
                    lines = (await response.text()).splitlines()
            except aiohttp.ClientError:
                lines = []
            found = [line for line in lines if line.startswith("rmqha_ha_fenced{")]
            if found and float(found[0].rpartition(" ")[2]) == value:
                return
            await asyncio.sleep(0.05)


async def setting_of(broker: Broker) -> int:
    """Return the broker's minInSyncReplicas."""
    asker = Asker(host_port(broker.address))
    try:
        text = (await asker.ask(RequestCode.GET_BROKER_CONFIG)).body.decode()
    finally:
        asker.close()
    return int(next(line for line in text.splitlines() if line.startswith(f"{SETTING}=")).partition("=")[2])


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
        await wait_fenced(http, 0, 30.0)
        async with load("before") as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await producer.stop()
        had = await setting_of(broker)
        # Silence and not an end: connections stay open, as behind a wire that is cut.
        silent_since_s = time.monotonic()
        for index in range(len(cluster)):
            cluster.freeze_node(index)
        replica.process.signal(signal.SIGSTOP)
        await wait_fenced(http, 1, CONTROLLERS_TIMEOUT_S)
        took_s = time.monotonic() - silent_since_s
        assert await setting_of(broker) == CLOSED_BASE + had
        assert FENCE_AFTER_S - 1.5 < took_s < CONTROLLERS_TIMEOUT_S - 1.0
        for index in range(len(cluster)):
            cluster.thaw_node(index)
        replica.process.signal(signal.SIGCONT)
        await wait_fenced(http, 0, 30.0)
        assert await setting_of(broker) == had
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
