"""Certificates for tests: an authority in memory that signs for loopback, as files in a directory."""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate's and its key's file."""

    cert: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        """Return a server's context that shows this certificate and asks for none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context


class Authority:
    """Signs certificates; its own is in the file `trust`."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._serial = 1
        self.trust = directory / f"{name}.pem"
        builder = self._builder(self._name, self._key.public_key())
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).add_extension(usage, critical=True)
        self.trust.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def sign(
        self, name: str, hosts: Sequence[str] = ("127.0.0.1", "localhost"), *, ended: bool = False
    ) -> CertificateFiles:
        """Write a new certificate and key of this name, good for these hosts at both ends; replaces files.

        With `ended` its time has passed.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = self._builder(_name(name), key.public_key(), ended=ended)
        builder = builder.add_extension(names, critical=False)
        pair = CertificateFiles(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        pair.cert.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        return pair

    def member(self, name: str, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> Path:
        """Write or replace a directory with a member's new certificate, its key and the authority."""
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        pair = self.sign(f"pair-of-{name}", hosts)
        for source, file in ((pair.key, "tls.key"), (pair.cert, "tls.crt"), (self.trust, "ca.crt")):
            (directory / file).write_bytes(source.read_bytes())
        return directory

    def client(self, pair: CertificateFiles | None = None) -> ssl.SSLContext:
        """Return a client's context that trusts this authority and shows `pair`."""
        context = ssl.create_default_context(cafile=str(self.trust))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def _builder(
        self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey, *, ended: bool = False
    ) -> x509.CertificateBuilder:
        self._serial += 1
        now = datetime.datetime.now(datetime.UTC) - (2 * _DAY if ended else datetime.timedelta())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(self._serial)
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )


def controllers_in_tls(authority: Authority) -> dict[str, str]:
    """Return settings of controllers that speak TLS only, with each other by certificates on both ends."""
    pair = authority.sign("controller")
    return {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(pair.cert),
        "tls.server.keyPath": str(pair.key),
        "tls.server.trustCertPath": str(authority.trust),
        "peerTlsCertPath": str(pair.cert),
        "peerTlsKeyPath": str(pair.key),
        "peerTlsTrustCertPath": str(authority.trust),
    }


def controllers_beside_plain(authority: Authority) -> dict[str, str]:
    """Return settings of controllers that serve TLS beside plain TCP, and dial brokers in TLS first."""
    pair = authority.sign("controller")
    return {
        "tls.enable": "true",
        "tls.client.mode": "permissive",
        "tls.client.trustCertPath": str(authority.trust),
        "tls.server.certPath": str(pair.cert),
        "tls.server.keyPath": str(pair.key),
    }


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
