"""A port that serves an aiohttp application within bounds that strangers cannot pass.

aiohttp itself bounds lines, fields and the number of headers. This module adds:

| bound | what happens beyond it |
|---|---|
| `HTTP_CONNECTIONS_MAX`, `HTTP_SOURCE_CONNECTIONS_MAX` | the oldest idle connection ends |
| `HTTP_HEADER_S_MAX` | a connection without a whole header ends |
| `HTTP_BODY_S_MAX` | a connection whose request is without its whole body ends |
| `WRITE_S_MAX` | a connection whose client reads nothing ends, a stream of events too |
| `HTTP_UNSENT_BYTES_MAX` | the connection with the most bytes that its client does not read ends |

Connections are counted when they are accepted, before a TLS handshake (`listener`). A connection with a
running request is not idle and keeps its place. So a flood of silent ones does not end a stream of events,
and a probe always gets in.

Bytes that are not HTTP are a client's fault: aiohttp answers 400. The traceback that it would log is dropped,
because it would fill the log (`server_log`).

Every HTTP server of this system uses this class.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from ssl import SSLContext
from typing import Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from controller_core import limits
from controller_core.channel.listener import Listener
from controller_core.channel.log_rate import LogRate
from controller_core.channel.memory import MemoryBudget
from controller_core.channel.open_files import raise_open_files
from controller_core.channel.places import Places, PortPlace
from controller_core.channel.sockets import address_text

BACKLOG_MAX: Final = 128
_log_closed: Final = LogRate(logging.getLogger(__name__), logging.WARNING)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpPort:
    """Serves one application on one port.

    Attributes:
        places: of its connections.
        budget: of the bytes that clients have not read.
    """

    def __init__(
        self,
        application: web.Application,
        *,
        shutdown_s: float,
        write_s_max: float = limits.WRITE_S_MAX,
        unsent_bytes_max: int = limits.HTTP_UNSENT_BYTES_MAX,
    ) -> None:
        """Take an application that is not frozen yet.

        Args:
            application: what to serve; it gets one middleware before its own.
            shutdown_s: how long `stop` waits for running requests.
            write_s_max: how long a client may read nothing of what waits for it.
            unsent_bytes_max: bytes that may wait for all clients together.
        """
        self.places: Final = Places(limits.HTTP_CONNECTIONS_MAX, limits.HTTP_SOURCE_CONNECTIONS_MAX)
        self.budget: Final = MemoryBudget(unsent_bytes_max)
        self._write_s_max: Final = write_s_max
        self._guards: Final[dict[object, _Guard]] = {}
        application.middlewares.insert(0, self._middleware())
        self._runner: Final = web.AppRunner(
            application,
            access_log=None,
            logger=server_log(),
            shutdown_timeout=shutdown_s,
            keepalive_timeout=float(limits.HTTP_HEADER_S_MAX),
        )
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return 0 if self._listener is None else self._listener.port

    async def start(
        self, host: str, port: int, context: SSLContext | None = None, *, plain_allowed: bool = False
    ) -> None:
        """Listen, in TLS if there is a context, and in plain without one or with `plain_allowed`.

        Raise the limit of open files of this process.

        Raises:
            OSError: the port cannot be had.
        """
        raise_open_files()
        await self._runner.setup()
        plain = plain_allowed or context is None
        self._listener = Listener(self._protocol, context, plain_allowed=plain, places=self.places)
        await self._listener.listen(host, port, BACKLOG_MAX)

    async def stop(self) -> None:
        """Stop listening, and end all connections."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    def _protocol(self, place: PortPlace) -> asyncio.Protocol:
        server = self._runner.server
        if server is None:  # stopped between accepting and now
            return asyncio.Protocol()
        # Not typed as such by aiohttp: a server called without arguments makes the protocol of a connection.
        inner = cast("asyncio.Protocol", server())
        guard = self._guards[inner] = _Guard(
            inner, place, self._places_given_back, self.budget, self._write_s_max
        )
        return guard

    def _places_given_back(self, guard: "_Guard") -> None:
        self.places.give_back(guard.place)
        self._guards.pop(guard.inner, None)

    def _middleware(self) -> Middleware:
        @web.middleware
        async def keep_place(request: web.Request, handler: _Handler) -> web.StreamResponse:
            guard = self._guards.get(request.protocol)
            if guard is None:
                return await handler(request)
            loop = asyncio.get_running_loop()
            slow = loop.call_later(limits.HTTP_BODY_S_MAX, guard.end_without_body, request)
            self.places.keep(guard.place, kept=True)
            try:
                return await handler(request)
            finally:
                slow.cancel()
                self.places.keep(guard.place, kept=False)

        return keep_place


class _Guard(asyncio.Protocol):
    """Stands between a transport and aiohttp's protocol, and ends a connection that does not progress."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        place: PortPlace,
        on_lost: Callable[["_Guard"], object],
        budget: MemoryBudget,
        write_s_max: float,
    ) -> None:
        self.is_kept = False
        self.peer = ""
        self.inner: Final = inner
        self.place: Final = place
        self._on_lost: Final = on_lost
        self._budget: Final = budget
        self._write_s_max: Final = write_s_max
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)  # so that the budget knows every byte that waits
        self.peer = address_text(transport.get_extra_info("peername"))
        self.place.close = self._transport.abort
        if self.place.is_over:  # another took the place during the handshake
            self._transport.abort()
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on, and give the place back."""
        if self._timer is not None:
            self._timer.cancel()
        self._budget.hold(self, 0)
        self._on_lost(self)
        self.inner.connection_lost(exc)

    def abort(self, reason: Exception | None = None) -> None:
        """End the connection at once: it holds most of what all hold together."""
        _log_closed("closing an HTTP connection: %s", reason)
        if self._transport is not None:
            self._transport.abort()

    def end_without_body(self, request: web.Request) -> None:
        """End the connection if the body of its request has not come."""
        if self._transport is not None and request.can_read_body and not request.content.is_eof():
            self._transport.abort()

    def pause_writing(self) -> None:
        """Pass it on, and watch whether the client reads."""
        if self._transport is not None and not self._transport.is_closing():
            unsent_bytes = self._transport.get_write_buffer_size()
            self._watch(self._transport, unsent_bytes)
            self._budget.hold(self, unsent_bytes)
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on: the client reads."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._budget.hold(self, 0)
        self.inner.resume_writing()

    def _watch(self, transport: asyncio.Transport, unsent_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._write_s_max, self._look, transport, unsent_bytes)

    def _look(self, transport: asyncio.Transport, before_bytes: int) -> None:
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes >= before_bytes:
            transport.abort()
        else:
            self._watch(transport, unsent_bytes)


class StreamCounter:
    """Counts the event streams of a server, by source address.

    The server asks before it opens one, and says in its own words why it refuses.
    """

    def __init__(self, total_max: int, source_max: int) -> None:
        """Take how many may be open, and how many of one address."""
        self._total_max: Final = total_max
        self._source_max: Final = source_max
        self._open: Final[Counter[str | None]] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether as many are open as may be."""
        return self._open.total() >= self._total_max

    def is_full_for(self, source: str | None) -> bool:
        """Whether as many of an address are open as may be."""
        return self._open[source] >= self._source_max

    @contextlib.contextmanager
    def counted(self, source: str | None) -> Iterator[None]:
        """Count one stream while the block runs."""
        self._open[source] += 1
        try:
            yield
        finally:
            self._open[source] -= 1
            if not self._open[source]:
                del self._open[source]


_FAULTS: Final = (HttpProcessingError, web.RequestPayloadError)


class _ClientFaults(logging.Filter):
    """Drops the records of requests and bodies that cannot be parsed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to keep a record."""
        return not (record.exc_info and isinstance(record.exc_info[1], _FAULTS))


_CLIENT_FAULTS: Final = _ClientFaults()


def server_log() -> logging.Logger:
    """Return aiohttp's own logger of servers, which keeps only errors of the server."""
    log = logging.getLogger("aiohttp.server")
    log.addFilter(_CLIENT_FAULTS)  # A filter that the logger has already is not added again.
    return log
