"""One guest: a client's connection and one to the broker, with the same bytes on both.

Never: decides about coming and going; `guest_port` does.
"""

import asyncio
import contextlib
import logging
import time
from typing import Final, cast

from controller_core.channel.log_rate import LogRate
from controller_core.channel.places import Places, PortPlace
from controller_core.channel.sockets import set_options
from controller_core.error_text import error_text
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import encode
from controller_core.tls.serving import MemberTls
from ha_sidecar import limits
from ha_sidecar.address import HostPort
from ha_sidecar.companion.guests.admission import Admission
from ha_sidecar.companion.guests.introductions import Introductions
from ha_sidecar.companion.guests.request_filter import Pull, RequestFilter

DIAL_WITHIN_S: Final = 1.0
DIAL_AGAIN_S: Final = 0.002
PULLS_WAIT_S: Final = 3.0
"""A guest's first pulls wait at most so long for the broker to know its consumers: a tenth of their time."""
QUIET_S: Final = 0.5
"""A guest that is sent home goes when nothing has passed for so long: no answer is under way."""
HOME_WITHIN_S: Final = 10.0

_log = logging.getLogger(__name__)
_log_undialled = LogRate(_log, logging.WARNING)


class GuestRoom:
    """What all guests share; for the guests' thread, but for reading its figures and `send_home`.

    Attributes:
        places: those of the port.
        guests: all that are there, in the order of their coming.
        introductions: tells the broker of their consumers.
        emptied: heartbeats whose consumers were taken out, ever.
    """

    def __init__(
        self, broker: HostPort, tls: MemberTls | None, admission: Admission, introductions: Introductions
    ) -> None:
        """Take the broker's address, TLS of guests that speak it, when guests pass, and who tells of them."""
        self.places: Final = Places(limits.GUESTS_MAX, limits.GUESTS_SOURCE_MAX)
        self.guests: Final[dict[Guest, None]] = {}
        self.emptied = 0
        # A view: asyncio's TLS writes into slices of it, and a slice of a bytearray is a copy.
        self.buffer: Final = memoryview(bytearray(limits.GUEST_READ_BYTES_MAX))
        self._broker: Final = broker
        self._tls: Final = tls
        self._admission: Final = admission
        self.introductions: Final = introductions
        self._pulls_bytes = 0
        self._unsent_sides = 0
        self._home_before_s = 0.0

    def enter(self, place: PortPlace) -> asyncio.BaseProtocol:
        """Return the protocol of a new guest's connection."""
        guest = Guest(self, place)
        self.guests[guest] = None
        return guest.client

    def left(self, guest: "Guest") -> None:
        """Learn that a guest has gone."""
        self.guests.pop(guest, None)
        self.introductions.left(guest)
        self.places.give_back(guest.place)

    def send_home(self) -> None:
        """Have all guests go that are here now."""
        self._home_before_s = time.monotonic()

    def end_quiet(self) -> None:
        """End the guests that were sent home and on whose connections nothing is under way."""
        now_s = time.monotonic()
        for guest in list(self.guests):
            is_sent_home = guest.came_s <= self._home_before_s
            if is_sent_home and (
                now_s - guest.passed_s > QUIET_S or now_s - self._home_before_s > HOME_WITHIN_S
            ):
                guest.end()

    def may_keep_unsent(self) -> bool:
        """Count a side that could not send all; False if that is one too many."""
        self._unsent_sides += 1
        return self._unsent_sides * limits.GUEST_READ_BYTES_MAX <= limits.GUESTS_BYTES_MAX

    def may_keep_pulls(self, pulls_bytes: int) -> bool:
        """Count bytes of a guest's pulls that wait now; False if those are too many."""
        self._pulls_bytes += pulls_bytes
        return self._pulls_bytes <= limits.GUEST_PULLS_BYTES_MAX

    def pulls_left(self, pulls_bytes: int) -> None:
        """Count bytes of a guest's pulls that no longer wait."""
        self._pulls_bytes -= pulls_bytes

    def sent(self) -> None:
        """Count a side that has sent all again, or has ended."""
        self._unsent_sides -= 1

    async def dial(self, side: "GuestSide", *, in_tls: bool) -> None:
        """Connect a guest with the broker, when it may pass.

        Raises:
            OSError: the broker cannot be reached within `DIAL_WITHIN_S` then.
        """
        await self._admission.passed()
        loop = asyncio.get_running_loop()
        context = self._tls.client().context if in_tls and self._tls is not None else None
        async with asyncio.timeout(DIAL_WITHIN_S):
            while True:
                try:
                    await loop.create_connection(lambda: side, *self._broker, ssl=context)
                except ConnectionRefusedError:
                    await asyncio.sleep(DIAL_AGAIN_S)
                else:
                    return

    def close(self) -> None:
        """End all guests."""
        self.introductions.close()
        for guest in list(self.guests):
            guest.end()


class Guest:
    """A client, its connection to the broker, and when bytes last passed (monotonic seconds)."""

    def __init__(self, room: GuestRoom, place: PortPlace) -> None:
        """Take the room; the client's connection is made by then, the broker's is not."""
        self.came_s = self.passed_s = time.monotonic()
        self.place: Final = place
        self._room: Final = room
        self._filter: Final = RequestFilter()
        self.client: Final = GuestSide(room.buffer, self)
        self.broker: Final = GuestSide(room.buffer, self)
        self._dialling: asyncio.Task[None] | None = None
        self._pulls = b""
        self._pulls_end: asyncio.TimerHandle | None = None
        self._early = b""
        self._is_ended = False

    def connected(self, side: "GuestSide") -> None:
        """Learn that one of both connections is made; early bytes of the client go to the broker then."""
        if side is self.client:
            self.place.close = self.end
            self._dialling = asyncio.get_running_loop().create_task(self._dial())
        elif self._is_ended:
            side.abort()
        else:
            early, self._early = self._early, b""
            self.received(self.client, early)
            self.client.resume_reading()

    async def _dial(self) -> None:
        try:
            await self._room.dial(self.broker, in_tls=self.client.is_in_tls)
        except (OSError, TimeoutError) as error:
            _log_undialled("the broker cannot be reached for a guest: %s", error_text(error))
            self.end()

    def received(self, side: "GuestSide", data: bytes) -> None:
        """Hand on what one side sent."""
        self.passed_s = time.monotonic()
        if side is self.broker:
            self._room.places.keep(self.place, kept=True)
            self.client.write(data)
            return
        if not self.broker.is_connected:
            # Not paused when it came: asyncio of 3.11.2 reads on if a protocol pauses while it is connected.
            self._early += data
            self.client.pause_reading()
            return
        emptied = self._filter.emptied
        passed = self._filter.feed(data)
        self._room.emptied += self._filter.emptied - emptied
        self.broker.write(passed.to_broker)
        self.client.write(passed.to_client)
        for consumers in passed.consumers:
            self._room.introductions.came(self, consumers)
        if passed.pulls:
            self._keep_pulls(passed.pulls)
        elif self._pulls:
            self._send_pulls()

    def _keep_pulls(self, pulls: tuple[Pull, ...]) -> None:
        """Keep pulls back until the broker knows their groups."""
        frames = b"".join(pull.frame for pull in pulls)
        if self._pulls_end is None:
            self._pulls_end = asyncio.get_running_loop().call_later(PULLS_WAIT_S, self.hand_on)
        self._pulls += frames
        if self._room.may_keep_pulls(len(frames)):
            self._room.introductions.waits(self, {pull.group for pull in pulls})
        else:
            self.hand_on()

    def hand_on(self) -> None:
        """Keep no more pulls back: the broker knows their groups, or has had its time."""
        self._filter.keeps_pulls = False
        self._room.introductions.waits_no_more(self)
        self._send_pulls()

    def _send_pulls(self) -> None:
        if not self._filter.keeps_pulls and self._filter.is_between_frames:
            self.broker.write(self._pulls)
            self._drop_pulls()

    def _drop_pulls(self) -> None:
        if self._pulls_end is not None:
            self._pulls_end.cancel()
        self._room.pulls_left(len(self._pulls))
        self._pulls = b""

    def insert(self, request: RemotingCommand) -> bool:
        """Send a oneway request of ours to the broker; False while a request of the client is under way."""
        if self._is_ended or not self._filter.is_between_frames:
            return False
        self.broker.write(encode(request))
        return True

    def cannot_send(self, side: "GuestSide") -> None:
        """Read no more from the other side."""
        self._other(side).pause_reading()
        if not self._room.may_keep_unsent():
            _log_undialled("a guest is ended: too much waits for guests that do not read")
            self.end()

    def can_send(self, side: "GuestSide") -> None:
        """Read from the other side again."""
        self._room.sent()
        self._other(side).resume_reading()

    def lost(self, side: "GuestSide") -> None:
        """End both connections, because one has ended; bytes that were read are still sent."""
        if side.is_unsent:
            self._room.sent()
        self._is_ended = True
        if self._dialling is not None and not self._dialling.done():
            self._dialling.cancel()
        self._drop_pulls()
        self._other(side).close()
        self._room.left(self)

    def end(self) -> None:
        """End both connections at once."""
        self._is_ended = True
        self.client.abort()
        self.broker.abort()

    def _other(self, side: "GuestSide") -> "GuestSide":
        return self.broker if side is self.client else self.client


class GuestSide(asyncio.BufferedProtocol):
    """One of both connections of a guest.

    Attributes:
        is_unsent: whether bytes wait to be sent.
    """

    def __init__(self, buffer: memoryview, guest: Guest) -> None:
        """Take the buffer that all connections of the thread read into, one after another."""
        self.is_unsent = False
        self._buffer: Final = buffer
        self._guest: Final = guest
        self._transport: asyncio.Transport | None = None

    @property
    def is_connected(self) -> bool:
        """Whether its connection was made."""
        return self._transport is not None

    @property
    def is_in_tls(self) -> bool:
        """Whether it speaks TLS."""
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; all that cannot be sent at once counts as unsent."""
        self._transport = cast("asyncio.Transport", transport)
        # Not 0: asyncio's TLS pauses at the bound, so it would pause with nothing to send.
        self._transport.set_write_buffer_limits(high=1, low=0)
        set_options(transport.get_extra_info("socket"))
        self._guest.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on what was read."""
        self._guest.received(self, bytes(self._buffer[:nbytes]))

    def pause_writing(self) -> None:
        """Learn that the peer does not read."""
        self.is_unsent = True
        self._guest.cannot_send(self)

    def resume_writing(self) -> None:
        """Learn that the peer has read all."""
        self.is_unsent = False
        self._guest.can_send(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that it has ended."""
        self._guest.lost(self)

    def write(self, data: bytes) -> None:
        """Send, if there is something to be sent and it has not ended."""
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Read no more."""
        with contextlib.suppress(RuntimeError):  # it has ended, or is paused
            if self._transport is not None:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        with contextlib.suppress(RuntimeError):
            if self._transport is not None:
                self._transport.resume_reading()

    def close(self) -> None:
        """End it when all is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()
