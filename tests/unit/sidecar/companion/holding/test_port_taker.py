"""A process of its own takes the port of a dead broker: at once, and never that of a living one."""

import asyncio
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ha_sidecar.companion.holding import taking_process
from ha_sidecar.companion.holding.port_taker import PortTaker
from ha_sidecar.companion.holding.taking_process import CONNECTED, ENDED, LIVES, TAKEN, TakingProcess
from testkit.fakes.held_broker import WITHIN_S, Place, is_held
from testkit.processes.ports import free_port

DYING_S = 0.3
BUSY_S = 0.5
SOON_MS = 250
"""Half of `BUSY_S`: the process takes its port within 15 ms on a busy machine."""

CLIENT = """
import contextlib, socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    print("connected", flush=True)
    with contextlib.suppress(ConnectionResetError):
        connection.recv(1)
ended_s = time.monotonic()
while True:
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", int(sys.argv[1]))):
        break
print((time.monotonic() - ended_s) * 1000)
"""
"""Dials when its connection ends until it is connected again, and prints the milliseconds of that."""


class Dying:
    """A broker's process whose connections end before its port."""

    def __init__(self) -> None:
        """Listen."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WITHIN_S)
        self.address: tuple[str, int] = self.listener.getsockname()

    def accepted(self) -> socket.socket:
        """Return the first connection that waits."""
        return self.listener.accept()[0]


@pytest.fixture
def dying() -> Iterator[Dying]:
    """A broker that listens."""
    made = Dying()
    yield made
    made.listener.close()


@pytest.fixture
def taker(dying: Dying) -> Iterator[PortTaker]:
    """A process that watches it."""
    with contextlib.closing(PortTaker(dying.address)) as made:
        made.reports.settimeout(WITHIN_S)
        yield made


def test_the_port_of_a_dying_process_is_taken_in_the_moment_in_which_it_is_free(
    dying: Dying, taker: PortTaker
) -> None:
    with dying.accepted():
        assert taker.report().kind == CONNECTED
    assert taker.report().kind == ENDED
    time.sleep(DYING_S)
    dying.listener.close()
    report = taker.report()
    assert report.kind == TAKEN
    assert report.refused_ms_max < SOON_MS, "nobody is refused while the dying process has the port"
    with socket.create_connection(dying.address, WITHIN_S), taker.listener.accept()[0]:
        pass


def test_the_port_is_tried_when_the_connection_ends_and_not_all_the_time(dying: Dying) -> None:
    tried: list[object] = []

    class Listener(socket.socket):
        def bind(self, address: object, /) -> None:
            tried.append(address)
            super().bind(("127.0.0.1", dying.address[1]))

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, Listener() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thread = threading.Thread(target=TakingProcess(dying.address, theirs, listener, 1).run)
        thread.start()
        dying.accepted().close()
        time.sleep(DYING_S)
        dying.listener.close()
        thread.join(WITHIN_S)
        assert not thread.is_alive()
    assert 1 < len(tried) < 10


def test_the_port_of_a_broker_that_lives_is_left_to_it_and_it_is_watched_again(
    dying: Dying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_process, "BIND_WITHIN_S", 0.1)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, socket.socket() as listener:
        thread = threading.Thread(target=TakingProcess(dying.address, theirs, listener, 1).run)
        thread.start()
        with ours:
            ours.settimeout(WITHIN_S)
            dying.accepted().close()
            found = [ours.recv(64).decode() for _ in range(4)]
        thread.join(WITHIN_S)
        assert not thread.is_alive(), "it ends with its companion"
    assert found == [CONNECTED, ENDED, LIVES, CONNECTED]


def test_who_wants_no_port_has_none_and_the_process_has_ended(dying: Dying, taker: PortTaker) -> None:
    with dying.accepted():
        assert taker.report().kind == CONNECTED
    assert taker.report().kind == ENDED
    taker.close()
    dying.listener.close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(dying.address, WITHIN_S):
        pass


def test_a_port_that_nobody_has_yet_is_not_taken() -> None:
    broker = ("127.0.0.1", free_port())
    with contextlib.closing(PortTaker(broker)) as taker:
        taker.reports.settimeout(2 * taking_process.DIAL_AGAIN_S)
        with pytest.raises(TimeoutError):
            taker.report()
        with pytest.raises(ConnectionRefusedError), socket.create_connection(broker, WITHIN_S):
            pass


def test_the_end_of_the_process_is_an_error_that_names_its_status(dying: Dying) -> None:
    with contextlib.closing(PortTaker(dying.address)) as taker, dying.accepted():
        assert taker.report().kind == CONNECTED
        taker._process.kill()
        with pytest.raises(OSError, match="ended with status -9"):
            taker.report()


async def _accepted(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)
    async with asyncio.timeout(WITHIN_S):
        return (await asyncio.get_running_loop().sock_accept(listener))[0]


async def test_a_companion_that_computes_without_a_pause_keeps_no_client_out(place: Place) -> None:
    before_s = sys.getswitchinterval()
    with socket.create_server(("127.0.0.1", place.port)) as listener:
        watched = await _accepted(listener)
        words = (sys.executable, "-c", CLIENT, str(place.port))
        client = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert client.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            assert await client.stdout.readline() == b"connected\n"
            sys.setswitchinterval(60.0)
            try:
                watched.close()
                listener.close()
                until_s = time.monotonic() + BUSY_S
                while time.monotonic() < until_s:
                    pass
            finally:
                sys.setswitchinterval(before_s)
            refused_ms = float(await client.stdout.readline())
            await client.wait()
    assert refused_ms < SOON_MS


async def test_clients_are_held_if_the_port_is_free_only_after_the_connection_s_end(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port)) as listener:
        (await _accepted(listener)).close()
        await asyncio.sleep(DYING_S)
    assert await is_held(await place.client())
