"""An HTTP port under strangers who send little, slowly or nothing, or do not read: others are served."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from aiohttp import ClientSession, web

from controller_core import limits
from controller_core.channel.http_port import HttpPort

LIMIT_S = 60.0
Dial = Callable[..., socket.socket]


def _application() -> web.Application:
    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 20) if "much" in request.query else b"\n")
            await asyncio.sleep(0.01)

    async def body(request: web.Request) -> web.Response:
        return web.Response(text=f"{len(await request.read())}\n")

    application = web.Application()
    application.add_routes([web.get("/readyz", ready), web.get("/stream", stream), web.post("/body", body)])
    return application


@pytest.fixture
async def port() -> AsyncIterator[HttpPort]:
    port = HttpPort(_application(), shutdown_s=0.1, write_s_max=0.2)
    await port.start("127.0.0.1", 0)
    yield port
    await port.stop()


@pytest.fixture
def dialled() -> Iterator[Dial]:
    """Give a maker of plain sockets, each from a source address of 127.0.0.0/24."""
    opened: list[socket.socket] = []

    def dial(port: HttpPort, source: int = 1) -> socket.socket:
        stranger = socket.socket()
        opened.append(stranger)
        stranger.bind((f"127.0.0.{source}", 0))
        stranger.connect(("127.0.0.1", port.port))
        stranger.setblocking(False)
        return stranger

    yield dial
    for stranger in opened:
        stranger.close()


async def _ended(stranger: socket.socket) -> None:
    async with asyncio.timeout(LIMIT_S):
        try:
            while await asyncio.get_running_loop().sock_recv(stranger, 65_536):
                pass
        except ConnectionResetError:
            pass


async def _is_ready(port: HttpPort) -> bool:
    async with (
        asyncio.timeout(LIMIT_S),
        ClientSession() as session,
        session.get(f"http://127.0.0.1:{port.port}/readyz") as response,
    ):
        return response.status == 200


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.01)


async def test_silent_connections_of_one_source_give_way_to_others(port: HttpPort, dialled: Dial) -> None:
    port.places.source_max = 20
    oldest = dialled(port)
    for _ in range(100):
        dialled(port)
    assert await _is_ready(port)
    await _ended(oldest)
    assert port.places.taken <= 21


async def test_a_full_port_still_answers_probes_and_keeps_streams(port: HttpPort, dialled: Dial) -> None:
    port.places.total_max = 20
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port.port}/stream") as stream:
        assert await stream.content.read(1)
        for number in range(60):
            dialled(port, 2 + number % 50)
        assert await _is_ready(port)
        assert port.places.taken <= 20
        for _ in range(5):
            assert await stream.content.read(1)


async def test_a_stream_that_nobody_reads_ends(port: HttpPort, dialled: Dial) -> None:
    deaf = dialled(port)
    await asyncio.get_running_loop().sock_sendall(deaf, b"GET /stream?much HTTP/1.0\r\n\r\n")
    await _until(lambda: port.places.taken == 1)
    await _until(lambda: port.places.taken == 0)


async def test_a_body_that_does_not_come_ends_its_connection(
    port: HttpPort, dialled: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_BODY_S_MAX", 0.1)
    slow = dialled(port)
    request = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx"
    await asyncio.get_running_loop().sock_sendall(slow, request)
    await _ended(slow)


async def test_a_header_that_never_ends_is_cut_off_however_slowly_it_grows(
    monkeypatch: pytest.MonkeyPatch, dialled: Dial
) -> None:
    monkeypatch.setattr(limits, "HTTP_HEADER_S_MAX", 0.2)
    port = HttpPort(_application(), shutdown_s=0.1)
    await port.start("127.0.0.1", 0)
    slow = dialled(port)
    ended = asyncio.ensure_future(_ended(slow))
    with contextlib.suppress(OSError):
        for byte in b"GET /readyz HTTP/1.1\r\nHost: " + b"a" * 1_000:
            await asyncio.get_running_loop().sock_sendall(slow, bytes([byte]))
            await asyncio.wait({ended}, timeout=0.05)
            if ended.done():
                break
    await ended
    await port.stop()


async def test_unread_answers_of_all_clients_are_bounded_and_others_are_served(dialled: Dial) -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(16 << 20))

    application = _application()
    application.add_routes([web.get("/page", page)])
    port = HttpPort(application, shutdown_s=0.1, unsent_bytes_max=8 << 20)
    await port.start("127.0.0.1", 0)
    try:
        loop = asyncio.get_running_loop()
        for number in range(20):
            deaf = dialled(port, 2 + number)
            await loop.sock_sendall(deaf, b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
        await _until(lambda: port.budget.closed > 0)
        assert port.budget.held_bytes <= 8 << 20
        assert await _is_ready(port)
    finally:
        await port.stop()
    assert port.budget.held_bytes == 0
