"""The remoting port: connections in, each request to the handlers, each answer out in time.

A connection has a number for the liveness table: what beats over it lives and dies with it. Answers that need
waiting run in tasks of their own, so pipelined requests never wait for one another. A oneway request is never
answered, whatever became of it.

Bound: `REQUESTS_WAITING_MAX` requests may wait at a time; beyond, a request is answered with code 2 (busy) at
once.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Final

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import Server, ServerTls, serve
from controller_core.channel.errors import ConnectionClosedError
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import FrameError, RemotingProtocolError
from controller_core.remoting.frame import PreparedAnswer
from controller_core.server.common.metrics import Metrics, PortNumbers
from controller_core.server.elections.heartbeats import NO_CHANNEL_ID, HeartbeatReceiver
from controller_core.server.requests.handlers import Handlers

REQUESTS_WAITING_MAX: Final = 50_000
ANSWERS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Answers that may wait for a client that does not read: some times the largest one."""
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest is a 1006 that names all groups: 10,000 names are some 300 kB."""
BUSY_REMARK: Final = "the controller is busy, try later"

_log = logging.getLogger(__name__)


class RemotingServer:
    """Serves RocketMQ's requests on one port."""

    def __init__(self, handlers: Handlers, heartbeats: HeartbeatReceiver, metrics: Metrics) -> None:
        self._handlers = handlers
        self._heartbeats = heartbeats
        self._metrics = metrics
        self._channel_ids = itertools.count(NO_CHANNEL_ID + 1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Server | None = None
        self._stopping = False
        self._broken = 0

    async def start(self, host: str, port: int, tls: ServerTls | None = None) -> None:
        """Listen; a port in use raises OSError."""
        self._server = await serve(
            host,
            port,
            self._on_connection,
            unsent_bytes_max=ANSWERS_BYTES_MAX,
            frame_bytes_max=REQUEST_BYTES_MAX,
            tls=tls,
        )

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
        self._heartbeats.channel_opened(channel_id, connection.peer)
        connection.on_request = partial(self._on_request, channel_id)
        connection.on_closed(lambda _connection, reason: self._on_closed(channel_id, reason))

    def _on_closed(self, channel_id: int, reason: Exception | None) -> None:
        if isinstance(reason, FrameError | ConnectionClosedError):
            self._broken += 1
        if not self._stopping:
            self._heartbeats.channel_closed(channel_id)

    def _on_request(
        self, channel_id: int, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | PreparedAnswer | None:
        try:
            answer = self._handlers.handle(channel_id, request)
        except RemotingProtocolError as error:
            answer = _failure(request, error)
        if isinstance(answer, PreparedAnswer):
            self._metrics.request(request.code, answer.command.code)
            return answer
        if answer is None or isinstance(answer, RemotingCommand):
            self._metrics.request(request.code, None if answer is None else answer.code)
            return answer
        if len(self._tasks) >= REQUESTS_WAITING_MAX:
            answer.close()
            self._metrics.request(request.code, ResponseCode.SYSTEM_BUSY)
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_BUSY, remark=BUSY_REMARK)
        task = asyncio.create_task(self._finish(connection, request, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None

    async def _finish(
        self,
        connection: Connection,
        request: RemotingCommand,
        answer: Coroutine[object, object, RemotingCommand],
    ) -> None:
        try:
            response = await answer
        except RemotingProtocolError as error:
            response = _failure(request, error)
        except Exception as error:
            _log.exception("request %d from %s failed", request.code, connection.peer)
            response = _failure(request, error)
        self._metrics.request(request.code, None if request.is_oneway else response.code)
        if not request.is_oneway:
            with contextlib.suppress(ConnectionClosedError):
                connection.send(response)


def _failure(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Answer as Java does when a handler throws: code 1 and the exception's text."""
    return RemotingCommand.response_to(
        request, ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}"
    )
