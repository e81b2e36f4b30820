"""Addresses as `host:port` texts: from settings, from peers, from routes."""

HostPort = tuple[str, int]
PORT_MAX = 65_535


class AddressError(ValueError):
    """A text is not `host:port`; the error's text shows it."""


def host_port(text: str) -> HostPort:
    """Return host and port of `host:port`; an IPv6 host stands in brackets.

    Raises:
        AddressError: the text is anything else.
    """
    host, separator, port = text.strip().rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise AddressError(f"{text!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def host_ports(text: str) -> tuple[HostPort, ...]:
    """Return the addresses of a list that is separated by commas, or by semicolons as RocketMQ does.

    Raises:
        AddressError: one of them is not `host:port`.
    """
    return tuple(host_port(part) for part in text.replace(";", ",").split(",") if part.strip())
