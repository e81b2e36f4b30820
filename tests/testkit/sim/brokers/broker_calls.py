"""A modelled broker's connections to the controllers, used as RocketMQ's client uses them.

It asks the leader as far as it knows one, else any controller. A call that is not answered within 3 s closes
the connection: that is how a slow controller comes to take its brokers for dead.

Source: RocketMQ 5.4.0 NettyRemotingClient.invokeSync, BrokerOuterAPI.java.
"""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.header import Header

BEAT_S = 1.0
CALL_TIMEOUT_S = 3.0
DIAL_TIMEOUT_S = 1.0
FAILED = (ChannelError, ConnectionError, TimeoutError)
"""What a call that came to nothing raises."""


class ControllerLinks:
    """One process's connections to all controllers."""

    def __init__(self, addresses: list[str], random: Random, beat_s: float = BEAT_S) -> None:
        self.addresses = addresses
        self._connections: dict[str, Connection] = {}
        self._leader = ""
        self._random = random
        self._beat_s = beat_s

    async def keep(self, address: str, beat: Callable[[str], None]) -> None:
        """Dial a controller whenever it is not connected, and let `beat` speak to it regularly."""
        host, _, port = address.rpartition(":")
        while True:
            if not self.is_open(address):
                with contextlib.suppress(*FAILED):
                    self._connections[address] = await connect(host, int(port), DIAL_TIMEOUT_S)
            beat(address)
            await asyncio.sleep(self._beat_s * self._random.uniform(0.95, 1.05))

    def send_oneway(self, address: str, request: RemotingCommand) -> None:
        """Tell a controller something, if it is connected."""
        if self.is_open(address):
            self._connections[address].send_oneway(request)

    async def call(self, code: int, header: Header | None, body: bytes = b"") -> RemotingCommand:
        """Ask the leader as far as known, else any controller; a silent one is hung up on."""
        open_now = [one for one in self.addresses if self.is_open(one)]
        if not open_now:
            raise ConnectionError("no controller is connected")
        address = self._leader if self._leader in open_now else self._random.choice(open_now)
        connection = self._connections[address]
        try:
            request = RemotingCommand.request(code, None if header is None else header.to_ext(), body)
            answer = await connection.call(request, CALL_TIMEOUT_S)
        except ChannelError:
            connection.abort()
            self._leader = ""
            raise
        if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._leader = ""
        return answer

    def is_open(self, address: str) -> bool:
        """Say whether a controller is connected."""
        connection = self._connections.get(address)
        return connection is not None and not connection.is_closed

    async def find_leader(self) -> None:
        """Ask who leads (1005)."""
        answer = await self.call(RequestCode.CONTROLLER_GET_METADATA_INFO, None)
        self._leader = headers.GetMetaDataResponseHeader.from_ext(answer.ext).controller_leader_address or ""
