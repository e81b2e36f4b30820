"""The names in a peer's certificate, as `ssl` gives them for one that was verified.

Pure: values in, values out. Whether a dialled server has the right name is checked by `ssl` itself; these
functions are for the other direction, where a server asks who the client is.
"""

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

PeerCertificate = Mapping[str, Any]
"""What `ssl.SSLSocket.getpeercert()` returns."""
_DNS: Final = "DNS"
_IP: Final = "IP Address"


def subject_names(certificate: PeerCertificate) -> frozenset[str]:
    """Return the common names of the subject and the DNS names, in lower case."""
    common = (
        value
        for attributes in certificate.get("subject", ())
        for key, value in attributes
        if key == "commonName"
    )
    return frozenset(str(name).lower() for name in (*common, *_alternatives(certificate, _DNS)))


def names_host(certificate: PeerCertificate, host: str) -> bool:
    """Tell whether a certificate is good for a host, by its subject alternative names only."""
    address = _address(host)
    if address is not None:
        return address in {_address(text) for text in _alternatives(certificate, _IP)}
    name = host.lower().rstrip(".")
    return any(_covers(pattern.lower(), name) for pattern in _alternatives(certificate, _DNS))


def shown_names(certificate: PeerCertificate) -> str:
    """Return the subject alternative names for a message."""
    found = sorted({*_alternatives(certificate, _DNS), *_alternatives(certificate, _IP)})
    return ", ".join(found) or "no host"


def is_administrator(certificate: PeerCertificate | None, allowed: Collection[str]) -> bool:
    """Tell whether a verified certificate is one of an administrator.

    Args:
        certificate: the client's; None or empty without one.
        allowed: names of administrators in lower case; empty for every certificate.
    """
    return bool(certificate) and (not allowed or not subject_names(certificate or {}).isdisjoint(allowed))


def _alternatives(certificate: PeerCertificate, kind: str) -> Iterator[str]:
    return (str(value) for key, value in certificate.get("subjectAltName", ()) if key == kind)


def _covers(pattern: str, name: str) -> bool:
    """Tell whether a DNS name of a certificate means a host; `*` stands for the whole first label."""
    if not pattern.startswith("*."):
        return pattern == name
    return name.partition(".")[2] == pattern[2:] != ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
