"""RocketMQ's proxies as the operator configures them: their gRPC port answers RocketMQ's own gRPC client.

Name server, broker and proxy are real processes; the proxy is one of its own, or a part of the broker's.
"""

import asyncio
import re
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest

from rocketmq_operator.api.access.user import RightAction, UserRight, UserSpec
from rocketmq_operator.api.consumer_group import ConsumerGroupSpec
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.api.topic import TopicSpec
from rocketmq_operator.clients.api import PeerUnavailableError, RequestRefusedError
from rocketmq_operator.clients.brokers import BrokersClient
from rocketmq_operator.plan.metadata.accounts import account
from rocketmq_operator.plan.metadata.settings import config_to_write
from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.products.controllers import ControllerCluster
from testkit.products.signed_group import ACCESS_CONTROL, INNER
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer, mqadmin
from testkit.rocketmq.proxy import (
    BOOT_TIMEOUT_S,
    STARTED,
    ProxyFile,
    proxy_process,
    route_addresses,
    send_and_read,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP, TOPIC, READERS = "main", "orders", "Payments", "billing"
MESSAGES = 20
ACKNOWLEDGED_WITHIN_S = 90.0
SETTINGS = {
    "brokerRole": "ASYNC_MASTER",
    # It would refuse requests that waited for 0.2 s, which is common on a busy machine.
    "waitTimeMillsInSendQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}


def _place(tmp_path: Path) -> BrokerPlace:
    return BrokerPlace(CLUSTER, GROUP, "orders-0", tmp_path / "broker")


async def _make_topic_and_group(release: Path, tmp_path: Path, name_server: NameServer) -> None:
    """Make what a gRPC client is refused without: a proxy makes neither."""
    where = ("-n", name_server.address, "-c", CLUSTER)
    for command, *names in (("updateTopic", "-t", TOPIC), ("updateSubGroup", "-g", READERS)):
        assert "success" in await mqadmin(release, tmp_path / "admin", command, *where, *names)


def _settings_taken(process: ManagedProcess, keys: Iterable[str]) -> dict[str, str]:
    """Return what the proxy says that it has of these settings, as it prints them when it starts."""
    found = re.findall(r'^\s*"(\w+)":"?([^"\n]*?)"?,?$', process.output(), re.MULTILINE)
    return {key: value for key, value in found if key in keys}


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
        text: str = answer.read().decode()
        return text


async def test_a_proxy_of_its_own_answers_clients_of_rocketmq_5_and_older_ones(
    tmp_path: Path, name_server: NameServer
) -> None:
    release = await jars()
    broker = JavaBroker(release, _place(tmp_path), name_server.address, SETTINGS)
    file = ProxyFile(ProxyMode.CLUSTER, CLUSTER, name_server.address, tmp_path / "proxy")
    proxy = proxy_process(release, file, tmp_path / "proxy")
    try:
        await broker.start()
        await name_server.wait_for_master(GROUP)
        await _make_topic_and_group(release, tmp_path, name_server)
        await proxy.start()
        await proxy.wait_for_text(STARTED, BOOT_TIMEOUT_S)
        assert _settings_taken(proxy, file.settings) == file.settings
        counted = await send_and_read(file.grpc_address, TOPIC, READERS, MESSAGES, tmp_path / "grpc")
        assert counted == {"sent": MESSAGES, "read": MESSAGES}
        used = "mq.example.org:30081"
        sent_to = await route_addresses(release, file.grpc_address, used, TOPIC, tmp_path / "route")
        assert sent_to == {used}, "a client behind a listener goes on by the address that it used"
        settings = LoadSettings(threads=1, rate=50, send_timeout_ms=60_000)
        # Its first sends may fail: a proxy may be slow to answer the first route
        # request, and the client retries.
        async with LoadClient(release, file.remoting_address, TOPIC, tmp_path / "load", settings) as load:
            await load.wait_for_acknowledged(MESSAGES, ACKNOWLEDGED_WITHIN_S)
        assert "rocketmq_proxy_up" in await asyncio.to_thread(_read, file.metrics_url)
    finally:
        await proxy.stop()
        await broker.stop()


@pytest.mark.parametrize("mode", [ProxyMode.CLUSTER, ProxyMode.LOCAL])
async def test_a_proxy_lets_users_in_within_their_rights(
    mode: ProxyMode, tmp_path: Path, name_server: NameServer
) -> None:
    release = await jars()
    file = ProxyFile(mode, CLUSTER, name_server.address, tmp_path / "proxy", INNER)
    inside = mode is ProxyMode.LOCAL
    broker = JavaBroker(
        release,
        _place(tmp_path),
        name_server.address,
        SETTINGS | ACCESS_CONTROL,
        proxy_conf=file.path if inside else None,
    )
    proxy = broker.process if inside else proxy_process(release, file, tmp_path / "proxy")
    try:
        await broker.start()
        await name_server.wait_for_master(GROUP)
        await _make_users(broker.address)
        if not inside:
            await proxy.start()
        await proxy.wait_for_text(STARTED, BOOT_TIMEOUT_S)
        where = (file.grpc_address, TOPIC, READERS, MESSAGES)
        counted = await send_and_read(*where, tmp_path / "grpc", ("alice", "alice-1"))
        assert counted == {"sent": MESSAGES, "read": MESSAGES}
        for name, password, words in (
            ("alice", "guessed", "check signature failed"),
            ("bob", "bob-1", "has no permission"),
        ):
            with pytest.raises(ProcessFailedError, match=words):
                await send_and_read(*where, tmp_path / name, (name, password))
        settings = LoadSettings(threads=1, rate=50, send_timeout_ms=60_000, user=("alice", "alice-1"))
        routes = name_server.address if inside else file.remoting_address
        async with LoadClient(release, routes, TOPIC, tmp_path / "load", settings) as load:
            await load.wait_for_acknowledged(MESSAGES, ACKNOWLEDGED_WITHIN_S)
    finally:
        await proxy.stop()
        await broker.stop()


async def _make_users(broker: str) -> None:
    """Make the topic, the consumer group, alice with rights on both and bob without any, as the operator."""
    brokers = BrokersClient()
    topic = TopicSpec(cluster=CLUSTER)
    readers = ConsumerGroupSpec(cluster=CLUSTER)
    rights = (
        UserRight(resource=f"Topic:{TOPIC}", actions=(RightAction.PUB, RightAction.SUB)),
        UserRight(resource=f"Group:{READERS}", actions=(RightAction.SUB,)),
    )
    alice, bob = UserSpec(cluster=CLUSTER, rights=rights), UserSpec(cluster=CLUSTER)
    for kind, config in (
        ("Topic", config_to_write(topic, TOPIC, None)),
        ("ConsumerGroup", config_to_write(readers, READERS, None)),
        ("User", account(alice, "alice", "alice-1")),
        ("User", account(bob, "bob", "bob-1")),
    ):
        async with asyncio.timeout(ACKNOWLEDGED_WITHIN_S):
            while True:
                try:
                    await brokers.write(broker, kind, config, INNER)
                except RequestRefusedError:
                    raise
                except PeerUnavailableError:
                    await asyncio.sleep(0.2)
                else:
                    break


async def test_a_proxy_of_its_own_ends_where_no_broker_is(tmp_path: Path, name_server: NameServer) -> None:
    file = ProxyFile(ProxyMode.CLUSTER, CLUSTER, name_server.address, tmp_path / "proxy")
    proxy = proxy_process(await jars(), file, tmp_path / "proxy")
    async with proxy:
        assert await proxy.wait(BOOT_TIMEOUT_S) != 0
    assert f"failed on cluster {CLUSTER}" in proxy.output(), "the operator waits with it for a broker"


async def test_a_broker_with_a_proxy_inside_is_made_master_and_answers_clients_of_rocketmq_5(
    tmp_path: Path, name_server: NameServer
) -> None:
    release = await jars()
    file = ProxyFile(ProxyMode.LOCAL, CLUSTER, name_server.address, tmp_path / "proxy")
    async with ControllerCluster(tmp_path / "controllers", 1) as controllers:
        await controllers.wait_leader()
        broker = JavaBroker(
            release,
            _place(tmp_path),
            name_server.address,
            SETTINGS | QUICK_SETTINGS,
            controllers=controllers.remoting_addresses,
            proxy_conf=file.path,
        )
        try:
            await broker.start()
            await broker.process.wait_for_text(STARTED, BOOT_TIMEOUT_S)
            assert _settings_taken(broker.process, file.settings) == file.settings
            await controllers.wait_group(CLUSTER, GROUP, lambda group: group["master_id"] is not None)
            await name_server.wait_for_master(GROUP)
            await _make_topic_and_group(release, tmp_path, name_server)
            counted = await send_and_read(file.grpc_address, TOPIC, READERS, MESSAGES, tmp_path / "grpc")
            assert counted == {"sent": MESSAGES, "read": MESSAGES}
            assert "rocketmq_broker" in await asyncio.to_thread(_read, broker.metrics_url)
        finally:
            await broker.stop()
