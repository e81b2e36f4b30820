"""One connection between two controllers, each end: the one that dialled sends, the one that was dialled receives.

    dialler                                   dialled
    connect, greeting                 ---->   right cluster, version, addressee?
    accepted: messages flow           <----   reply (or the reason of a refusal, and close)
    messages ...                      ---->   to the node
    close on anything that comes in           close on anything that is no message

Nothing here waits. What does not fit into the send buffer is refused, so that a slow peer costs its own messages and
nobody else's. A peer that is gone without a word is found by TCP_USER_TIMEOUT: without it the kernel would try on, ever
more seldom, and a healed network would stay silent for many seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from controller_core.server.node_types import Receiver
from controller_core.server.peer_codec import (
    FRAME_MAX_BYTES,
    GREETING_MAX_BYTES,
    PROTOCOL_VERSION,
    FrameReader,
    Greeting,
    PeerProtocolError,
    decode_greeting,
    decode_message,
    decode_reply,
    encode_greeting,
    encode_reply,
)

SEND_BUFFER_MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes that wait for a slow peer; a single message may pass it, so that a large snapshot can go at all."""
SILENT_MAX_MS: Final = 1_500
"""How long sent bytes may stay unacknowledged before the connection counts as dead."""
GREETING_MAX_S: Final = 2.0
_DRAINED_BELOW_BYTES: Final = 64 * 1024

_log = logging.getLogger(__name__)


class OutgoingLink(asyncio.Protocol):
    """The dialler's end."""

    def __init__(self, greeting: Greeting) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the peer accepted; ConnectionError when it refused or the connection broke."""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone."""
        self._greeting = greeting
        self._frames = FrameReader(GREETING_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._on_drained: list[Callable[[bool], None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"not a stream: {transport!r}")
        self._transport = transport
        tune(transport)
        transport.set_write_buffer_limits(high=_DRAINED_BELOW_BYTES, low=0)
        transport.write(encode_greeting(self._greeting))

    def data_received(self, data: bytes) -> None:
        """Take the reply to the greeting; nothing else may come."""
        if self.ready.done():
            _log.warning("closing a connection that only sends: %d bytes came in", len(data))
            self.close()
            return
        try:
            frames = self._frames.feed(data)
            reason = decode_reply(frames[0]) if frames else None
        except PeerProtocolError as error:
            reason = str(error)
        if reason == "":
            self.ready.set_result(None)
        elif reason is not None:
            self.ready.set_exception(ConnectionRefusedError(reason))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if not self.ready.done():
            self.ready.set_exception(ConnectionResetError(str(exc or "closed before the reply")))
        waiting, self._on_drained = self._on_drained, []
        for told in waiting:
            told(False)
        if not self.closed.done():
            self.closed.set_result(None)

    def resume_writing(self) -> None:
        """Tell that everything has left."""
        waiting, self._on_drained = self._on_drained, []
        for told in waiting:
            told(True)

    def send(self, data: bytes) -> bool:
        """Queue bytes; say whether they were taken."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self.ready.done():
            return False
        waiting = transport.get_write_buffer_size()
        if waiting and waiting + len(data) > SEND_BUFFER_MAX_BYTES:
            return False
        transport.write(data)
        return True

    def when_drained(self, told: Callable[[bool], None]) -> None:
        """Call `told(True)` once everything queued so far has left, `told(False)` if the connection breaks before."""
        if self._transport is None or self._transport.is_closing():
            told(False)
        elif self._transport.get_write_buffer_size() <= _DRAINED_BELOW_BYTES:
            told(True)
        else:
            self._on_drained.append(told)

    def close(self) -> None:
        """Close at once; what is queued is lost."""
        if self._transport is not None:
            self._transport.abort()


class IncomingLink(asyncio.Protocol):
    """The dialled end."""

    def __init__(self, cluster: str, own_id: int, known: Callable[[int], bool], receiver: Receiver) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone."""
        self._cluster = cluster
        self._own_id = own_id
        self._known = known
        self._receiver = receiver
        self._frames = FrameReader(GREETING_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._peer_id = 0
        self._peername: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the greeting, but not for ever."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"not a stream: {transport!r}")
        self._transport = transport
        self._peername = transport.get_extra_info("peername")
        tune(transport)
        self._timer = asyncio.get_running_loop().call_later(GREETING_MAX_S, self._expire)

    def data_received(self, data: bytes) -> None:
        """Take the greeting, then messages; anything else ends the connection."""
        try:
            for frame in self._frames.feed(data):
                if self._peer_id:
                    self._take_message(frame)
                elif not self._take_greeting(frame):
                    return
        except PeerProtocolError as error:
            _log.warning("closing the connection from %s: %s", self._peername, error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _take_message(self, frame: bytes) -> None:
        message = decode_message(frame)
        if message.from_ != self._peer_id or message.to != self._own_id:
            raise PeerProtocolError(
                f"a message from {message.from_} to {message.to} on the connection from {self._peer_id} to {self._own_id}"
            )
        self._receiver.receive(message)

    def _take_greeting(self, frame: bytes) -> bool:
        greeting = decode_greeting(frame)
        reason = self._refusal(greeting)
        if self._transport is None:
            return False
        self._transport.write(encode_reply(reason))
        if reason:
            _log.warning("refused node %d at %s: %s", greeting.from_id, self._peername, reason)
            self._transport.close()
            return False
        if self._timer is not None:
            self._timer.cancel()
        self._peer_id = greeting.from_id
        self._frames.frame_max_bytes = FRAME_MAX_BYTES
        return True

    def _refusal(self, greeting: Greeting) -> str:
        """Return why a greeting is refused, "" if it is welcome."""
        if greeting.version != PROTOCOL_VERSION:
            return f"protocol version {greeting.version}, this node speaks {PROTOCOL_VERSION}"
        if greeting.cluster != self._cluster:
            return f"cluster {greeting.cluster!r}, this node belongs to {self._cluster!r}"
        if greeting.to_id != self._own_id:
            return f"meant for node {greeting.to_id}, this is node {self._own_id}"
        if greeting.from_id == self._own_id or not self._known(greeting.from_id):
            return f"node {greeting.from_id} is none of the peers of node {self._own_id}"
        return ""

    def _expire(self) -> None:
        _log.warning("closing the connection from %s: no greeting in %s s", self._peername, GREETING_MAX_S)
        self.close()


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
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MAX_MS)
