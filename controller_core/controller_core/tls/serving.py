"""How a port speaks TLS, and the certificate of one process in a directory.

The directory is laid out as Kubernetes mounts a Secret with a certificate: `tls.crt`, `tls.key`, and in
`ca.crt` the authorities that are trusted. New files are taken into use without a restart (`certificates`).

    mode          a port                        the process dials
    permissive    serves TLS and plain TCP      in TLS first, in plain TCP where TLS is not answered
    enforcing     serves TLS only               in TLS only
"""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.tls.certificates import CHECK_S, Certificates
from controller_core.tls.dialling import ClientTls, dial_in_tls, dial_trusting, trusting
from controller_core.tls.files import CERTIFICATE_FILE, KEY_FILE, PERMISSIVE, TRUST_FILE

_KEY: Final = "tls"
"""What messages call the setting with the directory."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS on a listening port; the first byte of each connection decides whether it is spoken.

    Attributes:
        context: of the server's side.
        plain_allowed: whether plain TCP is served too.
    """

    context: ssl.SSLContext
    plain_allowed: bool = True


def member_certificates(directory: Path) -> Certificates:
    """Return the server's context of a member, which asks for no certificate.

    Raises:
        UnusableCertificatesError: a file cannot be read, or does not fit the others.
    """
    pair = str(directory / CERTIFICATE_FILE), str(directory / KEY_FILE)
    return Certificates(_KEY, *pair, "", True, ssl.CERT_NONE)


class MemberTls:
    """The contexts of one thread, for both sides of connections."""

    def __init__(self, directory: Path, mode: str) -> None:
        """Load the files.

        Raises:
            UnusableCertificatesError: one cannot be read, or does not fit the others.
        """
        self._server = member_certificates(directory)
        self._client = trusting(_KEY, directory / TRUST_FILE)
        self._plain_allowed = mode == PERMISSIVE

    def server(self) -> ServerTls:
        """Return how a port serves."""
        return ServerTls(self._server.context, plain_allowed=self._plain_allowed)

    def client(self) -> ClientTls:
        """Return how peers are dialled."""
        return ClientTls(self._client.context, plain_allowed=self._plain_allowed)

    def refresh(self) -> None:
        """Take changed files into use."""
        self._server.refresh()
        self._client.refresh()

    async def watch(self) -> None:
        """Take changed files into use until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            self.refresh()


def member_tls(directory: Path | None, mode: str) -> MemberTls | None:
    """Return the TLS of a member; None without a directory, for plain TCP."""
    return None if directory is None else MemberTls(directory, mode)


def use_tls(directory: Path | None, mode: str) -> MemberTls | None:
    """Return the TLS of a member, with which this process dials from now on; None for plain TCP."""
    tls = member_tls(directory, mode)
    dial_in_tls(None if tls is None else tls.client())
    return tls


def server_tls(tls: MemberTls | None) -> ServerTls | None:
    """Return how a member's port serves; None for plain TCP alone."""
    return None if tls is None else tls.server()


def dial_as(directory: Path | None, mode: str) -> None:
    """Let this process dial as the settings of a member say, with the authorities of now.

    Raises:
        UnusableCertificatesError: the file of authorities cannot be read.
    """
    if directory is not None:
        dial_trusting(_KEY, directory / TRUST_FILE, plain_allowed=mode == PERMISSIVE)
