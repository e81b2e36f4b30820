"""The TLS of one member: what it serves with, and how it dials brokers, controllers and name servers.

The directory is laid out as Kubernetes mounts a Secret with a certificate: `tls.crt`, `tls.key`, and in
`ca.crt` the authorities that are trusted. New files are taken into use without a restart
(`controller_core.tls.certificates`).

    mode          a port                        this process dials
    permissive    serves TLS and plain TCP      in TLS first, in plain TCP where TLS is not answered
    enforcing     serves TLS only               in TLS only
"""

import asyncio
import ssl
from pathlib import Path
from typing import Final

from controller_core.channel.endpoints import ServerTls
from controller_core.tls.certificates import CHECK_S, Certificates, UnusableCertificatesError
from controller_core.tls.dialling import ClientTls, dial_in_tls, trusting
from ha_sidecar.common.options import ConfigError

CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
TRUST_FILE: Final = "ca.crt"
PERMISSIVE: Final = "permissive"
ENFORCING: Final = "enforcing"
TLS_MODES: Final = (PERMISSIVE, ENFORCING)


class MemberTls:
    """The contexts of one thread, for both sides of connections."""

    def __init__(self, directory: Path, mode: str) -> None:
        """Load the files.

        Raises:
            ConfigError: one cannot be read, or does not fit the others.
        """
        pair = str(directory / CERTIFICATE_FILE), str(directory / KEY_FILE)
        try:
            self._server = Certificates("tls", *pair, "", True, ssl.CERT_NONE)
            self._client = trusting("tls", directory / TRUST_FILE)
        except UnusableCertificatesError as error:
            raise ConfigError(str(error)) from error
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


def dial_as(directory: Path | None, mode: str) -> None:
    """Let this process dial as the settings of a member or command say, with the authorities of now.

    Raises:
        ConfigError: the file of authorities cannot be read.
    """
    if directory is None:
        return
    try:
        trusted = trusting("tls", directory / TRUST_FILE)
    except UnusableCertificatesError as error:
        raise ConfigError(str(error)) from error
    dial_in_tls(ClientTls(trusted.context, plain_allowed=mode == PERMISSIVE))
