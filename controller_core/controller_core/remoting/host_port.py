"""Addresses as `host:port` texts: one reader and one writer for options, settings, files and peers.

An IPv6 host stands in brackets. A text without them is read too if an IPv6 address precedes its last colon: a
broker whose brokerIP1 lacks the brackets announces itself so, and Java reads it so.

Each caller words its own error, and decides whether the host may be empty or the port 0.
"""

import ipaddress
from typing import Final

from controller_core.remoting.numbers import whole_number

HostPort = tuple[str, int]
PORT_MAX: Final = 65_535
_PORT_DIGITS_MAX: Final = 9
"""Leading zeros included: Python refuses to convert texts of thousands of digits."""


def split_host_port(text: str) -> HostPort | None:
    """Return host and port of `host:port`, or None if the text is something else.

    The host may be empty, and loses the brackets of an IPv6 address; the port is 0 to `PORT_MAX`.
    """
    host, colon, told_port = text.rpartition(":")
    port = whole_number(told_port, _PORT_DIGITS_MAX)
    if not colon or port is None or port > PORT_MAX:
        return None
    if ":" not in host and not host.startswith("[") and not host.endswith("]"):
        return host, port
    is_bracketed = host.startswith("[") and host.endswith("]")
    address = host[1:-1] if is_bracketed else host
    return (address, port) if _is_v6(address) else None


def read_host_port(text: str) -> HostPort:
    """Return host and port of an address to dial.

    Raises:
        ValueError: the text is not `host:port`, or it has no host.
    """
    found = split_host_port(text)
    if found is None or not found[0]:
        raise ValueError(f"invalid address {text!r} (expected host:port)")
    return found


def join_host_port(host: str, port: int | str) -> str:
    """Return `host:port`; an IPv6 host gets brackets unless it has them."""
    return f"{bracketed(host)}:{port}"


def bracketed(host: str) -> str:
    """Return a host as it stands before a port: an IPv6 address in brackets, all others as they are."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_of(address: str) -> str:
    """Return the host of `host:port` without brackets; empty if the text is something else."""
    found = split_host_port(address)
    return "" if found is None else found[0]


def plain_host(host: str) -> str:
    """Return an IP address in its shortest form, an IPv4 address in IPv6 as IPv4; a name as it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_v6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
