"""Addresses as `host:port` texts: from settings, from peers, from routes."""

from controller_core.remoting.host_port import PORT_MAX, HostPort, split_host_port

__all__ = ["PORT_MAX", "AddressError", "HostPort", "host_port", "host_ports"]


class AddressError(ValueError):
    """A text is not `host:port`; the error's text shows it."""


def host_port(text: str) -> HostPort:
    """Return host and port of `host:port`; an IPv6 host stands in brackets.

    Raises:
        AddressError: the text is anything else.
    """
    found = split_host_port(text.strip())
    if found is None or not found[0]:
        raise AddressError(f"{text!r} is not host:port")
    return found


def host_ports(text: str) -> tuple[HostPort, ...]:
    """Return the addresses of a list that is separated by commas, or by semicolons as RocketMQ does.

    Raises:
        AddressError: one of them is not `host:port`.
    """
    return tuple(host_port(part) for part in text.replace(";", ",").split(",") if part.strip())
