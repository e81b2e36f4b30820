"""End connections of this node's pods by forged segments (`segments` has the exchange).

The segments leave through the link that leads to the client, below netfilter: conntrack would give a forged
segment another port, because the translated connection has the same ends. Only clients that this node reaches
without a gateway are pods of this node; others are left alone.

One exchange takes all flows at once and at most `EXCHANGE_S`.
"""

import contextlib
import ctypes
import errno
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ha_sidecar.address import HostPort
from ha_sidecar.node_agent import segments
from ha_sidecar.node_agent.flows import Flow

EXCHANGE_S: Final = 0.3
FLOWS_MAX: Final = 1_000
"""Flows of one exchange."""
ETH_P_IP: Final = 0x0800
ETH_P_IPV6: Final = 0x86DD
_LOOPBACK: Final = bytes(6)
_SO_ATTACH_FILTER: Final = 26
_RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024

_SHORT_PACKETS: Final = (
    (0x80, 0, 0, 0),  # load the packet's length
    (0x25, 1, 0, segments.PACKET_BYTES_MAX),  # longer than an answer can be?
    (0x06, 0, 0, segments.PACKET_BYTES_MAX),  # no: take it
    (0x06, 0, 0, 0),  # yes: drop it
)
"""A filter of the kernel (BPF), so that a node's data does not pass through this process."""


@dataclass(frozen=True, slots=True)
class ClientLink:
    """Where a client's packets go: the interface, and the client's link address."""

    interface: int
    hardware: bytes


@dataclass(frozen=True, slots=True)
class ForgedResets:
    """The result of an exchange.

    Attributes:
        reset: ended, or over already.
        unanswered: their clients said nothing.
        foreign: their clients are not on this node, or the node does not know their link address.
    """

    reset: tuple[Flow, ...]
    unanswered: tuple[Flow, ...]
    foreign: tuple[Flow, ...]


class ClientLinks:
    """The node's routes and neighbours."""

    def __init__(self) -> None:
        """Open the netlink socket."""
        self._routes: Final[Any] = IPRoute()

    def close(self) -> None:
        """Close the socket."""
        self._routes.close()

    def to(self, host: str) -> ClientLink | None:
        """Return where packets to a host of this node go; None if it is behind a gateway or unknown."""
        try:
            routes = list(self._routes.route("get", dst=host))
            if not routes or routes[0].get_attr("RTA_GATEWAY") is not None:
                return None
            interface = routes[0].get_attr("RTA_OIF")
            if routes[0]["type"] == _LOCAL_ROUTE:
                return ClientLink(socket.if_nametoindex("lo"), _LOOPBACK)
            neighbours = self._routes.get_neighbours(
                family=socket.AF_INET6 if segments.is_v6(host) else socket.AF_INET,
                ifindex=interface,
                match=lambda neighbour: neighbour.get_attr("NDA_DST") == host,
            )
        except (NetlinkError, OSError):
            return None
        for neighbour in neighbours:
            if text := neighbour.get_attr("NDA_LLADDR"):
                return ClientLink(interface, bytes.fromhex(text.replace(":", "")))
        return None


_LOCAL_ROUTE: Final = 2


def reset_by_segments(links: ClientLinks, flows: Sequence[Flow]) -> ForgedResets:
    """End at most `FLOWS_MAX` connections, and return which of them ended.

    Raises:
        OSError: this process may not use packet sockets.
    """
    known = {client: links.to(client) for client in {flow.client[0] for flow in flows}}
    reachable = {flow.client: flow for flow in flows if known[flow.client[0]] is not None}
    foreign = tuple(flow for flow in flows if known[flow.client[0]] is None)
    waiting = dict(reachable)
    with contextlib.ExitStack() as stack:
        wires: dict[tuple[int, int], socket.socket] = {}
        ready = stack.enter_context(selectors.DefaultSelector())
        for flow in reachable.values():
            key = _wire(flow, known)
            if key not in wires:
                wires[key] = stack.enter_context(_packet_socket(*key))
                ready.register(wires[key], selectors.EVENT_READ)
        for flow in reachable.values():
            _send(wires, flow, known, segments.probe(flow.address, flow.client))
        until_s = time.monotonic() + EXCHANGE_S
        while waiting and (left_s := until_s - time.monotonic()) > 0:
            for answer in _answers(key.fileobj for key, _ in ready.select(left_s)):
                flow_answered = waiting.pop(answer.client, None)
                if flow_answered is not None and not answer.is_over:
                    packet = segments.reset(flow_answered.address, answer.client, answer.next_sequence)
                    _send(wires, flow_answered, known, packet)
    reset = tuple(flow for client, flow in reachable.items() if client not in waiting)
    return ForgedResets(reset, tuple(waiting.values()), foreign)


def _wire(flow: Flow, links: dict[str, ClientLink | None]) -> tuple[int, int]:
    link = links[flow.client[0]]
    return (link.interface if link is not None else 0), _protocol(flow.client)


def _protocol(end: HostPort) -> int:
    return ETH_P_IPV6 if segments.is_v6(end[0]) else ETH_P_IP


def _send(
    wires: dict[tuple[int, int], socket.socket],
    flow: Flow,
    links: dict[str, ClientLink | None],
    packet: bytes,
) -> None:
    link = links[flow.client[0]]
    if link is None:
        return
    name = socket.if_indextoname(link.interface)
    with contextlib.suppress(OSError):
        wire = wires[_wire(flow, links)]
        wire.sendto(packet, (name, _protocol(flow.client), 0, 0, link.hardware))


def _answers(wires: Iterable[object]) -> Iterable[segments.ClientAnswer]:
    for wire in wires:
        while isinstance(wire, socket.socket):
            try:
                packet = wire.recv(segments.PACKET_BYTES_MAX)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENETDOWN):
                    raise
                break
            answer = segments.read_answer(packet)
            if answer is not None:
                yield answer


def _packet_socket(interface: int, protocol: int) -> socket.socket:
    """Return a socket for packets without link headers on one interface."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    try:
        wire.setblocking(False)
        code = b"".join(struct.pack("=HBBI", *instruction) for instruction in _SHORT_PACKETS)
        kept = ctypes.create_string_buffer(code)
        program = struct.pack("HP", len(_SHORT_PACKETS), ctypes.addressof(kept))
        wire.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        wire.bind((socket.if_indextoname(interface), protocol))
    except OSError:
        wire.close()
        raise
    return wire
