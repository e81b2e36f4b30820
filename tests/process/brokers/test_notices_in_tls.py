"""A Java broker that speaks TLS only gets notices of its master, and follows them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controller_core.channel.errors import ChannelError
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.notices.notifier import Notifier
from controller_core.tls.dialling import ClientTls
from testkit.processes.certificates import Authority
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

BOOT_S = 120.0
SETTLE_S = 60.0
GROUP = GroupKey("main", "orders")
CONFIG = RemotingCommand.request(RequestCode.GET_BROKER_CONFIG)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def controllers(tmp_path: Path, authority: Authority) -> AsyncIterator[ControllerCluster]:
    pair = authority.sign("controller")
    settings = {
        "tls.enable": "true",
        "tls.client.trustCertPath": str(authority.trust),
        # Such a broker dials in TLS, too.
        "tls.server.certPath": str(pair.cert),
        "tls.server.keyPath": str(pair.key),
    }
    async with ControllerCluster(tmp_path / "controllers", 1, settings=settings) as cluster:
        await cluster.wait_leader()
        yield cluster


@pytest.fixture
async def broker(
    tmp_path: Path, authority: Authority, controllers: ControllerCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[JavaBroker]:
    """One broker in controller mode whose port accepts only TLS."""
    pair = authority.sign("broker")
    options = {
        "mode": "enforcing",
        "certPath": pair.cert,
        "keyPath": pair.key,
    }
    switches = [f"-Dtls.server.{name}={value}" for name, value in options.items()]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(["-Dtls.test.mode.enable=false", *switches]))
    place = BrokerPlace(*GROUP, "orders-0", tmp_path / "broker")
    made = JavaBroker(
        await jars("5.5.0"), place, "127.0.0.1:1", QUICK_SETTINGS, controllers=controllers.remoting_addresses
    )
    try:
        await made.start(BOOT_S)
        yield made
    finally:
        await made.kill()


async def role_of(notifier: Notifier, broker: JavaBroker) -> str:
    """Ask the broker for its settings, over the connection that notices use."""
    lines = (await notifier.ask(broker.address, CONFIG, 5.0)).body.decode().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("brokerRole="))


async def role_in_tls(notifier: Notifier, broker: JavaBroker) -> str:
    """Ask until there is an answer: a JVM may be slow, and a repeated notice takes a new connection."""
    async with asyncio.timeout(SETTLE_S):
        while True:
            with contextlib.suppress(ChannelError):
                return await role_of(notifier, broker)
            await asyncio.sleep(0.1)


async def noticed(controllers: ControllerCluster) -> bool:
    """Say whether the controllers have written a notice to the master of the first change."""
    url = f"http://{controllers.http_addresses[0]}/v1/failovers"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        records = (await response.json())["failovers"]
    return any(record["noticed_ns"] is not None for record in records)


async def test_it_follows_a_notice_that_comes_in_tls_and_takes_none_in_plain(
    controllers: ControllerCluster, broker: JavaBroker, authority: Authority
) -> None:
    await controllers.wait_group(*GROUP, lambda group: group["master_id"] == 1, SETTLE_S)
    async with asyncio.timeout(SETTLE_S):
        while not await noticed(controllers):  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.1)
    in_tls, plain = (
        Notifier(lambda _: None, broker_tls=ClientTls(authority.client())),
        Notifier(lambda _: None),
    )
    try:
        with pytest.raises(ChannelError):
            await role_of(plain, broker)
        assert await role_in_tls(in_tls, broker) != "SLAVE"
        async with asyncio.timeout(SETTLE_S):
            while await role_in_tls(in_tls, broker) != "SLAVE":
                # The controller gives it again after enough notices without effect.
                in_tls.notify([RoleNotice(GROUP, 1, broker.address, 2, "127.0.0.1:1", 9, 9, (2,))])
                await asyncio.sleep(0.1)
    finally:
        await in_tls.stop()
        await plain.stop()
