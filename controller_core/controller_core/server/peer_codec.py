"""The bytes that controllers exchange: frames, a greeting, and Raft's messages as MessagePack.

    frame      u32 big endian: bytes that follow, then one MessagePack array
    greeting   [1, protocol version, cluster, from, to]        first frame of who dialled
    reply      [2, accepted, reason]                           only frame of who was dialled
    message    [3, type, to, from, term, log term, index, entries, commit, vote, snapshot, reject, hint, context]
               entries: [[term, index, type, data] ...], snapshot: nil or
               [index, term, [voters, outgoing, learners, next, auto leave], data]

Pure: bytes to values and back. Whatever a peer sends that is not of this form raises `PeerProtocolError`, with what was
wrong; nothing is executed or imported on its behalf (MessagePack carries plain values only).
"""

import struct
from typing import Annotated, Literal

import msgspec

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

PROTOCOL_VERSION = 1
FRAME_MAX_BYTES = 256 * 1024 * 1024
"""A snapshot travels in one frame; a longer frame can only be rubbish."""
GREETING_MAX_BYTES = 4096
"""Before the greeting nobody is trusted with more memory than this."""
_LENGTH = struct.Struct(">I")

_Number = Annotated[int, msgspec.Meta(ge=0)]
_WireEntry = tuple[_Number, _Number, EntryType, bytes]
_WireIds = tuple[_Number, ...]
_WireMembers = tuple[_WireIds, _WireIds, _WireIds, _WireIds, bool]
_WireSnapshot = tuple[_Number, _Number, _WireMembers, bytes]
_WireMessage = tuple[
    Literal[3],
    MessageType,
    _Number,
    _Number,
    _Number,
    _Number,
    _Number,
    list[_WireEntry],
    _Number,
    _Number,
    _WireSnapshot | None,
    bool,
    _Number,
    bytes,
]

_encoder = msgspec.msgpack.Encoder()
_message_decoder = msgspec.msgpack.Decoder(_WireMessage)
_greeting_decoder = msgspec.msgpack.Decoder(tuple[Literal[1], _Number, str, _Number, _Number])
_reply_decoder = msgspec.msgpack.Decoder(tuple[Literal[2], bool, str])


class PeerProtocolError(Exception):
    """A peer sent what no controller sends."""


class Greeting(msgspec.Struct, frozen=True):
    """Who dials, and whom it means to reach."""

    version: int
    cluster: str
    from_id: int
    to_id: int


class FrameReader:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_buffer", "frame_max_bytes")

    def __init__(self, frame_max_bytes: int) -> None:
        self._buffer = bytearray()
        self.frame_max_bytes = frame_max_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they come and return the frames that are whole now, without their length.

        Raises:
            PeerProtocolError: a frame is longer than allowed.
        """
        self._buffer += data
        frames: list[bytes] = []
        offset = 0
        while len(self._buffer) - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, offset)
            if length > self.frame_max_bytes:
                raise PeerProtocolError(f"a frame of {length} bytes, over {self.frame_max_bytes}")
            end = offset + _LENGTH.size + length
            if end > len(self._buffer):
                break
            frames.append(bytes(self._buffer[offset + _LENGTH.size : end]))
            offset = end
        if offset:
            del self._buffer[:offset]
        return frames


def encode_greeting(greeting: Greeting) -> bytes:
    """Return the frame of a greeting."""
    return _frame((1, greeting.version, greeting.cluster, greeting.from_id, greeting.to_id))


def decode_greeting(frame: bytes) -> Greeting:
    """Return the greeting in a frame."""
    try:
        _, version, cluster, from_id, to_id = _greeting_decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerProtocolError(f"no greeting: {error}") from error
    return Greeting(version, cluster, from_id, to_id)


def encode_reply(reason: str) -> bytes:
    """Return the frame that answers a greeting; an empty reason accepts."""
    return _frame((2, not reason, reason))


def decode_reply(frame: bytes) -> str:
    """Return why a greeting was refused, "" if it was accepted."""
    try:
        _, accepted, reason = _reply_decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerProtocolError(f"no reply to a greeting: {error}") from error
    return "" if accepted else reason or "no reason given"


def encode_message(message: Message) -> bytes:
    """Return the frame of a Raft message."""
    return _frame(
        (
            3,
            message.type,
            message.to,
            message.from_,
            message.term,
            message.log_term,
            message.index,
            [(entry.term, entry.index, entry.type, entry.data) for entry in message.entries],
            message.commit,
            message.vote,
            None if message.snapshot is None else _wire_snapshot(message.snapshot),
            message.reject,
            message.reject_hint,
            message.context,
        )
    )


def decode_message(frame: bytes) -> Message:
    """Return the Raft message in a frame.

    Raises:
        PeerProtocolError: it holds none.
    """
    try:
        wire = _message_decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerProtocolError(f"no message: {error}") from error
    entries = tuple(Entry(Term(term), LogIndex(index), kind, data) for term, index, kind, data in wire[7])
    return Message(
        type=wire[1],
        to=NodeId(wire[2]),
        from_=NodeId(wire[3]),
        term=Term(wire[4]),
        log_term=Term(wire[5]),
        index=LogIndex(wire[6]),
        entries=entries,
        commit=LogIndex(wire[8]),
        vote=NodeId(wire[9]),
        snapshot=None if wire[10] is None else _snapshot(wire[10]),
        reject=wire[11],
        reject_hint=LogIndex(wire[12]),
        context=wire[13],
    )


def _frame(values: object) -> bytes:
    body = _encoder.encode(values)
    return _LENGTH.pack(len(body)) + body


def _wire_snapshot(snapshot: Snapshot) -> tuple[object, ...]:
    conf = snapshot.conf_state
    members = (conf.voters, conf.voters_outgoing, conf.learners, conf.learners_next, conf.auto_leave)
    return snapshot.index, snapshot.term, members, snapshot.data


def _snapshot(wire: _WireSnapshot) -> Snapshot:
    index, term, (*lists, auto_leave), data = wire
    voters, outgoing, learners, learners_next = (tuple(map(NodeId, ids)) for ids in lists)
    conf = ConfState(voters, outgoing, learners, learners_next, auto_leave)
    return Snapshot(LogIndex(index), Term(term), conf, data)
