"""An unmodified Java broker as slave of our HA port.

From an empty disk it reaches the same bytes and the same epochs, and it becomes master.
"""

import asyncio
import contextlib
from pathlib import Path

import pytest

from controller_core.channel import ChannelError, connect
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader
from ha_sidecar.address import host_port
from ha_sidecar.commitlog.record_ends import RecordEnds
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.questions import ask_broker
from ha_sidecar.decisions.broker_facts import BrokerFacts
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica.slave_server import HaServer, ServedSlave
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import one_node
from testkit.products.replica import log_prefix_equal
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP = "c", "g"
BOOT_TIMEOUT_S = 150.0
SYNC_TIMEOUT_S = 90.0
FILE_BYTES = 1 << 20
"""Small files, so that the log crosses the end of some."""


async def written_store(jar_directory: Path, directory: Path, name_server: NameServer) -> ReplicaStore:
    """Return a log that a broker without controllers wrote, in two epochs that part inside a file."""
    place = BrokerPlace(CLUSTER, "writer", "writer", directory / "writer")
    settings = {"mappedFileSizeCommitLog": str(FILE_BYTES)}
    broker = JavaBroker(jar_directory, place, name_server.address, settings)
    try:
        await broker.start(BOOT_TIMEOUT_S)
        load_settings = LoadSettings(threads=2, payload_bytes=3000)
        async with LoadClient(
            jar_directory, name_server.address, "T", directory / "load", load_settings
        ) as load:
            await load.wait_for_acknowledged(1000, SYNC_TIMEOUT_S)
            await load.stop()
    finally:
        await broker.shut_down()
    store = ReplicaStore(broker.store, FILE_BYTES)
    ends = RecordEnds(store.log.layout)
    part_offset = ends.record_end(FILE_BYTES, FILE_BYTES + FILE_BYTES // 2)
    ends.close()
    assert FILE_BYTES < part_offset < store.log.max_offset - FILE_BYTES
    store.adopt(EpochList.of((0, 0), (1, part_offset)))
    return store


async def tell_ha_address(broker: JavaBroker, server: HaServer) -> None:
    """Tell a slave its master's HA port until it has shaken hands; it forgets on its next change of role."""
    header = ExchangeHAInfoRequestHeader(master_ha_address=f"127.0.0.1:{server.port}")
    async with asyncio.timeout(SYNC_TIMEOUT_S):
        while not server.slaves():
            with contextlib.suppress(ChannelError):
                connection = await connect(*host_port(broker.address), 1.0)
                try:
                    request = RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO, header.to_ext())
                    await connection.call(request, 2.0)
                finally:
                    connection.close()
            await asyncio.sleep(0.5)


async def wait_acked(server: HaServer, offset: int) -> ServedSlave:
    """Wait until the one slave has acked so far."""
    async with asyncio.timeout(SYNC_TIMEOUT_S):
        while True:
            found = server.slaves()
            if found and found[0].ack_offset >= offset:
                return found[0]
            await asyncio.sleep(0.05)


def epochs_of(broker: JavaBroker) -> list[str]:
    """Return the entries of a broker's epoch file."""
    return (broker.store / "epochFileCheckpoint").read_text().split()[2:]


async def test_a_broker_with_an_empty_disk_is_brought_back_and_takes_office(tmp_path: Path) -> None:
    jar_directory = await jars("5.5.0")
    name_server = NameServer(jar_directory, tmp_path / "ns")
    place = BrokerPlace(CLUSTER, GROUP, "broker", tmp_path / "broker")
    settings = {
        **QUICK_SETTINGS,
        "allAckInSyncStateSet": "true",
        "mappedFileSizeCommitLog": str(FILE_BYTES),
    }
    await name_server.start()
    try:
        store = await written_store(jar_directory, tmp_path, name_server)
        end_offset = store.log.max_offset
        server = HaServer(store, ServedStore(store, lambda: end_offset), MasterConfig(FILE_BYTES))
        server.start("127.0.0.1", 0)
        async with (
            one_node(tmp_path / "controller", {}) as node,
            FakeBroker([node.remoting], GROUP, cluster=CLUSTER) as master,
        ):
            await master.elect()
            master.epoch, master.max_offset = 1, end_offset
            broker = JavaBroker(
                jar_directory, place, name_server.address, settings, controllers=[node.remoting]
            )
            try:
                await broker.start(BOOT_TIMEOUT_S)
                await tell_ha_address(broker, server)
                assert (await wait_acked(server, end_offset)).broker_id == 2
                assert log_prefix_equal(store.log.layout.directory, broker.store / "commitlog", end_offset)
                part_offset = store.epochs.end_offset(0)
                assert epochs_of(broker) == ["0-0", f"1-{part_offset}"]
                slave = await looked_at(broker)
                assert (slave.broker_id, slave.is_master, slave.max_offset) == (2, False, end_offset)
                await promote(master)
                await name_server.wait_for_master(GROUP)
                await take_writes(jar_directory, name_server, tmp_path)
                promoted = await looked_at(broker)
                # A Java master says id 0 of itself; its announced address tells who it is.
                assert (promoted.broker_id, promoted.is_master) == (0, True)
                assert (promoted.address, promoted.last_epoch) == (broker.address, 2)
                assert epochs_of(broker) == ["0-0", f"1-{part_offset}", f"2-{end_offset}"]
            finally:
                await broker.stop()
        server.stop()
        store.close()
    finally:
        await name_server.stop()


async def looked_at(broker: JavaBroker) -> BrokerFacts:
    """Return what a companion sees of the broker."""
    asker = Asker(host_port(broker.address))
    try:
        async with asyncio.timeout(SYNC_TIMEOUT_S):
            while True:
                # A JVM may take longer for its first answers than an ask waits.
                with contextlib.suppress(AskError):
                    return await ask_broker(asker)
                await asyncio.sleep(0.1)
    finally:
        asker.close()


async def promote(master: FakeBroker) -> None:
    """Let the slave into the set, then die."""
    answer = await master.alter([1, 2], set_epoch=1)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await master.die()


async def take_writes(jar_directory: Path, name_server: NameServer, directory: Path) -> None:
    """Send to the group until sends are acknowledged."""
    settings = LoadSettings(threads=2)
    async with LoadClient(jar_directory, name_server.address, "U", directory / "load2", settings) as load:
        await load.wait_for_acknowledged(100, SYNC_TIMEOUT_S)
        await load.stop()
