"""Write and read the TCP segments that end a connection from outside, for IPv4 and IPv6.

1. A SYN that seems to come from the server reaches the client's socket. Its kernel answers with a challenge
   ACK (RFC 5961, 4.2), which carries the next sequence number that it accepts. A socket that still dials
   answers with SYN and ACK, and the same number.
2. A RST with exactly that number ends the connection (RFC 5961, 3.2): the client reads ECONNRESET.

Any other segment of the client with an ACK carries that number too, so a retransmission serves as well.

On a bridge whose packets pass iptables, an answer is seen after its destination was translated. So an answer
is recognised by the client's address and port only.

This module does no I/O.
"""

import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

from ha_sidecar.address import HostPort

TCP: Final = 6
SYN: Final = 0x02
RST: Final = 0x04
ACK: Final = 0x10
PACKET_BYTES_MAX: Final = 128
"""Longest answer: headers of IPv6 and TCP with all options, without data."""
SYN_SEQUENCE: Final = 12_345
_WINDOW: Final = 1_024
_HOPS: Final = 64
_V4_BYTES: Final = 20
_V6_BYTES: Final = 40
_TCP_BYTES: Final = 20
_V4: Final = struct.Struct("!BBHHHBBH4s4s")
_V6: Final = struct.Struct("!IHBB16s16s")
_TCP: Final = struct.Struct("!HHIIBBHHH")


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """What a client's kernel answered.

    Attributes:
        client: the answering socket.
        next_sequence: the sequence number that it accepts next.
        is_over: it answered with RST: the connection has ended already.
    """

    client: HostPort
    next_sequence: int
    is_over: bool


def is_v6(host: str) -> bool:
    """Say whether a host is an IPv6 address."""
    return ipaddress.ip_address(host).version == 6


def probe(server: HostPort, client: HostPort) -> bytes:
    """Return the packet that makes the client's kernel tell its next sequence number."""
    return _packet(server, client, SYN_SEQUENCE, SYN)


def reset(server: HostPort, client: HostPort, sequence: int) -> bytes:
    """Return the packet that ends the client's connection."""
    return _packet(server, client, sequence, RST)


def read_answer(packet: bytes) -> ClientAnswer | None:
    """Read a packet; None if it is not a TCP segment with an ACK, or is cut off."""
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= _V4_BYTES:
        start, protocol, source = (packet[0] & 15) * 4, packet[9], packet[12:16]
        if struct.unpack_from("!H", packet, 6)[0] & 0x1FFF:
            return None
    elif version == 6 and len(packet) >= _V6_BYTES:
        start, protocol, source = _V6_BYTES, packet[6], packet[8:24]
    else:
        return None
    if protocol != TCP or len(packet) < start + _TCP_BYTES:
        return None
    port, _, _, acknowledged, _, flags, *_ = _TCP.unpack_from(packet, start)
    if not flags & ACK:
        return None
    return ClientAnswer((str(ipaddress.ip_address(source)), port), acknowledged, bool(flags & RST))


def _packet(source: HostPort, target: HostPort, sequence: int, flags: int) -> bytes:
    sender, receiver = (ipaddress.ip_address(host).packed for host, _ in (source, target))
    segment = _TCP.pack(source[1], target[1], sequence, 0, 5 << 4, flags, _WINDOW, 0, 0)
    pseudo = sender + receiver + struct.pack("!II", len(segment), TCP)
    segment = segment[:16] + struct.pack("!H", _checksum(pseudo + segment)) + segment[18:]
    if len(sender) == 16:
        return _V6.pack(6 << 28, len(segment), TCP, _HOPS, sender, receiver) + segment
    whole = _V4_BYTES + len(segment)
    header = _V4.pack(0x45, 0, whole, 0, 0x4000, _HOPS, TCP, 0, sender, receiver)
    return header[:10] + struct.pack("!H", _checksum(header)) + header[12:] + segment


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
