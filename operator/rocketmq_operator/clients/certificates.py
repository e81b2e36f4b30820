"""Keys and certificates by the library `cryptography`: made, signed and read.

Keys are of curve P-256 and are written as PKCS#8, which OpenSSL and Java read. Certificates carry the
identifiers of their own key and of their signer's, by which a plan tells who signed what.
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rocketmq_operator.plan.tls.observed import CertificateFacts

BACKDATED: Final = timedelta(minutes=5)
"""Certificates begin this long before they are made, because clocks of nodes differ."""
_COMMON_NAME_LENGTH_MAX: Final = 64
_BLOCK: Final = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class CertificateError(ValueError):
    """A text is not a certificate or key that can be used."""


@dataclass(frozen=True, slots=True)
class CertifiedKey:
    """A certificate and its key, both PEM."""

    certificate: str
    key: str


def new_authority(name: str, validity: timedelta, now: datetime) -> CertifiedKey:
    """Return a new authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest
    builder = _builder(subject, subject, key.public_key(), own_id)
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(now + validity)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return CertifiedKey(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue(
    authority: CertifiedKey, name: str, hosts: Iterable[str], validity: timedelta, now: datetime
) -> CertifiedKey:
    """Return a certificate for both ends of a connection; it ends with its authority at the latest.

    Raises:
        CertificateError: the authority cannot be used.
    """
    issuer, signing_key = _read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), issuer.subject, key.public_key(), bytes.fromhex(_key_id(issuer)))
    end = min(now + validity, issuer.not_valid_after_utc)
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(end)
    names = x509.SubjectAlternativeName([_host(host) for host in sorted(hosts)])
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(both, critical=False)
    return CertifiedKey(_pem(builder.sign(signing_key, hashes.SHA256())), _key_pem(key))


def check_authority(authority: CertifiedKey) -> None:
    """Check that a certificate may sign others, and that the key is its own.

    Raises:
        CertificateError: it may not.
    """
    _read_authority(authority)


def check_certificate(pair: CertifiedKey) -> None:
    """Check that a key is that of a certificate, and in PKCS#8, which Java reads.

    Raises:
        CertificateError: it is not.
    """
    if "-----BEGIN PRIVATE KEY-----" not in pair.key:
        raise CertificateError("the key is not in PKCS#8")
    _read_key(pair, _read(pair.certificate))


def signer(certificates: str, authorities: str) -> str:
    """Return the authority, PEM, that signed a certificate, or the last one of its chain.

    Args:
        certificates: the certificate and the rest of its chain.
        authorities: where the authority is, among others.

    Raises:
        CertificateError: it is not there, or may not sign.
    """
    *_, last = [_read(one) for one in split(certificates)] or [_read(certificates)]
    for found in map(_read, split(authorities)):
        try:
            last.verify_directly_issued_by(found)
        except (ValueError, TypeError, InvalidSignature):
            continue
        if not _is_authority(found):
            raise CertificateError("ca.crt may not sign others (expected CA:TRUE)")
        return _pem(found)
    raise CertificateError("ca.crt does not have the authority that signed tls.crt")


def split(texts: str) -> list[str]:
    """Return the certificates of a text, each once and in their order."""
    return list(dict.fromkeys(f"{one}\n" for one in _BLOCK.findall(texts)))


def facts(pem: str) -> CertificateFacts:
    """Return what a plan needs to know of the first certificate of a text.

    Raises:
        CertificateError: the text is not a certificate.
    """
    found = _read(pem)
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        hosts: frozenset[str] = frozenset()
    else:
        addresses = names.get_values_for_type(x509.IPAddress)
        hosts = frozenset([*names.get_values_for_type(x509.DNSName), *map(str, addresses)])
    return CertificateFacts(
        hosts=hosts,
        not_before=found.not_valid_before_utc,
        not_after=found.not_valid_after_utc,
        fingerprint=hashlib.sha256(found.public_bytes(serialization.Encoding.DER)).hexdigest(),
        key_id=_key_id(found),
        issuer_key_id=_issuer_key_id(found),
    )


def _read(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"not a certificate in PEM: {error}") from error


def _is_authority(found: x509.Certificate) -> bool:
    try:
        return found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    except ValueError as error:
        raise CertificateError(f"not the extensions of a certificate: {error}") from error


def _read_authority(authority: CertifiedKey) -> tuple[x509.Certificate, _SigningKey]:
    found = _read(authority.certificate)
    if not _is_authority(found):
        raise CertificateError("the certificate is not one of an authority (expected CA:TRUE)")
    return found, _read_key(authority, found)


def _read_key(pair: CertifiedKey, found: x509.Certificate) -> _SigningKey:
    """Return the key of a certificate; raise `CertificateError` if it is not that."""
    try:
        key = serialization.load_pem_private_key(pair.key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"not a private key in PEM without password: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise CertificateError("the key is neither an RSA key nor one of an elliptic curve")
    if _public_bytes(key.public_key()) != found.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    ):
        raise CertificateError("the key is not that of the certificate")
    return key


def _public_bytes(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _key_id(found: x509.Certificate) -> str:
    try:
        own = found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        own = x509.SubjectKeyIdentifier.from_public_key(found.public_key())
    return own.digest.hex()


def _issuer_key_id(found: x509.Certificate) -> str:
    try:
        value = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except x509.ExtensionNotFound:
        return ""
    return (value.key_identifier or b"").hex()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    own: ec.EllipticCurvePublicKey,
    signer_key_id: bytes,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(own)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier(signer_key_id, None, None), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_LENGTH_MAX])])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
