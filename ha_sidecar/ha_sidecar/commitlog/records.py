"""One record of RocketMQ's CommitLog: is the record at this offset whole, and how long is it?

A log file is a row of records without gaps. Each starts with its total size and a magic number; a message
(version 1 or 2) carries its own offset, a body with a checksum, and lengths that must add up to the total. A
record never crosses a file's end: where the next one did not fit, a BLANK record takes the rest of the file,
of which only the first 8 bytes are written.

    0 int32 total   4 int32 magic    8 int32 body CRC   28 int64 offset in the log   36 int32 flags
    68+b+s int32 body length, body; topic length (1 byte, in version 2 two) and topic; int16 property
           bytes and text
    b, s: bytes of the born and store hosts, 8 each, or 20 with their IPv6 flag

`check_record` is stricter than Java in one point: the record must carry the offset at which it stands. Java
does not compare them, and may take a stale record of a file's earlier life for a new one.

This module reads bytes it is given; it opens nothing and changes nothing.

Source: CommitLog.checkMessageAndReturnSize, MessageExtEncoder.java 5.4.0.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ha_sidecar.commitlog.disk import Bytes

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
BLANK_BYTES_MIN: Final = 8
"""A record leaves at least room for the head of a BLANK behind it."""
MESSAGE_BYTES_MIN: Final = 91
SECTOR_BYTES: Final = 512
"""The least that a disk writes or loses."""

_HEAD: Final = struct.Struct(">II")
_MESSAGE: Final = struct.Struct(">IIIiiqqI")
_COMMON: Final = struct.Struct(">III16xqI44xi")
"""Of a message whose hosts are IPv4: total, magic, body CRC, own offset, flags, length of the body."""
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_FLAG_BORN_HOST_V6: Final = 0x10
_FLAG_STORE_HOST_V6: Final = 0x20
_FLAGS_V6: Final = _FLAG_BORN_HOST_V6 | _FLAG_STORE_HOST_V6
_CRC_MASK: Final = 0x7FFFFFFF
_LENGTHS_BYTES: Final = 68
"""Bytes before the body's length, without the two hosts."""


class RecordKind(Enum):
    """What `check_record` found."""

    MESSAGE = "message"
    BLANK = "blank"
    """The rest of the file is unused; the next record starts with the next file."""
    TORN = "torn"
    """The beginning of a record whose end lies beyond the log's end."""
    UNUSED = "unused"
    """Zeros: nothing was written here yet."""
    DAMAGED = "damaged"
    """Something else, which no writer leaves behind."""


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """A verdict.

    The kind, the record's whole length in bytes (0 if unknown), and the problem if it is damaged.
    """

    kind: RecordKind
    length_bytes: int = 0
    problem: str = ""


_UNUSED: Final = CheckedRecord(RecordKind.UNUSED)
_TORN: Final = CheckedRecord(RecordKind.TORN)


def check_record(data: Bytes, at: int, end: int, offset: int, rest_bytes: int) -> CheckedRecord:
    """Judge the record at index `at` of `data`.

    Args:
        data: the log's bytes, of which [at, end) may be read.
        at: index of the record's first byte.
        end: index at which the log, or its known part, ends.
        offset: the log offset of the byte at `at`.
        rest_bytes: bytes from here to the end of the file, which no record crosses.
    """
    if end - at < _HEAD.size:
        return _TORN if any(data[at:end]) else _UNUSED
    total, magic = _HEAD.unpack_from(data, at)
    if magic == MAGIC_BLANK:
        if total != rest_bytes:
            return _damaged(f"BLANK of {total} bytes where {rest_bytes} are left in the file")
        return CheckedRecord(RecordKind.BLANK, total) if end - at >= total else _TORN
    if magic not in (MAGIC_V1, MAGIC_V2):
        return _UNUSED if total == magic == 0 else _damaged(f"magic {magic:#x}")
    if not MESSAGE_BYTES_MIN <= total <= rest_bytes - BLANK_BYTES_MIN:
        return _damaged(f"size {total} where {rest_bytes} bytes are left in the file")
    if end - at < total:
        return _check_torn(data, at, end, offset)
    return _check_message(data, at, total, magic, offset)


def sure_message_bytes(data: Bytes, view: memoryview, at: int, end: int, offset: int, rest_bytes: int) -> int:
    """Return the length of the message at `at` if it is of the common form and whole beyond doubt, else 0.

    Common is version 1 with IPv4 hosts, beyond doubt one whose texts hold no zero byte. `check_record`,
    `texts_hold_nul` and `texts_lack_bytes` say nothing else of such a message; they judge whatever is 0 here.
    The arguments are those of `check_record`; `view` is one of all of `data`.
    """
    if end - at < _COMMON.size:
        return 0
    total, magic, body_crc, own_offset, flags, body_bytes = _COMMON.unpack_from(data, at)
    if magic != MAGIC_V1 or own_offset != offset or flags & _FLAGS_V6 or body_bytes < 0:
        return 0
    record_end = at + total
    topic_at = at + _COMMON.size + body_bytes
    if record_end > end or total > rest_bytes - BLANK_BYTES_MIN or topic_at >= record_end:
        return 0
    properties_at = topic_at + 1 + data[topic_at] + _SHORT.size
    if properties_at > record_end:
        return 0
    if properties_at + _SHORT.unpack_from(data, properties_at - _SHORT.size)[0] != record_end:
        return 0
    if data.find(b"\0", topic_at + 1, properties_at - _SHORT.size) >= 0:
        return 0
    if data.find(b"\0", properties_at, record_end) >= 0:
        return 0
    return total if zlib.crc32(view[at + _COMMON.size : topic_at]) & _CRC_MASK == body_crc else 0


def texts_hold_nul(data: Bytes, at: int) -> bool:
    """Say whether topic or properties of the whole message at `at` hold a zero byte.

    No checksum covers these texts. A message whose last bytes never came looks whole over the zeros of an
    unused file, so the last message of a log is whole only if its texts hold no zeros.
    """
    topic_at, properties_at, end = _texts_at(data, at)
    return b"\0" in data[topic_at : properties_at - _SHORT.size] or b"\0" in data[properties_at:end]


def texts_lack_bytes(data: Bytes, at: int) -> bool:
    """Say whether zeros stand before the end of a sector in topic or properties of the whole message at `at`.

    A disk that loses power may have written a message's last sector and not one before it, or that one as it
    was when a part of the message had come: zeros reach up to the sector's end then. In the body the checksum
    tells, and without its head a message cannot pass for one; in texts that go on into another sector only
    this does. `at` counts from the file's start.
    """
    topic_at, properties_at, end = _texts_at(data, at)
    return any(
        data[boundary - 1] == 0
        for text_at, text_end in ((topic_at, properties_at - _SHORT.size), (properties_at, end))
        for boundary in range((text_at // SECTOR_BYTES + 1) * SECTOR_BYTES, text_end + 1, SECTOR_BYTES)
    )


def _texts_at(data: Bytes, at: int) -> tuple[int, int, int]:
    """Return where topic and properties of the whole message at `at` start, and where it ends."""
    total, magic, _, _, _, _, _, flags = _MESSAGE.unpack_from(data, at)
    topic_at = _body_at(at, flags) + _INT.unpack_from(data, _body_at(at, flags) - _INT.size)[0]
    topic_bytes = data[topic_at] if magic == MAGIC_V1 else _SHORT.unpack_from(data, topic_at)[0]
    topic_at += 1 if magic == MAGIC_V1 else _SHORT.size
    return topic_at, topic_at + topic_bytes + _SHORT.size, at + total


def _check_torn(data: Bytes, at: int, end: int, offset: int) -> CheckedRecord:
    if end - at >= _MESSAGE.size and _MESSAGE.unpack_from(data, at)[6] != offset:
        return _damaged("a cut record with another offset")
    return _TORN


def _check_message(data: Bytes, at: int, total: int, magic: int, offset: int) -> CheckedRecord:
    _, _, body_crc, _, _, _, own_offset, flags = _MESSAGE.unpack_from(data, at)
    if own_offset != offset:
        return _damaged(f"the record says it stands at {own_offset}")
    record_end = at + total
    body_at = _body_at(at, flags)
    topic_at = body_at + _read(_INT, data, body_at - _INT.size, record_end)
    topic_head_bytes = 1 if magic == MAGIC_V1 else 2
    if not body_at <= topic_at <= record_end - topic_head_bytes - _SHORT.size:
        return _damaged("body length")
    topic_bytes = data[topic_at] if magic == MAGIC_V1 else _SHORT.unpack_from(data, topic_at)[0]
    properties_at = topic_at + topic_head_bytes + topic_bytes
    if topic_bytes < 0 or properties_at + _SHORT.size > record_end:
        return _damaged("topic length")
    if properties_at + _SHORT.size + _SHORT.unpack_from(data, properties_at)[0] != record_end:
        return _damaged(f"the parts do not add up to {total} bytes")
    with memoryview(data) as view, view[body_at:topic_at] as body:
        # Java writes 0 when the body is empty, which is also the checksum of nothing.
        if zlib.crc32(body) & _CRC_MASK != body_crc:
            return _damaged("body checksum")
    return CheckedRecord(RecordKind.MESSAGE, total)


def _body_at(at: int, flags: int) -> int:
    hosts_bytes = (20 if flags & _FLAG_BORN_HOST_V6 else 8) + (20 if flags & _FLAG_STORE_HOST_V6 else 8)
    return at + _LENGTHS_BYTES + hosts_bytes + _INT.size


def _read(number: struct.Struct, data: Bytes, at: int, end: int) -> int:
    return int(number.unpack_from(data, at)[0]) if at + number.size <= end else -1


def _damaged(problem: str) -> CheckedRecord:
    return CheckedRecord(RecordKind.DAMAGED, 0, problem)
