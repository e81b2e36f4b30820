"""The messages of RocketMQ's AutoSwitchHA protocol as bytes and as values.

One TCP connection joins a slave to its master. The slave speaks first; all integers are big endian.

    handshake, slave to master, 16 bytes
    0  int32  state = HANDSHAKE            4  int16  isSyncFromLastFile, 0 or 1
    6  int16  isAsyncLearner, 0 or 1       8  int64  broker id, given by the controller, from 1

    handshake reply, master to slave, 20 bytes and 12 for each epoch entry
    0  int32  state = HANDSHAKE            4  int32  body bytes = 12 * entries
    8  int64  master's max offset          16 int32  master's last epoch, -1 if none
    20 (int32 epoch, int64 start offset)*, ascending

    transfer frame, master to slave, 36 bytes and the body
    0  int32  state = TRANSFER             4  int32  body bytes, 0 for a heartbeat or an announced epoch
    8  int64  offset of the first byte     16 int32  epoch      20 int64  start offset of that epoch
    28 int64  master's confirm offset      36 the log's bytes, cut anywhere

    ack, slave to master, 12 bytes
    0  int32  state = TRANSFER             4  int64  the slave's max offset

Early 5.0 slaves, and the design text, send another handshake: after the two flags an int32 address length and
the slave's address in ASCII instead of the broker id. `decode_handshake` tells the forms apart by the int32
at byte 8, which is the upper half of an id that the controller counts up from 1.

This module holds no state and reads no stream; whether a message fits the connection is for the machines to
say.

Source: AutoSwitchHAClient.java, AutoSwitchHAConnection.java 5.1 to 5.5; docs/en/controller/design.md
"Replication protocol" for the old form.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar import limits
from ha_sidecar.epoch import EpochEntry, EpochList, EpochOrderError
from ha_sidecar.transfer.errors import HaProtocolError

Buffer = bytes | bytearray | memoryview

HANDSHAKE_BYTES: Final = 16
REPLY_HEADER_BYTES: Final = 20
EPOCH_ENTRY_BYTES: Final = 12
FRAME_HEADER_BYTES: Final = 36
ACK_BYTES: Final = 12

EPOCH_ENTRIES_MAX: Final = limits.HA_EPOCHS_MAX
"""Java's reply buffer holds this many entries; a master with more cannot answer a handshake."""

REPLY_BODY_BYTES_MAX: Final = EPOCH_ENTRIES_MAX * EPOCH_ENTRY_BYTES

FRAME_BODY_BYTES_MAX: Final = limits.HA_BODY_BYTES_MAX
"""No master has a reason for a larger body: Java's default batch is 32 KiB, and its slaves stop at 4 MiB."""

LEGACY_HEADER_BYTES: Final = 12
LEGACY_ADDRESS_BYTES_MAX: Final = 64
LEGACY_PADDED_BYTES: Final = 62
"""The length that the design text gives the old handshake: 12 bytes and a field of 50 for the address."""


class ConnectionState(IntEnum):
    """State words as they stand on the wire; only HANDSHAKE and TRANSFER are ever legal there.

    Source: HAConnectionState.java, ordinals.
    """

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a slave says first, in the form of all current versions."""

    broker_id: int
    sync_from_last_file: bool = False
    async_learner: bool = False


@dataclass(frozen=True, slots=True)
class LegacyHandshake:
    """What an early 5.0 slave says first: its address (None if it sent none) instead of an id."""

    address: str | None
    sync_from_last_file: bool = False
    async_learner: bool = False


@dataclass(frozen=True, slots=True)
class HandshakeReply:
    """What the master answers: the end of its log in bytes and its epoch list.

    Invariant: no entry starts beyond `max_offset`.
    """

    max_offset: LogOffset
    epochs: EpochList


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The head of a transfer frame.

    `epoch` starts at `epoch_start_offset`; that need not be the epoch of the body. A Java master that cuts a
    batch at an epoch's end has already moved on when it writes the header, so such a body belongs to the
    epoch before.
    """

    body_bytes: int
    offset: LogOffset
    epoch: int
    epoch_start_offset: LogOffset
    confirm_offset: LogOffset


_HANDSHAKE: Final = struct.Struct(">ihhq")
_LEGACY: Final = struct.Struct(">ihhi")
_REPLY: Final = struct.Struct(">iiqi")
_ENTRY: Final = struct.Struct(">iq")
_FRAME: Final = struct.Struct(">iiqiqq")
_ACK: Final = struct.Struct(">iq")


def encode_handshake(handshake: Handshake) -> bytes:
    """Return the 16 bytes; send them in one piece, since a master reads the id once 12 bytes are there."""
    flags = int(handshake.sync_from_last_file), int(handshake.async_learner)
    return _HANDSHAKE.pack(ConnectionState.HANDSHAKE, *flags, handshake.broker_id)


def decode_handshake(
    data: Buffer, *, ended: bool = False, stream_offset: int = 0
) -> tuple[Handshake | LegacyHandshake, int] | None:
    """Read a handshake of either form from the start of a connection.

    Args:
        data: everything received so far.
        ended: nothing more came for a second or two; only then are 12 bytes with length 0 an old handshake
            without an address, and not the beginning of a new one.
        stream_offset: where `data` starts in the stream, for the error.

    Returns:
        The handshake and how many bytes it took (with any zero padding of the old form that is already
        there), or None while bytes are missing.

    Raises:
        HaProtocolError: neither form, or an id that no controller gives.
    """
    if len(data) < LEGACY_HEADER_BYTES:
        return None
    state, last_file, learner, upper = _LEGACY.unpack_from(data)
    if state != ConnectionState.HANDSHAKE or last_file not in (0, 1) or learner not in (0, 1):
        raise HaProtocolError(
            f"no handshake: state {state}, flags {last_file} {learner}", stream_offset, len(data)
        )
    flags = bool(last_file), bool(learner)
    if 1 <= upper <= LEGACY_ADDRESS_BYTES_MAX:
        return _decode_legacy(data, upper, flags, stream_offset)
    if len(data) < HANDSHAKE_BYTES:
        return (LegacyHandshake(None, *flags), len(data)) if ended and upper == 0 else None
    broker_id: int = _HANDSHAKE.unpack_from(data)[3]
    # Id 0 is the master's, and -1 is what an unregistered broker sends: taken without the learner flag it
    # would enter the master's SyncStateSet and stand there for a replica that does not exist.
    if broker_id < -1 or (broker_id < 1 and not flags[1]):
        raise HaProtocolError(f"broker id {broker_id}", stream_offset, HANDSHAKE_BYTES)
    return Handshake(broker_id, *flags), HANDSHAKE_BYTES


def _decode_legacy(
    data: Buffer, address_bytes: int, flags: tuple[bool, bool], stream_offset: int
) -> tuple[LegacyHandshake, int] | None:
    end = LEGACY_HEADER_BYTES + address_bytes
    if len(data) < end:
        return None
    address = bytes(data[LEGACY_HEADER_BYTES:end])
    if not address.isascii() or not address.decode("ascii").isprintable():
        raise HaProtocolError(f"slave address {address!r}", stream_offset, end)
    padding = bytes(data[end:LEGACY_PADDED_BYTES])
    taken = end + len(padding) - len(padding.lstrip(b"\0"))
    return LegacyHandshake(address.decode("ascii"), *flags), taken


def encode_reply(reply: HandshakeReply) -> bytes:
    """Return header and entries as one piece: a Java slave repeats its handshake when they arrive apart.

    Raises:
        ValueError: more entries than a Java slave's master could send.
    """
    if len(reply.epochs) > EPOCH_ENTRIES_MAX:
        raise ValueError(f"{len(reply.epochs)} epoch entries, at most {EPOCH_ENTRIES_MAX} fit a reply")
    body_bytes = len(reply.epochs) * EPOCH_ENTRY_BYTES
    head = _REPLY.pack(ConnectionState.HANDSHAKE, body_bytes, reply.max_offset, reply.epochs.last_epoch)
    return head + b"".join(_ENTRY.pack(entry.epoch, entry.start_offset) for entry in reply.epochs)


def reply_bytes(head: Buffer, stream_offset: int = 0) -> int:
    """Return the whole reply's length from its 20 byte head; raise `HaProtocolError` if it cannot be one."""
    state, body_bytes, max_offset, _ = _REPLY.unpack_from(head)
    if state != ConnectionState.HANDSHAKE:
        raise HaProtocolError(
            f"state {state} where a handshake reply is due", stream_offset, REPLY_HEADER_BYTES
        )
    if not 0 <= body_bytes <= REPLY_BODY_BYTES_MAX or body_bytes % EPOCH_ENTRY_BYTES:
        raise HaProtocolError(f"reply body of {body_bytes} bytes", stream_offset, REPLY_HEADER_BYTES)
    if max_offset < 0:
        raise HaProtocolError(f"master's max offset {max_offset}", stream_offset, REPLY_HEADER_BYTES)
    return REPLY_HEADER_BYTES + int(body_bytes)


def decode_reply(data: Buffer, stream_offset: int = 0) -> HandshakeReply:
    """Read a whole reply of exactly `reply_bytes` bytes.

    Raises:
        HaProtocolError: entries that do not ascend, or one that starts beyond the master's own log.
    """
    length = reply_bytes(data, stream_offset)
    if len(data) != length:
        raise HaProtocolError(f"reply of {len(data)} bytes, {length} announced", stream_offset, len(data))
    max_offset = _REPLY.unpack_from(data)[2]
    try:
        epochs = EpochList(EpochEntry(*pair) for pair in _ENTRY.iter_unpack(data[REPLY_HEADER_BYTES:]))
    except EpochOrderError as error:
        raise HaProtocolError(f"epoch entry {error}", stream_offset, length) from error
    if epochs.last is not None and epochs.last.start_offset > max_offset:
        raise HaProtocolError(f"{epochs} beyond the master's max offset {max_offset}", stream_offset, length)
    return HandshakeReply(max_offset, epochs)


def encode_frame_header(header: FrameHeader) -> bytes:
    """Return the 36 bytes that precede a body."""
    return _FRAME.pack(
        ConnectionState.TRANSFER,
        header.body_bytes,
        header.offset,
        header.epoch,
        header.epoch_start_offset,
        header.confirm_offset,
    )


def decode_frame_header(data: Buffer, at: int = 0, stream_offset: int = 0) -> FrameHeader:
    """Read the 36 bytes at `at`; the machine judges which frames may follow each other.

    Raises:
        HaProtocolError: another state, or a body longer than `FRAME_BODY_BYTES_MAX`. A negative length is
            returned: it has one known cause, which the slave's machine names.
    """
    state, *fields = _FRAME.unpack_from(data, at)
    if state != ConnectionState.TRANSFER:
        raise HaProtocolError(
            f"state {state} where a transfer frame is due", stream_offset, FRAME_HEADER_BYTES
        )
    header = FrameHeader(*fields)
    if header.body_bytes > FRAME_BODY_BYTES_MAX:
        raise HaProtocolError(f"frame body of {header.body_bytes} bytes", stream_offset, FRAME_HEADER_BYTES)
    return header


def encode_ack(max_offset: LogOffset) -> bytes:
    """Return the 12 bytes that tell the master how far the slave's log reaches."""
    return _ACK.pack(ConnectionState.TRANSFER, max_offset)


def decode_ack(data: Buffer, stream_offset: int = 0) -> LogOffset:
    """Return the slave's max offset; raise `HaProtocolError` for another state or a negative offset."""
    state, max_offset = _ACK.unpack_from(data)
    if state != ConnectionState.TRANSFER or max_offset < 0:
        raise HaProtocolError(f"ack with state {state}, offset {max_offset}", stream_offset, ACK_BYTES)
    return LogOffset(max_offset)
