"""Hold the clients of a master whose process is gone until another is master: a pause for them, and no error.

A RocketMQ client tries a send three times, with no pause between the tries. The port of a killed process
refuses connections, so the tries are used up within milliseconds, long before anybody can be elected. The
companion shares the broker's network: it listens in the dead broker's place, takes connections and says
nothing. When the controllers name a successor with a copy, it carries the clients' sends there (`relaying`).
When the address that they came to leads there too, it sends them away (`held_clients`), and they ask again at
the same address.

    watching   one idle connection to the broker; its end is the first sign that the process is gone
    binding    the broker's port; in use while the broker lives (it ends idle ones in 2 min), and for a moment
               while it dies. A process of its own watches and binds (`port_taker`)
    holding    until the controllers name a successor with enough copies
    relaying   until clients are served at the addresses that they come to (`served_elsewhere`), or `hold_ms`
               are over. Where only this broker's own address leads to the successor yet, its clients are
               sent away, but for their sends; guests, who came by the address of another broker, stay
    late       for `LATE_S` more, if `hold_ms` allow it, sends are still carried, and all else is sent away:
               each node learns of the new route by itself, and no client may be sent away twice in one try
    closing    all is sent away, for `LATE_S_MIN`, and then the port is free

New connections before a known end wait at the companion's own port (`hold_port`), and are held with the
others.

Holding has a thread of its own: a client's second try comes sooner than a busy event loop's next turn. No
exception ends it: an unexpected one ends that hold, is logged, and the thread watches again.

Never: holds the clients of a slave, who have a master to go to; answers of itself anything else than that;
keeps the port for longer than `hold_ms`, as the broker's next process needs it.

Events: ClientsHeld with the time for which the port may have been unbound, ClientsReleased with whether a
successor existed; both with the epoch that has ended.

Source: DefaultMQProducerImpl.sendDefaultImpl, NettyServerConfig 5.5.0.
"""

import asyncio
import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from controller_core.tls.serving import MemberTls
from ha_sidecar.address import HostPort
from ha_sidecar.common.events import EventLog
from ha_sidecar.companion.holding.held_clients import WAKES_MAX, HeldClients
from ha_sidecar.companion.holding.hold_port import HoldPort
from ha_sidecar.companion.holding.port_taker import PortTaker
from ha_sidecar.companion.holding.served_elsewhere import ServedClients
from ha_sidecar.companion.holding.taking_process import CONNECTED, ENDED, TAKEN
from ha_sidecar.decisions.broker_facts import GroupFacts

WATCH_AGAIN_S: Final = 0.2
"""From an unexpected error to the next watch."""
ASK_AGAIN_S: Final = 0.02
QUESTIONS_MAX: Final = 4
"""That overlap. On a busy machine fifty per second, each on a new connection, kept the successor from
answering any of them in time."""
QUESTION_WITHIN_S: Final = 1.5
LATE_S: Final = 1.0
LATE_S_MIN: Final = 0.3
"""For how long all are sent away at the end.

This much of `hold_ms` is reserved for it when no master is elected in time.
"""
LATE_TURN_S: Final = 0.1

_log = logging.getLogger(__name__)


class ClientHold:
    """Watches one broker, and holds its clients when it dies as master.

    Attributes:
        held: connections that were ever held.
        oneways: one-way sends that came while clients were held.
        oneways_lost: those of them that no successor answered; whether it stored them is not known, or they
            were not carried.
    """

    def __init__(
        self,
        broker: HostPort,
        hold_ms: int,
        mastered: Callable[[], GroupFacts | None],
        events: EventLog,
        asks: Callable[[GroupFacts, Callable[[HostPort], None]], Awaitable[ServedClients]],
        room: HoldPort,
        tls: MemberTls | None = None,
    ) -> None:
        """Take the broker and the settings.

        Args:
            broker: the broker's remoting address; its port is taken on all addresses.
            hold_ms: clients are held for no longer.
            mastered: returns the group of which the broker is master, None if of none or unknown. Called in
                another thread.
            events: receives the hold's events.
            asks: whether the clients of that group would be served now where they would come to; calls what
                it is given with the address of a successor that could serve them.
            room: where clients may wait for the broker's end; open from the first connection to the broker
                until the release.
            tls: for clients and for the successor, for the thread that holds alone; None for plain TCP.
        """
        self.held = self.oneways = self.oneways_lost = 0
        self._broker: Final = broker
        self._hold_s: Final = hold_ms / 1000
        self._mastered: Final = mastered
        self._events: Final = events
        self._asks: Final = asks
        self._room: Final = room
        self._tls: Final = tls
        self._before: GroupFacts | None = None
        self._is_stopping = False
        self._served = ServedClients.NONE
        self._successor: HostPort | None = None
        self._refused_ms_max = 0.0
        self._wake, self._woken = socket.socketpair()
        self._began = asyncio.Event()
        self._ended = asyncio.Event()
        self._thread: Final = threading.Thread(target=self._watch, name="client-hold", daemon=True)

    async def run(self) -> None:
        """Watch and hold until cancelled; a hold that has begun runs to its end."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        try:
            while True:
                await self._began.wait()
                self._tell("ClientsHeld", refused_ms_max=f"{self._refused_ms_max:.1f}")
                await self._wait_until_releasable()
        finally:
            try:
                if self._began.is_set():
                    await self._wait_until_releasable()
            finally:
                self._is_stopping = True
                self._wake.send(b"s")
                await asyncio.to_thread(self._thread.join)
                self._wake.close()
                self._woken.close()

    async def _wait_until_releasable(self) -> None:
        """Wait until the successor can acknowledge, or the time is over."""
        released = asyncio.Event()
        questions: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as asking:
            # The questions overlap: one that takes the old route may never be answered, and must not hold the
            # next one up.
            while not (released.is_set() or self._ended.is_set()):
                if self._before is not None and len(questions) < QUESTIONS_MAX:
                    question = asking.create_task(self._release_if_settled(self._before, released))
                    questions.add(question)
                    question.add_done_callback(questions.discard)
                await asyncio.sleep(ASK_AGAIN_S)
            for question in questions:
                question.cancel()
        if not released.is_set():
            self._tell("ClientsReleased", settled="false")
        await self._ended.wait()
        self._began.clear()
        self._ended.clear()

    async def _release_if_settled(self, before: GroupFacts, released: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(QUESTION_WITHIN_S):
                served = await self._asks(before, self._relay_to)
        except TimeoutError:
            return
        if served in {ServedClients.NONE, self._served} or released.is_set():
            return
        self._served = served
        self._wake.send(b"r")
        if served is ServedClients.ALL:
            released.set()
            self._tell("ClientsReleased", settled="true")

    def _relay_to(self, successor: HostPort) -> None:
        self._successor = successor
        self._wake.send(b"f")

    def _tell(self, kind: str, **attrs: str) -> None:
        self._events.add(kind, None if self._before is None else self._before.master_epoch, attrs)

    def _watch(self) -> None:
        while not self._is_stopping:
            try:
                self._watch_once()
            except Exception:
                _log.exception("the hold begins again: an unexpected error")
                self._room.close()
                self._ready((), WATCH_AGAIN_S)
        self._room.close()

    def _watch_once(self) -> None:
        """Watch one process of the broker to its end, and hold its clients if it died as master."""
        with contextlib.closing(PortTaker(self._broker)) as taker:
            if self._is_taken(taker):
                with contextlib.closing(self._room):
                    self._hold(taker.listener)

    def _is_taken(self, taker: PortTaker) -> bool:
        """Wait until the port is taken; False if no master had it, or if stopped."""
        while not self._is_stopping:
            if not self._ready((taker.reports,), None):
                continue
            report = taker.report()
            if report.kind == CONNECTED:
                self._room.open()
            elif report.kind == ENDED:
                self._before, self._successor = self._mastered(), None
                self._served = ServedClients.NONE
                # The clients of a slave need no hold.
                if self._before is None:
                    return False
            elif report.kind == TAKEN:
                self._refused_ms_max = report.refused_ms_max
                return True
        return False

    def _ready(self, of: Sequence[socket.socket], timeout_s: float | None) -> list[socket.socket]:
        """Wait for some of the sockets; none if woken, or the time was over, before."""
        poll = select.poll()
        for sock in (*of, self._woken):
            poll.register(sock, select.POLLIN)
        found = {number for number, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        if self._woken.fileno() in found:
            self._woken.recv(WAKES_MAX)
            return []
        return [sock for sock in of if sock.fileno() in found]

    def _relay(self, clients: HeldClients) -> None:
        if self._successor is not None:
            clients.relay_to(self._successor)

    def _hold(self, listener: socket.socket) -> None:
        started_s = time.monotonic()
        self._loop.call_soon_threadsafe(self._began.set)
        listeners = [sock for sock in (listener, self._room.listener) if sock is not None]
        try:
            with listener, contextlib.closing(self._held_clients(listeners)) as clients:
                try:
                    released_s = self._serve(clients, started_s)
                finally:
                    self._count(clients)
        finally:
            self._loop.call_soon_threadsafe(self._ended.set)
        _log.warning(
            "clients were held for %.3f s, on %d connections, %d sends relayed, %d of %d one-way sends lost, "
            "and refused for at most %.1f ms before",
            released_s - started_s,
            clients.taken,
            clients.relayed,
            clients.oneways - clients.oneways_answered,
            clients.oneways,
            self._refused_ms_max,
        )

    def _held_clients(self, listeners: Sequence[socket.socket]) -> HeldClients:
        tls = self._tls
        if tls is None:
            return HeldClients(listeners, self._woken)
        tls.refresh()
        return HeldClients(listeners, self._woken, tls.server(), tls.client())

    def _serve(self, clients: HeldClients, started_s: float) -> float:
        """Hold the clients to the end; return when they were released, on the monotonic clock."""
        end_s = started_s + self._hold_s
        until_s = end_s - LATE_S_MIN
        while self._served is not ServedClients.ALL and time.monotonic() < until_s:
            self._relay(clients)
            if self._served is ServedClients.OWN:
                clients.send_away(sends_too=False, guests_too=False)
                clients.serve(min(time.monotonic() + LATE_TURN_S, until_s))
            else:
                clients.serve(until_s)
        released_s = time.monotonic()
        while time.monotonic() < min(released_s + LATE_S, end_s - LATE_S_MIN):
            self._relay(clients)
            clients.send_away(sends_too=not clients.is_relaying)
            clients.serve(time.monotonic() + LATE_TURN_S)
        while time.monotonic() < min(released_s + LATE_S + LATE_S_MIN, end_s):
            clients.send_away(sends_too=True)
            clients.serve(time.monotonic() + LATE_TURN_S)
        return released_s

    def _count(self, clients: HeldClients) -> None:
        self.held += clients.taken
        self.oneways += clients.oneways
        self.oneways_lost += clients.oneways - clients.oneways_answered
