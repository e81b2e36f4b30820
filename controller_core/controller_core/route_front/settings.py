"""The settings of a route front: its name servers, its listener's addresses, its ports and its bounds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HostPort = tuple[str, int]

REMOTING_PORT: Final = 9876
"""A name server's port: clients take a route front for one."""
HTTP_PORT: Final = 9883
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
    connect_s: float = 0.7
    try_s: float = 1.0
    answer_s: float = 2.8
    reload_s: float = 1.0


@dataclass(frozen=True, slots=True)
class RouteFrontSettings:
    """The settings of one route front.

    Attributes:
        name_servers: HOST:PORT of each name server, separated by semicolons; they are tried in turn
        addresses: JSON file with the listener's address of each broker; read again when it changes
        listen: HOST:PORT for clients (default: 0.0.0.0:9876)
        http: HOST:PORT for probes and metrics (default: 0.0.0.0:9883)
        bounds: of connections, requests and times.
    """

    name_servers: tuple[HostPort, ...]
    addresses: Path
    listen: HostPort = ("0.0.0.0", REMOTING_PORT)  # noqa: S104 - inside a pod
    http: HostPort = ("0.0.0.0", HTTP_PORT)  # noqa: S104 - inside a pod
    bounds: RouteFrontBounds = field(default_factory=RouteFrontBounds)


def host_port(option: str, text: str) -> HostPort:
    """Return host and port of `host:port`; an IPv6 host stands in brackets.

    Raises:
        SettingsError: the text is anything else.
    """
    host, _, port = text.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise SettingsError(f"invalid {option} {text!r} (expected HOST:PORT)")
    return host.removeprefix("[").removesuffix("]"), int(port)


def name_servers(option: str, text: str) -> tuple[HostPort, ...]:
    """Return the name servers of a list that is separated by semicolons.

    Raises:
        SettingsError: the list is empty or too long, or one of them is not `host:port`.
    """
    found = tuple(host_port(option, part) for part in text.split(";") if part.strip())
    if not 0 < len(found) <= NAME_SERVERS_MAX:
        raise SettingsError(f"invalid {option} {text!r} (expected 1 to {NAME_SERVERS_MAX} name servers)")
    return found
