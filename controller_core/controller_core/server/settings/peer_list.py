"""The controllers' list, `n0-host:port;n1-host:port;...`: DLedger's form, which every RocketMQ tool writes.

Pure text to values and back. Raft's ids are the entry's number + 1 (`n0` is 1), so that a node keeps its id
when the list grows, shrinks or is written in another order. DLedger takes any text for an id; here it is `n`
and a number.

Source: RocketMQ docs/en/controller/deploy.md; DLedger MemberState (0.3.2) for the form `id-host:port`.
"""

import ipaddress
import re
from dataclasses import dataclass

from controller_core.remoting.host_port import PORT_MAX
from controller_core.remoting.numbers import whole_number

PEERS_MAX = 9
HOST_CHARACTERS_MAX = 253
"""Of a host name, as in DNS."""
_PORT_DIGITS_MAX = 5
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_NAME = re.compile(r"n(0|[1-9]\d{0,4})")


class PeerListError(ValueError):
    """The text is not a list of controllers; the message names the entry."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One controller: its name, and the host and port at which brokers reach it."""

    name: str
    host: str
    port: int

    @property
    def raft_id(self) -> int:
        """Raft's id of this node, from 1."""
        return int(self.name[1:]) + 1

    @property
    def dial_host(self) -> str:
        """The host as a socket takes it: an IPv6 address without its brackets."""
        return self.host.removeprefix("[").removesuffix("]")

    @property
    def address(self) -> str:
        """The remoting address as brokers dial it."""
        return f"{self.host}:{self.port}"


def parse_peers(text: str) -> tuple[Peer, ...]:
    """Return the controllers in the order of the text; it may end with a separator.

    Raises:
        PeerListError: an entry is empty or malformed, a name or address occurs twice, or the list is empty or
            too long.
    """
    entries = [entry.strip() for entry in text.strip().removesuffix(";").split(";")]
    if entries == [""]:
        raise PeerListError("is empty, expected n0-host:port;n1-host:port;...")
    if "" in entries:
        raise PeerListError(
            f"entry {entries.index('') + 1} of {len(entries)} is empty, expected nK-host:port"
        )
    peers = tuple(_parse_entry(entry) for entry in entries)
    if len(peers) > PEERS_MAX:
        raise PeerListError(f"has {len(peers)} entries, expected 1 to {PEERS_MAX}")
    for kind, values in (
        ("node", [peer.name for peer in peers]),
        ("address", [_same(peer) for peer in peers]),
    ):
        if twice := next((value for value in values if values.count(value) > 1), None):
            raise PeerListError(f"names the {kind} {twice!r} twice, expected each once")
    return peers


def format_peers(peers: tuple[Peer, ...]) -> str:
    """Return `n0:host:port;n1:host:port;`, the form in which a DLedger controller answers request 1005."""
    return "".join(f"{peer.name}:{peer.address};" for peer in peers)


def _parse_entry(entry: str) -> Peer:
    name, dash, address = entry.partition("-")
    host, colon, port_text = address.rpartition(":")
    if not (dash and colon and host):
        raise PeerListError(f"entry {entry!r} is not of the form nK-host:port, with ';' between entries")
    if not _NAME.fullmatch(name):
        raise PeerListError(f"entry {entry!r} has the node id {name!r}, expected n and a number, as n0")
    port = whole_number(port_text, _PORT_DIGITS_MAX)
    if port is None or not 0 < port <= PORT_MAX:
        raise PeerListError(f"entry {entry!r} has the port {port_text!r}, expected 1 to {PORT_MAX}")
    _check_host(entry, host)
    return Peer(name, host, port)


def _check_host(entry: str, host: str) -> None:
    if host.startswith("[") and host.endswith("]"):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise PeerListError(
                f"entry {entry!r} has the host {host!r}, expected an IPv6 address in []"
            ) from None
    elif ":" in host and set(host) <= set("0123456789abcdefABCDEF:.[]"):
        raise PeerListError(
            f"entry {entry!r} has the host {host!r}, expected one port, and an IPv6 address in []"
        )
    elif not _HOST.fullmatch(host) or len(host) > HOST_CHARACTERS_MAX:
        raise PeerListError(
            f"entry {entry!r} has the host {host!r}, "
            "expected a host name or an address, and ';' between entries"
        )


def _same(peer: Peer) -> str:
    """Return the address in the one form that all its spellings share."""
    if peer.host.startswith("["):
        return f"[{ipaddress.IPv6Address(peer.dial_host)}]:{peer.port}"
    return peer.address.lower()
