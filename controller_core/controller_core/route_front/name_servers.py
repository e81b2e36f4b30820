"""Asks one of several name servers: the one that answered last, and the others in turn if it does not.

All of them know all brokers, so any answer serves. Each try has its time, and all tries together have
another: a client must get an answer, or an error, before it stops waiting. One connection to one name server
carries the requests of all clients.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from controller_core.channel import ChannelError, Connection, connect
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.host_port import HostPort
from controller_core.route_front.settings import RouteFrontBounds

TRIES_MIN: Final = 2
"""With one name server: a connection may have ended since the last request."""

_log = logging.getLogger(__name__)


class NoNameServerError(Exception):
    """None of the name servers answered in time; the text has the last problem."""


class NameServers:
    """The name servers behind a route front; event loop's thread only."""

    def __init__(self, addresses: Sequence[HostPort], bounds: RouteFrontBounds) -> None:
        """Name the addresses; nothing is dialled yet."""
        self._addresses: Final = tuple(addresses)
        self._bounds: Final = bounds
        self._current = 0
        self._connection: Connection | None = None
        self._dialling = asyncio.Lock()

    @property
    def current(self) -> HostPort:
        """The name server that is asked first."""
        return self._addresses[self._current]

    async def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Return the answer of the first name server that gives one, whatever its code.

        Raises:
            NoNameServerError: none did in time.
        """
        problem = "no name server was tried"
        try:
            async with asyncio.timeout(self._bounds.answer_s):
                for _ in range(max(TRIES_MIN, len(self._addresses))):
                    try:
                        connection = await self._connected()
                    except ChannelError as error:
                        problem = str(error)
                        continue
                    try:
                        return await connection.call(request, self._bounds.try_s)
                    except ChannelError as error:
                        problem = str(error)
                        self._leave(connection, problem)
        except TimeoutError:
            problem = f"{problem}; {self._bounds.answer_s} s are over"
        raise NoNameServerError(problem)

    async def reach(self) -> None:
        """Connect to a name server unless a connection is open.

        Raises:
            NoNameServerError: none accepts.
        """
        problem = ""
        for _ in self._addresses:
            try:
                await self._connected()
            except ChannelError as error:
                problem = str(error)
            else:
                return
        raise NoNameServerError(problem)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        """Return the connection to the current name server; requests that come together dial once.

        Raises:
            ConnectError: it does not accept; the next name server is the current one then.
        """
        async with self._dialling:
            if self._connection is None or self._connection.is_closed:
                try:
                    self._connection = await connect(*self.current, self._bounds.connect_s)
                except ChannelError as error:
                    self._go_on(str(error))
                    raise
            return self._connection

    def _leave(self, connection: Connection, problem: str) -> None:
        """Leave the name server of a connection, unless another request has done so."""
        if connection is not self._connection:
            return
        # A connection on which an answer is late may be one to a host that is gone.
        self.close()
        self._go_on(problem)

    def _go_on(self, problem: str) -> None:
        self._current = (self._current + 1) % len(self._addresses)
        _log.warning("leaving a name server: %s", problem)
