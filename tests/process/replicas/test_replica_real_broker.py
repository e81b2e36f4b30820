"""The log replica with unmodified Java brokers: it joins, holds equal bytes, resumes, survives kill -9."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.products.store_commands import printed_by, verify_command
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    JavaController,
    NameServer,
)
from testkit.rocketmq.witness import Witness

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

CLUSTER, GROUP = "c", "g"
BOOT_TIMEOUT_S = 150.0
ACKS_TIMEOUT_S = 240.0
"""Each send waits for the replica's fsync, which takes a fifth of a second on some disks."""
PATIENT = {"controllerHeartBeatTimeoutMills": "15000", "slaveTimeout": "30000"}
"""A machine that stands still for some seconds makes neither a dead master nor a late slave."""
NOT_ENOUGH = "in-sync replicas not enough"
FILE_BYTES = str(1 << 20)
"""Small files, so that every test crosses the end of some."""


@dataclass
class BrokerAndReplica:
    """One Java broker with its name server and controller, and a described replica that is not started."""

    jar_directory: Path
    directory: Path
    name_server: NameServer
    controller: JavaController
    broker: JavaBroker
    replica: LogReplicaProcess

    def load(self, name: str, **settings: int) -> LoadClient:
        """Describe a producer."""
        return LoadClient(
            self.jar_directory, self.name_server.address, "T", self.directory / name, LoadSettings(**settings)
        )


@asynccontextmanager
async def group(
    directory: Path, version: str = "5.5.0", settings: dict[str, str] | None = None
) -> AsyncIterator[BrokerAndReplica]:
    jar_directory = await jars(version)
    name_server = NameServer(jar_directory, directory / "ns")
    controller = JavaController(jar_directory, directory / "controller")
    place = BrokerPlace(CLUSTER, GROUP, "broker", directory / "broker")
    broker = JavaBroker(
        jar_directory,
        place,
        name_server.address,
        {
            **QUICK_SETTINGS,
            **ZERO_LOSS_SETTINGS,
            **PATIENT,
            "mappedFileSizeCommitLog": FILE_BYTES,
            **(settings or {}),
        },
        controllers=[controller.address],
    )
    replica = LogReplicaProcess(
        directory / "replica",
        CLUSTER,
        GROUP,
        [controller.address],
        {
            "controller-kind": "java",
            "heartbeat-timeout-ms": "1500",
            "heartbeat-interval-ms": "300",
            "mapped-file-bytes": FILE_BYTES,
        },
    )
    try:
        await asyncio.gather(name_server.start(), controller.start())
        await broker.start(BOOT_TIMEOUT_S)
        yield BrokerAndReplica(jar_directory, directory, name_server, controller, broker, replica)
    finally:
        await replica.process.stop()
        await broker.stop()
        await asyncio.gather(controller.stop(), name_server.stop())


@pytest.mark.parametrize("version", ["5.5.0", "5.4.0", "5.2.0"])
async def test_a_replica_joins_an_empty_group_and_holds_the_same_bytes(tmp_path: Path, version: str) -> None:
    # minInSyncReplicas=2: nothing can be written before the replica is in the set.
    async with group(tmp_path, version) as made:
        await made.replica.start()
        await made.replica.wait_in_sync()
        async with made.load("load", threads=2, payload_bytes=4000) as load:
            await load.wait_for_acknowledged(1000, ACKS_TIMEOUT_S)
            stats = await load.stop()
        assert "FLUSH_SLAVE_TIMEOUT" not in stats.statuses
        max_offset = await made.replica.wait_max_offset(1000 * 4000)
        assert log_prefix_equal(made.replica.store / "commitlog", made.broker.store / "commitlog", max_offset)
        assert (made.replica.store / "epochFileCheckpoint").read_text() == (
            made.broker.store / "epochFileCheckpoint"
        ).read_text()
        await made.replica.process.stop()
        found = await printed_by(verify_command(made.replica.store))
        assert found["messages"] >= stats.acknowledged
        assert found["max_offset"] == max_offset


async def test_a_killed_replica_resumes_where_its_log_ends(tmp_path: Path) -> None:
    async with group(tmp_path, settings={"minInSyncReplicas": "1"}) as made:
        await made.replica.start()
        await made.replica.wait_in_sync()
        async with made.load("load", threads=4, payload_bytes=4000) as load:
            for count in (500, 1500):
                await load.wait_for_acknowledged(count, ACKS_TIMEOUT_S)
                await made.replica.process.kill()
                await made.replica.start()
                await made.replica.wait_in_sync()
            await load.wait_for_acknowledged(2500, ACKS_TIMEOUT_S)
            stats = await load.stop()
        max_offset = await made.replica.wait_max_offset(stats.acknowledged * 4000)
        assert log_prefix_equal(made.replica.store / "commitlog", made.broker.store / "commitlog", max_offset)
        handshakes = [event for event in await made.replica.events() if event["kind"] == "HandshakeDone"]
        assert handshakes
        for done in handshakes:
            assert int(done["attrs"]["start_offset"]) > 500 * 4000
            assert done["attrs"]["rule"] == "CommonEpoch"


async def test_a_restarted_broker_is_followed_without_a_resync(tmp_path: Path) -> None:
    async with group(tmp_path) as made:
        await made.replica.start()
        await made.replica.wait_in_sync()
        async with made.load("load", threads=2) as load:
            await load.wait_for_acknowledged(500, ACKS_TIMEOUT_S)
            await load.stop()
        before = await made.replica.wait_max_offset(500 * 128)
        await made.broker.kill()
        await made.broker.start(BOOT_TIMEOUT_S)
        await made.replica.wait_in_sync()
        async with made.load("load2", threads=2) as load:
            await load.wait_for_acknowledged(500, ACKS_TIMEOUT_S)
            await load.stop()
        max_offset = await made.replica.wait_max_offset(before + 500 * 128)
        assert log_prefix_equal(made.replica.store / "commitlog", made.broker.store / "commitlog", max_offset)
        assert not (made.replica.store / "diverged").exists()


async def test_without_its_replica_a_broker_promises_nothing_and_says_why_until_it_is_back(
    tmp_path: Path,
) -> None:
    # allAckInSyncStateSet and minInSyncReplicas=2: its own disk alone is not enough for a promise.
    async with group(tmp_path) as made:
        witness = Witness(made.broker.address, GROUP, "T", 0, tmp_path / "witness")
        (tmp_path / "witness").mkdir()
        await made.replica.start()
        await made.replica.wait_in_sync()
        async with witness.process:
            await witness.wait_acknowledged(50, ACKS_TIMEOUT_S)
            await made.replica.process.kill()
            gone_ns = time.time_ns()
            await witness.wait_refused(NOT_ENOUGH, 20, gone_ns, ACKS_TIMEOUT_S)
            back_ns = time.time_ns()
            await made.replica.start()
            await made.replica.wait_in_sync()
            await witness.wait_acknowledged(50, ACKS_TIMEOUT_S)
        promised = witness.acknowledged()
        # A send that began before the end may have been taken by then; one that ended
        # when the replica was back, too.
        assert not [send for send in promised if send.start_ns > gone_ns and send.end_ns < back_ns]
        max_offset = await made.replica.wait_max_offset()
        assert log_prefix_equal(made.replica.store / "commitlog", made.broker.store / "commitlog", max_offset)
        result = await read_back(
            made.jar_directory, made.name_server.address, "T", promised, tmp_path / "read"
        )
        assert result.acknowledged >= 100
        assert result.lost == frozenset()
