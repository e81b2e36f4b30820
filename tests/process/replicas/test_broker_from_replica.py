"""All brokers of a group lose their disks: its log replica restores one, which becomes master again."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ha_sidecar.common import metadata
from ha_sidecar.decisions.metadata_comparison import TOPICS, names
from ha_sidecar.decisions.metadata_tables import KINDS, MetadataSnapshot
from testkit.processes.ports import free_port
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.products.store_commands import printed_by, seed_command
from testkit.rocketmq.broker_metadata import asking, create, has_all_made, made_in, wait_known
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, Send, read_back
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
BOOT_TIMEOUT_S = 150.0
FILE_BYTES = str(1 << 20)
METADATA_KEPT_WITHIN_S = 90.0
ACKS_TIMEOUT_S = 300.0
"""Each send waits for the replica's fsync, which takes a fifth of a second on some disks."""


@dataclass
class BrokersAndReplica:
    """Brokers and a log replica under a controller of ours.

    All of them run; an acknowledgement means that all in the set have the message.
    """

    jar_directory: Path
    directory: Path
    name_server: NameServer
    controllers: ControllerCluster
    brokers: list[JavaBroker]
    replica: LogReplicaProcess

    async def start(self) -> None:
        """Start all, the first broker first, and wait until every one is in the SyncStateSet."""
        await asyncio.gather(self.name_server.start(), self.controllers.start())
        for broker in self.brokers:
            await broker.start(BOOT_TIMEOUT_S)
        await self.replica.start()
        members = len(self.brokers) + 1
        await self.controllers.wait_group(
            CLUSTER, GROUP, lambda info: len(info["sync_state_set"]) == members, BOOT_TIMEOUT_S
        )
        await self.replica.wait_in_sync()
        await self.name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)

    async def stop(self) -> None:
        """End all."""
        await self.replica.process.stop()
        await asyncio.gather(*(broker.stop() for broker in self.brokers))
        await self.controllers.stop()
        await self.name_server.stop()

    async def send(self, name: str, count: int) -> list[Send]:
        """Let a producer send until so many are acknowledged; return all its sends."""
        settings = LoadSettings(threads=2, payload_bytes=2000)
        directory = self.directory / name
        async with LoadClient(
            self.jar_directory, self.name_server.address, TOPIC, directory, settings
        ) as load:
            await load.wait_for_acknowledged(count, ACKS_TIMEOUT_S)
            await load.stop()
        return load.sends()

    async def master_first(self) -> list[JavaBroker]:
        """Return the brokers, the one in office first."""
        info = await self.controllers.group_info(CLUSTER, GROUP)
        assert info is not None
        return sorted(self.brokers, key=lambda broker: broker.address != info["master_address"])

    async def fill(self, master: JavaBroker, slave: JavaBroker) -> tuple[dict[str, Any], list[Send]]:
        """Make topics, a group and offsets, send to them; return what the slave knows too, and the sends."""
        async with asking(master) as asker, asking(slave) as slave_asker:
            await create(asker)
            made = made_in(await wait_known(asker, has_all_made))
            sends = await self.send("before", 1_000)
            await wait_known(slave_asker, knows_all)
        return made, sends

    def id_of(self, broker: JavaBroker) -> int:
        """Return the id that the controller gave a broker, by its own file."""
        return int((broker.store / "brokerIdentity").read_text().split("#")[2])

    async def wait_kept(self) -> MetadataSnapshot:
        """Wait until the replica keeps the load's topic and all that `create` made; return what it keeps."""
        async with asyncio.timeout(METADATA_KEPT_WITHIN_S):
            while True:
                kept = {kind: metadata.read(self.replica.store, kind) or b"" for kind in KINDS}
                if knows_all(kept):
                    return kept
                await asyncio.sleep(0.1)

    async def rebuild(self, broker: JavaBroker, broker_id: int) -> None:
        """Fill the broker's empty disk from the replica, the only member left, and start the broker."""
        addresses = self.controllers.remoting_addresses
        given = {"advertise": broker.address, "reclaim": "true", "min-in-sync": "2"}
        seeded = await printed_by(
            seed_command(broker.store, (CLUSTER, GROUP), addresses, FILE_BYTES, **given)
        )
        assert seeded["seeded"], seeded
        assert self.id_of(broker) == broker_id, "it has its id again by its address"
        assert log_prefix_equal(
            self.replica.store / "commitlog", broker.store / "commitlog", seeded["max_offset"]
        )
        await broker.start(BOOT_TIMEOUT_S)
        await self.replica.wait_in_sync()

    async def assert_all_is_back(self, broker: JavaBroker, made: dict[str, Any], sends: list[Send]) -> None:
        """Check that topics, group and offsets are as they were, and that no acknowledged message is lost."""
        async with asking(broker) as asker:
            assert made_in(await wait_known(asker, has_all_made)) == made
        address, directory = self.name_server.address, self.directory / "read"
        result = await read_back(self.jar_directory, address, TOPIC, sends, directory)
        assert result.acknowledged >= 1_700
        assert result.lost == frozenset()


def knows_all(snapshot: MetadataSnapshot) -> bool:
    """Say whether the load's topic and all that `create` made are there."""
    return has_all_made(snapshot) and TOPIC in (names(TOPICS, snapshot[TOPICS]) or ())


@asynccontextmanager
async def group(directory: Path, version: str, *broker_names: str) -> AsyncIterator[BrokersAndReplica]:
    """Describe and start a group with brokers of these names."""
    jar_directory = await jars(version)
    name_server = NameServer(jar_directory, directory / "ns")
    controllers = ControllerCluster(directory / "controllers", 1)
    addresses = controllers.remoting_addresses
    settings = {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS, "mappedFileSizeCommitLog": FILE_BYTES}
    brokers = [
        JavaBroker(
            jar_directory,
            BrokerPlace(CLUSTER, GROUP, name, directory / name),
            name_server.address,
            settings,
            controllers=addresses,
        )
        for name in broker_names
    ]
    replica_settings = {"mapped-file-bytes": FILE_BYTES, "ha-listen": f"127.0.0.1:{free_port()}"}
    replica = LogReplicaProcess(directory / "replica", CLUSTER, GROUP, addresses, replica_settings)
    made = BrokersAndReplica(jar_directory, directory, name_server, controllers, brokers, replica)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def lose(broker: JavaBroker) -> None:
    """Kill a broker, and its disk is gone."""
    await broker.kill()
    shutil.rmtree(broker.store)


@pytest.mark.parametrize("version", ["5.2.0", "5.5.0"])
async def test_a_broker_whose_disk_is_gone_comes_back_from_the_log_replica_alone(
    version: str, tmp_path: Path
) -> None:
    async with group(tmp_path, version, "broker") as made:
        (broker,) = made.brokers
        async with asking(broker) as asker:
            await create(asker)
            known = made_in(await wait_known(asker, has_all_made))
        sends = await made.send("before", 1_500)
        await made.wait_kept()
        broker_id = made.id_of(broker)
        await lose(broker)
        await made.rebuild(broker, broker_id)
        sends += await made.send("after", 200)
        await made.assert_all_is_back(broker, known, sends)


async def test_of_two_brokers_both_lost_one_comes_back_from_the_log_replica_and_is_promoted_without_the_other(
    tmp_path: Path,
) -> None:
    async with group(tmp_path, "5.5.0", "one", "other") as made:
        before = await made.controllers.group_info(CLUSTER, GROUP)
        assert before is not None
        gone, rebuilt = await made.master_first()
        known, sends = await made.fill(gone, rebuilt)
        gone_id, rebuilt_id = made.id_of(gone), made.id_of(rebuilt)
        await lose(gone)
        await made.controllers.wait_group(
            CLUSTER,
            GROUP,
            lambda info: info["master_id"] == rebuilt_id and len(info["sync_state_set"]) == 2,
            BOOT_TIMEOUT_S,
        )
        sends += await made.send("between", 500)
        await made.wait_kept()
        await lose(rebuilt)
        await made.controllers.wait_group(
            CLUSTER, GROUP, lambda info: info["failure_reason"] == "NoElectableReplica", BOOT_TIMEOUT_S
        )
        await made.rebuild(rebuilt, rebuilt_id)
        after = await made.controllers.wait_group(
            CLUSTER, GROUP, lambda info: info["master_id"] == rebuilt_id, BOOT_TIMEOUT_S
        )
        assert after["master_address"] == rebuilt.address
        assert after["master_epoch"] > before["master_epoch"] + 1
        # The dead one is still a replica of the group, and nothing waits for it.
        alive = {replica["broker_id"]: replica["alive"] for replica in after["replicas"]}
        assert alive[gone_id] is False
        assert gone_id not in after["sync_state_set"]
        sends += await made.send("after", 200)
        await made.assert_all_is_back(rebuilt, known, sends)


async def test_the_second_of_two_lost_brokers_comes_back_from_a_log_replica_that_had_not_joined_it(
    tmp_path: Path,
) -> None:
    async with group(tmp_path, "5.5.0", "one", "other") as made:
        gone, rebuilt = await made.master_first()
        known, sends = await made.fill(gone, rebuilt)
        await made.wait_kept()
        rebuilt_id = made.id_of(rebuilt)
        made.replica.process.signal(signal.SIGSTOP)
        await lose(gone)
        await made.controllers.wait_group(
            CLUSTER, GROUP, lambda info: info["master_id"] == rebuilt_id, BOOT_TIMEOUT_S
        )
        await lose(rebuilt)
        made.replica.process.signal(signal.SIGCONT)
        alone = await made.controllers.wait_group(
            CLUSTER, GROUP, lambda info: info["master_id"] is None, BOOT_TIMEOUT_S
        )
        assert alone["sync_state_set"] == [rebuilt_id], "nobody joined it"
        await made.rebuild(rebuilt, rebuilt_id)
        sends += await made.send("after", 700)
        await made.assert_all_is_back(rebuilt, known, sends)
