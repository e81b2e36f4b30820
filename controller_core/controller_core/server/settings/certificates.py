"""Certificates: which port speaks TLS with which, and how new ones come into use without a restart.

    port      speaks TLS when                  the other end shows a certificate
    remoting  tls.server.certPath is given     as tls.server.need.client.auth says
    peers     peerTlsCertPath is given         always, on both ends, and it must name a host of the member
    HTTP      httpTlsCertPath is given         if it has one, and httpTlsTrustCertPath is given

On the peers' port plain TCP is served too with peerTlsMode=permissive, on the HTTP port as httpPlain says.

Brokers are dialled in TLS when tls.enable says so, and in plain TCP too with tls.client.mode=permissive.
Their names are not checked: one may answer at another's address.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from typing import Final

from controller_core.server.settings.config import InvalidSettingError, Settings
from controller_core.tls.certificates import CHECK_S, Certificates, UnusableCertificatesError
from controller_core.tls.dialling import ClientTls
from controller_core.tls.serving import ServerTls

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeerTls:
    """TLS between controllers, with certificates on both ends.

    Attributes:
        server: for incoming connections.
        client: for outgoing connections.
        plain_allowed: whether plain TCP is accepted too, and tried where TLS is not answered.
    """

    server: ssl.SSLContext
    client: ssl.SSLContext
    plain_allowed: bool = False


class Tls:
    """All contexts of one node; None if not configured."""

    def __init__(self, settings: Settings) -> None:
        """Load every certificate that the settings name.

        Raises:
            InvalidSettingError: a file cannot be used, or is missing beside another.
        """
        self.remoting_server = _remoting_server(settings)
        self.remoting_client = _remoting_client(settings)
        self.broker_client = _broker_client(settings)
        peers = (settings.peer_tls_cert_path, settings.peer_tls_key_path, settings.peer_tls_trust_path)
        self.peer_server = self.peer_client = None
        if any(peers):
            _all_given("peerTlsCertPath", peers, "peerTlsKeyPath and peerTlsTrustCertPath")
            self.peer_server = _loaded("peerTlsCertPath", *peers, True, ssl.CERT_REQUIRED)
            self.peer_client = _loaded("peerTlsCertPath", *peers, False, ssl.CERT_REQUIRED)
        self.http_server = None
        if settings.http_tls_cert_path:
            _all_given("httpTlsCertPath", (settings.http_tls_key_path,), "httpTlsKeyPath")
            verify = ssl.CERT_OPTIONAL if settings.http_tls_trust_path else ssl.CERT_NONE
            files = (settings.http_tls_cert_path, settings.http_tls_key_path, settings.http_tls_trust_path)
            self.http_server = _loaded("httpTlsCertPath", *files, True, verify)
        self._enforcing = settings.tls_server_mode == "enforcing"
        self._plain_peers = settings.peer_tls_mode == "permissive"
        self._plain_brokers = settings.tls_client_mode == "permissive"

    def remoting(self) -> ServerTls | None:
        """Return how the remoting port speaks TLS; None for plain TCP only."""
        if self.remoting_server is None:
            return None
        return ServerTls(self.remoting_server.context, plain_allowed=not self._enforcing)

    def peers(self) -> PeerTls | None:
        """Return how controllers speak TLS with each other; None for plain TCP."""
        if self.peer_server is None or self.peer_client is None:
            return None
        return PeerTls(self.peer_server.context, self.peer_client.context, plain_allowed=self._plain_peers)

    def leader_client(self) -> ClientTls | None:
        """Return how the leader is dialled; None for plain TCP."""
        return _client(self.remoting_client)

    def brokers_client(self) -> ClientTls | None:
        """Return how brokers are dialled; None for plain TCP."""
        return _client(self.broker_client, plain_allowed=self._plain_brokers)

    async def watch(self) -> None:
        """Take changed files into use, until cancelled."""
        every = (
            self.remoting_server,
            self.remoting_client,
            self.broker_client,
            self.peer_server,
            self.peer_client,
            self.http_server,
        )
        loaded = [certificates for certificates in every if certificates is not None]
        while True:
            await asyncio.sleep(CHECK_S)
            for certificates in loaded:
                certificates.refresh()


def _client(certificates: Certificates | None, *, plain_allowed: bool = False) -> ClientTls | None:
    """Return how to dial; None without certificates, for plain TCP."""
    return None if certificates is None else ClientTls(certificates.context, plain_allowed=plain_allowed)


def _loaded(
    key: str,
    cert_path: str,
    key_path: str,
    trust_path: str,
    server_side: bool,
    verify: ssl.VerifyMode,
    check_hostname: bool = True,
) -> Certificates:
    try:
        return Certificates(key, cert_path, key_path, trust_path, server_side, verify, check_hostname)
    except UnusableCertificatesError as error:
        raise InvalidSettingError(error.key, error.path, error.problem) from error


def _all_given(key: str, values: tuple[str, ...], names: str) -> None:
    if not all(values):
        raise InvalidSettingError(key, None, f"needs {names} beside it")


_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}


def _remoting_server(settings: Settings) -> Certificates | None:
    enforcing = settings.tls_server_mode == "enforcing"
    if settings.tls_server_mode == "disabled" or not settings.tls_server_cert_path:
        if enforcing:
            raise InvalidSettingError("tls.server.mode", "enforcing", "needs tls.server.certPath")
        return None
    _all_given("tls.server.certPath", (settings.tls_server_key_path,), "tls.server.keyPath")
    verify = _CLIENT_AUTH[settings.tls_server_client_auth]
    if verify is not ssl.CERT_NONE:
        key = "tls.server.need.client.auth"
        _all_given(key, (settings.tls_server_trust_path,), "tls.server.trustCertPath")
    files = (settings.tls_server_cert_path, settings.tls_server_key_path, settings.tls_server_trust_path)
    return _loaded("tls.server.certPath", *files, True, verify)


def _remoting_client(settings: Settings) -> Certificates | None:
    """Return the context for requests to the leader: TLS if its port accepts only TLS."""
    if settings.tls_server_mode != "enforcing" or not settings.tls_server_cert_path:
        return None
    trust = settings.tls_server_trust_path
    if not trust:
        _log.warning("without tls.server.trustCertPath the leader's certificate is not verified")
    verify = ssl.CERT_REQUIRED if trust else ssl.CERT_NONE
    files = (settings.tls_server_cert_path, settings.tls_server_key_path, trust)
    return _loaded("tls.server.certPath", *files, False, verify)


def _broker_client(settings: Settings) -> Certificates | None:
    """Return how brokers are dialled; None for plain TCP."""
    if not settings.tls_enable:
        return None
    cert, key, trust = (
        settings.tls_client_cert_path,
        settings.tls_client_key_path,
        settings.tls_client_trust_path,
    )
    if cert or key:
        _all_given("tls.client.certPath", (cert, key), "tls.client.keyPath")
    if not trust:
        _log.warning("without tls.client.trustCertPath the brokers' certificates are not verified")
    verify = ssl.CERT_REQUIRED if trust else ssl.CERT_NONE
    return _loaded("tls.client.certPath", cert, key, trust, False, verify, check_hostname=False)
