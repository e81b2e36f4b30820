"""Both ends of a connection over loopback: matching, ending, bounds.

No test sleeps; each awaits what it asserts.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest
import pytest_asyncio

from controller_core.channel import (
    CallTimeoutError,
    ConnectError,
    Connection,
    ConnectionClosedError,
    Server,
    connect,
    serve,
)
from controller_core.channel.endpoints import PortBounds
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import FrameError, HeaderError, RemotingUsageError
from controller_core.remoting.frame import FrameDecoder, encode

LIMIT_S = 60.0
"""How long anything is waited for; only a test that hangs waits so long."""
LOOK_UP_LIMIT_S = 2.0
ASK = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "b"})

Handler = Callable[[Connection, RemotingCommand], RemotingCommand | None]
Pair = Callable[..., Awaitable[tuple[Connection, Connection]]]


def echo(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response_to(request, ResponseCode.SUCCESS, request.ext, body=request.body)


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[Pair]:
    """Give a maker of connected pairs (dialled end, accepted end); all is closed afterwards."""
    servers: list[Server] = []
    dialled: list[Connection] = []

    async def make(
        handler: Handler = echo, *, dialler_handler: Handler = echo, unsent_bytes_max: int = 1 << 20
    ) -> tuple[Connection, Connection]:
        accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

        def adopt(connection: Connection) -> None:
            connection.on_request = handler
            accepted.set_result(connection)

        server = await serve("127.0.0.1", 0, adopt, PortBounds(unsent_bytes_max=unsent_bytes_max))
        servers.append(server)
        client = await connect("127.0.0.1", server.port, LIMIT_S, on_request=dialler_handler)
        dialled.append(client)
        return client, await accepted

    yield make
    for connection in dialled:
        connection.abort()
    for server in servers:
        await server.close()


async def test_a_call_returns_the_answer_with_its_opaque(pair: Pair) -> None:
    client, _ = await pair()
    answer = await client.call(ASK, LIMIT_S)
    assert (answer.code, answer.ext, answer.is_response) == (0, {"brokerName": "b"}, True)
    assert client.calls_in_flight == 0


async def test_both_ends_ask_over_the_same_connection(pair: Pair) -> None:
    client, server_side = await pair()
    to_server, to_client = await asyncio.gather(client.call(ASK, LIMIT_S), server_side.call(ASK, LIMIT_S))
    assert to_server.ext == to_client.ext == {"brokerName": "b"}


async def test_answers_may_come_in_any_order(pair: Pair) -> None:
    held: list[tuple[Connection, RemotingCommand]] = []

    def answer_backwards(connection: Connection, request: RemotingCommand) -> None:
        held.append((connection, request))
        if len(held) == 3:
            for asker, asked in reversed(held):
                asker.send(RemotingCommand.response_to(asked, ResponseCode.SUCCESS, body=asked.body))

    client, _ = await pair(answer_backwards)
    answers = await asyncio.gather(
        *(client.call(RemotingCommand.request(10, body=body), LIMIT_S) for body in (b"a", b"b", b"c"))
    )
    assert [answer.body for answer in answers] == [b"a", b"b", b"c"]


async def test_a_call_without_answer_times_out_and_the_connection_lives_on(pair: Pair) -> None:
    requests: list[RemotingCommand] = []

    def answer_late(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        requests.append(request)
        if len(requests) == 1:
            return None
        connection.send(echo(connection, requests[0]))
        return echo(connection, request)

    client, _ = await pair(answer_late)
    with pytest.raises(CallTimeoutError, match="did not answer request 1004"):
        await client.call(ASK, 0.02)
    assert client.calls_in_flight == 0
    assert (await client.call(ASK, LIMIT_S)).opaque == requests[1].opaque
    assert not client.is_closed


async def test_a_cancelled_call_leaves_nothing_behind(pair: Pair) -> None:
    arrived = asyncio.Event()
    client, _ = await pair(lambda _connection, _request: arrived.set())
    call = asyncio.create_task(client.call(ASK, LIMIT_S))
    await arrived.wait()
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    assert client.calls_in_flight == 0


async def test_the_end_of_the_connection_fails_waiting_calls_at_once(pair: Pair) -> None:
    client, _ = await pair(lambda connection, _request: connection.abort())
    with pytest.raises(ConnectionClosedError):
        await client.call(ASK, LIMIT_S)


async def test_nothing_can_be_sent_after_the_end(pair: Pair) -> None:
    client, _ = await pair()
    client.close()
    with pytest.raises(ConnectionClosedError):
        client.send_oneway(ASK)
    with pytest.raises(ConnectionClosedError):
        await client.call(ASK, LIMIT_S)


async def test_the_other_end_learns_of_a_close_at_once_and_once(pair: Pair) -> None:
    client, server_side = await pair()
    seen: list[Exception | None] = []
    server_side.on_closed(lambda _connection, reason: seen.append(reason))
    client.close()
    assert await asyncio.wait_for(server_side.wait_closed(), LIMIT_S) is None
    server_side.abort()
    assert seen == [None]


async def test_a_callback_set_after_the_end_runs_at_once(pair: Pair) -> None:
    client, _ = await pair()
    client.abort()
    await client.wait_closed()
    seen: list[Connection] = []
    client.on_closed(lambda connection, _reason: seen.append(connection))
    assert seen == [client]


async def test_close_lets_what_was_sent_leave_first(pair: Pair) -> None:
    received: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
    client, _ = await pair(lambda _connection, request: received.set_result(request))
    client.send_oneway(RemotingCommand.request(904, body=bytes(500_000)))
    client.close()
    assert len((await asyncio.wait_for(received, LIMIT_S)).body) == 500_000


async def test_a_oneway_request_is_never_answered(pair: Pair) -> None:
    client, server_side = await pair()
    transport = server_side._transport
    assert transport is not None
    writes: list[bytes] = []
    server_side._transport = Spy(transport, writes)  # type: ignore[assignment]  # only write and its buffer are used
    client.send_oneway(RemotingCommand.request(RequestCode.BROKER_HEARTBEAT))
    answer = await client.call(ASK, LIMIT_S)
    assert FrameDecoder().feed(b"".join(writes)) == [answer]


async def test_a_failing_handler_is_code_1_with_the_exceptions_text(pair: Pair) -> None:
    def fail(_connection: Connection, _request: RemotingCommand) -> RemotingCommand:
        raise HeaderError("ElectMasterRequestHeader", "brokerId", "x", "Expected `int`")

    client, _ = await pair(fail)
    answer = await client.call(ASK, LIMIT_S)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "HeaderError: ElectMasterRequestHeader.brokerId='x': Expected `int`",
    )


async def test_an_answer_that_cannot_be_written_becomes_code_1(pair: Pair) -> None:
    client, _ = await pair(lambda _c, request: RemotingCommand.response_to(request, 0, remark="\ud800"))
    assert (await client.call(ASK, LIMIT_S)).code == ResponseCode.SYSTEM_ERROR


async def test_rubbish_closes_the_connection_and_says_why(pair: Pair) -> None:
    seen: list[RemotingCommand] = []
    client, server_side = await pair(lambda _connection, request: seen.append(request))
    client._transport.write(encode(RemotingCommand(904, flag=2)) + b"\x16\x03\x01\x00rubbish")  # type: ignore[union-attr]  # below the codec on purpose
    reason = await asyncio.wait_for(server_side.wait_closed(), LIMIT_S)
    assert isinstance(reason, FrameError)
    assert [request.code for request in seen] == [904]


async def test_a_peer_that_does_not_read_is_cut_off_at_the_bound(pair: Pair) -> None:
    client, server_side = await pair(unsent_bytes_max=1 << 20)
    client._transport.pause_reading()  # type: ignore[union-attr]  # plays the peer that does not read
    sent_bytes = 0
    while not server_side.is_closed and sent_bytes < 1 << 28:
        server_side.send_oneway(RemotingCommand.request(10, body=bytes(1 << 16)))
        sent_bytes += 1 << 16
        await asyncio.sleep(0)
    reason = await asyncio.wait_for(server_side.wait_closed(), LIMIT_S)
    assert isinstance(reason, ConnectionClosedError)
    assert "does not read" in str(reason)


async def test_a_burst_in_one_turn_leaves_in_one_write(pair: Pair) -> None:
    client, _ = await pair()
    transport = client._transport
    assert transport is not None
    writes: list[bytes] = []
    client._transport = Spy(transport, writes)  # type: ignore[assignment]  # only write and its buffer are used
    answers = await asyncio.gather(*(client.call(ASK, LIMIT_S) for _ in range(50)))
    assert len(answers) == 50
    assert [len(FrameDecoder().feed(write)) for write in writes] == [50]


class Spy:
    """A transport that records writes and passes them on."""

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        """Remember and pass on."""
        self._writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


async def test_only_requests_that_want_an_answer_can_be_called(pair: Pair) -> None:
    client, _ = await pair()
    with pytest.raises(RemotingUsageError, match="flag 2"):
        await client.call(RemotingCommand.request(904, oneway=True), LIMIT_S)


async def test_addresses_name_both_ends(pair: Pair) -> None:
    client, server_side = await pair()
    assert (client.local, client.peer) == (server_side.peer, server_side.local)
    assert client.peer.startswith("127.0.0.1:")


async def test_dialling_a_port_where_nobody_listens_is_a_connect_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ConnectError, match=f"127.0.0.1:{port}"):
            await connect("127.0.0.1", port, LIMIT_S)


async def test_dialling_a_name_that_does_not_exist_is_a_connect_error() -> None:
    with pytest.raises(ConnectError):
        await connect("no-such-host.invalid", 1, LOOK_UP_LIMIT_S)


async def test_a_server_turns_away_more_than_its_bound_if_it_keeps_all_others() -> None:
    server = await serve(
        "127.0.0.1", 0, lambda made: server.keep(made, kept=True), PortBounds(connections_max=1)
    )
    first = await connect("127.0.0.1", server.port, LIMIT_S)
    await first.call(ASK, LIMIT_S)
    second = await connect("127.0.0.1", server.port, LIMIT_S)
    await asyncio.wait_for(second.wait_closed(), LIMIT_S)
    assert (len(server.connections), server.refused) == (1, 1)
    await server.close()
    await asyncio.wait_for(first.wait_closed(), LIMIT_S)


async def test_closing_the_server_ends_its_connections() -> None:
    server = await serve("127.0.0.1", 0, lambda _connection: None)
    client = await connect("127.0.0.1", server.port, LIMIT_S)
    refused = await client.call(RemotingCommand.request(9999), LIMIT_S)
    assert (refused.code, refused.remark) == (3, " request type 9999 not supported")
    await server.close()
    await asyncio.wait_for(client.wait_closed(), LIMIT_S)
    assert not server.connections


async def test_a_fleet_that_returns_at_once_is_accepted_in_a_few_turns_of_the_loop() -> None:
    accepted: list[Connection] = []
    server = await serve("127.0.0.1", 0, accepted.append)
    waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    turns = 0  # in which some were accepted: the kernel may bring the last ones a little later
    async with asyncio.timeout(LIMIT_S):
        while (before := len(accepted)) < len(waiting):
            await asyncio.sleep(0)
            turns += len(accepted) > before
    for each in waiting:
        each.close()
    await server.close()
    assert turns < 100


async def test_who_is_accepted_as_the_port_closes_is_disconnected() -> None:
    server = await serve("127.0.0.1", 0, lambda _: None)
    with socket.create_connection(("127.0.0.1", server.port)) as dialled:
        # The first turn finds the port readable, the second accepts; the
        # connection would be made in the third.
        for _ in range(2):
            await asyncio.sleep(0)
        await server.close()
        dialled.setblocking(False)
        async with asyncio.timeout(LIMIT_S):
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(dialled, 1) == b""
