"""Holds the clients of a master whose process is gone until another is master: a pause for them, and no error.

A RocketMQ client tries a send three times, with no pause between the tries. The port of a killed process refuses
connections, so the tries are used up within milliseconds, long before anybody can be elected. The companion shares the
broker's network: it listens in the dead broker's place, takes connections and says nothing. When the successor can
acknowledge, it closes them, and the next try meets the successor, at whose pod the address points by then.

    watching   one idle connection to the broker; its end is the first sign that the process is gone
    binding    the broker's port; in use while the broker lives (it closes what is idle for two minutes): watch again
    holding    until the controllers name another master with as many members as it needs, or `hold_ms` are over
    closing    all that is held; for `LATE_S` more, what still comes here by the old route

Watching and holding have a thread of their own: a client's second try comes sooner than a busy event loop's next turn.

Never: holds the clients of a slave, who have a master to go to; reads or writes a byte; keeps the port for longer than
`hold_ms`, as the broker's next process needs it.

Source: DefaultMQProducerImpl.sendDefaultImpl, NettyRemotingClient.failFast, NettyServerConfig 5.5.0.
"""

import asyncio
import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final

from ha_sidecar.roles.companion_facts import GroupFacts
from ha_sidecar.roles.config import HostPort

DIAL_WITHIN_S: Final = 1.0
DIAL_AGAIN_S: Final = 0.2
BIND_WITHIN_S: Final = 0.25
EXPECTED_WITHIN_S: Final = 3.0
BIND_AGAIN_S: Final = 0.0005
ASK_AGAIN_S: Final = 0.02
LATE_S: Final = 0.3
LATE_TURN_S: Final = 0.1
BACKLOG: Final = 1024
WAKES_MAX: Final = 16

_log = logging.getLogger(__name__)


def can_succeed(before: GroupFacts, now: GroupFacts) -> bool:
    """Say whether another master acknowledges: elected since, and with one more copy if there is one to be had."""
    others = len(before.members) - 1
    return (
        now.master_epoch > before.master_epoch
        and now.master_id not in (None, before.master_id)
        and len(now.members) >= min(others, 2)
    )


class ClientHold:
    """Watches one broker, and holds its clients when it dies as master.

    Attributes:
        held: connections that were ever held.
    """

    def __init__(
        self,
        broker: HostPort,
        hold_ms: int,
        mastered: Callable[[], GroupFacts | None],
        ask: Callable[[], Awaitable[GroupFacts | None]],
    ) -> None:
        """Take what is watched.

        Args:
            broker: the broker's remoting address; its port is taken on all addresses.
            hold_ms: clients are held for no longer.
            mastered: says of which group the broker is master, as far as is known; None if of none. Called in another thread.
            ask: asks the controllers for the group; None if they do not say.
        """
        self.held = 0
        self._broker: Final = broker
        self._hold_s: Final = hold_ms / 1000
        self._mastered: Final = mastered
        self._ask: Final = ask
        self._before: GroupFacts | None = None
        self._is_expected = self._is_stopping = False
        self._wake, self._woken = socket.socketpair()
        self._began = asyncio.Event()
        self._ended = asyncio.Event()
        self._thread: Final = threading.Thread(target=self._watch, name="client-hold", daemon=True)

    async def run(self) -> None:
        """Watch and hold until cancelled; what is held then is held to its end."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        try:
            while True:
                await self._began.wait()
                await self._let_go()
        finally:
            try:
                if self._began.is_set():
                    await self._let_go()
            finally:
                self._is_stopping = True
                self._wake.send(b"s")
                await asyncio.to_thread(self._thread.join)
                self._wake.close()
                self._woken.close()

    def expect_end(self) -> None:
        """Try for the broker's port from now on: it is about to be killed, and its clients come back within a millisecond."""
        self._is_expected = True
        self._wake.send(b"e")

    async def _let_go(self) -> None:
        """Wait until the successor can acknowledge, or the time is over."""
        while not self._ended.is_set():
            now = await self._ask()
            if now is not None and self._before is not None and can_succeed(self._before, now):
                self._wake.send(b"r")
                await self._ended.wait()
            else:
                await asyncio.sleep(ASK_AGAIN_S)
        self._began.clear()
        self._ended.clear()

    def _watch(self) -> None:
        while not self._is_stopping:
            try:
                watched = socket.create_connection(self._broker, DIAL_WITHIN_S)
            except OSError:
                self._wait((), DIAL_AGAIN_S)
                continue
            with watched:
                is_over = self._wait((watched,), None) or self._is_expected
            self._before = self._mastered() if is_over else None
            listener = self._bound() if self._before is not None else None
            if listener is not None:
                self._hold(listener)

    def _wait(self, for_sockets: tuple[socket.socket, ...], timeout_s: float | None) -> bool:
        """Wait for one of the sockets; False if woken, or the time was over, before."""
        ready = select.select([*for_sockets, self._woken], [], [], timeout_s)[0]
        if self._woken in ready:
            self._woken.recv(WAKES_MAX)
            return False
        return bool(ready)

    def _bound(self) -> socket.socket | None:
        """Take the port as soon as the process has lost it; None if it has not."""
        until_s = time.monotonic() + (EXPECTED_WITHIN_S if self._is_expected else BIND_WITHIN_S)
        self._is_expected = False
        while time.monotonic() < until_s:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("", self._broker[1]))
                listener.listen(BACKLOG)
                listener.setblocking(False)
            except OSError:
                listener.close()
                time.sleep(BIND_AGAIN_S)
            else:
                return listener
        return None

    def _hold(self, listener: socket.socket) -> None:
        started_s = time.monotonic()
        self._loop.call_soon_threadsafe(self._began.set)
        with listener:
            count = self._hold_until(listener, started_s + self._hold_s - LATE_S)
            released_s = time.monotonic()
            while time.monotonic() < released_s + LATE_S:
                count += self._hold_until(listener, time.monotonic() + LATE_TURN_S)
        self.held += count
        _log.warning("%d connections were held for %.3f s", count, released_s - started_s)
        self._loop.call_soon_threadsafe(self._ended.set)

    def _hold_until(self, listener: socket.socket, until_s: float) -> int:
        """Take connections until woken or the time is over, then close them; return how many."""
        held: list[socket.socket] = []
        while (left_s := until_s - time.monotonic()) > 0 and self._wait((listener,), left_s):
            with contextlib.suppress(OSError):  # one that has left again
                held.append(listener.accept()[0])
        for connection in held:
            connection.close()
        return len(held)
