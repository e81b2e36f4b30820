"""Making connections: dialling one, and accepting many.

`connect` bounds name resolution and the TCP handshake by one timeout. `serve` keeps account of what it
accepted, so that closing the server also ends its connections, and holds them to `PortBounds`.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from controller_core import limits
from controller_core.access.signing import Sign
from controller_core.channel.connection import UNSENT_BYTES_MAX, Connection, RequestHandler, refuse
from controller_core.channel.deadlines import LOOK_S, ProgressDeadlines
from controller_core.channel.errors import (
    ConnectError,
    ConnectionClosedError,
    DisplacedError,
    PortClosedError,
)
from controller_core.channel.listener import Listener
from controller_core.channel.log_rate import LogRate
from controller_core.channel.memory import MemoryBudget
from controller_core.channel.places import Places, PortPlace
from controller_core.channel.sockets import listening_hosts
from controller_core.channel.turns import Turns
from controller_core.remoting.frame import ANY_FRAMES, FrameBounds
from controller_core.remoting.host_port import join_host_port
from controller_core.tls.dialling import NOT_IN_TLS, ClientTls, process_tls
from controller_core.tls.serving import ServerTls

BACKLOG_MAX: Final = 1_024
"""Connections that the kernel may hold before they are accepted: all brokers of a fleet may return at
once."""


@dataclass(frozen=True, slots=True)
class PortBounds:
    """What one listening port takes from strangers.

    Attributes:
        connections_max: connections at a time; more are closed and counted.
        source_connections_max: of one source address, connections that the owner does not keep.
        frames: how long frames may be; a longer one is damage, and ends its connection.
        unsent_bytes_max: bytes that may wait for a peer before it is cut off.
        budget: of the bytes that all connections hold; None for no bound.
        deadlines: for progress; None for none.
        shares_turns: whether all connections together get only a part of each turn of the loop.
    """

    connections_max: int = limits.CONNECTIONS_MAX
    source_connections_max: int = limits.CONNECTIONS_MAX
    frames: FrameBounds = ANY_FRAMES
    unsent_bytes_max: int = UNSENT_BYTES_MAX
    budget: MemoryBudget | None = None
    deadlines: ProgressDeadlines | None = None
    shares_turns: bool = False


DEFAULT_BOUNDS: Final = PortBounds()
_log_overdue: Final = LogRate(logging.getLogger(__name__), logging.INFO)


async def connect(
    host: str,
    port: int,
    timeout_s: float,
    *,
    on_request: RequestHandler = refuse,
    unsent_bytes_max: int = UNSENT_BYTES_MAX,
    client_tls: ClientTls | None = None,
    sign: Sign | None = None,
) -> Connection:
    """Dial a peer and return the connection.

    Args:
        host: name or address of the peer.
        port: its TCP port.
        timeout_s: bound on resolution and handshake together, in seconds.
        on_request: handler of the peer's own requests; by default each is answered with code 3.
        unsent_bytes_max: bytes that may wait for the peer before it is cut off.
        client_tls: TLS; None for that of the process (`tls.dialling`), by default plain TCP.
        sign: signs our requests; None for a peer without access control.

    Raises:
        PortClosedError: no process listens there.
        ConnectError: unreachable, unresolved or not within `timeout_s`.
    """
    tls = client_tls or process_tls()

    async def dialled(context: ssl.SSLContext | None) -> Connection:
        _, made = await asyncio.get_running_loop().create_connection(
            lambda: Connection(on_request, unsent_bytes_max=unsent_bytes_max), host, port, ssl=context
        )
        return made

    try:
        async with asyncio.timeout(timeout_s):
            try:
                connection = await dialled(None if tls is None else tls.context)
            except NOT_IN_TLS:
                if tls is None or not tls.plain_allowed:
                    raise
                connection = await dialled(None)
    except TimeoutError as error:
        raise ConnectError(f"{join_host_port(host, port)} did not accept within {timeout_s} s") from error
    except ConnectionRefusedError as error:
        raise PortClosedError(f"{join_host_port(host, port)}: {error}") from error
    except OSError as error:
        raise ConnectError(f"{join_host_port(host, port)}: {error}") from error
    connection.sign = sign
    return connection


class Server:
    """A listening port and the connections it accepted; made by `serve`.

    Attributes:
        connections: those open now, each with its place.
        places: how many there may be, and of which source.
    """

    def __init__(self, on_connection: Callable[[Connection], object], bounds: PortBounds) -> None:
        self.connections: dict[Connection, PortPlace] = {}
        self.places = Places(bounds.connections_max, bounds.source_connections_max)
        self._on_connection = on_connection
        self._bounds = bounds
        self._turns = Turns() if bounds.shares_turns else None
        self._server: asyncio.Server | None = None
        self._listener: Listener | None = None
        self._silent: dict[Connection, None] = {}
        self._look_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def refused(self) -> int:
        """How many connections were turned away.

        Reasons: too many, plain where TLS is required, or no handshake.
        """
        return self.places.turned_away + (0 if self._listener is None else self._listener.refused)

    @property
    def port(self) -> int:
        """The listening port; the kernel chose it if 0 was requested."""
        if self._listener is not None:
            return self._listener.port
        if self._server is None or not self._server.sockets:
            return 0
        return int(self._server.sockets[0].getsockname()[1])

    def keep(self, connection: Connection, *, kept: bool) -> None:
        """Say whether other connections give way, and lose their memory, before this one."""
        connection.is_kept = kept
        place = self.connections.get(connection)
        if place is not None:
            self.places.keep(place, kept=kept)

    async def close(self) -> None:
        """Stop listening, end every connection after its send buffer is empty, and wait for that."""
        self._closed = True
        if self._look_timer is not None:
            self._look_timer.cancel()
        if self._listener is not None:
            await self._listener.close()
        if self._server is not None:
            await _accept_no_more(self._server)
            self._server.close()
        open_now = list(self.connections)
        for connection in open_now:
            connection.close()
        if open_now:
            await asyncio.wait(
                [asyncio.ensure_future(connection.wait_closed()) for connection in open_now], timeout=1.0
            )
        for connection in open_now:
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()

    async def _listen(self, host: str, port: int, tls: ServerTls | None) -> None:
        loop = asyncio.get_running_loop()
        if self._bounds.deadlines is not None:
            self._look_timer = loop.call_later(LOOK_S, self._look, self._bounds.deadlines)
        # asyncio's own loop accepts all that wait in one turn; see `listener` for uvloop.
        if tls is None and isinstance(loop, asyncio.BaseEventLoop):
            hosts = listening_hosts(host, port)
            self._server = await loop.create_server(self._protocol, hosts, port, backlog=BACKLOG_MAX)
            return
        self._listener = Listener(
            self._protocol,
            None if tls is None else tls.context,
            plain_allowed=tls is None or tls.plain_allowed,
            places=self.places,
        )
        await self._listener.listen(host, port, BACKLOG_MAX)

    def _protocol(self, place: PortPlace | None = None) -> Connection:
        return Connection(
            on_made=partial(self._made, place),
            unsent_bytes_max=self._bounds.unsent_bytes_max,
            frame_bounds=self._bounds.frames,
            budget=self._bounds.budget,
            turns=self._turns,
        )

    def _made(self, place: PortPlace | None, connection: Connection) -> None:
        if self._closed:  # accepted by the loop before, made after
            connection.abort()
            return
        place = place or self.places.take(connection.peer.rpartition(":")[0])
        if place is None:
            connection.abort()
            return
        place.close = partial(connection.abort, DisplacedError("a younger connection took its place"))
        self.connections[connection] = place
        if self._bounds.deadlines is not None:
            self._silent[connection] = None
        connection.on_closed(self._ended)
        self._on_connection(connection)

    def _ended(self, connection: Connection, _reason: Exception | None) -> None:
        self.places.give_back(self.connections.pop(connection))
        self._silent.pop(connection, None)

    def _look(self, deadlines: ProgressDeadlines) -> None:
        """Close connections that pass a deadline: only one without a request, or that holds bytes, can."""
        loop = asyncio.get_running_loop()
        self._look_timer = loop.call_later(LOOK_S, self._look, deadlines)
        now_s = loop.time()
        budget = self._bounds.budget
        holders = () if budget is None else budget.holders
        for connection in [*self._silent, *(each for each in self.connections if each in holders)]:
            if (problem := connection.overdue(now_s, deadlines)) is not None:
                _log_overdue("closing the connection to %s: %s", connection.peer, problem)
                connection.abort(ConnectionClosedError(f"{connection.peer}: {problem}"))
            elif connection.has_requested:
                self._silent.pop(connection, None)


async def _accept_no_more(server: asyncio.Server) -> None:
    """Stop accepting, and let sockets accepted in this turn of the loop become connections.

    A server that is closed in between fails to make it (`Server._attach` of Python 3.11), and then no code
    closes its socket.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)


async def serve(
    host: str,
    port: int,
    on_connection: Callable[[Connection], object],
    bounds: PortBounds = DEFAULT_BOUNDS,
    *,
    tls: ServerTls | None = None,
) -> Server:
    """Listen on a port and hand each new connection to `on_connection`, which sets its `on_request`.

    Args:
        host: name or address to listen on; 0.0.0.0 or none is every interface, in IPv4 and IPv6.
        port: TCP port; 0 lets the kernel choose.
        on_connection: takes a new connection before its first request.
        bounds: what strangers may send and make this port hold.
        tls: with it, a connection that begins a TLS handshake speaks TLS.

    Raises:
        OSError: the port cannot be had.
    """
    server = Server(on_connection, bounds)
    await server._listen(host, port, tls)
    return server
