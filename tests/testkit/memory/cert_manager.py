"""What cert-manager does with a Certificate, as far as the operator uses it.

`pursue` is one look at a Certificate and its Secret: it returns what to write. Conditions, reasons,
annotations and keys of the Secret are those of cert-manager 1.21 (readiness, trigger and issuing controllers;
the issuer of kind CA). It does not: make CertificateRequests, write Events, wait longer after each failure.
"""

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]
GROUP: Final = "cert-manager.io"
KIND: Final = "Certificate"
_DAY: Final = timedelta(days=1)
_EXTENDED: Final = {
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
}


class SigningIssuer:
    """An issuer of kind CA.

    Attributes:
        tells_authority: whether Secrets have `ca.crt`; those of ACME do not.
        failure: why requests fail; empty if they do not.
    """

    def __init__(self, name: str, now: datetime, days: float = 1_000) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, self._key, now, now + timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.tells_authority = True
        self.failure = ""

    @property
    def pem(self) -> str:
        """Its certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, spec: Json, now: datetime) -> dict[str, str]:
        """Return the content of the Secret for a Certificate's spec."""
        key, end = ec.generate_private_key(ec.SECP256R1()), now + _duration(spec["duration"])
        builder = _builder(
            x509.Name([]),
            self._certificate.subject,
            key,
            now,
            min(end, self._certificate.not_valid_after_utc),
        )
        names = [x509.DNSName(one) for one in spec.get("dnsNames", ())]
        addresses = [x509.IPAddress(ipaddress.ip_address(one)) for one in spec.get("ipAddresses", ())]
        builder = builder.add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=True)
        extended = [_EXTENDED[one] for one in spec["usages"] if one in _EXTENDED]
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        form = {
            "PKCS8": serialization.PrivateFormat.PKCS8,
            "PKCS1": serialization.PrivateFormat.TraditionalOpenSSL,
        }
        private = key.private_bytes(
            serialization.Encoding.PEM,
            form[spec["privateKey"].get("encoding", "PKCS1")],
            serialization.NoEncryption(),
        )
        signed = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
        texts = {"tls.crt": signed, "tls.key": private.decode()}
        return texts | ({"ca.crt": self.pem} if self.tells_authority else {})


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).add_extension(own, critical=False)
    return builder.not_valid_before(begin).not_valid_after(end)


@dataclass(frozen=True, slots=True)
class Pursued:
    """What one look at a Certificate leads to: its status, and its Secret if that changes."""

    status: Json
    secret: Json | None


def pursue(live: Json, secret: Json | None, issuers: Mapping[str, SigningIssuer], now: datetime) -> Pursued:
    """Return what cert-manager writes for a Certificate; `issuers` are those that are ready, by name."""
    reason, message = _why_issue(live, secret, now)
    if not reason:
        return Pursued(
            _status(live, now, secret, ("True", "Ready", "Certificate is up to date and has not expired")),
            None,
        )
    issuer = issuers.get(live["spec"]["issuerRef"]["name"])
    ready = ("False", reason, message)
    if reason == "Renewing":
        ready = ("True", "Ready", "Certificate is up to date and has not expired")
    if issuer is None:
        return Pursued(_status(live, now, secret, ready, ("True", reason, message)), None)
    if issuer.failure:
        text = f"The certificate request has failed to complete and will be retried: {issuer.failure}"
        return Pursued(_status(live, now, secret, ready, ("False", "Failed", text)), None)
    made = _secret(live, issuer.sign(live["spec"], now))
    done = ("True", "Ready", "Certificate is up to date and has not expired")
    return Pursued(_status(live, now, made, done), made)


def _why_issue(live: Json, secret: Json | None, now: datetime) -> tuple[str, str]:
    spec = live["spec"]
    if secret is None:
        return "DoesNotExist", "Issuing certificate as Secret does not exist"
    annotations = secret["metadata"].get("annotations", {})
    for key in ("name", "kind", "group"):
        if annotations.get(f"{GROUP}/issuer-{key}") != spec["issuerRef"].get(key):
            return "IncorrectIssuer", "Issuing certificate as Secret was previously issued by another issuer"
    found = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    has = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    if has != {*spec.get("dnsNames", ()), *spec.get("ipAddresses", ())}:
        return (
            "RequestChanged",
            "Fields on existing CertificateRequest resource not up to date: [spec.dnsNames]",
        )
    if found.not_valid_after_utc - now <= _duration(spec["renewBefore"]):
        return "Renewing", "Renewing certificate as renewal was scheduled"
    return "", ""


def _secret(live: Json, texts: Mapping[str, str]) -> Json:
    issuer = live["spec"]["issuerRef"]
    annotations = {f"{GROUP}/issuer-{key}": issuer.get(key, "") for key in ("name", "kind", "group")}
    metadata = {
        "name": live["spec"]["secretName"],
        "namespace": live["metadata"]["namespace"],
        "annotations": annotations | {f"{GROUP}/certificate-name": live["metadata"]["name"]},
        "labels": {"controller.cert-manager.io/fao": "true"},
    }
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/tls",
        "data": data,
    }


def _status(
    live: Json,
    now: datetime,
    secret: Json | None,
    ready: tuple[str, str, str],
    issuing: tuple[str, str, str] | None = None,
) -> Json:
    former = {one["type"]: one for one in (live.get("status") or {}).get("conditions", [])}
    conditions = []
    for type_, told in (("Ready", ready), ("Issuing", issuing)):
        if told is not None:
            status, reason, message = told
            since = former.get(type_, {})
            moved = since["lastTransitionTime"] if since.get("status") == status else _time(now)
            conditions.append(
                {
                    "type": type_,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": moved,
                    "observedGeneration": live["metadata"].get("generation", 0),
                }
            )
    status_: Json = {"conditions": conditions}
    if secret is not None:
        found = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
        status_["notAfter"] = _time(found.not_valid_after_utc)
    return status_


def _time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _duration(text: str) -> timedelta:
    """Return a duration as Go writes whole hours."""
    return timedelta(hours=int(text.partition("h")[0]))


class MemoryCertManager:
    """Pursues all Certificates of a Kubernetes in memory; `issuers` are those that exist, by name."""

    def __init__(self, kube: MemoryKube) -> None:
        self._kube = kube
        self.issuers: dict[str, SigningIssuer] = {}

    def work(self, now: datetime) -> None:
        """Look at each Certificate once."""
        for (kind, namespace, name), live in sorted(self._kube.objects.items()):
            if kind != KIND:
                continue
            secret = self._kube.objects.get(("Secret", namespace, live["spec"]["secretName"]))
            pursued = pursue(live, secret, self.issuers, now)
            if pursued.secret is not None:
                self._kube.put(pursued.secret)
            self._kube.objects[kind, namespace, name]["status"] = pursued.status
