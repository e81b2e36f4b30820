"""Whatever a stranger sends, a decoder with a controller's bounds holds no more than the table allows."""

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from controller_core import limits
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import FrameError
from controller_core.remoting.frame import CONTROL_BOUNDS, FrameDecoder, encode

READ_BYTES = 4_096
CODES = st.sampled_from([*RequestCode, 0, -1, 9_999])
SIZES = st.sampled_from(
    [
        size + difference
        for size in (limits.CONTROL_FRAME_BYTES_MAX, limits.LARGE_REQUEST_BYTES_MAX)
        for difference in (-1, 0, 1)
    ]
)


def _begun(code: int, frame_bytes: int) -> bytes:
    header = json.dumps({"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 0}).encode()
    return struct.pack(">II", frame_bytes - 4, len(header)) + header


@given(CODES, SIZES)
def test_only_the_codes_that_need_it_may_have_a_large_frame(code: int, frame_bytes: int) -> None:
    decoder = FrameDecoder(CONTROL_BOUNDS)
    begun = _begun(code, frame_bytes)
    is_large_allowed = code in CONTROL_BOUNDS.large_codes and frame_bytes <= limits.LARGE_REQUEST_BYTES_MAX
    is_held = True
    try:
        for byte in begun:
            assert decoder.feed(bytes([byte])) == []
        # Up to the last byte but one of the frame: what follows a frame is another frame.
        for sent in range(len(begun), min(frame_bytes - 1, 40 * READ_BYTES), READ_BYTES):
            piece = bytes(min(READ_BYTES, frame_bytes - 1 - sent))
            assert decoder.feed(piece) == [] or frame_bytes <= limits.CONTROL_FRAME_BYTES_MAX
            assert decoder.held_bytes <= frame_bytes
    except FrameError:
        is_held = False
    if frame_bytes > limits.CONTROL_FRAME_BYTES_MAX:
        assert is_held == is_large_allowed


@given(st.binary(max_size=64), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_any_two_words_and_any_bytes_hold_at_most_a_frame(data: bytes, length: int, word: int) -> None:
    decoder = FrameDecoder(CONTROL_BOUNDS)
    try:
        decoder.feed(struct.pack(">II", length, word))
        decoder.feed(data)
        for _ in range(20):
            decoder.feed(bytes(READ_BYTES))
    except FrameError:
        return
    assert decoder.held_bytes <= limits.LARGE_REQUEST_BYTES_MAX
    if word & 0xFF_FFFF > limits.CONTROL_FRAME_BYTES_MAX:
        assert length + 4 <= limits.CONTROL_FRAME_BYTES_MAX


def test_the_largest_request_of_a_fleet_fits() -> None:
    names = json.dumps(["x" * limits.NAME_BYTES_MAX] * 10_000).encode()
    request = RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, names)
    assert FrameDecoder(CONTROL_BOUNDS).feed(encode(request)) == [request]


def test_the_largest_syncstateset_fits() -> None:
    ids = list(range(10**6, 10**6 + limits.GROUP_MEMBERS_MAX))
    body = json.dumps({"syncStateSet": ids, "syncStateSetEpoch": 2**31}).encode()
    request = RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, {"brokerName": "b"}, body)
    assert FrameDecoder(CONTROL_BOUNDS).feed(encode(request)) == [request]
