"""One lasting connection to each controller.

To a controller a closed connection is a dead replica, so each connection is opened once and kept; heartbeats
go over all of them, which is what lets a follower take over with a live table. A connection that closes is
opened again, more and more rarely while the controller stays away.

Never here: which controller leads, or whose answer counts (`controllers`).

Source: ReplicasManager.sendHeartbeatToController 5.4.0.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from controller_core.channel import ChannelError, Connection, ConnectionClosedError, connect
from controller_core.channel.errors import PortClosedError
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.host_port import join_host_port

CONNECT_TIMEOUT_S: Final = 1.0
RECONNECT_S: Final = 0.2
RECONNECT_MAX_S: Final = 1.0
"""Between two tries at a controller that stays away: the list may name controllers that are not there yet."""

_log = logging.getLogger(__name__)


class LastingLinks:
    """The connections to all controllers.

    Attributes:
        open: the connections that are open now, by address.
    """

    def __init__(
        self, addresses: Sequence[tuple[str, int]], on_connected: Callable[[Connection], None] | None = None
    ) -> None:
        """Name them; `on_connected` is called with each connection as it opens."""
        self.open: Final[dict[str, Connection]] = {}
        self._addresses: Final = tuple(addresses)
        self._on_connected: Final = on_connected
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._closed_since_s: Final[dict[str, float]] = {}
        self._untried: Final = {join_host_port(*one) for one in self._addresses}
        self._all_tried: Final = asyncio.Event()

    def start(self) -> None:
        """Begin to hold a connection to each."""
        self._tasks.extend(asyncio.create_task(self._hold(host, port)) for host, port in self._addresses)

    async def stop(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self.open.values()):
            connection.close()

    def send_to_all(self, command: RemotingCommand) -> int:
        """Send a oneway request to each open connection; return how many there were."""
        sent = 0
        for connection in list(self.open.values()):
            with contextlib.suppress(ChannelError):
                connection.send_oneway(command)
                sent += 1
        return sent

    def send_to(self, addresses: Collection[str], command: RemotingCommand) -> None:
        """Send a oneway request to those of some controllers that are connected."""
        for address in addresses:
            connection = self.open.get(address)
            if connection is not None:
                with contextlib.suppress(ChannelError):
                    connection.send_oneway(command)

    async def ask_at(self, address: str, question: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Return the answer of the controller at one of our addresses, `host:port`.

        Raises:
            ChannelError: no connection to it is open, or no answer came in time.
        """
        connection = self.open.get(address)
        if connection is None:
            raise ConnectionClosedError(f"no connection to {address} is open")
        return await connection.call(question, timeout_s)

    def port_closed_for_s(self, address: str) -> float | None:
        """Return how long ago the last attempt began at which no process listened at an address.

        None if the last attempt had another result.
        """
        tried_s = self._closed_since_s.get(address)
        return None if tried_s is None else asyncio.get_running_loop().time() - tried_s

    async def wait_tried(self) -> None:
        """Wait until each address was dialled once, so that the first connections are not taken for all."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._all_tried.wait()

    def _note_tried(self, address: str) -> None:
        self._untried.discard(address)
        if not self._untried:
            self._all_tried.set()

    async def _hold(self, host: str, port: int) -> None:
        address = join_host_port(host, port)
        pause_s = RECONNECT_S
        while True:
            tried_s = asyncio.get_running_loop().time()
            try:
                connection = await connect(host, port, CONNECT_TIMEOUT_S)
            except ChannelError as error:
                _log.debug("controller %s: %s", address, error)
                self._closed_since_s.pop(address, None)
                if isinstance(error, PortClosedError):
                    self._closed_since_s[address] = tried_s
                self._note_tried(address)
                took_s = asyncio.get_running_loop().time() - tried_s
                await asyncio.sleep(max(RECONNECT_S, pause_s - took_s))
                pause_s = min(pause_s * 2, RECONNECT_MAX_S)
                continue
            pause_s = RECONNECT_S
            self._closed_since_s.pop(address, None)
            self.open[address] = connection
            self._note_tried(address)
            try:
                if self._on_connected is not None:
                    self._on_connected(connection)
                await connection.wait_closed()
            finally:
                self.open.pop(address, None)
                connection.close()
            await asyncio.sleep(RECONNECT_S)
