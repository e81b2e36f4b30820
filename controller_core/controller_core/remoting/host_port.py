"""Addresses as `host:port` texts: one reader for options, settings, files and peers.

Each caller says in its own words what is wrong, and whether the host may be empty or the port 0.
"""

from typing import Final

HostPort = tuple[str, int]
PORT_MAX: Final = 65_535


def split_host_port(text: str) -> HostPort | None:
    """Return host and port of `host:port`, or None if the text is something else.

    The host may be empty, and loses the brackets of an IPv6 address; the port is 0 to `PORT_MAX`.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)
