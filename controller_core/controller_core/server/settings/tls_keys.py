"""The settings of a controller's TLS, a part of `config.Settings`.

Never here: reading the files (`certificates`).

Source: RocketMQ 5.4.0 TlsSystemConfig.java for the keys that begin with `tls.`.
"""

from dataclasses import dataclass

from controller_core.server.settings.keys import InvalidSettingError, bool_key, text_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsKeys:
    """What each port does with certificates, checked."""

    tls_server_mode: str = text_key(
        "tls.server.mode",
        "permissive",
        "On the remoting port, once tls.server.certPath is given: permissive serves TLS and plain TCP, as "
        "the first byte says; enforcing serves TLS only, and sends requests on to the leader in TLS; "
        "disabled ignores certificates.",
    )
    tls_server_cert_path: str = text_key(
        "tls.server.certPath", "", "Certificate chain of the remoting port, PEM. Reloaded when it changes."
    )
    tls_server_key_path: str = text_key("tls.server.keyPath", "", "Its private key, PEM, without password.")
    tls_server_trust_path: str = text_key(
        "tls.server.trustCertPath",
        "",
        "Authorities, PEM, that must have issued the certificates of brokers, tools and, for forwarded "
        "requests, of the other controllers; the names of the latter must be the hosts of "
        "controllerDLegerPeers.",
    )
    tls_server_client_auth: str = text_key(
        "tls.server.need.client.auth",
        "none",
        "Whether clients of the remoting port must show a certificate in TLS: none, optional (verified if "
        "shown) or require, which needs tls.server.mode=enforcing.",
    )
    tls_enable: bool = bool_key(
        "tls.enable",
        default=False,
        meaning="Whether connections to brokers use TLS; needed if brokers have tls.server.mode=enforcing.",
    )
    tls_client_trust_path: str = text_key(
        "tls.client.trustCertPath",
        "",
        "Authorities, PEM, that must have issued a broker's certificate if tls.enable is set; its name is "
        "not checked. Empty: no verification, as in Java without tls.client.authServer.",
    )
    tls_client_cert_path: str = text_key(
        "tls.client.certPath", "", "Certificate chain, PEM, for brokers that require one."
    )
    tls_client_key_path: str = text_key("tls.client.keyPath", "", "Its private key, PEM, without password.")
    tls_client_mode: str = text_key(
        "tls.client.mode",
        "enforcing",
        "Once tls.enable is set: enforcing dials brokers in TLS only; permissive dials in TLS first, and in "
        "plain TCP where TLS is not answered. Use permissive while brokers move to TLS, or away from it.",
    )
    peer_tls_cert_path: str = text_key(
        "peerTlsCertPath",
        "",
        "Certificate chain between controllers, PEM; with the next two, Raft's traffic is TLS with "
        "certificates on both ends. It is server and client certificate, and names this node's host of "
        "controllerDLegerPeers.",
    )
    peer_tls_key_path: str = text_key("peerTlsKeyPath", "", "Its private key, PEM, without password.")
    peer_tls_trust_path: str = text_key(
        "peerTlsTrustCertPath", "", "Authorities, PEM, that the other controllers' certificates must be of."
    )
    peer_tls_mode: str = text_key(
        "peerTlsMode",
        "enforcing",
        "Between controllers, once peerTlsCertPath is given: enforcing speaks TLS only; permissive accepts "
        "TLS and plain TCP, and dials in TLS first. Use permissive on all controllers while the cluster "
        "moves to TLS, or away from it.",
    )
    http_tls_cert_path: str = text_key(
        "httpTlsCertPath", "", "Certificate chain of the HTTP port, PEM; with it HTTP is HTTPS."
    )
    http_tls_key_path: str = text_key("httpTlsKeyPath", "", "Its private key, PEM, without password.")
    http_tls_trust_path: str = text_key(
        "httpTlsTrustCertPath",
        "",
        "Authorities, PEM: who shows a certificate of theirs may change state over HTTP, without a token, if "
        "adminCertificateNames allows the certificate.",
    )
    http_plain: str = text_key(
        "httpPlain",
        "none",
        "What the HTTP port also serves in plain, once httpTlsCertPath is given: none, reads (probes, "
        "metrics, events) or all.",
    )
    admin_certificate_names: str = text_key(
        "adminCertificateNames",
        "",
        "Common names and DNS names, with commas between. A client certificate gives the rights of an "
        "administrator, over HTTP and on the remoting port, only if it has one of them. Empty: every "
        "certificate of the trusted authorities gives them.",
    )

    def check_tls(self) -> None:
        """Check what needs no file.

        Raises:
            InvalidSettingError: a value is not one of those allowed, or does not fit another.
        """
        for key, value, allowed in (
            ("tls.server.mode", self.tls_server_mode, ("disabled", "permissive", "enforcing")),
            ("tls.server.need.client.auth", self.tls_server_client_auth, ("none", "optional", "require")),
            ("tls.client.mode", self.tls_client_mode, ("permissive", "enforcing")),
            ("peerTlsMode", self.peer_tls_mode, ("permissive", "enforcing")),
            ("httpPlain", self.http_plain, ("none", "reads", "all")),
        ):
            if value not in allowed:
                raise InvalidSettingError(key, value, f"must be one of {', '.join(allowed)}")
        if self.tls_server_client_auth == "require" and self.tls_server_mode != "enforcing":
            raise InvalidSettingError(
                "tls.server.need.client.auth",
                "require",
                f"needs tls.server.mode=enforcing: {self.tls_server_mode} serves plain TCP too, in which no "
                "client shows a certificate",
            )

    @property
    def admin_names(self) -> frozenset[str]:
        """Names that a certificate of an administrator may have, in lower case; empty for any."""
        return frozenset(name.strip().lower() for name in self.admin_certificate_names.split(",")) - {""}
