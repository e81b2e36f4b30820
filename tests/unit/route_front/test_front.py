"""A route front over loopback, between clients and name servers that tests play."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from controller_core.channel import Connection, ConnectionClosedError, Server, connect, serve
from controller_core.remoting.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.routes import TopicRouteData
from controller_core.route_front.front import RouteFront
from controller_core.route_front.http_pages import HttpPages
from controller_core.route_front.numbers import RequestResult
from controller_core.route_front.settings import RouteFrontBounds, RouteFrontSettings
from controller_core.tls.dialling import ClientTls, dial_in_tls
from testkit.processes.certificates import Authority

LIMIT_S = 60.0
LOOPBACK = "127.0.0.1"
INSIDE, OUTSIDE = "10.96.0.1:10911", "mq.example:30001"
ASK = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Orders"})
ROUTE = b'{"brokerDatas":[{"brokerAddrs":{0:"%s"},"brokerName":"orders"}],"queueDatas":[]}' % INSIDE.encode()
PATIENT = RouteFrontBounds(connect_s=LIMIT_S, try_s=LIMIT_S, answer_s=LIMIT_S, reload_s=LIMIT_S)

Make = Callable[..., Awaitable[RouteFront]]


class PlayedNameServer:
    """Answers each request with a route, unless a test makes it silent."""

    def __init__(self) -> None:
        self.received: list[RemotingCommand] = []
        self.silent = False
        self.heard = asyncio.Event()
        self.body = ROUTE
        self.server: Server | None = None

    async def start(self) -> tuple[str, int]:
        """Listen, and return the address."""
        self.server = await serve(LOOPBACK, 0, self._adopt)
        return LOOPBACK, self.server.port

    async def stop(self) -> None:
        """Close all connections."""
        assert self.server is not None
        await self.server.close()

    def _adopt(self, connection: Connection) -> None:
        connection.on_request = self._answer

    def _answer(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.received.append(request)
        self.heard.set()
        if self.silent:
            return None
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=self.body)


@pytest_asyncio.fixture
async def name_server() -> AsyncIterator[PlayedNameServer]:
    played = PlayedNameServer()
    await played.start()
    yield played
    await played.stop()


@pytest_asyncio.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    fronts: list[RouteFront] = []

    async def make_front(
        name_servers: Sequence[tuple[str, int]],
        bounds: RouteFrontBounds = PATIENT,
        tls: Path | None = None,
    ) -> RouteFront:
        path = tmp_path / "addresses.json"
        path.write_text(json.dumps({INSIDE: OUTSIDE}))
        settings = RouteFrontSettings(tuple(name_servers), path, (LOOPBACK, 0), bounds=bounds, tls=tls)
        front = RouteFront(settings)
        fronts.append(front)
        await front.start()
        return front

    yield make_front
    for front in fronts:
        await front.stop()
    dial_in_tls(None)


def _at(played: PlayedNameServer) -> tuple[str, int]:
    assert played.server is not None
    return LOOPBACK, played.server.port


def _closed_port() -> tuple[str, int]:
    """Return an address at which no process listens."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return LOOPBACK, int(probe.getsockname()[1])


async def _ask(
    front: RouteFront, request: RemotingCommand = ASK, client_tls: ClientTls | None = None
) -> RemotingCommand:
    client = await connect(LOOPBACK, front.port, LIMIT_S, client_tls=client_tls)
    try:
        return await client.call(request, LIMIT_S)
    finally:
        client.close()


async def test_a_client_gets_a_route_with_the_addresses_of_the_listener(
    make: Make, name_server: PlayedNameServer
) -> None:
    front = await make([_at(name_server)])
    answer = await _ask(front)
    assert answer.code == ResponseCode.SUCCESS
    assert TopicRouteData.decode(answer.body).broker_datas[0].broker_addrs == {0: OUTSIDE}


async def test_a_request_reaches_the_name_server_as_the_client_wrote_it(
    make: Make, name_server: PlayedNameServer
) -> None:
    front = await make([_at(name_server)])
    request = msgspec.structs.replace(
        ASK, language=LanguageCode.JAVA, version=475, serialize_type=SerializeType.ROCKETMQ
    )
    await _ask(front, request)
    (received,) = name_server.received
    assert msgspec.structs.replace(received, opaque=0) == msgspec.structs.replace(request, opaque=0)


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.PUT_KV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_BROKER_CONFIG,
        99_999,
    ],
)
async def test_a_request_that_does_not_read_from_a_name_server_is_refused(
    make: Make, name_server: PlayedNameServer, code: int
) -> None:
    front = await make([_at(name_server)])
    answer = await _ask(front, RemotingCommand.request(code))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == (
        f"request {int(code)} is not for a route front: it passes only requests that read; use a name server"
    )
    assert name_server.received == []


async def test_a_name_server_that_is_gone_is_passed_over(make: Make, name_server: PlayedNameServer) -> None:
    front = await make([_closed_port(), _at(name_server)])
    assert (await _ask(front)).code == ResponseCode.SUCCESS


async def test_a_name_server_that_does_not_answer_is_left_for_the_next(
    make: Make, name_server: PlayedNameServer
) -> None:
    frozen = PlayedNameServer()
    frozen.silent = True
    front = await make([await frozen.start(), _at(name_server)], replace(PATIENT, try_s=0.05))
    assert (await _ask(front)).code == ResponseCode.SUCCESS
    assert (await _ask(front)).code == ResponseCode.SUCCESS
    assert len(frozen.received) == 1, "a request goes back to it only when the other one fails"
    await frozen.stop()


async def test_a_name_server_that_came_back_is_asked_again(make: Make, name_server: PlayedNameServer) -> None:
    front = await make([_at(name_server)])
    assert (await _ask(front)).code == ResponseCode.SUCCESS
    assert name_server.server is not None
    for connection in list(name_server.server.connections):
        connection.abort()
    assert (await _ask(front)).code == ResponseCode.SUCCESS


async def test_without_a_name_server_a_client_gets_the_reason(make: Make) -> None:
    front = await make([_closed_port(), _closed_port()])
    answer = await _ask(front)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("no name server answered: 127.0.0.1:")
    assert front.numbers.counts[RequestResult.UNANSWERED] == 1


async def test_all_tries_together_end_before_a_client_stops_waiting(make: Make) -> None:
    frozen = PlayedNameServer()
    frozen.silent = True
    address = await frozen.start()
    front = await make([address, address, address], replace(PATIENT, answer_s=0.05))
    answer = await _ask(front)
    assert (answer.code, len(frozen.received)) == (ResponseCode.SYSTEM_ERROR, 1)
    assert "0.05 s are over" in (answer.remark or "")
    await frozen.stop()


async def test_a_route_without_a_reachable_broker_is_an_error(
    make: Make, name_server: PlayedNameServer
) -> None:
    name_server.body = ROUTE.replace(INSIDE.encode(), b"10.96.0.9:10911")
    answer = await _ask(await make([_at(name_server)]))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "the listener does not have an address of any broker of 'orders'"


async def test_an_answer_that_is_no_route_is_not_passed(make: Make, name_server: PlayedNameServer) -> None:
    name_server.body = b"["
    answer = await _ask(await make([_at(name_server)]))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "TopicRouteData" in (answer.remark or "")


async def test_one_client_may_not_take_all_places(make: Make, name_server: PlayedNameServer) -> None:
    name_server.silent = True
    front = await make([_at(name_server)], replace(PATIENT, requests_max=3, client_requests_max=2))
    clients = [await connect(LOOPBACK, front.port, LIMIT_S) for _ in range(2)]
    for _ in range(2):
        clients[0].start_call(ASK)
    answer = await clients[0].call(ASK, LIMIT_S)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    clients[1].start_call(ASK)
    answer = await clients[1].call(ASK, LIMIT_S)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert front.numbers.counts[RequestResult.BUSY] == 2
    for client in clients:
        client.close()


async def test_a_request_that_is_too_long_ends_its_connection(
    make: Make, name_server: PlayedNameServer
) -> None:
    front = await make([_at(name_server)], replace(PATIENT, request_bytes_max=1_000))
    with pytest.raises(ConnectionClosedError):
        await _ask(front, RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, body=bytes(2_000)))


async def test_no_more_clients_are_connected_than_the_bound_allows(
    make: Make, name_server: PlayedNameServer
) -> None:
    front = await make([_at(name_server)], replace(PATIENT, connections_max=1))
    first = await connect(LOOPBACK, front.port, LIMIT_S)
    assert (await first.call(ASK, LIMIT_S)).code == ResponseCode.SUCCESS
    with suppress(ConnectionClosedError):
        await _ask(front)
    assert front.connections <= 1
    first.close()


async def test_probes_and_metrics_say_whether_clients_get_routes(
    make: Make, name_server: PlayedNameServer
) -> None:
    front = await make([_at(name_server)])
    pages = HttpPages(front)
    await pages.start(LOOPBACK, 0)
    try:
        async with aiohttp.ClientSession(f"http://{LOOPBACK}:{pages.port}") as session:
            async with session.get("/readyz") as ready:
                assert (ready.status, await ready.text()) == (200, "ready\n")
            await _ask(front)
            async with session.get("/metrics") as metrics:
                text = await metrics.text()
            assert 'rmqha_route_front_requests_total{result="answered"} 1.0' in text
            assert "rmqha_route_front_addresses 1.0" in text
            await name_server.stop()
            status = 200
            while status == 200:  # until the route front has seen the end of its connection
                async with session.get("/readyz") as ready:
                    status, text = ready.status, await ready.text()
            assert (status, text.partition(":")[0]) == (503, "no name server accepts")
            async with session.get("/livez") as live:
                assert live.status == 200
    finally:
        await pages.stop()


async def test_clients_ask_in_tls_and_in_plain_tcp_where_a_certificate_is_given(
    name_server: PlayedNameServer, make: Make, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    front = await make([_at(name_server)], tls=authority.member("front"))
    # The name server speaks plain TCP only, so the second try reaches it.
    for client_tls in (ClientTls(authority.client()), None):
        assert (await _ask(front, client_tls=client_tls)).code == ResponseCode.SUCCESS
