"""The bytes of one record of the write-ahead log, and what is wrong with other bytes.

    field         bytes  meaning (little endian)
    magic             4  "RHL1"; a reader that lost its place looks for it
    size              4  bytes of the body
    index             8  the entry's index; of a segment head and a reset: the index before the next entry
    term              8  the entry's term; of a hard state: its term; else the term at `index`
    type              1  RecordType
    entry type        1  raft EntryType, 0 for other records
    reserved          2  0
    previous          4  the checksum of the record before this one, also across segments
    checksum          4  CRC32C of everything above and of the body
    body           size  entry: its data; hard state: vote and commit; segment head: format, sequence, owner

A record is checked by itself (checksum) and in its place (previous). The first tells damage from data, also
for a reader that searches on after damage; the second catches records that are whole but do not belong there:
copied, dropped, or of another file. Pure: bytes in, values out; `recovery` judges what a flaw means.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

import google_crc32c

from controller_core.raft.types import Entry, EntryType, HardState, LogIndex, NodeId, Term

MAGIC = b"RHL1"
FORMAT_VERSION = 1
RECORD_BODY_BYTES_MAX = 64 * 1024 * 1024
"""A larger size can only be damage; entries are kilobytes."""

_HEAD = struct.Struct("<4sIQQBBHI")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEAD.size + _CHECKSUM.size
_HARD_STATE_BODY = struct.Struct("<QQ")
_SEGMENT_BODY = struct.Struct("<IQ")


class RecordType(IntEnum):
    """What a record says."""

    SEGMENT = 1
    """First in each file: where in the log the file starts, and whose it is."""
    ENTRY = 2
    """An entry; it replaces whatever had its index or a later one."""
    HARD_STATE = 3
    """Term, vote and commit from here on."""
    RESET = 4
    """A snapshot from the leader replaced the whole log; entries continue after its index."""
    DURABLE = 5
    """Everything before this record was synced: damage before it is not a torn write."""


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """One whole record; `offset` and `end` are its place in the file, in bytes."""

    type: RecordType
    index: LogIndex
    term: Term
    entry_type: EntryType
    body: bytes
    previous: int
    checksum: int
    offset: int
    end: int

    def entry(self) -> Entry:
        """Return the entry that an ENTRY record holds."""
        return Entry(self.term, self.index, self.entry_type, self.body)

    def hard_state(self) -> HardState:
        """Return the hard state that a HARD_STATE record holds."""
        vote, commit = _HARD_STATE_BODY.unpack(self.body)
        return HardState(self.term, NodeId(vote), LogIndex(commit))


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why the bytes at `offset` are not a record, for people."""

    offset: int
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """The body of a SEGMENT record."""

    format_version: int
    sequence: int
    owner: str


def encode_record(
    record_type: RecordType,
    previous: int,
    body: bytes = b"",
    *,
    index: int = 0,
    term: int = 0,
    entry_type: int = 0,
) -> tuple[bytes, int]:
    """Return a record's bytes and its checksum, which the next record names as `previous`."""
    head = _HEAD.pack(MAGIC, len(body), index, term, record_type, entry_type, 0, previous)
    checksum = google_crc32c.extend(google_crc32c.value(head), body)
    return b"".join((head, _CHECKSUM.pack(checksum), body)), checksum


def encode_entry(entry: Entry, previous: int) -> tuple[bytes, int]:
    """Return the ENTRY record of an entry, and its checksum."""
    return encode_record(
        RecordType.ENTRY, previous, entry.data, index=entry.index, term=entry.term, entry_type=entry.type
    )


def encode_hard_state(hard_state: HardState, previous: int) -> tuple[bytes, int]:
    """Return the HARD_STATE record of a hard state, and its checksum."""
    body = _HARD_STATE_BODY.pack(hard_state.vote, hard_state.commit)
    return encode_record(RecordType.HARD_STATE, previous, body, term=hard_state.term)


def encode_segment_head(head: SegmentHead, previous: int, index: int, term: int) -> tuple[bytes, int]:
    """Return the SEGMENT record for a file whose next entry follows `index`, and its checksum."""
    body = _SEGMENT_BODY.pack(head.format_version, head.sequence) + head.owner.encode()
    return encode_record(RecordType.SEGMENT, previous, body, index=index, term=term)


def decode_segment_head(record: SegmentRecord) -> SegmentHead:
    """Return what a SEGMENT record's body says."""
    format_version, sequence = _SEGMENT_BODY.unpack_from(record.body)
    return SegmentHead(format_version, sequence, record.body[_SEGMENT_BODY.size :].decode(errors="replace"))


def decode_record(data: bytes, offset: int) -> SegmentRecord | Flaw:
    """Return the record at `offset` or its flaw; this does not check its place in the chain."""
    if offset + HEADER_BYTES > len(data):
        return Flaw(
            offset, f"a header of {HEADER_BYTES} bytes", f"{len(data) - offset} bytes to the end of the file"
        )
    magic, size, index, term, kind, entry_type, reserved, previous = _HEAD.unpack_from(data, offset)
    if magic != MAGIC:
        return Flaw(offset, f"magic {MAGIC!r}", repr(magic))
    end = offset + HEADER_BYTES + size
    if size > RECORD_BODY_BYTES_MAX or end > len(data):
        left = len(data) - offset - HEADER_BYTES
        return Flaw(offset, f"a body of {size} bytes", f"{left} bytes to the end of the file")
    (checksum,) = _CHECKSUM.unpack_from(data, offset + _HEAD.size)
    body = data[offset + HEADER_BYTES : end]
    actual = google_crc32c.extend(google_crc32c.value(data[offset : offset + _HEAD.size]), body)
    if actual != checksum:
        return Flaw(offset, f"checksum {checksum:#010x}", f"{actual:#010x}")
    if not _is_known(kind, entry_type, reserved, body):
        return Flaw(
            offset, "a record type of this format", f"type {kind}, entry type {entry_type}, size {size}"
        )
    return SegmentRecord(
        RecordType(kind),
        LogIndex(index),
        Term(term),
        EntryType(entry_type),
        body,
        previous,
        checksum,
        offset,
        end,
    )


def find_records(data: bytes, start: int) -> list[SegmentRecord]:
    """Return every record at or after `start` that is whole by itself, wherever it stands.

    For a reader that met damage and asks what lies behind it. Not: a walk by sizes, since a damaged size
    would hide everything after it.
    """
    found: list[SegmentRecord] = []
    position = data.find(MAGIC, start)
    while position >= 0:
        record = decode_record(data, position)
        if isinstance(record, SegmentRecord):
            found.append(record)
            position = data.find(MAGIC, record.end)
        else:
            position = data.find(MAGIC, position + 1)
    return found


def _is_known(kind: int, entry_type: int, reserved: int, body: bytes) -> bool:
    """Return whether the fields fit this format (with a valid checksum, others mean a newer writer)."""
    if reserved != 0 or entry_type > EntryType.CONF_CHANGE_V2:
        return False
    match kind:
        case RecordType.ENTRY | RecordType.RESET | RecordType.DURABLE:
            return True
        case RecordType.HARD_STATE:
            return len(body) == _HARD_STATE_BODY.size
        case RecordType.SEGMENT:
            return len(body) >= _SEGMENT_BODY.size
        case _:
            return False
