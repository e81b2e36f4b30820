"""The HA messages byte by byte, both handshake forms, and refused input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.codec import FrameHeader, Handshake, HandshakeReply, LegacyHandshake
from ha_sidecar.transfer.errors import HaProtocolError

LEGACY_HEAD = bytes.fromhex("0000000100000000")


def test_the_handshake_is_sixteen_golden_bytes() -> None:
    golden = bytes.fromhex("00000001000000000000000000000002")
    assert codec.encode_handshake(Handshake(2)) == golden
    assert codec.decode_handshake(golden) == (Handshake(2), 16)


def test_the_flags_of_the_handshake_are_two_shorts() -> None:
    data = codec.encode_handshake(Handshake(7, sync_from_last_file=True, async_learner=True))
    assert data == bytes.fromhex("00000001000100010000000000000007")
    assert codec.decode_handshake(data) == (Handshake(7, True, True), 16)


def test_the_reply_is_golden() -> None:
    golden = bytes.fromhex("000000010000000C00000000000005B400000001000000010000000000000000")
    reply = HandshakeReply(1460, EpochList.of((1, 0)))
    assert codec.encode_reply(reply) == golden
    assert codec.decode_reply(golden) == reply


def test_an_empty_master_replies_with_epoch_minus_one() -> None:
    data = codec.encode_reply(HandshakeReply(0, EpochList()))
    assert data == bytes.fromhex("00000001000000000000000000000000ffffffff")
    assert codec.decode_reply(data) == HandshakeReply(0, EpochList())


def test_frame_and_ack_are_golden() -> None:
    header = FrameHeader(146, 1460, 2, 1314, 1460)
    golden = bytes.fromhex("000000020000009200000000000005b400000002000000000000052200000000000005b4")
    assert codec.encode_frame_header(header) == golden
    assert codec.decode_frame_header(golden) == header
    assert codec.encode_ack(1460) == bytes.fromhex("0000000200000000000005b4")
    assert codec.decode_ack(codec.encode_ack(1460)) == 1460


def test_a_handshake_is_awaited_until_all_its_bytes_are_there() -> None:
    data = codec.encode_handshake(Handshake(2))
    assert all(codec.decode_handshake(data[:length]) is None for length in range(16))


def test_the_old_form_is_told_by_its_address_length() -> None:
    data = LEGACY_HEAD + (15).to_bytes(4, "big") + b"10.0.0.17:10912"
    assert codec.decode_handshake(data[:-1]) is None
    assert codec.decode_handshake(data) == (LegacyHandshake("10.0.0.17:10912"), 27)


def test_the_old_form_s_padding_is_swallowed_when_it_is_there() -> None:
    data = (LEGACY_HEAD + (9).to_bytes(4, "big") + b"10.1:1091").ljust(62, b"\0")
    assert codec.decode_handshake(data) == (LegacyHandshake("10.1:1091"), 62)
    assert codec.decode_handshake(data + b"\0\0\0\2") == (LegacyHandshake("10.1:1091"), 62)
    assert codec.decode_handshake(data[:21] + b"\0\0\0\2") == (LegacyHandshake("10.1:1091"), 24)


def test_twelve_bytes_and_silence_are_an_old_form_without_address() -> None:
    data = LEGACY_HEAD + bytes(4)
    assert codec.decode_handshake(data) is None
    assert codec.decode_handshake(data, ended=True) == (LegacyHandshake(None), 12)


@pytest.mark.parametrize("broker_id", [0, -1, -7])
def test_an_id_no_controller_gave_is_refused(broker_id: int) -> None:
    with pytest.raises(HaProtocolError, match="broker id"):
        codec.decode_handshake(codec.encode_handshake(Handshake(broker_id)))


def test_a_learner_may_come_without_an_id() -> None:
    data = codec.encode_handshake(Handshake(-1, async_learner=True))
    assert codec.decode_handshake(data) == (Handshake(-1, async_learner=True), 16)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("00000000", id="ready"),
        pytest.param("00000003", id="suspend"),
        pytest.param("00000004", id="shutdown"),
        pytest.param("00000005", id="beyond"),
        pytest.param("ffffffff", id="negative"),
    ],
)
def test_states_that_never_travel_are_refused(head: str) -> None:
    data = bytes.fromhex(head).ljust(40, b"\0")
    for decode in (codec.decode_handshake, codec.decode_frame_header, codec.decode_ack, codec.reply_bytes):
        with pytest.raises(HaProtocolError):
            decode(data)


@pytest.mark.parametrize("body_bytes", [-12, 7, 12_012])
def test_a_reply_body_that_is_no_list_is_refused_with_its_place(body_bytes: int) -> None:
    head = b"\0\0\0\1" + body_bytes.to_bytes(4, "big", signed=True) + bytes(12)
    with pytest.raises(HaProtocolError, match=f"{body_bytes} bytes") as caught:
        codec.reply_bytes(head, stream_offset=3)
    assert (caught.value.stream_offset, caught.value.length_bytes) == (3, 20)


def test_entries_that_do_not_ascend_or_leave_the_log_are_refused() -> None:
    data = bytearray(codec.encode_reply(HandshakeReply(900, EpochList.of((1, 0), (2, 900)))))
    assert codec.decode_reply(data).max_offset == 900
    data[15] -= 1
    with pytest.raises(HaProtocolError, match="beyond the master's max offset"):
        codec.decode_reply(data)
    data[23] = 9
    with pytest.raises(HaProtocolError, match="does not follow"):
        codec.decode_reply(data)


def test_a_body_beyond_the_bound_is_refused() -> None:
    header = FrameHeader(codec.FRAME_BODY_BYTES_MAX + 1, 0, 1, 0, 0)
    with pytest.raises(HaProtocolError, match="frame body"):
        codec.decode_frame_header(codec.encode_frame_header(header))


def test_more_entries_than_a_reply_holds_are_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="1001 epoch entries"):
        codec.encode_reply(HandshakeReply(5000, EpochList.of(*((n, n) for n in range(1001)))))


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_a_handshake_or_a_protocol_error(data: bytes, ended: bool) -> None:
    try:
        found = codec.decode_handshake(data, ended=ended)
    except HaProtocolError:
        return
    assert found is None or 12 <= found[1] <= min(len(data), 76)
