"""The route front's process: clients on one side, name servers on the other, addresses rewritten between.

A client takes the route front for its name server. Each request that reads goes to a name server as it came,
with its version, which decides the form of the answer. The answer returns with the listener's addresses
(`rewriting`). The route front keeps nothing, so any number of them serve one listener.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

import msgspec

from controller_core.channel import Connection, Server, serve
from controller_core.channel.deadlines import ProgressDeadlines
from controller_core.channel.endpoints import PortBounds
from controller_core.channel.log_rate import LogRate
from controller_core.channel.memory import MemoryBudget
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError, RemotingUsageError
from controller_core.remoting.frame import FrameBounds
from controller_core.route_front import requests
from controller_core.route_front.address_file import AddressFile
from controller_core.route_front.name_servers import NameServers, NoNameServerError
from controller_core.route_front.numbers import RequestNumbers, RequestResult
from controller_core.route_front.rewriting import UnreachableError, rewrite
from controller_core.route_front.settings import RouteFrontSettings
from controller_core.tls.serving import server_tls, use_tls

_log = logging.getLogger(__name__)
_log_failed = LogRate(_log, logging.WARNING)


class RouteFront:
    """A listening route front; made by `start`.

    Attributes:
        file: the listener's addresses.
        numbers: counts of requests by result.
    """

    def __init__(self, settings: RouteFrontSettings) -> None:
        """Read the address file; nothing listens yet.

        Raises:
            AddressesError: the address file is wrong.
            OSError: it cannot be read.
        """
        self.file: Final = AddressFile(settings.addresses)
        self.numbers: Final = RequestNumbers()
        self._settings: Final = settings
        self._name_servers: Final = NameServers(settings.name_servers, settings.bounds)
        self._waiting: Final[dict[Connection, int]] = {}
        self._waiting_all = 0
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._server: Server | None = None

    @property
    def port(self) -> int:
        """The port for clients; 0 before `start`."""
        return 0 if self._server is None else self._server.port

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return 0 if self._server is None else len(self._server.connections)

    @property
    def connections_refused(self) -> int:
        """How many clients were turned away since the start."""
        return 0 if self._server is None else self._server.refused

    async def start(self) -> None:
        """Listen for clients, and follow the address file.

        Raises:
            OSError: the port cannot be had.
            UnusableCertificatesError: a certificate cannot be read.
        """
        bounds, tls = self._settings.bounds, use_tls(self._settings.tls, self._settings.tls_mode)
        self._server = await serve(
            *self._settings.listen,
            self._adopt,
            PortBounds(
                connections_max=bounds.connections_max,
                frames=FrameBounds(bounds.request_bytes_max),
                unsent_bytes_max=bounds.unsent_bytes_max,
                budget=MemoryBudget(bounds.held_bytes_max),
                deadlines=ProgressDeadlines(),
                shares_turns=True,
            ),
            tls=server_tls(tls),
        )
        if tls is not None:
            self._begin(tls.watch())
        self._begin(self.file.follow(bounds.reload_s))

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            await self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._name_servers.close()

    async def why_not_ready(self) -> str:
        """Return why clients would not get a route from here; empty if they get one."""
        if not len(self.file.addresses):
            return "the listener does not have addresses yet"
        try:
            await self._name_servers.reach()
        except NoNameServerError as error:
            return f"no name server accepts: {error}"
        return ""

    def _adopt(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Refuse a request at once, or begin to ask a name server."""
        if request.is_oneway:  # a request that reads and wants no answer
            return None
        if (problem := requests.refusal(request.code)) is not None:
            self.numbers.count(RequestResult.REFUSED)
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark=problem)
        if self._is_busy(connection):
            self.numbers.count(RequestResult.BUSY)
            return RemotingCommand.response_to(
                request, ResponseCode.SYSTEM_BUSY, remark="too many requests wait for a name server"
            )
        self._waiting_all += 1
        self._waiting[connection] = self._waiting.get(connection, 0) + 1
        connection.hold(request.size_bytes())
        self._begin(self._pass(connection, request))
        return None

    def _is_busy(self, connection: Connection) -> bool:
        """Tell whether a request of this client is one too many."""
        bounds = self._settings.bounds
        return (
            self._waiting_all >= bounds.requests_max
            or self._waiting.get(connection, 0) >= bounds.client_requests_max
        )

    async def _pass(self, connection: Connection, request: RemotingCommand) -> None:
        try:
            answer = await self._answer(request)
        finally:
            self._waiting_all -= 1
            self._waiting[connection] -= 1
            if not self._waiting[connection]:
                del self._waiting[connection]
            connection.hold(-request.size_bytes())
        if connection.is_closed:
            return
        try:
            connection.send(answer)
        except RemotingUsageError as error:
            _log.error("an answer to request %d cannot be sent: %s", request.code, error)
            connection.abort(error)

    async def _answer(self, request: RemotingCommand) -> RemotingCommand:
        """Return what a client gets; never raises for what a peer sends."""
        try:
            received = await self._name_servers.ask(msgspec.structs.replace(request, flag=0))
            answer = rewrite(request.code, received, self.file.addresses)
        except NoNameServerError as error:
            return self._failed(request, RequestResult.UNANSWERED, f"no name server answered: {error}")
        except UnreachableError as error:
            return self._failed(request, RequestResult.UNREACHABLE, str(error))
        except BodyError as error:
            return self._failed(
                request, RequestResult.UNREADABLE, f"the name server's answer is wrong: {error}"
            )
        self.numbers.count(RequestResult.ANSWERED)
        return answer.with_opaque(request.opaque)

    def _failed(self, request: RemotingCommand, result: RequestResult, problem: str) -> RemotingCommand:
        self.numbers.count(result)
        _log_failed("request %d: %s", request.code, problem)
        return RemotingCommand.response_to(request, ResponseCode.SYSTEM_ERROR, remark=problem)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
