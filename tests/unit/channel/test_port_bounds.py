"""What a listening port takes from strangers: frames, memory, time and places.

Real sockets on loopback, whose 256 addresses stand for 256 hosts.
"""

import asyncio
import contextlib
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from controller_core import limits
from controller_core.channel import Server, connect, serve
from controller_core.channel.deadlines import ProgressDeadlines
from controller_core.channel.endpoints import PortBounds
from controller_core.channel.log_rate import LogRate
from controller_core.channel.memory import MemoryBudget
from controller_core.channel.open_files import connections_allowed, raise_open_files
from controller_core.channel.places import Places
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import CONTROL_BOUNDS, encode
from ha_sidecar import limits as sidecar_limits

LIMIT_S = 60.0
BOUNDS = PortBounds(frames=CONTROL_BOUNDS)
Serve = Callable[[PortBounds], Awaitable[Server]]
Dial = Callable[..., socket.socket]


@pytest.fixture
async def serving() -> AsyncIterator[Serve]:
    servers: list[Server] = []

    async def make(bounds: PortBounds) -> Server:
        servers.append(await serve("127.0.0.1", 0, lambda _made: None, bounds))
        return servers[-1]

    yield make
    for server in servers:
        await server.close()


@pytest.fixture
def dialled() -> Iterator[Dial]:
    """Give a maker of plain sockets, each from a source address of 127.0.0.0/24."""
    opened: list[socket.socket] = []

    def dial(server: Server, source: int = 1, *, receive_bytes: int = 0) -> socket.socket:
        stranger = socket.socket()
        opened.append(stranger)
        if receive_bytes:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        stranger.bind((f"127.0.0.{source}", 0))
        stranger.connect(("127.0.0.1", server.port))
        stranger.setblocking(False)
        return stranger

    yield dial
    for stranger in opened:
        stranger.close()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.01)


async def _ended(stranger: socket.socket) -> None:
    """Wait until the server has closed a connection."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(LIMIT_S):
        try:
            while await loop.sock_recv(stranger, 65_536):
                pass
        except ConnectionResetError:
            pass


async def _send(stranger: socket.socket, data: bytes) -> None:
    async with asyncio.timeout(LIMIT_S):
        await asyncio.get_running_loop().sock_sendall(stranger, data)


def _unfinished(code: int, frame_bytes: int, sent_bytes: int) -> bytes:
    header = json.dumps({"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 0}).encode()
    frame = struct.pack(">II", frame_bytes - 4, len(header)) + header
    return frame + bytes(sent_bytes - len(frame))


async def test_a_large_frame_is_refused_as_soon_as_its_code_is_known(serving: Serve, dialled: Dial) -> None:
    server = await serving(BOUNDS)
    for data in (
        _unfinished(RequestCode.BROKER_HEARTBEAT, limits.CONTROL_FRAME_BYTES_MAX + 1, 200),
        struct.pack(">II", 2_000_000, 1_000_000),
        struct.pack(">I", limits.LARGE_REQUEST_BYTES_MAX),
        struct.pack(">I", 4_000_000) + b"x" * 100,
    ):
        stranger = dialled(server)
        await _send(stranger, data)
        await _ended(stranger)


async def test_a_large_frame_of_a_code_that_needs_it_is_held(serving: Serve, dialled: Dial) -> None:
    budget = MemoryBudget(1 << 30)
    server = await serving(replace(BOUNDS, budget=budget))
    stranger = dialled(server)
    await _send(stranger, _unfinished(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, 4_000_000, 300_000))
    await _until(lambda: budget.held_bytes == 300_000)
    stranger.close()
    await _until(lambda: not budget.held_bytes)


async def test_beyond_the_memory_of_all_the_largest_stranger_ends_and_the_kept_one_stays(
    serving: Serve, dialled: Dial
) -> None:
    budget = MemoryBudget(1_000_000)
    server = await serving(replace(BOUNDS, budget=budget))
    kept = dialled(server, 2)
    await _until(lambda: len(server.connections) == 1)
    (connection,) = server.connections
    server.keep(connection, kept=True)
    await _send(kept, _unfinished(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, 4_000_000, 600_000))
    await _until(lambda: budget.held_bytes == 600_000)
    strangers = [dialled(server) for _ in range(8)]
    for number, stranger in enumerate(strangers):
        size = 50_000 + 1_000 * number
        await _send(stranger, _unfinished(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, 4_000_000, size))
    await _until(lambda: budget.closed > 0)
    assert budget.held_bytes <= 1_000_000
    assert connection in server.connections
    await _ended(strangers[-1])


async def test_bytes_that_a_client_does_not_read_count_until_it_reads_them(
    serving: Serve, dialled: Dial
) -> None:
    budget = MemoryBudget(1 << 30)
    server = await serving(replace(BOUNDS, budget=budget))
    deaf = dialled(server, receive_bytes=4_096)
    await _until(lambda: len(server.connections) == 1)
    (connection,) = server.connections
    connection.send(RemotingCommand(0, body=bytes(8_000_000)))
    await _until(lambda: budget.held_bytes > 1_000_000)
    loop = asyncio.get_running_loop()
    received = 0
    async with asyncio.timeout(LIMIT_S):
        while received < 8_000_000:
            received += len(await loop.sock_recv(deaf, 1 << 20))
    await _until(lambda: not budget.held_bytes)


def _deadlines(budget: MemoryBudget, **seconds: float) -> PortBounds:
    far = ProgressDeadlines(first_request_s_max=LIMIT_S, frame_s_max=LIMIT_S, write_s_max=LIMIT_S)
    return replace(BOUNDS, budget=budget, deadlines=replace(far, **seconds))


async def test_a_connection_without_a_request_ends_and_one_with_a_request_stays(
    serving: Serve, dialled: Dial
) -> None:
    server = await serving(_deadlines(MemoryBudget(1 << 20), first_request_s_max=0.1))
    client = await connect("127.0.0.1", server.port, LIMIT_S)
    assert (await client.call(RemotingCommand.request(9999), LIMIT_S)).code == 3
    stranger = dialled(server)
    await _ended(stranger)
    assert not client.is_closed
    client.close()


async def test_an_unfinished_frame_ends_its_connection_however_slowly_it_grows(
    serving: Serve, dialled: Dial
) -> None:
    server = await serving(_deadlines(MemoryBudget(1 << 20), frame_s_max=0.1))
    stranger = dialled(server)
    await _send(stranger, encode(RemotingCommand.request(9999)) + struct.pack(">I", 1_000))
    ended = asyncio.ensure_future(_ended(stranger))
    with contextlib.suppress(OSError):
        for _ in range(900):
            await _send(stranger, b"\0")
            await asyncio.wait({ended}, timeout=0.05)
            if ended.done():
                break
    await ended


async def test_frames_that_keep_coming_in_pieces_are_progress(serving: Serve, dialled: Dial) -> None:
    server = await serving(_deadlines(MemoryBudget(1 << 20), frame_s_max=1.5))
    stranger = dialled(server)
    frame = encode(RemotingCommand.request(9999))
    await _send(stranger, frame[:10])
    for _ in range(8):
        await asyncio.sleep(0.4)  # in all longer than one frame may take
        await _send(stranger, frame[10:] + frame[:10])
    assert len(server.connections) == 1


async def test_a_client_that_reads_nothing_ends(serving: Serve, dialled: Dial) -> None:
    server = await serving(_deadlines(MemoryBudget(1 << 30), write_s_max=0.1))
    stranger = dialled(server, receive_bytes=4_096)
    await _until(lambda: len(server.connections) == 1)
    (connection,) = server.connections
    connection.send(RemotingCommand(0, body=bytes(8_000_000)))
    reason = await asyncio.wait_for(connection.wait_closed(), LIMIT_S)
    assert "it has not read for 0.1 s" in str(reason)
    stranger.close()


async def test_a_flood_of_one_source_costs_only_its_own_oldest(serving: Serve, dialled: Dial) -> None:
    server = await serving(replace(BOUNDS, source_connections_max=5))
    other = dialled(server, 2)
    oldest = dialled(server, 3)
    await _until(lambda: len(server.connections) == 2)
    flood = [dialled(server, 3) for _ in range(20)]
    await _until(lambda: server.refused == 16)
    await _ended(oldest)
    assert len(server.connections) == 6
    await _send(other, encode(RemotingCommand.request(9999)))
    assert await asyncio.get_running_loop().sock_recv(other, 100)
    await _send(flood[-1], encode(RemotingCommand.request(9999)))
    assert await asyncio.get_running_loop().sock_recv(flood[-1], 100)


async def test_a_full_port_still_takes_a_new_member_and_keeps_the_others(
    serving: Serve, dialled: Dial
) -> None:
    server = await serving(replace(BOUNDS, connections_max=50))
    member = dialled(server, 2)
    await _until(lambda: len(server.connections) == 1)
    (connection,) = server.connections
    server.keep(connection, kept=True)
    for source in range(10, 90):
        dialled(server, source)
    await _until(lambda: server.refused == 31)
    assert connection in server.connections
    client = await connect("127.0.0.1", server.port, LIMIT_S)
    assert (await client.call(RemotingCommand.request(9999), LIMIT_S)).code == 3
    client.close()
    member.close()


def test_places_are_counted_by_source_and_kept_ones_do_not_count() -> None:
    places = Places(total_max=4, source_max=2)
    first, second = places.take("a"), places.take("a")
    assert first is not None
    assert second is not None
    places.keep(first, kept=True)
    third = places.take("a")
    assert (places.taken, places.turned_away, second.is_over) == (3, 0, False)
    places.take("a")
    assert (places.taken, places.turned_away, second.is_over) == (3, 1, True)
    for place in (first, second, third):
        assert place is not None
        places.give_back(place)
        places.give_back(place)
    assert places.taken == 1


def test_a_port_of_kept_connections_turns_away() -> None:
    places = Places(total_max=1, source_max=5)
    place = places.take("a")
    assert place is not None
    places.keep(place, kept=True)
    assert places.take("b") is None
    assert (places.taken, places.turned_away) == (1, 1)
    places.keep(place, kept=False)
    assert places.take("b") is not None


def test_lines_about_strangers_are_bounded_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    rate = LogRate(logging.getLogger("strangers"), logging.WARNING, lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for number in range(5_000):
            rate("a stranger, number %d", number)
        now[0] = 1.5
        rate("a stranger, number %d", 5_000)
    assert len(caplog.records) == limits.LOG_LINES_BURST_MAX + 1
    left_out = 5_000 - limits.LOG_LINES_BURST_MAX
    assert caplog.messages[-1] == f"a stranger, number 5000 ({left_out} such lines were left out)"


def test_open_files_are_raised_to_what_the_system_allows() -> None:
    limit = raise_open_files()
    assert limit >= 1_024
    assert connections_allowed(100) == 100
    assert connections_allowed(10**9) < limit


@pytest.mark.parametrize("table", [limits, sidecar_limits])
def test_each_bound_tells_its_unit_value_and_reason(table: ModuleType) -> None:
    constants = {name for name in vars(table) if name.isupper() and not name.startswith("_")}
    assert constants - {"LIMITS"} == set(table.LIMITS)
    for name, limit in table.LIMITS.items():
        assert getattr(table, name) == limit.value > 0
        assert limit.unit
        assert limit.why
