"""A listening port that speaks TLS and plain TCP: the first byte of a connection decides which.

Or plain TCP alone.

A TLS connection begins with a handshake record, type 0x16. A remoting frame begins with the length of a frame
of at most 16 MB, whose first byte is 0 or 1. So one port serves both, as RocketMQ's does, and clients move to
TLS one by one.

The byte is looked at without taking it (MSG_PEEK), before asyncio owns the socket. A connection that says
nothing yet costs a descriptor and no task. Every connection has its place (`places`) from the moment it is
accepted, so one that never ends its handshake is counted like any other.

Connections are accepted here, many in one turn of the loop. uvloop's own servers accept one a turn: a
controller at work would keep a fleet that returns all at once waiting for seconds.

Source: RocketMQ NettyRemotingServer.HandshakeHandler, 5.4.0.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from controller_core import limits
from controller_core.channel.log_rate import LogRate
from controller_core.channel.places import Places, PortPlace
from controller_core.channel.sockets import listening_hosts
from controller_core.error_text import error_text

TLS_HANDSHAKE_BYTE: Final = 0x16
_ACCEPTS_AT_ONCE: Final = 64
_EXHAUSTED_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logging.getLogger(__name__)
_log_not_begun = LogRate(_log, logging.INFO)


class Listener:
    """Accepts connections on one port and hands them to the loop, in TLS or plain.

    Attributes:
        refused: refused connections: plain where TLS is required, or a handshake that failed.
    """

    def __init__(
        self,
        make_protocol: Callable[[PortPlace], asyncio.BaseProtocol],
        context: ssl.SSLContext | None,
        *,
        plain_allowed: bool,
        places: Places,
    ) -> None:
        """Describe the port.

        Args:
            make_protocol: makes the protocol of a connection, which owns its place from then on.
            context: of the server's side; may change its certificates later. None: plain TCP alone.
            plain_allowed: whether plain TCP is served too.
            places: those of the port.
        """
        self.refused = 0
        self._make_protocol = make_protocol
        self._context = context
        self._plain_allowed = plain_allowed
        self._places = places
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._silent: dict[socket.socket, tuple[PortPlace, asyncio.TimerHandle]] = {}
        self._starting: dict[asyncio.Task[None], socket.socket] = {}

    async def listen(self, host: str, port: int, backlog: int) -> None:
        """Begin to accept; `sockets.listening_hosts` says where.

        Raises:
            OSError: the port cannot be had.
        """
        found = [
            one
            for each in listening_hosts(host, port)
            for one in await self._loop.getaddrinfo(each, port, type=socket.SOCK_STREAM)
        ]
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                listening = socket.socket(family, kind, protocol)
                self._listening.append(listening)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                # Accepted sockets inherit it. One turn of the loop reads all that waits in all sockets.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.RECEIVE_BUFFER_BYTES)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.SEND_BUFFER_BYTES)
                listening.setblocking(False)
                listening.bind(address)
                listening.listen(backlog)
                self._loop.add_reader(listening, self._accept, listening)
        except OSError:
            await self.close()
            raise

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._listening[0].getsockname()[1]) if self._listening else 0

    async def close(self) -> None:
        """Stop accepting, and close sockets that were not handed over yet."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        for silent in list(self._silent):
            self._drop(silent)
        # Not by cancelling: a protocol that is made in this turn would never learn that its socket is gone.
        starting = dict(self._starting)
        for accepted in starting.values():
            _shut_down(accepted)
        await asyncio.gather(*starting, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.error("no descriptor for another connection: %s", error)
                self._loop.remove_reader(listening)
                self._loop.call_later(_EXHAUSTED_PAUSE_S, self._resume, listening)
                return
            accepted.setblocking(False)
            place = self._places.take(str(address[0]))
            if place is None:
                accepted.close()
            elif self._context is None:
                self._begin(accepted, place, is_tls=False)
            else:
                place.close = partial(self._drop, accepted)
                timer = self._loop.call_later(limits.FIRST_REQUEST_S_MAX, self._drop, accepted)
                self._silent[accepted] = (place, timer)
                self._loop.add_reader(accepted, self._look, accepted)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def _look(self, accepted: socket.socket) -> None:
        """Decide by the first byte."""
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        is_tls = first[:1] == bytes([TLS_HANDSHAKE_BYTE])
        if not first or not (is_tls or self._plain_allowed):
            self.refused += bool(first)
            self._drop(accepted)
            return
        place, timer = self._silent.pop(accepted)
        timer.cancel()
        self._loop.remove_reader(accepted)
        self._begin(accepted, place, is_tls=is_tls)

    def _begin(self, accepted: socket.socket, place: PortPlace, *, is_tls: bool) -> None:
        task = self._loop.create_task(self._start(accepted, place, is_tls=is_tls))
        place.close = partial(_shut_down, accepted)  # which also fails a handshake
        self._starting[task] = accepted
        task.add_done_callback(self._starting.pop)

    async def _start(self, accepted: socket.socket, place: PortPlace, *, is_tls: bool) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(place),
                accepted,
                ssl=self._context if is_tls else None,
                ssl_handshake_timeout=limits.HANDSHAKE_S_MAX if is_tls else None,
            )
        except (OSError, TimeoutError) as error:
            self.refused += 1
            _log_not_begun("a connection was not begun: %s", error_text(error))
            accepted.close()
            self._places.give_back(place)

    def _drop(self, accepted: socket.socket) -> None:
        place, timer = self._silent.pop(accepted)
        timer.cancel()
        self._loop.remove_reader(accepted)
        accepted.close()
        self._places.give_back(place)


def _shut_down(accepted: socket.socket) -> None:
    with contextlib.suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
