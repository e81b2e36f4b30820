"""One TCP connection that speaks remoting, at either end.

RocketMQ's connections are symmetric: either side may send requests, whichever side connected, and must
answer those of the other. So there is one class. A request gets a fresh opaque; the answer with that opaque
resolves the caller's future; answers come in any order.

What happens on the event loop, and only there:

- *Reading*: bytes go to the decoder; answers wake their callers, requests go to `on_request` at once, in
  order. The handler is a plain function: it returns the answer, or None and sees to the answer itself (a task
  that calls `send`).
- *Writing*: all that one turn of the loop sends becomes one write to the transport. A hundred answers to a
  hundred pipelined requests cost one system call. Answers that handlers return leave as soon as the bytes
  just read are done.
- *Ending*: the connection is over once, for one reason. Every waiting caller gets `ConnectionClosedError`,
  then the `on_closed` callbacks run.

Bounds: a peer that does not read what it is sent is cut off when more than `UNSENT_BYTES_MAX` wait for it; a
frame is bounded by the codec; calls in flight are bounded by their timeouts, each at most
`CALLS_IN_FLIGHT_MAX` a connection. A server adds a memory budget for all its connections (`memory`) and
deadlines for progress (`deadlines`).

Never: closing because nothing is said after a request. To a Java controller's brokers a closed connection
means a dead peer, so idling out would cause failovers; TCP keep-alive and the heartbeats of the layer above
find dead hosts. A call that times out leaves the connection open, and its late answer is dropped.

Not: pausing reads while writes are stuck. Two peers that both did so would wait for one another for ever.

Source: NettyRemotingAbstract.java (matching by opaque, oneway, exceptions answered with code 1).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from controller_core.access.signing import Sign
from controller_core.channel.deadlines import ConnectionProgress, ProgressDeadlines
from controller_core.channel.errors import CallTimeoutError, ConnectionClosedError
from controller_core.channel.log_rate import LogRate
from controller_core.channel.memory import MemoryBudget
from controller_core.channel.sockets import address_text, set_options
from controller_core.channel.turns import Turns
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand, failure
from controller_core.remoting.errors import FrameError, RemotingProtocolError, RemotingUsageError
from controller_core.remoting.frame import ANY_FRAMES, FrameBounds, FrameDecoder, PreparedAnswer, encode

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that may wait for one peer; four of the largest frames."""
CALLS_IN_FLIGHT_MAX: Final = 65_536
"""Calls of one connection that may wait for their answers."""
_OPAQUE_MAX: Final = 2**31 - 1

RequestHandler = Callable[["Connection", RemotingCommand], RemotingCommand | PreparedAnswer | None]
ClosedCallback = Callable[["Connection", Exception | None], object]

_log = logging.getLogger(__name__)
_log_closed = LogRate(_log, logging.WARNING)


def refuse(_connection: "Connection", request: RemotingCommand) -> RemotingCommand:
    """Answer any request with code 3, in Java's words."""
    return RemotingCommand.response_to(
        request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {request.code} not supported"
    )


class Connection(asyncio.Protocol):
    """Speaks remoting over one transport; made by `connect` and `serve`.

    Attributes:
        on_request: called with each request of the peer; set it before the first one can arrive.
        peer: address of the other end as `host:port`; empty before the connection is made.
        local: address of this end, the same way.
        label: free for the owner, for logs and lookups.
        sign: signs the requests of this end; None leaves them as they are.
        is_kept: whether the owner's memory budget closes other connections first.
    """

    def __init__(
        self,
        on_request: RequestHandler = refuse,
        *,
        on_made: Callable[["Connection"], object] | None = None,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        frame_bounds: FrameBounds = ANY_FRAMES,
        budget: MemoryBudget | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.on_request = on_request
        self.peer = ""
        self.local = ""
        self.label = ""
        self.sign: Sign | None = None
        self.is_kept = False
        self._on_made = on_made
        self._unsent_bytes_max = unsent_bytes_max
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(frame_bounds)
        self._budget = budget
        self._turns = turns
        self._turn_bytes = 0
        self._held_bytes = 0
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._progress = ConnectionProgress(self._loop.time())
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._next_opaque = 1
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._reading = False
        self._closed: asyncio.Future[Exception | None] = self._loop.create_future()
        self._closing = False
        self._reason: Exception | None = None
        self._closed_callbacks: list[ClosedCallback] = []

    # What the owner uses.

    @property
    def is_closed(self) -> bool:
        """Say whether nothing can be sent any more."""
        return self._closing

    @property
    def closed(self) -> asyncio.Future[Exception | None]:
        """Future of the reason for the end; None for an orderly one. Await it through `asyncio.shield`."""
        return self._closed

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """Return the peer's certificate if it has shown one that a trusted authority issued."""
        return None if self._transport is None else self._transport.get_extra_info("peercert") or None

    @property
    def calls_in_flight(self) -> int:
        """Count the calls that wait for an answer."""
        return len(self._calls)

    @property
    def has_requested(self) -> bool:
        """Say whether the peer has sent a request."""
        return self._progress.requests > 0

    def hold(self, request_bytes: int) -> None:
        """Count bytes of a request that waits for its answer; a negative number when it has its answer."""
        self._waiting_bytes += request_bytes
        self._report_held()

    def overdue(self, now_s: float, deadlines: ProgressDeadlines) -> str | None:
        """Return which deadline the peer passes, by the look of now; None if none."""
        unsent_bytes = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._progress.problem(
            now_s,
            deadlines,
            frame_at=self._decoder.frame_at,
            drained_bytes=self._written_bytes - unsent_bytes if unsent_bytes else None,
        )

    def on_closed(self, callback: ClosedCallback) -> None:
        """Call `callback(connection, reason)` once when the connection ends, at once if it has ended."""
        if self._closed.done():
            callback(self, self._closed.result())
        else:
            self._closed_callbacks.append(callback)

    def start_call(self, command: RemotingCommand) -> asyncio.Future[RemotingCommand]:
        """Send a request and return the future of its answer.

        The caller must await it with a timeout or cancel it.

        Raises:
            ConnectionClosedError: the connection is over.
            RemotingUsageError: the command is invalid or not a request, or too many calls are in flight.
        """
        if len(self._calls) >= CALLS_IN_FLIGHT_MAX:
            raise RemotingUsageError(f"{CALLS_IN_FLIGHT_MAX} calls are in flight to {self.peer}")
        if command.flag:
            raise RemotingUsageError(f"a call needs a request with an answer, not flag {command.flag}")
        opaque = self._take_opaque()
        self.send(command.with_opaque(opaque))
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._calls[opaque] = answer
        answer.add_done_callback(lambda _done: self._calls.pop(opaque, None))
        return answer

    async def call(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request and return its answer, whatever its code.

        Raises:
            CallTimeoutError: no answer within `timeout_s` seconds.
            ConnectionClosedError: the connection was or came to its end.
            RemotingUsageError: see `start_call`.
        """
        answer = self.start_call(command)
        timer = self._loop.call_later(timeout_s, self._time_out, answer, command.code, timeout_s)
        try:
            return await answer
        finally:
            timer.cancel()

    def send(self, command: RemotingCommand) -> None:
        """Send a command as it is: an answer, or a request whose opaque the owner chose.

        Raises:
            ConnectionClosedError: the connection is over.
            RemotingUsageError: the command cannot be written.
        """
        if self._closing:
            raise ConnectionClosedError(f"connection to {self.peer} is closed: {self._reason}")
        if self.sign is not None and not command.is_response:
            command = self.sign(command)
        self._send_frame(encode(command))

    def send_oneway(self, command: RemotingCommand) -> None:
        """Send a request that wants no answer, made so if it is not yet; raise what `send` raises."""
        if not command.is_oneway:
            command = RemotingCommand.request(command.code, command.ext, command.body, oneway=True)
        self.send(command.with_opaque(self._take_opaque()))

    def close(self) -> None:
        """End the connection after its send buffer is empty; callers that wait for answers fail at once."""
        if self._closing:
            return
        self._flush()
        self._end(None)
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: Exception | None = None) -> None:
        """End the connection at once and drop the send buffer."""
        if not self._closing:
            self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> Exception | None:
        """Wait until the connection has ended and return why; None for an orderly end."""
        return await asyncio.shield(self._closed)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; part of asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = address_text(transport.get_extra_info("peername"))
        self.local = address_text(transport.get_extra_info("sockname"))
        set_options(transport.get_extra_info("socket"))
        if self._budget is not None:
            # So that `resume_writing` tells of an empty buffer.
            self._transport.set_write_buffer_limits(high=0)
        if self._on_made is not None:
            self._on_made(self)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the peer, now or in a later turn of the loop; part of asyncio.Protocol."""
        if self._turns is None:
            self.take(data)
        else:
            self._turns.take(self, data)

    def wait_turn(self, waiting_bytes: int) -> None:
        """Learn how many bytes wait for a later turn; read no more from the peer until it is 0."""
        was_waiting, self._turn_bytes = self._turn_bytes > 0, waiting_bytes
        if self._closing or self._transport is None:
            return
        if waiting_bytes and not was_waiting:
            self._transport.pause_reading()
        elif was_waiting and not waiting_bytes:
            self._transport.resume_reading()
        self._report_held()

    def take(self, data: bytes) -> None:
        """Take up bytes of the peer."""
        damage: FrameError | None = None
        try:
            commands: Sequence[RemotingCommand] = self._decoder.feed(data)
        except FrameError as error:
            damage, commands = error, error.commands
        self._reading = True
        try:
            for command in commands:
                if self._closing:
                    return
                self._receive(command)
        finally:
            self._reading = False
            self._flush()
            self._report_held()
        if damage is not None and not self._closing:
            _log_closed("closing the connection to %s: %s", self.peer, damage)
            self.abort(damage)

    def resume_writing(self) -> None:
        """Learn that all bytes have left; part of asyncio.Protocol."""
        self._report_held()

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that the transport has ended; part of asyncio.Protocol."""
        if not self._closing:
            self._end(exc)
        self._closed.set_result(self._reason)
        callbacks, self._closed_callbacks = self._closed_callbacks, []
        for callback in callbacks:
            try:
                callback(self, self._reason)
            except Exception:
                _log.exception("on_closed callback of the connection to %s", self.peer)

    # Inside.

    def _receive(self, command: RemotingCommand) -> None:
        if command.flag & FLAG_RESPONSE:
            answer = self._calls.get(command.opaque)
            if answer is not None and not answer.done():
                answer.set_result(command)
            return
        self._progress.requests += 1
        response = self._handle(command)
        if response is not None and not command.flag & FLAG_ONEWAY:
            self.answer(command, response)

    def answer(self, request: RemotingCommand, response: RemotingCommand | PreparedAnswer) -> None:
        """Send the answer to a request, unless the connection is over."""
        if self._closing:
            return
        if isinstance(response, PreparedAnswer):
            self._send_frame(response.frame(request.opaque))
            return
        try:
            self.send(response)
        except RemotingUsageError as error:
            _log.exception("answer to request %d from %s", request.code, self.peer)
            self.send(failure(request, error))

    def _send_frame(self, frame: bytes) -> None:
        if not self._unsent and not self._reading:
            self._loop.call_soon(self._flush)
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > self._unsent_bytes_max:
            self._flush()

    def _handle(self, request: RemotingCommand) -> RemotingCommand | PreparedAnswer | None:
        try:
            return self.on_request(self, request)
        except RemotingProtocolError as error:
            return failure(request, error)
        except Exception as error:
            _log.exception("handler of request %d from %s", request.code, self.peer)
            return failure(request, error)

    def _take_opaque(self) -> int:
        opaque, self._next_opaque = self._next_opaque, self._next_opaque % _OPAQUE_MAX + 1
        return opaque

    def _time_out(self, answer: asyncio.Future[RemotingCommand], code: int, timeout_s: float) -> None:
        if not answer.done():
            problem = f"{self.peer} did not answer request {code} within {timeout_s} s"
            answer.set_exception(CallTimeoutError(problem))

    def _flush(self) -> None:
        if not self._unsent or self._closing or self._transport is None:
            return
        frames, self._unsent = self._unsent, []
        self._written_bytes += self._unsent_bytes
        self._unsent_bytes = 0
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
        waiting_bytes = self._transport.get_write_buffer_size()
        if waiting_bytes > self._unsent_bytes_max:
            reason = ConnectionClosedError(f"{self.peer} does not read: {waiting_bytes} bytes wait for it")
            _log_closed("closing the connection: %s", reason)
            self.abort(reason)
        elif waiting_bytes and not self._reading:
            self._report_held()

    def _report_held(self) -> None:
        """Tell the budget what this connection holds now."""
        if self._budget is None:
            return
        held_bytes = 0
        if self._transport is not None and not self._closing:
            unsent_bytes = self._transport.get_write_buffer_size()
            held_bytes = self._decoder.held_bytes + self._waiting_bytes + self._turn_bytes + unsent_bytes
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self._budget.hold(self, held_bytes)

    def _end(self, reason: Exception | None) -> None:
        self._closing = True
        self._reason = reason
        self._unsent.clear()
        self._report_held()
        calls, self._calls = self._calls, {}
        for answer in calls.values():
            if not answer.done():
                answer.set_exception(ConnectionClosedError(f"connection to {self.peer} closed: {reason}"))
