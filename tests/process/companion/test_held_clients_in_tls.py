"""A Java producer goes through the death of its master without a failed send, in plain TCP and in TLS only.

Everything here has the settings that the operator writes, but for paths: two brokers and a log replica, of
which every acknowledged message has two copies, and a companion beside each broker. In TLS all ports refuse
plain TCP, and controllers, companions and the replica dial in TLS.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller_core.channel import connect
from controller_core.remoting.codes import ResponseCode
from controller_core.tls.dialling import ClientTls, dial_in_tls, trusting
from ha_sidecar.address import host_port
from rocketmq_operator.plan.tls.clients import ClientsStage, sidecar_tls_keys
from slo_pipeline.canary.requests import send_request
from testkit.processes.certificates import Authority, controllers_beside_plain
from testkit.processes.ports import free_port
from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_tls import JAVA_OPTIONS, client_options, server_options
from testkit.rocketmq.load import LoadClient, LoadSettings, longest_gap_since_s
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    NameServer,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

BOOT_S = 150.0
_log = logging.getLogger(__name__)
SETTLE_S = 90.0
SENDS_PER_S = 100
SENDS_BEFORE = 300
SENDS_AFTER = 300
HOLD_MS = "2500"


@dataclass
class HeldGroup:
    """The group, and the client that sends to it."""

    controllers: ControllerCluster
    name_server: NameServer
    brokers: list[JavaBroker]
    companions: list[BrokerCompanion]
    guest_ports: list[int]
    replica: LogReplicaProcess
    load: LoadClient

    async def master(self) -> JavaBroker:
        """Wait until the set is whole, and return its master."""
        info = await self.controllers.wait_group(
            "c", "g", lambda found: len(found["sync_state_set"]) == 3, SETTLE_S
        )
        return next(one for one in self.brokers if one.address == info["master_address"])


@pytest.fixture(params=["plain", "TLS"])
async def group(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[HeldGroup]:
    controller_settings: dict[str, str] = {}
    sidecar_settings: dict[str, str] = {}
    jvm: tuple[str, ...] = ()
    if request.param == "TLS":
        authority = Authority(tmp_path)
        directory = authority.member("member")
        monkeypatch.setenv(JAVA_OPTIONS, server_options(directory))
        jvm = client_options(authority)
        sidecar_settings = sidecar_tls_keys(ClientsStage.ENFORCING) | {"tls": str(directory)}
        controller_settings = controllers_beside_plain(authority)
        dial_in_tls(ClientTls(trusting("tls", authority.trust).context))
    jar_directory = await jars("5.5.0")
    controllers = ControllerCluster(tmp_path / "controllers", 1, settings=controller_settings)
    name_server = NameServer(jar_directory, tmp_path / "ns")
    addresses = controllers.remoting_addresses
    settings = {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS}
    brokers = [
        JavaBroker(
            jar_directory,
            BrokerPlace("c", "g", name, tmp_path / name),
            name_server.address,
            settings,
            controllers=addresses,
        )
        for name in ("g-0", "g-1")
    ]
    given = {"hold-ms": HOLD_MS, "name-servers": name_server.address, **sidecar_settings}
    guest_ports = [free_port() for _ in brokers]
    companions = [
        BrokerCompanion(
            one,
            addresses,
            **given,
            **{"broker-ha": f"127.0.0.1:{one.ha_port}", "guest-port": str(guest_port)},
        )
        for one, guest_port in zip(brokers, guest_ports, strict=True)
    ]
    replica = LogReplicaProcess(tmp_path / "replica", "c", "g", addresses, sidecar_settings)
    load_settings = LoadSettings(rate=SENDS_PER_S, poll_name_server_ms=300, jvm=jvm)
    load = LoadClient(jar_directory, name_server.address, "Held", tmp_path / "load", load_settings)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(dial_in_tls, None)
        for process in (replica.process, *(one.process for one in companions)):
            stack.push_async_callback(process.stop)
        for broker in brokers:
            stack.push_async_callback(broker.kill)
        stack.push_async_callback(name_server.stop)
        await stack.enter_async_context(controllers)
        await name_server.start()
        await asyncio.gather(*(one.start(BOOT_S) for one in brokers))
        await replica.start()
        await asyncio.gather(*(one.process.start() for one in companions))
        await name_server.wait_for_master("g")
        await stack.enter_async_context(load)
        yield HeldGroup(controllers, name_server, brokers, companions, guest_ports, replica, load)


async def refuses_plain(address: str) -> bool:
    """Ask in plain TCP, past the process' own rule; tell whether the connection ended."""
    reader, writer = await asyncio.open_connection(*host_port(address))
    try:
        writer.write(b"\x00\x00\x00\x40" + bytes(8))
        async with asyncio.timeout(SETTLE_S):
            return await reader.read(1) == b""
    except ConnectionError:
        return True
    finally:
        writer.transport.abort()


async def test_no_send_fails_when_the_master_is_killed(
    group: HeldGroup, request: pytest.FixtureRequest
) -> None:
    master = await group.master()
    companion = group.companions[group.brokers.index(master)]
    await companion.wait_status(lambda found: found["broker"] is not None, SETTLE_S)
    way = request.node.callspec.params["group"]
    if way == "TLS":
        for address in (master.address, group.replica.address, group.name_server.address):
            assert await refuses_plain(address), address
    await group.load.wait_for_acknowledged(SENDS_BEFORE, SETTLE_S)
    killed_ns = time.time_ns()
    await master.kill()
    await group.load.wait_for_acknowledged(SENDS_AFTER, SETTLE_S, after_ns=killed_ns)
    stats = await group.load.stop()
    gap_s = longest_gap_since_s(group.load.sends(), killed_ns)
    text = companion.process.log_path.read_text()
    held = [line for line in text.splitlines() if "clients were held" in line]
    _log.warning("%s: gap %.0f ms, %d sends, %s", way, gap_s * 1000, stats.acknowledged, held)
    assert stats.failed == 0, stats
    assert len(held) == 1
    info = await group.controllers.wait_group("c", "g", lambda found: bool(found["master_address"]), SETTLE_S)
    assert info["master_address"] != master.address


@pytest.mark.parametrize("group", ["plain"], indirect=True)
async def test_a_send_by_the_guest_port_is_stored_although_its_broker_is_not_master_yet(
    group: HeldGroup,
) -> None:
    """As on Kubernetes, where the dead master's address leads there from the election on."""
    master = await group.master()
    (successor,) = (number for number, one in enumerate(group.brokers) if one is not master)
    await group.companions[successor].wait_status(lambda found: found["group"] is not None, SETTLE_S)
    await group.load.wait_for_acknowledged(SENDS_BEFORE, SETTLE_S)
    guest = await connect("127.0.0.1", group.guest_ports[successor], SETTLE_S)
    killing = asyncio.ensure_future(master.kill())
    try:
        answer = await guest.call(send_request("Held", "g", 0, 1, b"early", 0), SETTLE_S)
    finally:
        guest.close()
        await killing
    assert answer.code == ResponseCode.SUCCESS, answer.remark
