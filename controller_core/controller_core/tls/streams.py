"""Sockets that never block, plain or in TLS, behind one interface, for threads without an event loop.

`receive` and `send` raise `BlockingIOError` when the socket is empty or full, and `OSError` when the
connection has failed; errors of TLS are `OSError`s too. A TLS stream decrypts all that it has, so
that a selector, which looks at the socket alone, misses no bytes.
"""

import contextlib
import select
import socket
import ssl
import time
from typing import Final, cast

from controller_core.tls.dialling import ClientTls

RECEIVE_BYTES: Final = 1 << 16
_FILL_BYTES: Final = 1 << 18
"""What `receive_into` takes from the socket at a time."""
_RECORD_BYTES: Final = 1 << 14

Address = tuple[str, int]


class HandshakeTimeoutError(TimeoutError):
    """The other end did not finish the handshake of TLS in time."""


class PlainStream:
    """A socket as it is."""

    is_flushed: Final = True
    is_ready: Final = True
    held_bytes: Final = 0

    def __init__(self, connection: socket.socket) -> None:
        """Take the socket, which does not block from here on."""
        connection.setblocking(False)
        self.socket: Final = connection

    def shake_hands(self) -> bool:
        """Return True: plain TCP needs none."""
        return True

    def receive(self) -> bytes:
        """Return the pending bytes; none if the peer has closed."""
        return self.socket.recv(RECEIVE_BYTES)

    def send(self, data: bytes | bytearray) -> int:
        """Send bytes, and return how many were taken."""
        return self.socket.send(data)

    def flush(self) -> None:
        """Do nothing: no bytes wait here."""


class TlsStream:
    """A socket in TLS."""

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        name: str | None = None,
    ) -> None:
        """Take the socket, which does not block from here on; the handshake is part of the first reads.

        `name` is the one that the server's certificate must have, if the context checks names.
        """
        connection.setblocking(False)
        self.socket: Final = connection
        self._incoming: Final = ssl.MemoryBIO()
        self._outgoing: Final = ssl.MemoryBIO()
        self._tls: Final = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=name
        )
        self._unsent = bytearray()
        self._is_ready = self._is_over = False

    @property
    def is_ready(self) -> bool:
        """Whether the handshake is done."""
        return self._is_ready

    @property
    def held_bytes(self) -> int:
        """Encrypted bytes that wait, in either direction."""
        return self._incoming.pending + self._outgoing.pending + len(self._unsent)

    @property
    def is_flushed(self) -> bool:
        """Whether the socket took all encrypted bytes."""
        return not self._unsent and not self._outgoing.pending

    def shake_hands(self) -> bool:
        """Go on with the handshake, and return whether it is done; raise `OSError` if it fails."""
        self._fill()
        try:
            self._tls.do_handshake()
            self._is_ready = True
        except ssl.SSLWantReadError:
            pass
        finally:
            with contextlib.suppress(BlockingIOError):
                self.flush()
        return self._is_ready

    def receive(self) -> bytes:
        """Return the decrypted bytes that came; none if the peer has closed."""
        if not (self._is_ready or self.shake_hands()):
            raise BlockingIOError
        self._fill()
        found = bytearray()
        try:
            while data := self._tls.read(RECEIVE_BYTES):
                found += data
            self._is_over = True
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._is_over = True
        except ssl.SSLWantReadError:
            pass
        with contextlib.suppress(OSError):
            self.flush()
        if found or self._is_over:
            return bytes(found)
        raise BlockingIOError

    def receive_into(self, buffer: memoryview) -> int:
        """Decrypt the bytes that came into a buffer, and return how many; 0 if the peer has closed."""
        if not (self._is_ready or self.shake_hands()):
            raise BlockingIOError
        length = self._decrypt_into(buffer)
        if not length and not self._is_over:
            self._fill(_FILL_BYTES)
            length = self._decrypt_into(buffer)
        with contextlib.suppress(OSError):
            self.flush()
        if length or self._is_over:
            return length
        raise BlockingIOError

    def wait(self, timeout_s: float, events: int = select.POLLIN) -> None:
        """Wait until the socket has bytes, or as the events of `poll` say."""
        poll = select.poll()
        poll.register(self.socket, events)
        poll.poll(timeout_s * 1000)

    def send(self, data: bytes | bytearray) -> int:
        """Encrypt and send bytes, and return how many were taken; the last of them may wait for `flush`."""
        self.flush()
        taken = 0
        with memoryview(data) as view:
            while taken < len(view) and self.is_flushed:
                try:
                    taken += self._tls.write(view[taken : taken + _RECORD_BYTES])
                except ssl.SSLWantReadError as error:
                    raise BlockingIOError from error
                with contextlib.suppress(BlockingIOError):
                    self.flush()
        return taken

    def flush(self) -> None:
        """Send the encrypted bytes that wait; raise `BlockingIOError` if some still do."""
        self._unsent += self._outgoing.read()
        while self._unsent:
            del self._unsent[: self.socket.send(self._unsent)]

    def _decrypt_into(self, buffer: memoryview) -> int:
        length = 0
        try:
            while length < len(buffer):
                # With a buffer it returns a length, which the library's type does not say.
                found = cast("int", self._tls.read(len(buffer) - length, buffer[length:]))
                if not found:
                    self._is_over = True
                    break
                length += found
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._is_over = True
        except ssl.SSLWantReadError:
            pass
        return length

    def _fill(self, bytes_max: int = RECEIVE_BYTES) -> None:
        try:
            data = self.socket.recv(bytes_max)
        except BlockingIOError:
            return
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


Stream = PlainStream | TlsStream


def begin(address: Address, tls: ClientTls | None, connect_s: float) -> Stream:
    """Connect to an address; in TLS, `shake_hands` makes the handshake.

    Args:
        address: host and port.
        tls: how; None for plain TCP.
        connect_s: bound on the connection of TCP.

    Raises:
        OSError: it cannot be reached.
    """
    connection = _dial(address, connect_s)
    return PlainStream(connection) if tls is None else TlsStream(connection, tls.context, server_side=False)


def _dial(address: Address, connect_s: float) -> socket.socket:
    connection = socket.create_connection(address, connect_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def dial_in_tls_only(
    address: Address, context: ssl.SSLContext, connect_s: float, handshake_s: float, name: str | None = None
) -> TlsStream:
    """Connect to an address, with the handshake of TLS done.

    Args:
        address: host and port.
        context: the client's.
        connect_s: bound on the connection of TCP.
        handshake_s: bound on the handshake.
        name: the one that the certificate must have, if the context checks names.

    Raises:
        OSError: it cannot be reached, or does not answer TLS with such a certificate.
    """
    connection = _dial(address, connect_s)
    try:
        stream = TlsStream(connection, context, server_side=False, name=name)
        _finish_handshake(stream, time.monotonic() + handshake_s)
    except BaseException:
        connection.close()
        raise
    return stream


def _finish_handshake(stream: TlsStream, until_s: float) -> None:
    while not stream.shake_hands():
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise HandshakeTimeoutError("the TLS handshake took too long")
        stream.wait(left_s)
