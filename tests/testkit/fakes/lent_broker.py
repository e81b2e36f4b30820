"""A broker whose announced address leads to another one, as a replaced master's may on Kubernetes."""

import asyncio
from typing import Final

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.command import RemotingCommand
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

LENT_HOST: Final = "127.0.0.2"


class Tenant:
    """A broker that holds another broker's address for a while."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[RemotingCommand] = asyncio.Queue()
        self.dialled = asyncio.Event()
        self._server: Server | None = None

    async def take(self, port: int) -> None:
        """Listen at that port of the address."""
        self._server = await serve(LENT_HOST, port, self._on_connection)

    async def leave(self) -> None:
        """Listen no more."""
        if self._server is not None:
            await self._server.close()

    def _on_connection(self, connection: Connection) -> None:
        self.dialled.set()
        connection.on_request = self._on_request

    def _on_request(self, _connection: Connection, request: RemotingCommand) -> None:
        self.heard.put_nowait(request)


class LentBroker(FakeBroker):
    """A broker that announces an address which a tenant has."""

    def __init__(self, one: OneNode, group: str = "b1") -> None:
        super().__init__([one.remoting], group, beat_interval_s=0.05)
        self.tenant = Tenant()

    @property
    def address(self) -> str:
        """What it announces; it listens at the same port of its own host."""
        return f"{LENT_HOST}:{self._port}"

    @property
    def host_itself(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    @property
    def _port(self) -> int:
        return int(super().address.rpartition(":")[2])

    async def start(self, *, register: bool = True) -> None:
        """Listen, have the tenant listen too, and register."""
        await super().start(register=False)
        await self.tenant.take(self._port)
        if register:
            await self.register()
            self._beating = asyncio.create_task(self._beat_for_ever())
