"""The port in a broker's pod where the clients of a former master come in, once its address leads here.

Each guest has a connection to the broker of its own, and its bytes pass both ways as they come. Only
consumers in its heartbeats are taken out (`request_filter`), unless the broker does not know them otherwise
(`introductions`). When the address leads elsewhere again, or the
broker is no master any more, all guests are sent home: their connections end as soon as nothing is under way
on them. Otherwise a client would stay with this broker where it means the other one, for as long as it runs.

    a guest comes            ->  it waits until the broker can acknowledge (`admission`)
    it may pass              ->  the broker is dialled, in TLS if the guest speaks TLS; while it refuses, its
                                 companion is about to hold clients at its port, and is dialled again
    one of both connections  ->  the other one ends too
    ends
    too much is unsent       ->  the guest whose peer does not read is ended

Guests have a thread with a loop of its own: a client's messages do not wait for the companion's questions,
nor the lease for them.

Never: reads more than it could send, answers in the broker's place (but for what `request_filter` says), or
judges what passes. Messages that come this way name the pod as the host that they were born on.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker
from controller_core.channel.listener import Listener
from controller_core.tls.serving import MemberTls
from ha_sidecar.address import HostPort
from ha_sidecar.companion.guests.admission import Admission
from ha_sidecar.companion.guests.guest import GuestRoom
from ha_sidecar.companion.guests.introductions import Introductions
from ha_sidecar.decisions.broker_facts import GroupFacts

BACKLOG: Final = 1024
LOOK_S: Final = 1.0
"""Between two looks at where former masters' addresses lead, while there are guests."""
LOOKS_BEFORE_HOME: Final = 3
"""So many looks in a row must say so: each node of a cluster learns of a new way by itself."""
TURN_S: Final = 0.2

_log = logging.getLogger(__name__)


class GuestPort:
    """The port, from the start of `run` to its end."""

    def __init__(
        self,
        port: int,
        broker: HostPort,
        is_lent: Callable[[], Awaitable[bool]],
        before: Callable[[], GroupFacts | None],
        tls: MemberTls | None = None,
        sign: Sign | None = None,
    ) -> None:
        """Take the settings.

        Args:
            port: where guests come in, on all addresses.
            broker: the broker's remoting address.
            is_lent: whether the address of another member may lead here.
            before: the group as it was while another member was master, None if unknown; called in another
                thread.
            tls: for guests and the broker, for the guests' thread alone; None for plain TCP.
            sign: signs questions to the broker; None for one without access control.
        """
        self._port: Final = port
        self._is_lent: Final = is_lent
        self._tls: Final = tls
        self._broker: Final = broker
        self._sign: Final = sign
        introductions = Introductions(self._asker, sign)
        self._room: Final = GuestRoom(broker, tls, Admission(self._asker, before), introductions)
        self._stop: Final = threading.Event()
        self._problem: BaseException | None = None
        self._opened: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._serve, name="guests", daemon=True)

    @property
    def guests(self) -> int:
        """How many guests there are."""
        return len(self._room.guests)

    @property
    def emptied(self) -> int:
        """Heartbeats whose consumers were taken out, ever."""
        return self._room.emptied

    async def run(self) -> None:
        """Take guests until cancelled, and send them home when that is due.

        Raises:
            OSError: the port cannot be had.
        """
        self._thread.start()
        try:
            await asyncio.to_thread(self._opened.wait)
            elsewhere = 0
            while self._problem is None:
                await asyncio.sleep(LOOK_S)
                elsewhere = 0 if not self.guests or await self._is_lent() else elsewhere + 1
                if elsewhere >= LOOKS_BEFORE_HOME:
                    self._room.send_home()
            raise self._problem
        finally:
            self._stop.set()
            await asyncio.to_thread(self._thread.join)

    @property
    def is_open(self) -> bool:
        """Whether guests may come."""
        return self._opened.is_set() and self._problem is None

    def _asker(self) -> Asker:
        return Asker(self._broker, self._sign, None if self._tls is None else self._tls.client())

    def _serve(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:
            _log.exception("no more guests are taken")
            self._problem = error
        finally:
            self._opened.set()

    async def _main(self) -> None:
        tls = None if self._tls is None else self._tls.server()
        room = self._room
        listener = Listener(
            room.enter,
            None if tls is None else tls.context,
            plain_allowed=tls is None or tls.plain_allowed,
            places=room.places,
        )
        await listener.listen("0.0.0.0", self._port, BACKLOG)  # noqa: S104 - the address is the pod's
        self._opened.set()
        watching = None if self._tls is None else asyncio.ensure_future(self._tls.watch())
        try:
            while not self._stop.is_set():
                await asyncio.sleep(TURN_S)
                room.end_quiet()
        finally:
            if watching is not None:
                watching.cancel()
            await listener.close()
            room.close()
