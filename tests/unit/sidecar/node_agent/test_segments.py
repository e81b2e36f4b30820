"""The forged segments and the answers to them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.node_agent import segments

ENDS = {
    "IPv4": (("10.96.0.11", 10911), ("10.244.3.7", 40000)),
    "IPv6": (("fd00:96::11", 10911), ("fd00:244::7", 40000)),
}


def words(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.mark.parametrize("version", ENDS)
def test_checksums_and_ends_are_right(version: str) -> None:
    server, client = ENDS[version]
    packet = segments.reset(server, client, 0xFEDCBA98)
    start = 20 if version == "IPv4" else 40
    addresses = packet[12:20] if version == "IPv4" else packet[8:40]
    assert words(addresses + struct.pack("!II", 20, segments.TCP) + packet[start:]) == 0xFFFF
    if version == "IPv4":
        assert words(packet[:start]) == 0xFFFF
    source, target, sequence, _, _, flags = struct.unpack_from("!HHIIBB", packet, start)
    assert (source, target, sequence, flags) == (10911, 40000, 0xFEDCBA98, segments.RST)


@pytest.mark.parametrize("version", ENDS)
@pytest.mark.parametrize(
    ("flags", "is_over"),
    [
        pytest.param(segments.ACK, False, id="challenge"),
        pytest.param(segments.ACK | segments.SYN, False, id="still dials"),
        pytest.param(segments.ACK | segments.RST, True, id="gone"),
    ],
)
def test_an_answer_tells_the_next_sequence_number(version: str, flags: int, *, is_over: bool) -> None:
    server, client = ENDS[version]
    packet = bytearray(segments.probe(client, server))
    start = 20 if version == "IPv4" else 40
    packet[start + 8 : start + 12] = struct.pack("!I", 4_000_000_000)
    packet[start + 13] = flags
    assert segments.read_answer(bytes(packet)) == segments.ClientAnswer(client, 4_000_000_000, is_over)


def test_a_segment_without_ack_and_other_packets_are_no_answers() -> None:
    server, client = ENDS["IPv4"]
    packet = segments.probe(client, server)
    assert segments.read_answer(packet) is None
    assert segments.read_answer(b"") is None
    udp = bytearray(packet)
    udp[9], udp[33] = 17, segments.ACK
    assert segments.read_answer(bytes(udp)) is None
    fragment = bytearray(packet)
    fragment[7], fragment[33] = 1, segments.ACK
    assert segments.read_answer(bytes(fragment)) is None


@given(st.binary(max_size=160))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    segments.read_answer(data)
