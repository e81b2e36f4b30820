"""Learners under load with real brokers: never counted, never elected, and level again afterwards."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller_core.remoting.headers import LEARNER_PRIORITY
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    JavaController,
    NameServer,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP = "c", "g"
BOOT_S = 180.0
SETTLE_S = 120.0
ACKS_S = 240.0
LEARNER = {"asyncLearner": "true", "brokerElectionPriority": str(LEARNER_PRIORITY)}
FILE_BYTES = str(1 << 20)
SETTINGS = {
    **QUICK_SETTINGS,
    **ZERO_LOSS_SETTINGS,
    # A machine that stands still for some seconds makes no dead master.
    "controllerHeartBeatTimeoutMills": "15000",
    "slaveTimeout": "30000",
    "mappedFileSizeCommitLog": FILE_BYTES,
}


@dataclass
class GroupWithLearners:
    """Two brokers, and two learners: a broker and a log replica."""

    controllers: ControllerCluster
    name_server: NameServer
    jar_directory: Path
    directory: Path
    members: list[JavaBroker]
    learner: JavaBroker
    replica: LogReplicaProcess

    async def both_in_sync(self) -> dict[str, Any]:
        """Wait until there is a master and both members are in the set; check that no learner is."""
        group = await self.controllers.wait_group(
            CLUSTER,
            GROUP,
            lambda now: now["master_id"] is not None and len(now["sync_state_set"]) == 2,
            SETTLE_S,
        )
        self.check(group)
        return group

    def check(self, group: dict[str, Any]) -> None:
        """Check that learners are neither master nor in the set."""
        learners = {one["broker_id"] for one in group["replicas"] if one["learner"]}
        assert group["master_id"] not in learners
        assert learners.isdisjoint(group["sync_state_set"])

    def broker_of(self, group: dict[str, Any], broker_id: int) -> JavaBroker:
        """Return the member with an id."""
        address = next(one["address"] for one in group["replicas"] if one["broker_id"] == broker_id)
        return next(broker for broker in self.members if broker.address == address)

    async def level(self) -> int:
        """Wait until all living members and learners have the same log; return its end."""

        def holds(group: dict[str, Any]) -> bool:
            ends = {one["max_offset"] for one in group["replicas"] if one["alive"]}
            return len(group["replicas"]) == 4 and len(ends) == 1

        group = await self.controllers.wait_group(CLUSTER, GROUP, holds, SETTLE_S)
        self.check(group)
        return int(group["replicas"][0]["max_offset"])


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[GroupWithLearners]:
    release = await jars()
    name_server = NameServer(release, tmp_path / "ns")
    controllers = ControllerCluster(tmp_path / "controllers", 1)

    def broker(name: str, **settings: str) -> JavaBroker:
        place = BrokerPlace(CLUSTER, GROUP, name, tmp_path / name)
        addresses = controllers.remoting_addresses
        return JavaBroker(
            release, place, name_server.address, {**SETTINGS, **settings}, controllers=addresses
        )

    members, learner = [broker("one"), broker("two")], broker("learner", **LEARNER)
    replica = LogReplicaProcess(
        tmp_path / "replica",
        CLUSTER,
        GROUP,
        controllers.remoting_addresses,
        {"learner": "true", "mapped-file-bytes": FILE_BYTES, "heartbeat-timeout-ms": "15000"},
    )
    try:
        await asyncio.gather(name_server.start(), controllers.start())
        yield GroupWithLearners(controllers, name_server, release, tmp_path, members, learner, replica)
    finally:
        await asyncio.gather(*(one.stop() for one in (*members, learner)), replica.process.stop())
        await asyncio.gather(controllers.stop(), name_server.stop())


async def test_learners_are_never_elected_and_catch_up_after_a_failover(group: GroupWithLearners) -> None:
    # A learner alone: the first broker of a group becomes its master, unless it is a learner.
    await group.learner.start(BOOT_S)
    alone = await group.controllers.wait_group(
        CLUSTER, GROUP, lambda now: any(one["learner"] for one in now["replicas"]), SETTLE_S
    )
    assert alone["master_id"] is None
    await group.replica.start()
    await asyncio.gather(*(member.start(BOOT_S) for member in group.members))
    before = await group.both_in_sync()
    await group.name_server.wait_for_master(GROUP, BOOT_S)
    load = LoadClient(
        group.jar_directory,
        group.name_server.address,
        "T",
        group.directory / "load",
        LoadSettings(threads=2, payload_bytes=2_000),
    )
    async with load:
        await load.wait_for_acknowledged(300, ACKS_S)
        # No write waits for a learner that stands still.
        for process in (group.learner.process, group.replica.process):
            process.signal(signal.SIGSTOP)
        await load.wait_for_acknowledged(600, ACKS_S)
        for process in (group.learner.process, group.replica.process):
            process.signal(signal.SIGCONT)
        master = group.broker_of(before, before["master_id"])
        await master.kill()
        after = await group.controllers.wait_group(
            CLUSTER, GROUP, lambda now: now["master_id"] not in (None, before["master_id"]), SETTLE_S
        )
        group.check(after)
        # The survivor's set is itself alone: the copies of learners do not make an acknowledgement.
        assert after["sync_state_set"] == [after["master_id"]]
        await master.start(BOOT_S)
        await group.both_in_sync()
        count = load.stats().acknowledged
        await load.wait_for_acknowledged(count + 300, ACKS_S)
        await load.stop()
    end = await group.level()
    logs = [one.store / "commitlog" for one in (*group.members, group.learner)]
    for other in (*logs[1:], group.replica.store / "commitlog"):
        assert log_prefix_equal(logs[0], other, end)


async def test_a_log_replica_learns_from_a_java_master_of_a_java_controller(tmp_path: Path) -> None:
    release = await jars()
    name_server, controller = NameServer(release, tmp_path / "ns"), JavaController(release, tmp_path / "java")
    place = BrokerPlace(CLUSTER, GROUP, "broker", tmp_path / "broker")
    alone = {"minInSyncReplicas": "1"}
    addresses = [controller.address]
    broker = JavaBroker(release, place, name_server.address, {**SETTINGS, **alone}, controllers=addresses)
    replica = LogReplicaProcess(
        tmp_path / "replica",
        CLUSTER,
        GROUP,
        addresses,
        {"learner": "true", "controller-kind": "java", "mapped-file-bytes": FILE_BYTES},
    )
    try:
        await asyncio.gather(name_server.start(), controller.start())
        await broker.start(BOOT_S)
        await replica.start()
        await replica.wait_in_sync()
        await name_server.wait_for_master(GROUP, BOOT_S)
        settings = LoadSettings(threads=2, payload_bytes=2_000)
        async with LoadClient(release, name_server.address, "T", tmp_path / "load", settings) as load:
            await load.wait_for_acknowledged(500, ACKS_S)
            stats = await load.stop()
        end = await replica.wait_max_offset(stats.acknowledged * 2_000)
        assert log_prefix_equal(replica.store / "commitlog", broker.store / "commitlog", end)
        metrics = await replica.metrics()
        assert metrics["rmqha_ha_in_sync"] == 0, "the master never takes a learner into its set"
    finally:
        await replica.process.stop()
        await broker.stop()
        await asyncio.gather(controller.stop(), name_server.stop())
