"""A broker's store is filled from a log replica in TLS, while the master is Java's and its HA port plain.

All settings are those that the operator writes at `Enforcing`, but for paths. A relay before the HA port of
the log replica tells how each slave begins.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller_core.tls.dialling import ClientTls, dial_in_tls, trusting
from ha_sidecar.address import host_port
from rocketmq_operator.plan.tls.clients import ClientsStage, sidecar_tls_keys
from testkit.processes.certificates import Authority, controllers_beside_plain
from testkit.processes.ports import free_port
from testkit.processes.relay import Relay
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.products.store_commands import printed_by, seed_command
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_tls import JAVA_OPTIONS, server_options
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    NameServer,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

BOOT_S = 150.0
SETTLE_S = 90.0
SENDS = 300
FILE_BYTES = 1 << 20
HELLO = b"\x16"
JAVA_SLAVE = b"\x00"


@dataclass
class EnforcedGroup:
    """A Java master and a log replica in TLS, a relay before the replica's HA port, and a broker to come.

    Attributes:
        trust: the directory with certificates of the cluster.
    """

    controllers: ControllerCluster
    name_server: NameServer
    master: JavaBroker
    slave: JavaBroker
    replica: LogReplicaProcess
    relay: Relay
    load: LoadClient
    trust: Path

    def seed(self) -> list[str]:
        """Return the command that fills the slave's store."""
        keys = sidecar_tls_keys(ClientsStage.ENFORCING) | {"tls": str(self.trust)}
        addresses = self.controllers.remoting_addresses
        return seed_command(self.slave.store, ("c", "g"), addresses, str(FILE_BYTES), **keys)


@pytest.fixture
async def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EnforcedGroup]:
    authority = Authority(tmp_path)
    directory = authority.member("member")
    monkeypatch.setenv(JAVA_OPTIONS, server_options(directory))
    dial_in_tls(ClientTls(trusting("tls", authority.trust).context))
    controller_settings = controllers_beside_plain(authority)
    jar_directory = await jars("5.5.0")
    controllers = ControllerCluster(tmp_path / "controllers", 1, settings=controller_settings)
    name_server = NameServer(jar_directory, tmp_path / "ns")
    addresses = controllers.remoting_addresses
    settings = {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS, "mappedFileSizeCommitLog": str(FILE_BYTES)}
    master, slave = (
        JavaBroker(
            jar_directory,
            BrokerPlace("c", "g", name, tmp_path / name),
            name_server.address,
            settings,
            controllers=addresses,
        )
        for name in ("g-0", "g-1")
    )
    ha_address = f"127.0.0.1:{free_port()}"
    relay = Relay(ha_address)
    given = sidecar_tls_keys(ClientsStage.ENFORCING) | {
        "tls": str(directory),
        "mapped-file-bytes": str(FILE_BYTES),
        "ha-listen": ha_address,
        "ha-advertise": relay.address,
    }
    replica = LogReplicaProcess(tmp_path / "replica", "c", "g", addresses, given)
    load_settings = LoadSettings(threads=2, payload_bytes=4_000)
    load = LoadClient(jar_directory, name_server.address, "Copied", tmp_path / "load", load_settings)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(dial_in_tls, None)
        await relay.start()
        stack.push_async_callback(relay.stop)
        stack.push_async_callback(replica.process.stop)
        for broker in (master, slave):
            stack.push_async_callback(broker.kill)
        stack.push_async_callback(name_server.stop)
        await stack.enter_async_context(controllers)
        await name_server.start()
        await master.start(BOOT_S)
        await replica.start()
        await replica.wait_in_sync()
        await name_server.wait_for_master("g")
        yield EnforcedGroup(controllers, name_server, master, slave, replica, relay, load, directory)


async def closes(address: str, first: bytes) -> bool:
    """Send first bytes to an HA port; tell whether it ends the connection without a byte."""
    reader, writer = await asyncio.open_connection(*host_port(address))
    try:
        writer.write(first)
        async with asyncio.timeout(SETTLE_S):
            return await reader.read(1) == b""
    except ConnectionError:
        return True
    finally:
        writer.transport.abort()


def hello(trust: Path) -> bytes:
    """Return the first bytes of a client in TLS."""
    going = ssl.MemoryBIO()
    client = trusting("tls", trust / "ca.crt").context.wrap_bio(ssl.MemoryBIO(), going)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return going.read()


async def test_a_store_is_copied_in_tls_and_its_broker_follows_the_java_master_in_plain_tcp(
    group: EnforcedGroup,
) -> None:
    async with group.load as load:
        await load.wait_for_acknowledged(SENDS, SETTLE_S)
        await load.stop()
    assert await closes(group.relay.address, JAVA_SLAVE + bytes(100)), "plain TCP is refused"
    # What a mistake would cost: Java takes a hello for the rubbish that it is, and goes on.
    links = len(await group.replica.events())
    assert await closes(f"127.0.0.1:{group.master.ha_port}", hello(group.trust))
    assert len(await group.replica.events()) == links, "the replica's link to the master lives"

    group.relay.first_bytes.clear()
    seeded = await printed_by(group.seed())
    assert seeded["max_offset"] > SENDS * 4_000
    assert set(group.relay.first_bytes) == {HELLO}
    assert log_prefix_equal(
        group.replica.store / "commitlog", group.slave.store / "commitlog", seeded["max_offset"]
    )
    assert "in TLS" in group.replica.process.log_path.read_text()
    await group.slave.start(BOOT_S)
    await group.controllers.wait_group("c", "g", lambda info: len(info["sync_state_set"]) == 3, BOOT_S)
