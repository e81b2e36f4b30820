"""The socket below a connection: how its address is written, and the options that it gets."""

import socket
from typing import Final

from controller_core.remoting.host_port import join_host_port

EVERY_V4: Final = "0.0.0.0"  # noqa: S104 - the word for every interface
EVERY_V6: Final = "::"
KEEPALIVE_IDLE_S: Final = 30
KEEPALIVE_INTERVAL_S: Final = 10
KEEPALIVE_PROBES_MAX: Final = 3


def address_text(name: object) -> str:
    """Format a socket's name; an IPv6 host is bracketed."""
    if not isinstance(name, tuple) or len(name) < 2:
        return str(name or "")
    host, port = name[0], name[1]
    return join_host_port(str(host), port)


def listening_hosts(host: str, port: int) -> list[str]:
    """Return the addresses at which a process listens that was given this host.

    The host 0.0.0.0, or none, is every interface in IPv4 and IPv6, as it is to Java. With port 0 it is IPv4
    alone: the kernel would choose two ports. Without IPv6 in this machine's kernel it is IPv4, too.
    """
    if not _is_every(host):
        return [host]
    return [EVERY_V4] if port == 0 or not _has_v6() else [EVERY_V4, EVERY_V6]


def _is_every(host: str) -> bool:
    return host in {"", EVERY_V4}


def _has_v6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((EVERY_V6, 0))
    except OSError:
        return False
    return True


def listening_at(host: str, port: int, backlog: int) -> socket.socket:
    """Return one socket that listens at a host; at every interface for 0.0.0.0 or none.

    Raises:
        OSError: the port cannot be had.
    """
    if _is_every(host):
        return listening_everywhere(port, backlog)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


def listening_everywhere(port: int, backlog: int) -> socket.socket:
    """Return one socket that listens at a port of every interface, in IPv4 and IPv6.

    It shows peers of IPv4 as addresses of IPv6 (`host_port.plain_host`).

    Raises:
        OSError: the port cannot be had.
    """
    made = unbound_everywhere()
    try:
        made.bind(("", port))
        made.listen(backlog)
    except OSError:
        made.close()
        raise
    return made


def unbound_everywhere() -> socket.socket:
    """Return a socket for every interface, in IPv4 and IPv6, that is still to be bound to a port."""
    is_dual = _has_v6() and socket.has_dualstack_ipv6()
    made = socket.socket(socket.AF_INET6 if is_dual else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_dual:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return made


def set_options(sock: socket.socket | None) -> None:
    """Send small frames at once, and find peers whose host is gone."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES_MAX),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
