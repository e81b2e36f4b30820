"""The settings of a route front: its name servers, its listener's addresses, its ports and its bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controller_core.remoting.host_port import HostPort, split_host_port
from controller_core.tls.files import PERMISSIVE

REMOTING_PORT: Final = 9876
"""A name server's port: clients take a route front for one."""
HTTP_PORT: Final = 9883
EVERY_INTERFACE: Final = "0.0.0.0"  # noqa: S104 - inside a pod
NAME_SERVERS_MAX: Final = 16


class SettingsError(ValueError):
    """A setting is wrong; the text names it, its value and the expected form."""


@dataclass(frozen=True, slots=True)
class RouteFrontBounds:
    """What a route front allows clients and name servers.

    Attributes:
        connections_max: clients at a time; more are closed.
        requests_max: requests that wait for a name server, of all clients; more are answered "system busy".
        client_requests_max: the same of one connection.
        request_bytes_max: a longer request ends its connection.
        unsent_bytes_max: bytes that may wait for one client before it is cut off; one of the largest frames.
        held_bytes_max: unfinished and waiting requests and unsent answers of all clients; the client with the
            most of them is cut off.
        connect_s: time for a connection to one name server.
        try_s: time for the answer of one name server.
        answer_s: time for all name servers together; RocketMQ's clients wait for 3 s.
        reload_s: how often the address file is read.
    """

    connections_max: int = 4_096
    requests_max: int = 4_096
    client_requests_max: int = 64
    request_bytes_max: int = 64 * 1024
    unsent_bytes_max: int = 17 * 1024 * 1024
    held_bytes_max: int = 32 * 1024 * 1024
    connect_s: float = 0.7
    try_s: float = 1.0
    answer_s: float = 2.8
    reload_s: float = 1.0


@dataclass(frozen=True, slots=True)
class RouteFrontSettings:
    """The settings of one route front.

    Attributes:
        name_servers: the name servers, which are tried in turn
        addresses: JSON file with the listener's address of each broker; read again when it changes
        listen: where clients connect (default: 0.0.0.0:9876)
        http: where probes and metrics are served (default: 0.0.0.0:9883)
        tls: directory with a certificate for clients and its key (tls.crt, tls.key) and the authorities of
            the name servers (ca.crt); without it, plain TCP alone
        tls_mode: once tls is given: permissive serves TLS and plain TCP, and dials name servers in TLS first;
            enforcing serves and dials in TLS only (default: permissive)
        bounds: of connections, requests and times.
    """

    name_servers: tuple[HostPort, ...]
    addresses: Path
    listen: HostPort = (EVERY_INTERFACE, REMOTING_PORT)
    http: HostPort = (EVERY_INTERFACE, HTTP_PORT)
    tls: Path | None = None
    tls_mode: str = PERMISSIVE
    bounds: RouteFrontBounds = field(default_factory=RouteFrontBounds)


def name_servers(option: str, texts: Sequence[str]) -> tuple[HostPort, ...]:
    """Return host and port of each name server; an IPv6 host stands in brackets.

    Raises:
        SettingsError: there are too many, or one of them is not `host:port`.
    """
    if len(texts) > NAME_SERVERS_MAX:
        raise SettingsError(f"{option} has {len(texts)} values (expected at most {NAME_SERVERS_MAX})")
    return tuple(_host_port(option, text) for text in texts)


def _host_port(option: str, text: str) -> HostPort:
    found = split_host_port(text.strip())
    if found is None or not found[0] or not found[1]:
        raise SettingsError(f"invalid {option} {text!r} (expected HOST:PORT)")
    return found
