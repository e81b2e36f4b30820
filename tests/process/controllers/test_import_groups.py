"""A group that RocketMQ's own controllers serve moves to ours under load, and nobody else decides in between.

Its brokers list both kinds of controllers first. A writer of its own beside each broker says which of them
acknowledged what, and in which epoch.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_core.groups.members.imported_groups import EPOCH_MARGIN
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster, command_path
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_controllers import JavaConsensus, JavaControllers
from testkit.rocketmq.load import LoadClient, LoadSettings, longest_gap_since_s, read_back
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer
from testkit.rocketmq.witness import Witness

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
SETTLE_S = 150.0
ACKS = 100
SETTINGS = {
    **ZERO_LOSS_SETTINGS,
    **QUICK_SETTINGS,
    "controllerHeartBeatTimeoutMills": "15000",
    "mappedFileSizeCommitLog": str(1 << 24),
}
SEQUENCES_APART = 1_000_000
_log = logging.getLogger(__name__)


class MovedGroup:
    """Java controllers with two brokers, and our controllers, which stand by."""

    def __init__(self, release: Path, directory: Path, kind: JavaConsensus = JavaConsensus.DLEDGER) -> None:
        self.release = release
        self.directory = directory
        self.java = JavaControllers(release, directory / "java", kind)
        self.ours = ControllerCluster(directory / "ours", 3, settings={"controllerStandby": "true"})
        self.name_server = NameServer(release, directory / "ns")
        self.both = [*self.java.addresses, *self.ours.remoting_addresses]
        self.brokers = [
            JavaBroker(
                release,
                BrokerPlace(CLUSTER, GROUP, f"b{number}", directory / f"b{number}"),
                self.name_server.address,
                SETTINGS,
                controllers=addresses,
            )
            for number, addresses in enumerate((self.both, self.java.addresses))
        ]
        self.witnesses = [
            Witness(broker.address, GROUP, TOPIC, number * SEQUENCES_APART, broker.place.directory)
            for number, broker in enumerate(self.brokers)
        ]
        self.load = LoadClient(
            release, self.name_server.address, TOPIC, directory / "load", LoadSettings(threads=2, rate=200)
        )

    async def start(self) -> None:
        """Start all; the first broker is master and sends heartbeats to both kinds of controllers."""
        await asyncio.gather(self.java.__aenter__(), self.ours.start(), self.name_server.start())
        await self.brokers[0].start(SETTLE_S)
        await self.name_server.wait_for_master(GROUP, SETTLE_S)
        await self.brokers[1].start(SETTLE_S)

    def list_both(self, number: int) -> None:
        """Have a stopped broker list both kinds of controllers."""
        path = self.brokers[number].place.directory / "broker.conf"
        line = f"controllerAddr={';'.join(self.both)}"
        path.write_text(re.sub("controllerAddr=.*", line, path.read_text()))

    def command(self, name: str, *more: str) -> ManagedProcess:
        """Return the import, as a person runs it."""
        words = ["import", "--output=json", f"--from={';'.join(self.java.addresses)}"]
        words += [f"--server={','.join(self.ours.http_addresses)}"]
        words += [f"--name-servers={self.name_server.address}", *more]
        return ManagedProcess(name, [command_path("controller-core"), *words], self.directory / f"{name}.log")

    async def until_tried(self, words: str) -> str:
        """Make dry runs until the output has these words; return it."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                attempt = self.command("dry-run", "--dry-run")
                await attempt.start()
                await attempt.wait(SETTLE_S)
                if words in (output := attempt.output()):
                    return output
                await asyncio.sleep(0.5)

    async def stop_java(self, *addresses: str) -> None:
        """Stop the Java controllers that listen at these addresses."""
        for address, process in zip(self.java.addresses, self.java.processes, strict=True):
            if address in addresses:
                await process.kill()

    async def acknowledged(self, after_ns: int) -> None:
        """Wait for acknowledged sends that began after that time (UTC)."""
        await self.load.wait_for_acknowledged(ACKS, SETTLE_S, after_ns=after_ns)

    async def stop(self) -> None:
        """Kill all."""
        processes = [
            self.load.process,
            self.name_server.process,
            *(witness.process for witness in self.witnesses),
            *(broker.process for broker in self.brokers),
            *self.java.processes,
            *self.ours.processes,
        ]
        await asyncio.gather(*(process.kill() for process in processes))


@pytest.fixture
async def moved(tmp_path: Path) -> AsyncIterator[MovedGroup]:
    world = MovedGroup(await jars("5.5.0"), tmp_path)
    try:
        await world.start()
        yield world
    finally:
        await world.stop()


async def test_a_group_moves_under_load_and_nothing_acknowledged_is_lost(moved: MovedGroup) -> None:
    world, (master, slave) = moved, moved.brokers
    await world.until_tried("broker 2 of c/g sends no heartbeats")
    await world.load.start()
    await world.acknowledged(0)
    for witness in world.witnesses:
        await witness.process.start()

    await slave.stop()
    world.list_both(1)
    await slave.start(SETTLE_S)
    before = json.loads(_json_of(await world.until_tried('"sync_state_set": [1, 2]')))["groups"][0]
    assert before["master_id"] == 1
    assert await world.ours.group_info(CLUSTER, GROUP) is None

    importing = world.command("import")
    await importing.start()
    await importing.wait_for_text("stop RocketMQ's controllers now", SETTLE_S)
    leader = await world.java.leader()
    began_ns = time.time_ns()
    await world.stop_java(*(address for address in world.java.addresses if address != leader))
    assert await importing.wait(SETTLE_S) == 0, importing.output()
    group = await world.ours.wait_group(
        CLUSTER, GROUP, lambda found: found["sync_state_set"] == [1, 2] and found["master_id"] == 1, SETTLE_S
    )
    assert group["master_epoch"] == before["master_epoch"] + EPOCH_MARGIN
    await world.stop_java(leader)
    await world.witnesses[0].wait_master_in_epoch(group["master_epoch"], SETTLE_S)
    await world.acknowledged(time.time_ns())
    gap_s = longest_gap_since_s(world.load.sends(), began_ns)

    await slave.wait_for_topic(TOPIC, SETTLE_S)
    await master.kill()
    failed_over = await world.ours.wait_group(CLUSTER, GROUP, lambda found: found["master_id"] == 2, SETTLE_S)
    await master.process.start()
    await world.acknowledged(time.time_ns())
    await world.load.stop()
    for witness in world.witnesses:
        await witness.process.stop()
    result = await read_back(
        world.release, world.name_server.address, TOPIC, world.load.sends(), world.directory / "read"
    )
    _log.info("acknowledged %d, longest pause at the import %.0f ms", result.acknowledged, gap_s * 1000)
    assert result.lost == frozenset()
    assert failed_over["master_epoch"] > group["master_epoch"]
    _assert_one_writer(world, before["master_epoch"])


def _assert_one_writer(world: MovedGroup, first_epoch: int) -> None:
    """Check that the second broker acknowledged nothing before the first one's last, and that epochs rise."""
    first, second = (witness.acknowledged() for witness in world.witnesses)
    assert first
    assert second
    assert max(send.end_ns for send in first) < min(send.end_ns for send in second)
    for witness in world.witnesses:
        epochs = [role.epoch for role in witness.roles()]
        assert epochs == sorted(epochs)
        assert witness.epochs_as_master()
    assert first_epoch in world.witnesses[0].epochs_as_master()


def _json_of(output: str) -> str:
    """Return the object that a command printed, without the lines for a person."""
    return output[output.index("{") : output.rindex("}") + 1]
