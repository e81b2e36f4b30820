"""The bytes that controllers exchange: frames, a greeting, and Raft's messages as MessagePack.

    frame      u32 big endian: bytes that follow, then one MessagePack array
    greeting   [1, protocol version, cluster, from, to, own incarnation, expected incarnation,
               own address, asks]
               first frame of the dialling node; `asks` wants the reply only
    reply      [2, accepted, reason, why, own incarnation]
               only frame of the other node; `why` is a `GreetingAnswer`
    message    [3, type, to, from, term, log term, index, entries, commit, vote, snapshot, reject,
               hint, context]
               entries: [[term, index, type, data] ...], snapshot: nil or
               [index, term, [voters, outgoing, learners, next, auto leave], data]
    head       [4, bytes of the snapshot's data, the message's array with that data left out]
    part       [5, offset, bytes]                              the data of the last head, in order

A large snapshot travels as a head and parts, with other messages between them: a follower that is being
brought up hears its leader all the while, and neither end holds more than the snapshot itself and one part.

Pure: bytes to values and back. Bytes of any other form raise `PeerProtocolError` with the reason; nothing is
executed or imported for them (MessagePack carries plain values only).
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from controller_core import limits
from controller_core.raft.types import (
    ConfState,
    Entry,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)

PROTOCOL_VERSION = 2
FRAME_BYTES_MAX = limits.PEER_FRAME_BYTES_MAX
"""Messages carry a megabyte of entries, or one entry; a longer frame can only be rubbish."""
PART_BYTES = limits.PEER_PART_BYTES
"""Of a snapshot, at a time. A heartbeat waits behind one part at most: 2 ms at 1 Gbit/s."""
SNAPSHOT_BYTES_MAX = limits.PEER_SNAPSHOT_BYTES_MAX
"""10,000 broker groups with their history take some 10 MB; a larger one can only be rubbish."""
GREETING_BYTES_MAX = limits.PEER_GREETING_BYTES_MAX
"""Before its greeting, a peer may use at most this much memory."""
_LENGTH = struct.Struct(">I")

_Number = Annotated[int, msgspec.Meta(ge=0)]
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
    tuple[Entry, ...],
    _Number,
    _Number,
    _WireSnapshot | None,
    bool,
    _Number,
    bytes,
]

_encoder = msgspec.msgpack.Encoder()
_message_decoder = msgspec.msgpack.Decoder(_WireMessage)
_greeting_decoder = msgspec.msgpack.Decoder(
    tuple[Literal[1], _Number, str, _Number, _Number, str, str, str, bool]
)
_version_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_reply_decoder = msgspec.msgpack.Decoder(tuple[Literal[2], bool, str, str, str])
_head_decoder = msgspec.msgpack.Decoder(tuple[Literal[4], _Number, _WireMessage])
_part_decoder = msgspec.msgpack.Decoder(tuple[Literal[5], _Number, bytes])


class PeerProtocolError(Exception):
    """A peer sent what no controller sends."""


class GreetingAnswer(StrEnum):
    """The reason of a refused greeting, for the program on the other side; the first two are not refusals."""

    NONE = ""
    FOUNDING = "founding"
    """Welcome, and this node's cluster has only been founded: nothing is in its log yet."""
    PROTOCOL = "protocol"
    """Another protocol, another cluster, or another node than was meant."""
    UNKNOWN = "unknown"
    """The dialling node is not a member of the cluster."""
    INCARNATION = "incarnation"
    """The dialling node has another store than the one that joined under its name."""
    EMPTY = "empty"
    """This node is without a log, and does not belong to a cluster until it founds one or a leader adds
    it."""


class Greeting(msgspec.Struct, frozen=True):
    """The dialling node, and the node that it means to reach.

    Attributes:
        incarnation: of the dialler's store.
        expected: incarnation that the dialled node is known by; empty if none is.
        address: remoting address that the dialler is reached at.
        asks: whether only the reply is wanted.
    """

    version: int
    cluster: str
    from_id: int
    to_id: int
    incarnation: str = ""
    expected: str = ""
    address: str = ""
    asks: bool = False


class GreetingReply(msgspec.Struct, frozen=True):
    """The answer to a greeting; no reason: welcome."""

    reason: str = ""
    why: str = GreetingAnswer.NONE
    incarnation: str = ""


class FrameReader:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_buffer", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self._buffer = bytearray()
        self.frame_bytes_max = frame_bytes_max

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
            if length > self.frame_bytes_max:
                raise PeerProtocolError(f"a frame of {length} bytes, over {self.frame_bytes_max}")
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
    return _frame((1, *msgspec.structs.astuple(greeting)))


def decode_greeting(frame: bytes) -> Greeting:
    """Return the greeting in a frame; one of another protocol version tells its version only.

    Raises:
        PeerProtocolError: it holds none.
    """
    try:
        values = _version_decoder.decode(frame)
        kind, version = (msgspec.msgpack.decode(value, type=_Number) for value in values[:2])
        if kind == 1 and version != PROTOCOL_VERSION:
            return Greeting(version, "", 0, 0)
        return Greeting(*_greeting_decoder.decode(frame)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise PeerProtocolError(f"no greeting: {error}") from error


def encode_reply(reply: GreetingReply) -> bytes:
    """Return the frame that answers a greeting."""
    return _frame((2, not reply.reason, reply.reason, reply.why, reply.incarnation))


def decode_reply(frame: bytes) -> GreetingReply:
    """Return the answer to a greeting.

    Raises:
        PeerProtocolError: it is malformed.
    """
    try:
        _, accepted, reason, why, incarnation = _reply_decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerProtocolError(f"no reply to a greeting: {error}") from error
    return GreetingReply("" if accepted else reason or "no reason given", why, incarnation)


def encode_message(message: Message) -> bytes:
    """Return the frame of a Raft message."""
    return _frame(_wire_message(message))


def encode_snapshot_head(message: Message) -> bytes:
    """Return the frame that announces a snapshot whose data follows in parts."""
    if message.snapshot is None:
        raise ValueError("a message without a snapshot cannot have a head")
    bare = replace(message, snapshot=replace(message.snapshot, data=b""))
    return _frame((4, len(message.snapshot.data), _wire_message(bare)))


def encode_parts(data: bytes, part_bytes: int = PART_BYTES) -> Iterator[bytes]:
    """Yield the frames of a snapshot's data, each made on demand."""
    view = memoryview(data)
    for offset in range(0, len(data), part_bytes):
        yield _frame((5, offset, view[offset : offset + part_bytes]))


class MessageReader:
    """Turns frames into Raft messages, putting snapshots together from their parts."""

    __slots__ = ("_data", "_head", "_size_bytes", "_snapshot_bytes_max")

    def __init__(self, snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX) -> None:
        self._snapshot_bytes_max = snapshot_bytes_max
        self._head: Message | None = None
        self._size_bytes = 0
        self._data = bytearray()

    def take(self, frame: bytes) -> Message | None:
        """Return the message that is whole with this frame; None while parts are still to come.

        A head that comes before the last snapshot was whole replaces it: the sender has given that one up.

        Raises:
            PeerProtocolError: the frame does not hold a message, or its part does not continue the previous
                one.
        """
        # The kind is the array's first element, and a small number is its own byte.
        kind = frame[1] if len(frame) > 1 else 0
        if kind not in {4, 5}:
            return decode_message(frame)
        try:
            if kind == 4:
                _, size_bytes, wire = _head_decoder.decode(frame)
                return self._begin(size_bytes, _message(wire))
            _, offset, part = _part_decoder.decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PeerProtocolError(f"no part of a snapshot: {error}") from error
        return self._continue(offset, part)

    def _begin(self, size_bytes: int, head: Message) -> Message | None:
        if head.snapshot is None or size_bytes > self._snapshot_bytes_max:
            raise PeerProtocolError(f"the head of a snapshot of {size_bytes} bytes")
        self._head, self._size_bytes, self._data = head, size_bytes, bytearray()
        return self._finish() if not size_bytes else None

    def _continue(self, offset: int, part: bytes) -> Message | None:
        held = len(self._data)
        if self._head is None or offset != held or not part or held + len(part) > self._size_bytes:
            raise PeerProtocolError(f"{len(part)} bytes at {offset} of a snapshot, of which {held} are there")
        self._data += part
        return self._finish() if len(self._data) == self._size_bytes else None

    def _finish(self) -> Message:
        head, data = self._head, bytes(self._data)
        self._head, self._data = None, bytearray()
        if head is None or head.snapshot is None:
            raise PeerProtocolError("parts without a head")
        return replace(head, snapshot=replace(head.snapshot, data=data))


def decode_message(frame: bytes) -> Message:
    """Return the Raft message in a frame.

    Raises:
        PeerProtocolError: it holds none.
    """
    try:
        return _message(_message_decoder.decode(frame))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerProtocolError(f"no message: {error}") from error


def _message(wire: _WireMessage) -> Message:
    return Message(
        type=wire[1],
        to=NodeId(wire[2]),
        from_=NodeId(wire[3]),
        term=Term(wire[4]),
        log_term=Term(wire[5]),
        index=LogIndex(wire[6]),
        entries=wire[7],
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


def _wire_message(message: Message) -> tuple[object, ...]:
    return (
        3,
        message.type,
        message.to,
        message.from_,
        message.term,
        message.log_term,
        message.index,
        message.entries,
        message.commit,
        message.vote,
        None if message.snapshot is None else _wire_snapshot(message.snapshot),
        message.reject,
        message.reject_hint,
        message.context,
    )


def _wire_snapshot(snapshot: Snapshot) -> tuple[object, ...]:
    conf = snapshot.conf_state
    members = (conf.voters, conf.voters_outgoing, conf.learners, conf.learners_next, conf.auto_leave)
    return snapshot.index, snapshot.term, members, snapshot.data


def _snapshot(wire: _WireSnapshot) -> Snapshot:
    index, term, (*lists, auto_leave), data = wire
    voters, outgoing, learners, learners_next = (tuple(map(NodeId, ids)) for ids in lists)
    conf = ConfState(voters, outgoing, learners, learners_next, auto_leave)
    return Snapshot(LogIndex(index), Term(term), conf, data)
