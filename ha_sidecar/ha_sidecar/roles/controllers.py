"""The replica's side of the controllers: one lasting connection to each, and calls to whoever leads.

To a controller a closed connection is a dead replica, so each connection is opened once and kept; heartbeats go over
all of them, which is what lets a follower take over with a live table. Calls go to the leader that the controllers
name, and find the new one when that fails.

Source: ReplicasManager.sendHeartbeatToController, updateControllerMetadata 5.4.0.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from controller_core.channel import ChannelError, Connection, connect
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import GetMetaDataResponseHeader

CONNECT_TIMEOUT_S: Final = 1.0
RECONNECT_S: Final = 0.2
RECONNECT_MAX_S: Final = 1.0
"""Between two tries at a controller that stays away: the list may name controllers that are not there yet."""
CALL_TIMEOUT_S: Final = 2.0
"""Below the 3 s in which Java's clients give a connection up."""
LEADER_TIMEOUT_S: Final = 0.5
CALL_ATTEMPTS_MAX: Final = 3

_log = logging.getLogger(__name__)


class ControllersUnavailableError(Exception):
    """No controller answered as the leader; try again later."""


@dataclass(frozen=True, slots=True)
class Answering:
    """How many controllers answered, of how many that there are."""

    count: int
    of: int

    @property
    def is_majority(self) -> bool:
        """Whether most of them answered."""
        return 2 * self.count > self.of


class Controllers:
    """All controllers of the cluster."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], on_connected: Callable[[Connection], None] | None = None
    ) -> None:
        """Name them; `on_connected` is called with each connection as it opens."""
        self._addresses: Final = tuple(addresses)
        self._on_connected: Final = on_connected
        self._open: Final[dict[str, Connection]] = {}
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._leader: str | None = None

    def start(self) -> None:
        """Begin to hold a connection to each."""
        self._tasks.extend(asyncio.create_task(self._hold(host, port)) for host, port in self._addresses)

    async def stop(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._open.values()):
            connection.close()

    def send_to_all(self, command: RemotingCommand) -> int:
        """Send a oneway request to each open connection; return how many there were."""
        sent = 0
        for connection in list(self._open.values()):
            with contextlib.suppress(ChannelError):
                connection.send_oneway(command)
                sent += 1
        return sent

    async def call(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request to the leader and return its answer, whatever its code but "not leader".

        Raises:
            ControllersUnavailableError: nobody answered as the leader.
        """
        problem = "no connection is open"
        for _ in range(CALL_ATTEMPTS_MAX):
            connection = await self._leader_connection()
            if connection is None:
                break
            try:
                answer = await connection.call(command, CALL_TIMEOUT_S)
            except ChannelError as error:
                problem = str(error)
            else:
                if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                    return answer
                problem = f"{connection.peer} does not lead"
            self._leader = None
        raise ControllersUnavailableError(problem)

    def forget_leader(self) -> None:
        """Ask anew who leads before the next call: what the one that was taken for it answered was of no use."""
        self._leader = None

    async def count_answering(self, timeout_s: float) -> Answering:
        """Ask every controller who leads; return how many answered in time, whatever they said.

        Of how many, they say themselves: the list that was given here may name some that are not there yet. Where they differ, as
        while their number changes, the largest counts: more must be heard for a majority then, not fewer.
        """

        async def members(connection: Connection) -> int | None:
            try:
                answer = await connection.call(
                    RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO), timeout_s
                )
                peers = GetMetaDataResponseHeader.from_ext(answer.ext).peers
            except ChannelError:
                return None
            except RemotingProtocolError:
                peers = None
            return len([peer for peer in re.split("[;,]", peers or "") if peer]) or len(self._addresses)

        told = await asyncio.gather(*(members(connection) for connection in list(self._open.values())))
        heard = [count for count in told if count is not None]
        return Answering(len(heard), max(heard, default=len(self._addresses)))

    async def _leader_connection(self) -> Connection | None:
        known = self._open.get(self._leader or "")
        if known is not None:
            return known
        answers = await asyncio.gather(*(self._ask_leader(address) for address in list(self._open)))
        for address in answers:
            if address is not None and address in self._open:
                self._leader = address
                return self._open[address]
        # Any controller of this project forwards to its leader, whatever address that one goes by.
        return next(iter(self._open.values()), None)

    async def _ask_leader(self, address: str) -> str | None:
        # Why get: it may have closed between the look at all of them and this task's first step.
        connection = self._open.get(address)
        if connection is None:
            return None
        try:
            answer = await connection.call(
                RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO), LEADER_TIMEOUT_S
            )
            header = GetMetaDataResponseHeader.from_ext(answer.ext)
        except (ChannelError, RemotingProtocolError):
            return None
        return address if header.is_leader else header.controller_leader_address

    async def _hold(self, host: str, port: int) -> None:
        address = f"{host}:{port}"
        pause_s = RECONNECT_S
        while True:
            try:
                connection = await connect(host, port, CONNECT_TIMEOUT_S)
            except ChannelError as error:
                _log.debug("controller %s: %s", address, error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RECONNECT_MAX_S)
                continue
            pause_s = RECONNECT_S
            self._open[address] = connection
            try:
                if self._on_connected is not None:
                    self._on_connected(connection)
                await connection.wait_closed()
            finally:
                self._open.pop(address, None)
                connection.close()
            await asyncio.sleep(RECONNECT_S)
