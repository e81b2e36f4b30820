"""The remoting port: connections in, each request to the handlers, each answer out in time.

A connection has a number for the liveness table: what beats over it lives and dies with it. Answers that need
waiting run in tasks of their own, so pipelined requests never wait for one another; those that wait for their
command or index alone need no task (`direct`). A oneway request is never answered, whatever became of it.

Bounds: `REQUESTS_WAITING_MAX` requests may wait in tasks at a time; beyond, a request is answered with code 2
(busy) at once. The log bounds those that wait without a task (`PROPOSALS_MAX`). What strangers may send and
make this port hold is in `limits`; connections of living members keep their places.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Final

from controller_core import limits
from controller_core.channel.connection import Connection
from controller_core.channel.deadlines import ProgressDeadlines
from controller_core.channel.endpoints import PortBounds, Server, serve
from controller_core.channel.errors import ConnectionClosedError
from controller_core.channel.memory import MemoryBudget
from controller_core.channel.open_files import connections_allowed
from controller_core.groups.liveness.holders import NO_CHANNEL_ID
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand, failure
from controller_core.remoting.errors import FrameError, RemotingProtocolError
from controller_core.remoting.frame import CONTROL_BOUNDS, PreparedAnswer
from controller_core.server.common.metrics import Metrics, PortNumbers
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.requests import older_protocol
from controller_core.server.requests.direct.waiting_request import WaitingRequest
from controller_core.server.requests.handlers import Handlers
from controller_core.server.requests.sender_rules import SenderRules
from controller_core.tls.serving import ServerTls

BUSY_REMARK: Final = "the controller is busy, try later"

_log = logging.getLogger(__name__)


class RemotingServer:
    """Serves RocketMQ's requests on one port."""

    def __init__(
        self, handlers: Handlers, heartbeats: HeartbeatReceiver, metrics: Metrics, rules: SenderRules
    ) -> None:
        self._handlers = handlers
        self._rules = rules
        self._heartbeats = heartbeats
        self._metrics = metrics
        self._channel_ids = itertools.count(NO_CHANNEL_ID + 1)
        self._connections: dict[int, Connection] = {}
        heartbeats.table.holders.on_channel = self._keep
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Server | None = None
        self._stopping = False
        self._broken = 0
        self.budget = MemoryBudget(limits.HELD_BYTES_MAX)

    async def start(
        self, host: str, port: int, tls: ServerTls | None = None, *, source_connections_max: int
    ) -> None:
        """Listen; a port in use raises OSError."""
        bounds = PortBounds(
            connections_max=connections_allowed(limits.CONNECTIONS_MAX),
            source_connections_max=source_connections_max,
            frames=CONTROL_BOUNDS,
            unsent_bytes_max=limits.UNSENT_ANSWERS_BYTES_MAX,
            budget=self.budget,
            deadlines=ProgressDeadlines(),
            shares_turns=True,
        )
        self._server = await serve(host, port, self._on_connection, bounds, tls=tls)

    def numbers(self) -> PortNumbers:
        """Return the connections that are open, and those turned away so far."""
        server = self._server
        if server is None:
            return PortNumbers(0, 0, self._broken)
        return PortNumbers(len(server.connections), server.refused, self._broken)

    async def stop(self) -> None:
        """Close every connection. What that says about brokers is not heard: it is we who go."""
        self._stopping = True
        if self._server is not None:
            await self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_connection(self, connection: Connection) -> None:
        channel_id = next(self._channel_ids)
        self._connections[channel_id] = connection
        self._heartbeats.channel_opened(channel_id, connection.peer)
        connection.on_request = partial(self._on_request, channel_id)
        connection.on_closed(lambda _connection, reason: self._on_closed(channel_id, reason))

    def _keep(self, channel_id: int, carries_members: bool) -> None:
        connection = self._connections.get(channel_id)
        if connection is not None and self._server is not None:
            self._server.keep(connection, kept=carries_members)

    def _on_closed(self, channel_id: int, reason: Exception | None) -> None:
        del self._connections[channel_id]
        if isinstance(reason, FrameError | ConnectionClosedError):
            self._broken += 1
        if not self._stopping:
            self._heartbeats.channel_closed(channel_id)

    def _on_request(
        self, channel_id: int, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | PreparedAnswer | None:
        try:
            refusal = self._rules.refusal(channel_id, request, connection.certificate)
            answer = refusal or self._handlers.handle(channel_id, request)
        except RemotingProtocolError as error:
            answer = older_protocol.refusal(request, error)
        if isinstance(answer, PreparedAnswer):
            self._metrics.request(request.code, answer.command.code)
            return answer
        if answer is None or isinstance(answer, RemotingCommand):
            self._metrics.request(request.code, None if answer is None else answer.code)
            return answer
        if isinstance(answer, WaitingRequest):
            request_bytes = request.size_bytes()
            connection.hold(request_bytes)
            answer.on_answer = partial(self._answered, connection, request, request_bytes)
            answer.on_again = partial(self._again, channel_id, connection, answer, request_bytes)
            return None
        if len(self._tasks) >= limits.REQUESTS_WAITING_MAX:
            answer.close()
            self._metrics.request(request.code, ResponseCode.SYSTEM_BUSY)
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_BUSY, remark=BUSY_REMARK)
        request_bytes = request.size_bytes()
        connection.hold(request_bytes)
        self._run(connection, request, request_bytes, answer)
        return None

    def _answered(
        self,
        connection: Connection,
        request: RemotingCommand,
        request_bytes: int,
        response: RemotingCommand | PreparedAnswer,
    ) -> None:
        connection.hold(-request_bytes)
        code = response.command.code if isinstance(response, PreparedAnswer) else response.code
        self._metrics.request(request.code, None if request.is_oneway else code)
        if not request.is_oneway and not connection.is_closed:
            connection.answer(request, response)

    def _again(
        self, channel_id: int, connection: Connection, waiting: WaitingRequest, request_bytes: int
    ) -> None:
        """Serve a request another way."""
        if self._stopping:
            connection.hold(-request_bytes)
        else:
            self._run(connection, waiting.request, request_bytes, self._handlers.again(channel_id, waiting))

    def _run(
        self,
        connection: Connection,
        request: RemotingCommand,
        request_bytes: int,
        answer: Coroutine[object, object, RemotingCommand],
    ) -> None:
        task = asyncio.create_task(self._finish(connection, request, answer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._finished, connection, request_bytes))

    def _finished(self, connection: Connection, request_bytes: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        connection.hold(-request_bytes)

    async def _finish(
        self,
        connection: Connection,
        request: RemotingCommand,
        answer: Coroutine[object, object, RemotingCommand],
    ) -> None:
        try:
            response = await answer
        except RemotingProtocolError as error:
            response = older_protocol.refusal(request, error)
        except Exception as error:
            _log.exception("request %d from %s failed", request.code, connection.peer)
            response = failure(request, error)
        self._metrics.request(request.code, None if request.is_oneway else response.code)
        if not request.is_oneway:
            with contextlib.suppress(ConnectionClosedError):
                connection.send(response)
