"""A name server whose routes name one broker twice: as master at one address, and as slave at another.

It asks a real name server and changes its routes. So clients are connected to one broker by two addresses, as
they are on Kubernetes while the address of a dead master leads to its successor.
"""

import asyncio
import json
from typing import Final, Self

from msgspec import structs

from controller_core.channel import Connection, Server, connect, serve
from controller_core.remoting import lenient_json
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.address import host_port

_WITHIN_S: Final = 5.0


class TwoAddressRoutes:
    """The name server; an async context manager.

    Attributes:
        address: host:port.
    """

    def __init__(self, name_server: str, master: str, slave: str) -> None:
        """Take the real name server, and where clients find the broker (host:port each)."""
        self.address = ""
        self._name_server: Final = name_server
        self._addresses: Final = {"0": master, "1": slave}
        self._server: Server | None = None
        self._real: Connection | None = None
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._real = await connect(*host_port(self._name_server), _WITHIN_S)
        self._server = await serve("127.0.0.1", 0, self._adopt)
        self.address = f"127.0.0.1:{self._server.port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.close()
        if self._real is not None:
            self._real.close()

    def _adopt(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, connection: Connection, request: RemotingCommand) -> None:
        task = asyncio.get_running_loop().create_task(self._pass(connection, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, connection: Connection, request: RemotingCommand) -> None:
        assert self._real is not None
        answer = await self._real.call(request, _WITHIN_S)
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and answer.code == ResponseCode.SUCCESS:
            route = lenient_json.decode(answer.body)
            for broker in route["brokerDatas"]:
                broker["brokerAddrs"] = self._addresses
            answer = structs.replace(answer, body=json.dumps(route).encode())
        connection.send(answer.with_opaque(request.opaque))
