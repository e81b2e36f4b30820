"""One connection between two controllers, each end.

The one that dialled sends, the one that was dialled receives.

    dialler                                   dialled
    connect, greeting                 ---->   right cluster, version, addressee?
    accepted: messages flow           <----   reply (or the reason of a refusal, and close)
    messages ...                      ---->   to the node
    close on anything that comes in           close on anything but a message

Nothing here waits. Messages that do not fit into the send buffer are refused, so that a slow peer loses only
its own messages. A snapshot goes out in parts, each after the previous one has left, with other messages
between. TCP_USER_TIMEOUT finds a peer that vanished silently: without it the kernel would try on, ever more
seldom, and a healed network would stay silent for many seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Final, cast

from controller_core import limits
from controller_core.channel.sockets import address_text
from controller_core.raft.errors import RefusedMessageError
from controller_core.raft.types import Message
from controller_core.server.common.certificate_names import PeerCertificate
from controller_core.server.node.types import Receiver
from controller_core.server.peers.codec import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    FrameReader,
    Greeting,
    GreetingReply,
    MessageReader,
    PeerProtocolError,
    decode_greeting,
    decode_reply,
    encode_greeting,
    encode_parts,
    encode_reply,
    encode_snapshot_head,
)

SEND_BUFFER_BYTES_MAX: Final = limits.PEER_UNSENT_BYTES_MAX
"""Bytes that wait for a slow peer; a single message may pass it, so that a large entry can go at all."""
SILENT_MS_MAX: Final = 1_500
"""How long sent bytes may stay unacknowledged before the connection counts as dead."""
GREETING_S_MAX: Final = float(limits.PEER_GREETING_S_MAX)
FORM: Final = "form"
"""Reason that a connection is closed for bytes that are neither greeting nor message.

The others are those of `raft.peer_checks`.
"""
_DRAINED_BELOW_BYTES: Final = 64 * 1024

_log = logging.getLogger(__name__)


class PeerRefusedError(ConnectionRefusedError):
    """The peer answered the greeting with a refusal.

    Attributes:
        reply: its answer.
    """

    def __init__(self, reply: GreetingReply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


class OutgoingLink(asyncio.Protocol):
    """The dialler's end."""

    def __init__(self, greeting: Greeting) -> None:
        self.ready: asyncio.Future[GreetingReply] = asyncio.get_running_loop().create_future()
        """Done when the peer accepted.

        `PeerRefusedError` when it refused, ConnectionError when it is gone.
        """
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone."""
        self._greeting = greeting
        self._frames = FrameReader(GREETING_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._parts: Iterator[bytes] | None = None
        self._on_snapshot: Callable[[bool], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        stream = _as_stream(transport)
        self._transport = stream
        tune(stream)
        stream.set_write_buffer_limits(high=_DRAINED_BELOW_BYTES, low=0)
        stream.write(encode_greeting(self._greeting))

    def data_received(self, data: bytes) -> None:
        """Take the reply to the greeting; nothing else may come."""
        if self.ready.done():
            _log.warning("closing a connection that only sends: %d bytes came in", len(data))
            self.close()
            return
        try:
            frames = self._frames.feed(data)
            reply = decode_reply(frames[0]) if frames else None
        except PeerProtocolError as error:
            reply = GreetingReply(str(error))
        if reply is None:
            return
        if reply.reason:
            self.ready.set_exception(PeerRefusedError(reply))
            self.close()
        else:
            self.ready.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the waiting caller."""
        if not self.ready.done():
            self.ready.set_exception(ConnectionResetError(str(exc or "closed before the reply")))
        self._end_snapshot(ok=False)
        if not self.closed.done():
            self.closed.set_result(None)

    def resume_writing(self) -> None:
        """Go on with a snapshot now that everything has left."""
        self._next_part()

    def send(self, data: bytes) -> bool:
        """Queue bytes; say whether they were taken."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self.ready.done():
            return False
        waiting = transport.get_write_buffer_size()
        if waiting and waiting + len(data) > SEND_BUFFER_BYTES_MAX:
            return False
        transport.write(data)
        return True

    def send_snapshot(self, message: Message, told: Callable[[bool], None]) -> None:
        """Send a snapshot in parts, each when its predecessor has left; cancel a snapshot that is under way.

        Args:
            message: what carries the snapshot.
            told: called with whether all of it has left this process.
        """
        self._end_snapshot(ok=False)
        if message.snapshot is None or not self.send(encode_snapshot_head(message)):
            told(False)
            return
        self._on_snapshot = told
        self._parts = encode_parts(message.snapshot.data)
        self._next_part()

    def _next_part(self) -> None:
        transport = self._transport
        if self._parts is None or transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > _DRAINED_BELOW_BYTES:
            return  # `resume_writing` calls again.
        part = next(self._parts, None)
        if part is None:
            self._end_snapshot(ok=True)
            return
        transport.write(part)
        # Not at once: others have their turn of the loop between two parts.
        asyncio.get_running_loop().call_soon(self._next_part)

    def _end_snapshot(self, *, ok: bool) -> None:
        told, self._on_snapshot, self._parts = self._on_snapshot, None, None
        if told is not None:
            told(ok)

    def close(self) -> None:
        """Close at once; queued messages are lost."""
        if self._transport is not None:
            self._transport.abort()


class IncomingLink(asyncio.Protocol):
    """The dialled end."""

    def __init__(
        self,
        own_id: int,
        judge: Callable[["IncomingLink", Greeting], GreetingReply],
        receiver: Receiver,
        made: Callable[["IncomingLink"], None],
        refused: Callable[[object, str, str], None],
    ) -> None:
        """Serve one connection.

        Args:
            own_id: Raft id of this node.
            judge: answers a greeting that came over this link.
            receiver: takes the messages.
            made: called when the connection is made.
            refused: called with the peer's address, a reason of one word and a text, when invalid bytes end
                the connection.
        """
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone."""
        self.greeting: Greeting | None = None
        """The Raft id of the other end, once accepted."""
        self.certificate: PeerCertificate | None = None
        """What the other end has shown in TLS; None in plain TCP."""
        self._own_id = own_id
        self._judge = judge
        self._receiver = receiver
        self._made = made
        self._refused = refused
        self._messages = MessageReader()
        self._frames = FrameReader(GREETING_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._peername: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the greeting, but not for ever."""
        self._transport = _as_stream(transport)
        self._peername = transport.get_extra_info("peername")
        self.certificate = transport.get_extra_info("peercert") or None
        tune(self._transport)
        self._timer = asyncio.get_running_loop().call_later(GREETING_S_MAX, self._expire)
        self._made(self)

    def data_received(self, data: bytes) -> None:
        """Take the greeting, then messages; anything else ends the connection."""
        try:
            for frame in self._frames.feed(data):
                if self._transport is not None and self._transport.is_closing():
                    return
                if self.greeting is not None:
                    self._take_message(frame, self.greeting.from_id)
                elif not self._take_greeting(frame):
                    return
        except PeerProtocolError as error:
            self._refuse(FORM, error)
        except RefusedMessageError as error:
            self._refuse(error.reason, error)

    @property
    def host(self) -> str:
        """The address of the other end, without a port, as an address is written before one."""
        return address_text(self._peername).rpartition(":")[0]

    def _refuse(self, reason: str, error: Exception) -> None:
        self._refused(self._peername, reason, str(error))
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the waiting caller."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _take_message(self, frame: bytes, peer_id: int) -> None:
        message = self._messages.take(frame)
        if message is None:
            return
        if message.from_ != peer_id or message.to != self._own_id:
            raise PeerProtocolError(
                f"a message from {message.from_} to {message.to} "
                f"on the connection from {peer_id} to {self._own_id}"
            )
        self._receiver.receive(message)

    def _take_greeting(self, frame: bytes) -> bool:
        greeting = decode_greeting(frame)
        reply = self._judge(self, greeting)
        if self._transport is None:
            return False
        self._transport.write(encode_reply(reply))
        if reply.reason or greeting.asks:
            self._transport.close()
            return False
        if self._timer is not None:
            self._timer.cancel()
        self.greeting = greeting
        self._frames.frame_bytes_max = FRAME_BYTES_MAX
        return True

    def _expire(self) -> None:
        self._refused(self._peername, FORM, f"no greeting in {GREETING_S_MAX} s")
        self.close()


def _as_stream(transport: asyncio.BaseTransport) -> asyncio.Transport:
    # Not isinstance: uvloop's transports have asyncio's methods and not its classes.
    return cast("asyncio.Transport", transport)


def tune(transport: asyncio.Transport) -> None:
    """Send small messages at once, and notice soon that the other end is gone."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS_MAX)
