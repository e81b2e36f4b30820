"""The only broker of a group loses its disk: its log replica brings it back, with every message, and it takes office again."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from testkit.controllers import ControllerCluster, command_path
from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings, read_back
from testkit.ports import free_port
from testkit.replica import LogReplica, log_prefix_equal
from testkit.rocketmq import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, Broker, BrokerPlace, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
BOOT_TIMEOUT_S = 150.0
FILE_BYTES = str(1 << 20)
METADATA_KEPT_WITHIN_S = 90.0
ACKS_TIMEOUT_S = 300.0
"""Each send waits for the replica's fsync, which takes a fifth of a second on some disks."""


async def seed(store: Path, controllers: str) -> dict[str, object]:
    """Run `ha-sidecar seed` for broker 1."""
    settings = {
        "cluster": CLUSTER,
        "group": GROUP,
        "store": str(store),
        "controllers": controllers,
        "broker-id": "1",
        "mapped-file-bytes": FILE_BYTES,
    }
    arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
    process = await asyncio.create_subprocess_exec(
        command_path("ha-sidecar"), "seed", *arguments, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, object] = json.loads(printed)
    return found


async def wait_kept(replica: LogReplica, topic: str) -> None:
    """Wait until the replica keeps the topic."""
    path = replica.store / "config" / "topics.json"
    async with asyncio.timeout(METADATA_KEPT_WITHIN_S):
        while True:
            if path.exists() and f'"{topic}"' in path.read_text():
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("version", ["5.2.0", "5.5.0"])
async def test_a_broker_whose_disk_is_gone_comes_back_from_the_log_replica_alone(
    version: str, tmp_path: Path
) -> None:
    jar_directory = await jars(version)
    name_server = NameServer(jar_directory, tmp_path / "ns")
    cluster = ControllerCluster(tmp_path / "controllers", 1)
    (controller,) = cluster.remoting_addresses
    place = BrokerPlace(CLUSTER, GROUP, "broker", tmp_path / "broker")
    settings = {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS, "mappedFileSizeCommitLog": FILE_BYTES}
    broker = Broker(jar_directory, place, name_server.address, settings, controllers=[controller])
    replica_settings = {"mapped-file-bytes": FILE_BYTES, "ha-listen": f"127.0.0.1:{free_port()}"}
    replica = LogReplica(tmp_path / "replica", CLUSTER, GROUP, [controller], replica_settings)

    def load(name: str) -> LoadClient:
        return LoadClient(
            jar_directory,
            name_server.address,
            TOPIC,
            tmp_path / name,
            LoadSettings(threads=2, payload_bytes=2000),
        )

    try:
        await asyncio.gather(name_server.start(), cluster.start())
        await broker.start(BOOT_TIMEOUT_S)
        await replica.start()
        await replica.wait_in_sync()
        await name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        async with load("before") as producer:
            await producer.wait_for_acknowledged(1_500, ACKS_TIMEOUT_S)
            await producer.stop()
            sends = producer.sends()
        await wait_kept(replica, TOPIC)
        await broker.kill()
        shutil.rmtree(broker.store)
        seeded = await seed(broker.store, controller)
        assert seeded["seeded"], seeded
        assert log_prefix_equal(
            replica.store / "commitlog", broker.store / "commitlog", int(str(seeded["max_offset"]))
        )
        assert f'"{TOPIC}"' in (broker.store / "config" / "topics.json").read_text()
        await broker.start(BOOT_TIMEOUT_S)
        await replica.wait_in_sync()
        async with load("after") as producer:
            await producer.wait_for_acknowledged(200, ACKS_TIMEOUT_S)
            await producer.stop()
            sends += producer.sends()
        result = await read_back(jar_directory, name_server.address, TOPIC, sends, tmp_path / "read")
        assert result.acknowledged >= 1_700
        assert result.lost == frozenset()
    finally:
        await replica.process.stop()
        await broker.stop()
        await cluster.stop()
        await name_server.stop()
