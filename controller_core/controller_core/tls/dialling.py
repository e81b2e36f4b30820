"""How a process dials in TLS.

Each dialler takes `ClientTls`. A process whose remoting connections all lead to one cluster sets it once,
with `dial_in_tls`, as Java's processes do by the system property `tls.enable`. A process that dials several
clusters gives it with each connection.

A peer that does not answer TLS, or with a certificate of another authority, is dialled in plain TCP if
`plain_allowed`. So two ends that move to TLS at different times always reach each other.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.tls.certificates import Certificates

NOT_IN_TLS: Final = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
"""Errors of a handshake with a peer that does not speak TLS, or not with our authority."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS of outgoing connections.

    Attributes:
        context: of the client's side.
        plain_allowed: whether plain TCP is tried where TLS is not answered.
    """

    context: ssl.SSLContext
    plain_allowed: bool = False


@dataclass(slots=True)
class _Process:
    tls: ClientTls | None = None


_process: Final = _Process()


def dial_in_tls(tls: ClientTls | None) -> None:
    """Set the TLS of all remoting connections that name none of their own; None: plain TCP."""
    _process.tls = tls


def process_tls() -> ClientTls | None:
    """Return how this process dials; None for plain TCP."""
    return _process.tls


def dial_trusting(key: str, path: Path | str, *, plain_allowed: bool) -> None:
    """Let this process dial in TLS with peers of the authorities in a file, which is read once.

    Args:
        key: the option that names the file.
        path: authorities, PEM.
        plain_allowed: whether plain TCP is tried where TLS is not answered.

    Raises:
        UnusableCertificatesError: the file cannot be read; the error names the option `key`.
    """
    dial_in_tls(ClientTls(trusting(key, path).context, plain_allowed=plain_allowed))


def trusting(key: str, path: Path | str, *, check_hostname: bool = False) -> Certificates:
    """Return the client's context that trusts the authorities in a file.

    Args:
        key: the setting that names the file.
        path: authorities, PEM.
        check_hostname: whether the other end's certificate must have the name that is dialled. By default it
            need not, because another broker may answer at a broker's address.

    Raises:
        UnusableCertificatesError: the file cannot be read; the error names the setting `key`.
    """
    return Certificates(key, "", "", str(path), False, ssl.CERT_REQUIRED, check_hostname=check_hostname)
