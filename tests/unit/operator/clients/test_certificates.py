"""Authorities that a person gives: which sign, and which are refused with the reason."""

import datetime
from datetime import UTC, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from rocketmq_operator.clients.certificates import (
    CertificateError,
    CertifiedKey,
    check_authority,
    facts,
    issue,
    new_authority,
)

NOW = datetime.datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
OWN = new_authority("own", 10 * DAY, NOW)


def _given(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, *, is_authority: bool = True) -> CertifiedKey:
    """Return an authority without identifiers of keys, as simple tools make it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "given")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    return CertifiedKey(pem, _key_pem(key))


def _key_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL
        if not isinstance(key, ed25519.Ed25519PrivateKey)
        else serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


@pytest.mark.parametrize("kind", ["rsa", "curve"])
def test_a_given_authority_signs_until_its_own_end(kind: str) -> None:
    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP384R1())
    authority = _given(key)
    check_authority(authority)
    pair = issue(authority, "n0", ["host", "127.0.0.1"], 30 * DAY, NOW)
    found = facts(pair.certificate)
    assert found.hosts == {"host", "127.0.0.1"}
    assert found.not_after == NOW + DAY
    assert found.issuer_key_id == facts(authority.certificate).key_id != ""
    assert "BEGIN PRIVATE KEY" in pair.key, "PKCS#8, which Java reads"
    signed = x509.load_pem_x509_certificate(pair.certificate.encode())
    signed.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        (CertifiedKey("rubbish", OWN.key), "not a certificate"),
        (CertifiedKey(OWN.certificate, "rubbish"), "not a private key"),
        (CertifiedKey(OWN.certificate, new_authority("x", DAY, NOW).key), "not that of the certificate"),
        (_given(ec.generate_private_key(ec.SECP256R1()), is_authority=False), "not one of an authority"),
        (issue(OWN, "n0", ["host"], DAY, NOW), "not one of an authority"),
        (CertifiedKey(OWN.certificate, _key_pem(ed25519.Ed25519PrivateKey.generate())), "neither an RSA key"),
    ],
)
def test_what_cannot_sign_is_refused_with_the_reason(pair: CertifiedKey, problem: str) -> None:
    with pytest.raises(CertificateError, match=problem):
        check_authority(pair)
