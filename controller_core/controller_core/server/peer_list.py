"""The controllers' list, `n0-host:port;n1-host:port;...`: DLedger's form, which every RocketMQ tool writes.

Pure text to values and back. Raft's ids are the entry's number + 1 (`n0` is 1), so that a node keeps its id when the
list grows, shrinks or is written in another order.

Source: RocketMQ docs/en/controller/deploy.md; DLedger MemberState (0.3.2) for the form `id-host:port`.
"""

import re
from dataclasses import dataclass

PEERS_MAX = 9
PORT_MAX = 65_535
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
    def address(self) -> str:
        """The remoting address as brokers dial it."""
        return f"{self.host}:{self.port}"


def parse_peers(text: str) -> tuple[Peer, ...]:
    """Return the controllers in the order of the text.

    Raises:
        PeerListError: an entry is malformed, a name or address occurs twice, or there are none or too many.
    """
    entries = [entry.strip() for entry in text.split(";") if entry.strip()]
    peers = tuple(_parse_entry(entry) for entry in entries)
    if not 1 <= len(peers) <= PEERS_MAX:
        raise PeerListError(f"has {len(peers)} entries; 1 to {PEERS_MAX} are possible")
    if len({peer.name for peer in peers}) != len(peers):
        raise PeerListError("names a node twice")
    if len({peer.address for peer in peers}) != len(peers):
        raise PeerListError("names an address twice")
    return peers


def format_peers(peers: tuple[Peer, ...]) -> str:
    """Return `n0:host:port;n1:host:port;`, the other form, in which a DLedger controller answers request 1005."""
    return "".join(f"{peer.name}:{peer.address};" for peer in peers)


def _parse_entry(entry: str) -> Peer:
    name, dash, address = entry.partition("-")
    host, colon, port_text = address.rpartition(":")
    if not (dash and colon and host) or not _NAME.fullmatch(name):
        raise PeerListError(f"entry {entry!r} is not of the form nK-host:port")
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) <= PORT_MAX):
        raise PeerListError(f"entry {entry!r} has no port from 1 to {PORT_MAX}")
    return Peer(name, host, int(port_text))
