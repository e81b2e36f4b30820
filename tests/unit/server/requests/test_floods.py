"""While strangers flood a node, its brokers live, a dead master is replaced, and `/readyz` answers.

Each flood comes from a thread of its own with plain sockets. The bounds are generous for a busy machine; a
node without bounds passes them by far.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import pytest

from controller_core import limits
from controller_core.groups.keys import ReplicaKey
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import encode
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

READY_WITHIN_S = 2.0
ELECTED_WITHIN_S = 2.0
STALL_S_MAX = 2.0
"""How long the loop may serve one party alone."""
Flood = Callable[[OneNode, threading.Event], None]


def _dial(one: OneNode, host: str = "127.0.0.1") -> socket.socket:
    target, _, port = one.remoting.rpartition(":")
    return socket.create_connection((target, int(port)), timeout=10, source_address=(host, 0))


def _beat(group: str, broker_id: int) -> bytes:
    header = headers.BrokerHeartbeatRequestHeader(
        "c1", "1.1.1.1:1", group, broker_id, heartbeat_timeout_mills=2**31
    )
    return encode(RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, header.to_ext(), oneway=True))


def invented_heartbeats(one: OneNode, stop: threading.Event) -> None:
    """Send heartbeats of members that do not exist, in a known group and others; close; begin again."""
    numbers = iter(range(100, 10**9))
    while not stop.is_set():
        with contextlib.suppress(OSError), _dial(one) as stranger:
            for _ in range(5):
                group = "b1" if next(numbers) % 2 else "nowhere"
                stranger.sendall(b"".join(_beat(group, next(numbers)) for _ in range(200)))


def unfinished_frames(one: OneNode, stop: threading.Event) -> None:
    """Hold the beginnings of large frames on many connections."""
    header = json.dumps({"code": 1006, "flag": 0, "language": "JAVA", "opaque": 1, "version": 0}).encode()
    begun = struct.pack(">II", 4_000_000, len(header)) + header + bytes(3_000_000)
    with contextlib.ExitStack() as opened:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                opened.enter_context(_dial(one)).sendall(begun)


def silent_connections(one: OneNode, stop: threading.Event) -> None:
    """Open connections that say nothing, from many addresses."""
    opened: list[socket.socket] = []
    while not stop.is_set():
        for source in range(2, 250):
            with contextlib.suppress(OSError):
                opened.append(_dial(one, f"127.0.0.{source}"))
        if len(opened) > 2_000:
            for each in opened[:1_000]:
                each.close()
            del opened[:1_000]
    for each in opened:
        each.close()


def rubbish(one: OneNode, stop: threading.Event) -> None:
    """Send bytes that are not frames."""
    while not stop.is_set():
        with contextlib.suppress(OSError), _dial(one) as stranger:
            stranger.sendall(b"\xff\xff\xff\xff" * 100)


FLOODS: list[Flood] = [invented_heartbeats, unfinished_frames, silent_connections, rubbish]


@contextlib.contextmanager
def _flooded(one: OneNode, flood: Flood) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=flood, args=(one, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
async def longest_stall_s() -> AsyncIterator[list[float]]:
    """Measure for how long the loop served one party alone."""
    longest = [0.0]

    async def measure() -> None:
        while True:
            begun_s = time.monotonic()
            await asyncio.sleep(0.01)
            longest[0] = max(longest[0], time.monotonic() - begun_s - 0.01)

    task = asyncio.create_task(measure())
    yield longest
    task.cancel()


async def _ready_s(one: OneNode) -> float:
    begun_s = time.monotonic()
    async with aiohttp.ClientSession() as session, session.get(f"http://{one.http}/readyz") as response:
        assert response.status == 200
    return time.monotonic() - begun_s


async def _until(condition: Callable[[], bool], within_s: float) -> float:
    begun_s = time.monotonic()
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.005)
    return time.monotonic() - begun_s


async def _in_sync(master: FakeBroker, one: OneNode, *members: int) -> None:
    master.epoch = one.group().master_epoch
    altered = await master.alter(members, one.group().set_epoch)
    assert altered.code == ResponseCode.SUCCESS, altered.remark


@pytest.mark.parametrize("flood", FLOODS)
async def test_members_live_a_new_one_is_taken_up_and_an_election_is_held(
    one: OneNode, longest_stall_s: list[float], flood: Flood
) -> None:
    async with one.broker(timeout_ms=3_000) as master, one.broker() as slave:
        await master.elect()
        await _in_sync(master, one, 1, 2)
        with _flooded(one, flood):
            assert await _ready_s(one) < READY_WITHIN_S
            async with one.broker() as late:
                assert (await late.elect()).code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
                assert one.heartbeats.table.is_alive(ReplicaKey("c1", "b1", late.broker_id))
                assert (one.group().master_id, one.group().master_epoch) == (1, 1)
                await master.die()
                await _until(lambda: one.group().master_id == slave.broker_id, ELECTED_WITHIN_S)
            assert await _ready_s(one) < READY_WITHIN_S
            assert one.controller._remoting.budget.held_bytes <= limits.HELD_BYTES_MAX
    assert longest_stall_s[0] < STALL_S_MAX


async def test_the_end_of_a_connection_with_many_members_does_not_block_the_loop(
    one: OneNode, longest_stall_s: list[float]
) -> None:
    for group in range(5):
        async with one.broker(f"g{group}") as first:
            for broker_id in range(2, 201):
                check_code = f"127.0.0.1:1;{broker_id}"
                claim = headers.ApplyBrokerIdRequestHeader("c1", f"g{group}", broker_id, check_code)
                await first.must(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim)
    carrier = _dial(one)
    members = [_beat(f"g{group}", broker_id) for group in range(5) for broker_id in range(1, 201)]
    await asyncio.to_thread(carrier.sendall, b"".join(members))
    await _until(lambda: len(one.heartbeats.table) == 1_000, 30.0)
    longest_stall_s[0] = 0.0
    carrier.close()
    await _until(lambda: not len(one.heartbeats.table), 30.0)
    assert longest_stall_s[0] < STALL_S_MAX
