"""Controllers on loopback that take the heartbeats of a node agent, or refuse them; they keep the newest."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.node_bodies import NamedMember, read_heartbeat


@dataclass
class AgentTaker:
    """One controller.

    Attributes:
        token: it takes heartbeats with this token only.
        is_older: whether it knows no such request.
        members: as the newest heartbeat that it took names them.
        oneway: heartbeats that want no answer.
        asked: those that want one.
        codes: of all requests.
    """

    token: str = ""
    is_older: bool = False
    members: tuple[NamedMember, ...] = ()
    oneway: int = 0
    asked: int = 0
    codes: set[int] = field(default_factory=set)
    server: Server | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    def accept(self, connection: Connection) -> None:
        """Serve a connection."""
        connection.on_request = self._answer

    def _answer(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.codes.add(request.code)
        if request.is_oneway:
            self.oneway += 1
        else:
            self.asked += 1
        if self.is_older or request.code != RequestCode.NODE_HEARTBEAT:
            return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        if (request.ext or {}).get("rmqhaToken", "") != self.token:
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="wrong token")
        self.members = read_heartbeat(request.body).members
        return None if request.is_oneway else RemotingCommand.response_to(request, ResponseCode.SUCCESS)


@contextlib.asynccontextmanager
async def agent_takers(count: int, token: str = "") -> AsyncIterator[list[AgentTaker]]:
    """Run so many of them."""
    takers = [AgentTaker(token) for _ in range(count)]
    async with contextlib.AsyncExitStack() as stack:
        for taker in takers:
            taker.server = await serve("127.0.0.1", 0, taker.accept)
            stack.push_async_callback(taker.server.close)
        yield takers
