"""What strangers send to a node's ports: they get a closed connection; a number counts them."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller_core import limits
from controller_core.channel.endpoints import connect
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import encode
from controller_core.server.peers import links
from controller_core.server.peers.transport import PeerTransport
from testkit.products.one_controller import OneNode, one_node

QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
ASK = RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
WORDS = st.sampled_from(
    [
        "brokerName",
        "clusterName",
        "brokerId",
        "masterEpoch",
        "brokerAddress",
        "epoch",
        "heartbeatTimeoutMillis",
    ]
)
CODES = st.sampled_from([904, *range(1001, 1014), 0, -1, 2**31 - 1])
JSON = st.builds(
    lambda code, ext, body: encode(RemotingCommand.request(code, ext, body)),
    CODES,
    st.dictionaries(WORDS, st.text(max_size=20), max_size=6),
    st.binary(max_size=60),
)


def _framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _bent(frame: bytes, at: int, byte: int) -> bytes:
    """Return a good frame with one byte replaced."""
    at %= len(frame)
    return frame[:at] + bytes([byte]) + frame[at + 1 :]


RUBBISH = st.one_of(
    st.binary(min_size=1, max_size=300),
    st.binary(min_size=4, max_size=300).map(_framed),
    st.builds(_bent, JSON, st.integers(0, 10**6), st.integers(0, 255)),
    JSON,
)


async def _talk(port: int, data: bytes) -> None:
    """Send bytes, close our side, and wait until the node has closed its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    with contextlib.suppress(OSError):
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 30)
    writer.transport.abort()


async def _serves(one: OneNode) -> bool:
    host, _, port = one.remoting.rpartition(":")
    connection = await connect(host, int(port), 30.0)
    answer = await connection.call(ASK, 30.0)
    connection.abort()
    return answer.code == ResponseCode.SUCCESS and one.node.is_leader


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@settings(max_examples=20, deadline=None, suppress_health_check=QUIET)
@given(st.lists(RUBBISH, min_size=10, max_size=25))
def test_whatever_comes_in_at_the_remoting_port_the_node_goes_on(
    tmp_path: Path, rubbish: list[bytes]
) -> None:
    async def run() -> None:
        async with one_node(tmp_path, {"logLevel": "error"}) as one:
            await asyncio.gather(*(_talk(_port(one.remoting), data) for data in rubbish))
            assert await _serves(one)
            await _until(lambda: one.controller._remoting.numbers().open <= 1)

    asyncio.run(run())


@settings(max_examples=10, deadline=None, suppress_health_check=QUIET)
@given(st.lists(st.binary(min_size=1, max_size=300), min_size=5, max_size=15))
def test_whatever_comes_in_at_the_http_port_the_node_goes_on(tmp_path: Path, rubbish: list[bytes]) -> None:
    async def run() -> None:
        async with one_node(tmp_path, {}) as one:
            await asyncio.gather(*(_talk(_port(one.http), data) for data in rubbish))
            assert await _serves(one)

    asyncio.run(run())


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[OneNode]:
    async with one_node(tmp_path, {"sourceConnectionsMax": "10000"}) as running:
        yield running


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.01)


async def _open(one: OneNode, count: int) -> None:
    await _until(lambda: one.controller._remoting.numbers().open >= count)


async def test_a_frame_too_long_is_cut_off_by_its_length_and_counted(one: OneNode) -> None:
    for length in (limits.LARGE_REQUEST_BYTES_MAX, 2**31 - 1, 2**32 - 1, 3):
        await _talk(_port(one.remoting), struct.pack(">I", length) + b"x" * 100)
    await _until(lambda: one.controller._remoting.numbers().broken == 4)
    assert await _serves(one)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{one.http}/metrics") as response,
    ):
        assert "rmqha_remoting_broken_connections_total 4.0" in await response.text()


async def test_a_reader_that_does_not_read_is_cut_off_with_bounded_memory(one: OneNode) -> None:
    server = one.controller._remoting._server
    assert server is not None
    await _until(lambda: not server.connections)
    deaf = socket.create_connection(("127.0.0.1", _port(one.remoting)))
    deaf.setblocking(False)
    await _until(lambda: len(server.connections) == 1)
    reasons: list[str] = []
    (connection,) = server.connections
    connection.on_closed(lambda _connection, reason: reasons.append(str(reason)))
    listing = encode(RemotingCommand.request(RequestCode.GET_CONTROLLER_CONFIG))
    with contextlib.suppress(OSError):
        async with asyncio.timeout(30):
            while not reasons:
                await asyncio.get_running_loop().sock_sendall(deaf, listing * 200)
    await _until(lambda: bool(reasons))
    deaf.close()
    held_bytes = int(reasons[0].split("does not read: ")[1].split()[0])
    assert held_bytes < 3 * limits.UNSENT_ANSWERS_BYTES_MAX
    assert one.controller._remoting.numbers().broken == 1
    assert await _serves(one)


async def test_five_thousand_silent_connections_are_counted_and_cost_nobody_an_answer(one: OneNode) -> None:
    silent: list[socket.socket] = []
    try:
        for _ in range(50):
            silent += [socket.create_connection(("127.0.0.1", _port(one.remoting))) for _ in range(100)]
            await _open(one, len(silent))
        assert await _serves(one)
    finally:
        for each in silent:
            each.close()
    await _until(lambda: one.controller._remoting.numbers().open <= 1)


async def test_more_connections_than_are_allowed_are_turned_away_and_counted(one: OneNode) -> None:
    server = one.controller._remoting._server
    assert server is not None
    await _until(lambda: not server.connections)
    server.places.total_max = 3
    opened = [await asyncio.open_connection("127.0.0.1", _port(one.remoting)) for _ in range(5)]
    await _until(lambda: one.controller._remoting.numbers().refused == 2)
    assert one.controller._remoting.numbers().open == 3
    for _, writer in opened:
        writer.transport.abort()
    await _until(lambda: not server.connections)
    assert await _serves(one)


async def test_peers_that_say_nothing_are_bounded(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "GREETING_S_MAX", 60.0)
    transport = PeerTransport("main", 1, {1: ("127.0.0.1", 0)}, bind_host="127.0.0.1")
    transport._places.source_max = 10
    await transport.start(one.node)
    silent = [socket.create_connection(("127.0.0.1", transport.port)) for _ in range(15)]
    await _until(lambda: len(transport._incoming) == 10)
    for each in silent:
        each.close()
    await _until(lambda: not transport._incoming)
    await transport.stop()
