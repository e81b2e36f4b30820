"""A route front between a real name server and RocketMQ's own client, which knows only the route front.

The broker announces one address and clients outside reach it at another one, of a relay: as in a cluster,
where the one is a ClusterIP and the other a port of a node.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from controller_core.channel import connect
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.route_front.requests import PASSED
from testkit.processes.ports import LOOPBACK, free_port
from testkit.processes.relay import Relay
from testkit.products.route_front import RouteFrontProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer, mqadmin

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP, TOPIC = "main", "orders", "Payments"
CALL_S = 30.0
SENDS = 100
SENDS_WITHIN_S = 90.0
SETTINGS = {
    "brokerRole": "ASYNC_MASTER",
    # It would refuse requests that waited for 0.2 s, which is common on a busy machine.
    "waitTimeMillsInSendQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}
_EXT = {"topic": "TBW102", "cluster": CLUSTER, "clusterName": CLUSTER, "brokerName": GROUP}
_EXT |= {"namespace": "ORDER_TOPIC_CONFIG", "key": "TBW102"}
NAME_BROKERS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.GET_BROKER_MEMBER_GROUP,
}
"""The requests whose answers name brokers by address."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The processes of one test."""

    name_server: NameServer
    broker: JavaBroker
    relay: Relay
    front: RouteFrontProcess


@pytest_asyncio.fixture
async def outside(tmp_path: Path, name_server: NameServer) -> AsyncIterator[Outside]:
    place = BrokerPlace(CLUSTER, GROUP, "orders-0", tmp_path / "broker")
    broker = JavaBroker(await jars(), place, name_server.address, SETTINGS)
    relay = Relay(broker.address)
    gone = f"{LOOPBACK}:{free_port()}"
    front = RouteFrontProcess(
        [gone, name_server.address], tmp_path / "front", {broker.address: relay.address}
    )
    try:
        await broker.start()
        await name_server.wait_for_master(GROUP)
        await relay.start()
        await front.start()
        yield Outside(name_server, broker, relay, front)
    finally:
        await front.stop()
        await relay.stop()
        await broker.stop()


async def _answers(address: str) -> dict[int, bytes]:
    """Return the bodies of all answers to requests that read, by request."""
    host, _, port = address.rpartition(":")
    connection = await connect(host, int(port), CALL_S)
    try:
        answers = {}
        for code in sorted(PASSED):
            answer = await connection.call(RemotingCommand.request(code, _EXT), CALL_S)
            if answer.code == ResponseCode.SUCCESS:
                answers[code] = answer.body
        return answers
    finally:
        connection.close()


async def test_a_java_client_that_knows_only_the_route_front_sends_and_reads(
    tmp_path: Path, outside: Outside
) -> None:
    release, front = await jars(), outside.front.address
    settings = LoadSettings(threads=2, rate=200, poll_name_server_ms=500, send_timeout_ms=60_000)
    async with LoadClient(release, front, TOPIC, tmp_path / "load", settings) as load:
        await load.wait_for_acknowledged(SENDS, SENDS_WITHIN_S)
        stats = await load.stop()
        sends = load.sends()
    assert (stats.acknowledged >= SENDS, stats.failed) == (True, 0)
    sent_through = outside.relay.accepted
    assert sent_through > 0
    result = await read_back(release, front, TOPIC, sends, tmp_path / "read")
    assert (result.read, result.lost) == (stats.acknowledged, frozenset())
    assert outside.relay.accepted > sent_through
    assert outside.relay.address in await mqadmin(release, tmp_path / "admin", "clusterList", "-n", front)


async def test_no_answer_of_a_real_name_server_names_an_address_inside(outside: Outside) -> None:
    inside, rewritten = outside.broker.address.encode(), outside.relay.address.encode()
    direct = await _answers(outside.name_server.address)
    assert {code for code, body in direct.items() if inside in body} == NAME_BROKERS
    through = await _answers(outside.front.address)
    assert set(through) == set(direct)
    assert [code for code, body in through.items() if inside in body] == []
    assert {code for code, body in through.items() if rewritten in body} == NAME_BROKERS


async def test_a_broker_that_the_listener_has_no_address_of_is_not_offered(outside: Outside) -> None:
    outside.front.write({})
    await outside.front.process.wait_for_text("the listener has 0 addresses", CALL_S)
    through = await _answers(outside.front.address)
    assert RequestCode.GET_ROUTEINFO_BY_TOPIC not in through
    assert b'"brokerAddrTable":{}' in through[RequestCode.GET_BROKER_CLUSTER_INFO]
