"""The bytes between controllers: every message survives any cut; invalid bytes have their own error."""

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.raft.types import (
    ConfState,
    Entry,
    EntryType,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)
from controller_core.server.peers import codec
from controller_core.server.peers.codec import FrameReader, MessageReader, PeerProtocolError

NUMBERS = st.integers(0, 2**63 - 1)
IDS = st.lists(NUMBERS.map(NodeId), max_size=4).map(tuple)
ENTRIES = st.builds(
    Entry, NUMBERS.map(Term), NUMBERS.map(LogIndex), st.sampled_from(EntryType), st.binary(max_size=50)
)
SNAPSHOTS = st.builds(
    Snapshot,
    NUMBERS.map(LogIndex),
    NUMBERS.map(Term),
    st.builds(ConfState, IDS, IDS, IDS, IDS, st.booleans()),
    st.binary(max_size=100),
)
MESSAGES = st.builds(
    Message,
    st.sampled_from(MessageType),
    NUMBERS.map(NodeId),
    NUMBERS.map(NodeId),
    NUMBERS.map(Term),
    NUMBERS.map(Term),
    NUMBERS.map(LogIndex),
    st.lists(ENTRIES, max_size=4).map(tuple),
    NUMBERS.map(LogIndex),
    NUMBERS.map(NodeId),
    st.none() | SNAPSHOTS,
    st.booleans(),
    NUMBERS.map(LogIndex),
    st.binary(max_size=20),
)
BEAT = Message(MessageType.HEARTBEAT, NodeId(2), NodeId(1), Term(1))


@given(MESSAGES)
def test_every_message_comes_out_as_it_went_in(message: Message) -> None:
    (frame,) = FrameReader(1 << 20).feed(codec.encode_message(message))
    assert codec.decode_message(frame) == message


@given(st.binary(max_size=300))
def test_rubbish_is_refused_by_its_own_error(data: bytes) -> None:
    for decode in (codec.decode_message, codec.decode_greeting, codec.decode_reply):
        with pytest.raises(PeerProtocolError):
            decode(data)


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(1, 30), min_size=1))
def test_frames_survive_any_cut(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    reader, found, position, turn = FrameReader(1000), [], 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        found += reader.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert found == bodies


def test_a_frame_too_long_is_refused_before_it_is_there() -> None:
    with pytest.raises(PeerProtocolError, match="over 1000"):
        FrameReader(1000).feed(struct.pack(">I", 1001))


@given(SNAPSHOTS, st.integers(1, 40))
def test_a_snapshot_in_parts_comes_out_as_it_went_in(snapshot: Snapshot, part_bytes: int) -> None:
    message = Message(MessageType.SNAP, NodeId(2), NodeId(1), Term(3), snapshot=snapshot)
    parts = list(codec.encode_parts(snapshot.data, part_bytes))
    frames = FrameReader(1 << 20).feed(codec.encode_snapshot_head(message) + b"".join(parts))
    reader = MessageReader()
    assert [reader.take(frame) for frame in frames] == [None] * len(parts) + [message]


@pytest.mark.parametrize(
    "frames",
    [
        [(5, 0, b"x")],
        [(4, 5, None)],
        [(4, 5, "head"), (5, 1, b"x")],
        [(4, 5, "head"), (5, 0, b"")],
        [(4, 5, "head"), (5, 0, b"123456")],
        [(4, 101, "head")],
        [(4, 5, "no snapshot")],
    ],
)
def test_parts_that_do_not_fit_are_refused(frames: list[tuple[object, ...]]) -> None:
    snapshot = Message(MessageType.SNAP, NodeId(2), NodeId(1), snapshot=Snapshot(LogIndex(9), data=b"12345"))
    heads = {"head": snapshot, "no snapshot": BEAT}
    reader = MessageReader(snapshot_bytes_max=100)
    *good, bad = [_with_head(frame, heads) for frame in frames]
    assert [reader.take(frame) for frame in good] == [None] * len(good)
    with pytest.raises(PeerProtocolError):
        reader.take(bad)


def _with_head(frame: tuple[object, ...], heads: dict[str, Message]) -> bytes:
    """Encode a frame by hand, with the array of a message where its name stands."""
    named = heads.get(str(frame[2]))
    value = frame[2] if named is None else msgspec.msgpack.decode(codec.encode_message(named)[4:])
    return msgspec.msgpack.encode((*frame[:2], value))
