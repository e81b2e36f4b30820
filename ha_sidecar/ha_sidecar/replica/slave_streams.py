"""The two ways in which an HA port speaks with a slave: plain TCP, and TLS on the same port.

A slave speaks first, and its first byte decides: 0x16 begins a handshake of TLS, and the first byte of a
slave's own handshake is 0. So Java's slaves are served as before.

Bodies in plain TCP go from the page cache to the socket. In TLS they pass through this program, which
encrypts them. Sockets never block: `send` and `send_file` take what the socket takes, and raise
`BlockingIOError` if it is full.
"""

import socket
import threading
import time
from pathlib import Path
from typing import Final

from controller_core.tls.certificates import CHECK_S, Certificates
from controller_core.tls.files import PERMISSIVE
from controller_core.tls.serving import member_certificates
from controller_core.tls.streams import TlsStream
from ha_sidecar.commitlog.served import FileSender
from ha_sidecar.replica.config import ReplicaConfig

RECEIVE_BYTES: Final = 64 << 10
READ_BYTES: Final = 256 << 10
"""Of the log, read and encrypted at a time; bytes that the socket does not take are read again."""


class HaPortTls:
    """The certificate of an HA port, for all its sessions; new files are used for new connections.

    Attributes:
        plain_allowed: whether slaves in plain TCP are served too.
    """

    def __init__(self, directory: Path, *, plain_allowed: bool) -> None:
        """Load the files.

        Raises:
            UnusableCertificatesError: one cannot be read, or does not fit the others.
        """
        self.plain_allowed: Final = plain_allowed
        self._certificates: Final[Certificates] = member_certificates(directory)
        self._lock: Final = threading.Lock()
        self._look_s = time.monotonic() + CHECK_S

    def begin(self, connection: socket.socket) -> TlsStream:
        """Return the server's end of TLS on a socket."""
        # The context changes and is used by one session at a time.
        with self._lock:
            now_s = time.monotonic()
            if now_s >= self._look_s:
                self._look_s = now_s + CHECK_S
                self._certificates.refresh()
            return TlsStream(connection, self._certificates.context, server_side=True)


def ha_port_tls(config: ReplicaConfig) -> HaPortTls | None:
    """Return the TLS of a replica's HA port; None for plain TCP alone.

    Controllers of ours never elect a log replica, so no Java slave dials it. RocketMQ's own may, and Java's
    slaves dial in plain TCP only.

    Raises:
        UnusableCertificatesError: the certificate cannot be used.
    """
    if config.tls is None:
        return None
    plain_allowed = config.tls_mode == PERMISSIVE or config.controller_kind == "java"
    return HaPortTls(config.tls, plain_allowed=plain_allowed)


class PlainSlaveStream:
    """A slave in plain TCP."""

    def __init__(self, connection: socket.socket, files: FileSender) -> None:
        """Take the socket, which does not block."""
        self._socket: Final = connection
        self._files: Final = files

    def receive(self) -> bytes:
        """Return the pending bytes; none if the slave has closed."""
        return self._socket.recv(RECEIVE_BYTES)

    def send(self, data: bytearray, *, more: bool) -> int:
        """Send bytes and return how many were taken; with `more` they leave with what follows."""
        return self._socket.send(data, socket.MSG_MORE if more else 0)

    def send_file(self, offset: int, length: int, generation: int) -> int:
        """Send bytes of the log, and return how many were taken; see `FileSender.send`."""
        return self._files.send(self._socket.fileno(), offset, length, generation)

    def flush(self) -> None:
        """Do nothing: no bytes wait here."""


class TlsSlaveStream:
    """A slave in TLS."""

    def __init__(self, stream: TlsStream, files: FileSender) -> None:
        """Take the stream; its handshake is part of the first reads."""
        self._stream: Final = stream
        self._files: Final = files

    def receive(self) -> bytes:
        """Return the decrypted bytes that came; none if the slave has closed."""
        return self._stream.receive()

    def send(self, data: bytearray, *, more: bool) -> int:
        """Encrypt and send bytes, and return how many were taken."""
        return self._stream.send(data)

    def send_file(self, offset: int, length: int, generation: int) -> int:
        """Encrypt and send bytes of the log, and return how many were taken; see `FileSender.read`."""
        return self._stream.send(self._files.read(offset, min(length, READ_BYTES), generation))

    def flush(self) -> None:
        """Send the encrypted bytes that wait; raise `BlockingIOError` if some still do."""
        self._stream.flush()


SlaveStream = PlainSlaveStream | TlsSlaveStream
