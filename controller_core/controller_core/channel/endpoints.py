"""Making connections: dialling one, and accepting many.

`connect` bounds name resolution and the TCP handshake by one timeout. `serve` keeps account of what it
accepted, so that closing the server also ends its connections, and refuses more than `connections_max`.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller_core.channel.connection import UNSENT_BYTES_MAX, Connection, RequestHandler, refuse
from controller_core.channel.errors import ConnectError, PortClosedError
from controller_core.channel.listener import Listener
from controller_core.remoting.frame import FRAME_BYTES_MAX

CONNECTIONS_MAX: Final = 10_000
"""Connections that one server accepts at a time."""
BACKLOG_MAX: Final = 1_024
"""Connections that the kernel may hold before they are accepted: all brokers of a fleet may return at
once."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS on a listening port; the first byte of each connection decides whether it is spoken.

    Attributes:
        context: of the server's side.
        plain_allowed: whether plain TCP is served too.
    """

    context: ssl.SSLContext
    plain_allowed: bool = True


async def connect(
    host: str,
    port: int,
    timeout_s: float,
    *,
    on_request: RequestHandler = refuse,
    unsent_bytes_max: int = UNSENT_BYTES_MAX,
    client_ssl: ssl.SSLContext | None = None,
) -> Connection:
    """Dial a peer and return the connection.

    Args:
        host: name or address of the peer.
        port: its TCP port.
        timeout_s: bound on resolution and handshake together, in seconds.
        on_request: handler of the peer's own requests; by default each is answered with code 3.
        unsent_bytes_max: bytes that may wait for the peer before it is cut off.
        client_ssl: TLS; None for plain TCP.

    Raises:
        PortClosedError: no process listens there.
        ConnectError: unreachable, unresolved or not within `timeout_s`.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await loop.create_connection(
                lambda: Connection(on_request, unsent_bytes_max=unsent_bytes_max), host, port, ssl=client_ssl
            )
    except TimeoutError as error:
        raise ConnectError(f"{host}:{port} did not accept within {timeout_s} s") from error
    except ConnectionRefusedError as error:
        raise PortClosedError(f"{host}:{port}: {error}") from error
    except OSError as error:
        raise ConnectError(f"{host}:{port}: {error}") from error
    return connection


class Server:
    """A listening port and the connections it accepted; made by `serve`.

    Attributes:
        connections: those open now.
        turned_away: how many were turned away because `connections_max` were open.
    """

    def __init__(
        self,
        on_connection: Callable[[Connection], object],
        *,
        connections_max: int,
        unsent_bytes_max: int,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.connections: set[Connection] = set()
        self.turned_away = 0
        self._on_connection = on_connection
        self._connections_max = connections_max
        self._unsent_bytes_max = unsent_bytes_max
        self._frame_bytes_max = frame_bytes_max
        self._server: asyncio.Server | None = None
        self._listener: Listener | None = None
        self._closed = False

    @property
    def refused(self) -> int:
        """How many connections were turned away.

        Reasons: too many, plain where TLS is required, or no handshake.
        """
        return self.turned_away + (0 if self._listener is None else self._listener.refused)

    @property
    def port(self) -> int:
        """The listening port; the kernel chose it if 0 was requested."""
        if self._listener is not None:
            return self._listener.port
        if self._server is None or not self._server.sockets:
            return 0
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, end every connection after its send buffer is empty, and wait for that."""
        self._closed = True
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
        def made() -> Connection:
            return Connection(
                on_made=self._made,
                unsent_bytes_max=self._unsent_bytes_max,
                frame_bytes_max=self._frame_bytes_max,
            )

        loop = asyncio.get_running_loop()
        # asyncio's own loop accepts all that wait in one turn; see `listener` for uvloop.
        if tls is None and isinstance(loop, asyncio.BaseEventLoop):
            self._server = await loop.create_server(made, host, port, backlog=BACKLOG_MAX)
            return
        self._listener = Listener(
            made,
            None if tls is None else tls.context,
            plain_allowed=tls is None or tls.plain_allowed,
            waiting_max=self._connections_max,
        )
        await self._listener.listen(host, port, BACKLOG_MAX)

    def _made(self, connection: Connection) -> None:
        if self._closed:  # accepted by the loop before, made after
            connection.abort()
            return
        if len(self.connections) >= self._connections_max:
            self.turned_away += 1
            connection.abort()
            return
        self.connections.add(connection)
        connection.on_closed(lambda closed, _reason: self.connections.discard(closed))
        self._on_connection(connection)


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
    *,
    connections_max: int = CONNECTIONS_MAX,
    unsent_bytes_max: int = UNSENT_BYTES_MAX,
    frame_bytes_max: int = FRAME_BYTES_MAX,
    tls: ServerTls | None = None,
) -> Server:
    """Listen on a port and hand each new connection to `on_connection`, which sets its `on_request`.

    Args:
        host: name or address to listen on.
        port: TCP port; 0 lets the kernel choose.
        on_connection: takes a new connection before its first request.
        connections_max: connections at a time; more are closed and counted.
        unsent_bytes_max: bytes that may wait for a peer before it is cut off.
        frame_bytes_max: a longer request is damage, and ends its connection.
        tls: with it, a connection that begins a TLS handshake speaks TLS.

    Raises:
        OSError: the port cannot be had.
    """
    server = Server(
        on_connection,
        connections_max=connections_max,
        unsent_bytes_max=unsent_bytes_max,
        frame_bytes_max=frame_bytes_max,
    )
    await server._listen(host, port, tls)
    return server
