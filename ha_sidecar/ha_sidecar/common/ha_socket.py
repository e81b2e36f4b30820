"""The socket of an HA link, plain or in TLS, and how a dialler knows which.

    the member                          its answer to 906           dialled
    a Java broker                       says nothing of TLS         in plain TCP
    a log replica without certificates  says nothing of TLS         in plain TCP
    a log replica with certificates     `masterHaTls` is true       in TLS only

Java's HA port takes the first bytes of TLS for a handshake of a slave. So an end is dialled in TLS only if it
has said itself, in the answer with its HA address, that it serves TLS. That answer comes over the remoting
port, which is in TLS by then, and Java never gives it. An end that said so is never dialled in plain TCP: a
handshake that fails ends the link.

The certificate must be of the cluster's authorities, and for the host of the member's announced address. That
is the address which the controllers know. The HA address has mostly another host, for instance that of a pod,
which no certificate names. The authorities are read for each link.

Source: AutoSwitchHAConnection.java, ExchangeHAInfoResponseHeader.java 5.4.0.
"""

import contextlib
import select
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.limits import HANDSHAKE_S_MAX
from controller_core.remoting.headers import ExchangeHAInfoResponseHeader
from controller_core.tls.dialling import trusting
from controller_core.tls.files import TRUST_FILE
from controller_core.tls.streams import TlsStream, dial_in_tls_only
from ha_sidecar.address import HostPort, host_port

CONNECT_TIMEOUT_S: Final = 1.0
TICK_S: Final = 0.05
"""How long a read or a write waits."""


@dataclass(frozen=True, slots=True)
class HaTls:
    """What the other end's certificate must be.

    Attributes:
        directory: of the authorities that are trusted (`ca.crt`).
        name: the host that the certificate must be for.
    """

    directory: Path
    name: str


@dataclass(frozen=True, slots=True)
class HaEnd:
    """Where a log is served.

    Attributes:
        address: host and HA port.
        tls: the promised TLS; None for plain TCP.
    """

    address: HostPort
    tls: HaTls | None = None


def told_end(answer: ExchangeHAInfoResponseHeader, announced: str, directory: Path | None) -> HaEnd | None:
    """Return the end that a member tells; None if it serves no log now.

    Args:
        answer: to 906.
        announced: the member's address as the controllers know it, host:port.
        directory: of our authorities; None if we dial in plain TCP alone.

    Raises:
        AddressError: an address is not `host:port`.
    """
    if not answer.master_ha_address:
        return None
    tls = HaTls(directory, host_port(announced)[0]) if answer.master_ha_tls and directory else None
    return HaEnd(host_port(answer.master_ha_address), tls)


class PlainHaSocket:
    """A socket as it is; one thread reads, and writers take turns by a lock of their own."""

    def __init__(self, connection: socket.socket) -> None:
        """Take the connected socket."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(TICK_S)
        self._socket: Final = connection

    def receive_into(self, buffer: memoryview) -> int:
        """Return how many bytes came into the buffer, 0 at the end; raise `TimeoutError` if none came."""
        return self._socket.recv_into(buffer)

    def send_all(self, data: bytes) -> None:
        """Send a few bytes; raise `OSError` if they cannot be."""
        self._socket.sendall(data)

    def end_sending(self) -> None:
        """Tell the other end that nothing more comes."""
        self._socket.shutdown(socket.SHUT_WR)

    def shut_down(self) -> None:
        """End the connection; for any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; for the reading thread."""
        self._socket.close()


class TlsHaSocket:
    """A socket in TLS, used as a plain one is; threads take turns, but not while one waits."""

    def __init__(self, stream: TlsStream) -> None:
        """Take the stream, its handshake done."""
        self._stream: Final = stream
        self._lock: Final = threading.Lock()

    def receive_into(self, buffer: memoryview) -> int:
        """Return how many bytes came into the buffer, 0 at the end; raise `TimeoutError` if none came."""
        with contextlib.suppress(BlockingIOError), self._lock:
            return self._stream.receive_into(buffer)
        self._stream.wait(TICK_S)
        try:
            with self._lock:
                return self._stream.receive_into(buffer)
        except BlockingIOError as error:
            raise TimeoutError("no bytes came") from error

    def send_all(self, data: bytes) -> None:
        """Send a few bytes; raise `OSError` if they cannot be."""
        until_s = time.monotonic() + TICK_S
        taken = 0
        while True:
            with contextlib.suppress(BlockingIOError), self._lock:
                taken += self._stream.send(data[taken:])
                self._stream.flush()
                if taken == len(data):
                    return
            if time.monotonic() >= until_s:
                raise TimeoutError("the other end does not read")
            self._stream.wait(TICK_S, select.POLLOUT)

    def end_sending(self) -> None:
        """Tell the other end that nothing more comes."""
        self._stream.socket.shutdown(socket.SHUT_WR)

    def shut_down(self) -> None:
        """End the connection; for any thread."""
        with contextlib.suppress(OSError):
            self._stream.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; for the reading thread."""
        self._stream.socket.close()


HaSocket = PlainHaSocket | TlsHaSocket


def dial_ha(address: HostPort, tls: HaTls | None) -> HaSocket:
    """Connect to an HA port, with the handshake of TLS done where TLS is promised.

    Raises:
        OSError: it cannot be reached.
        ssl.SSLError, HandshakeTimeoutError: it does not keep the promise; both are `OSError`s.
        UnusableCertificatesError: the authorities cannot be read.
    """
    if tls is None:
        return PlainHaSocket(socket.create_connection(address, CONNECT_TIMEOUT_S))
    context = trusting("tls", tls.directory / TRUST_FILE, check_hostname=True).context
    stream = dial_in_tls_only(address, context, CONNECT_TIMEOUT_S, HANDSHAKE_S_MAX, tls.name)
    return TlsHaSocket(stream)
