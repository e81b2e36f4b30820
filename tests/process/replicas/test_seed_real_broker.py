"""A seed copies from a live Java master: a Java broker goes on at its end, a killed seed where it was."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller_core.channel.asking import AskError
from ha_sidecar.common.questions import ask_broker
from ha_sidecar.decisions.broker_facts import BrokerFacts
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import log_prefix_equal
from testkit.products.store_commands import printed_by, seed_command, verify_command
from testkit.rocketmq.broker_metadata import asking
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

CLUSTER, GROUP = "c", "g"
BOOT_TIMEOUT_S = 150.0
LOAD_TIMEOUT_S = 240.0
FILE_BYTES = 1 << 20
PAYLOAD_BYTES = 4000
RECORD_BYTES_MAX = PAYLOAD_BYTES + 500
SPEED_BYTES = 2 << 20
LOG_BYTES = 10 * SPEED_BYTES
"""A log that takes the master ten seconds to send."""
FROM_OFFSET = re.compile(r"Master transfer data to slave .*, from offset:(\d+)")
"""What a Java master says when it begins to send."""


@dataclass
class MasterAndEmptySlave:
    """A Java master under a controller of ours, and a slave that is described but not started."""

    jar_directory: Path
    directory: Path
    name_server: NameServer
    controllers: ControllerCluster
    master: JavaBroker
    slave: JavaBroker

    def load(self, name: str) -> LoadClient:
        """Describe a producer."""
        settings = LoadSettings(threads=4, payload_bytes=PAYLOAD_BYTES)
        address, directory = self.name_server.address, self.directory / name
        return LoadClient(self.jar_directory, address, "T", directory, settings)

    def seed(self) -> list[str]:
        """Return the command that fills the slave's store."""
        addresses = self.controllers.remoting_addresses
        return seed_command(self.slave.store, (CLUSTER, GROUP), addresses, str(FILE_BYTES))


@asynccontextmanager
async def group(directory: Path, **settings: str) -> AsyncIterator[MasterAndEmptySlave]:
    """Run a group whose master is elected; `settings` are further ones of its brokers."""
    jar_directory = await jars()
    name_server = NameServer(jar_directory, directory / "ns")
    controllers = ControllerCluster(directory / "controllers", 1)
    given = {**QUICK_SETTINGS, "mappedFileSizeCommitLog": str(FILE_BYTES), **settings}
    # A machine that stands still for some seconds makes no dead master.
    given["controllerHeartBeatTimeoutMills"] = "15000"
    master, slave = (
        JavaBroker(
            jar_directory,
            BrokerPlace(CLUSTER, GROUP, name, directory / name),
            name_server.address,
            given,
            controllers=controllers.remoting_addresses,
        )
        for name in ("master", "slave")
    )
    made = MasterAndEmptySlave(jar_directory, directory, name_server, controllers, master, slave)
    try:
        await asyncio.gather(name_server.start(), controllers.start())
        await master.start(BOOT_TIMEOUT_S)
        await name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        yield made
    finally:
        await asyncio.gather(slave.stop(), master.stop())
        await asyncio.gather(controllers.stop(), name_server.stop())


async def facts_of(broker: JavaBroker) -> BrokerFacts:
    """Ask a broker what it says of itself; a JVM may take longer for its first answers than an ask waits."""
    async with asyncio.timeout(BOOT_TIMEOUT_S), asking(broker) as asker:
        while True:
            try:
                return await ask_broker(asker, broker.address)
            except AskError:
                await asyncio.sleep(0.1)


async def wait_reached(broker: JavaBroker, offset: int) -> None:
    """Wait until the broker's log ends there."""
    async with asyncio.timeout(BOOT_TIMEOUT_S):
        while (await facts_of(broker)).max_offset != offset:  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.1)


async def test_a_broker_on_a_seeded_store_is_sent_only_what_its_master_wrote_since(tmp_path: Path) -> None:
    async with group(tmp_path) as made:
        async with made.load("load") as load:
            await load.wait_for_acknowledged(1_000, LOAD_TIMEOUT_S)
            seeded = await printed_by(made.seed())
            await load.wait_for_acknowledged(len(load.sends()) + 500, LOAD_TIMEOUT_S)
            stats = await load.stop()
        assert seeded["seeded"], seeded
        copied_offset = seeded["max_offset"]
        assert copied_offset > 1_000 * PAYLOAD_BYTES
        max_offset = (await facts_of(made.master)).max_offset
        assert max_offset > copied_offset + 500 * PAYLOAD_BYTES
        told_before = len(FROM_OFFSET.findall(made.master.process.output()))
        await made.slave.start(BOOT_TIMEOUT_S)
        await made.controllers.wait_group(
            CLUSTER, GROUP, lambda info: len(info["sync_state_set"]) == 2, BOOT_TIMEOUT_S
        )
        await wait_reached(made.slave, max_offset)
        began = [int(offset) for offset in FROM_OFFSET.findall(made.master.process.output())[told_before:]]
        # A broker requests the filler at the end of its last file again, because it
        # does not count it as a record.
        assert copied_offset - RECORD_BYTES_MAX < min(began) <= copied_offset
        assert log_prefix_equal(made.master.store / "commitlog", made.slave.store / "commitlog", max_offset)
        await made.slave.shut_down()
        found = await printed_by(verify_command(made.slave.store))
        assert found["max_offset"] == max_offset
        assert found["messages"] >= stats.acknowledged


async def test_a_seed_killed_in_the_midst_goes_on_where_it_was(tmp_path: Path) -> None:
    slow = {"haFlowControlEnable": "true", "maxHaTransferByteInSecond": str(SPEED_BYTES)}
    async with group(tmp_path, **slow) as made:
        async with made.load("load") as load:
            await load.wait_for_acknowledged(LOG_BYTES // PAYLOAD_BYTES, LOAD_TIMEOUT_S)
            stats = await load.stop()
        max_offset = (await facts_of(made.master)).max_offset
        killed = ManagedProcess("seed", made.seed(), tmp_path / "seed.log")
        async with killed:
            # It tells how far it is, which is neither at the beginning nor at the end.
            await killed.wait_for_text("s left", BOOT_TIMEOUT_S)
            await killed.kill()
        assert killed.returncode == -signal.SIGKILL
        (share, have, all_bytes), *_ = re.findall(r"([\d.]+) %: (\d+) of (\d+) bytes", killed.output())
        assert 0 < float(share) < 100
        assert 0 < int(have) < int(all_bytes) == max_offset
        # Its last write may have left half a record, which is neither damage nor loss.
        held = await printed_by(verify_command(made.slave.store), (0, 1))
        assert 0 < held["max_offset"] < max_offset
        seeded = await printed_by(made.seed())
        assert seeded["max_offset"] == max_offset
        assert 0 < seeded["copied_bytes"] <= max_offset - held["max_offset"]
        found = await printed_by(verify_command(made.slave.store))
        assert (found["min_offset"], found["max_offset"], found["first_damage"]) == (0, max_offset, None)
        assert found["messages"] >= stats.acknowledged
        assert log_prefix_equal(made.master.store / "commitlog", made.slave.store / "commitlog", max_offset)
