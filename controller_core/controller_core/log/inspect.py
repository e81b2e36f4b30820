"""Reads the store of a stopped node for a person: what each file holds, also behind damage.

Unlike recovery it never refuses: damage becomes a row of its own, and reading goes on at the next whole
record. It takes no lock and changes nothing, so the files of a running node can be read too; the end of the
last segment may then look torn.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller_core.log.errors import LogCorruptError
from controller_core.log.files import Files, OsFiles
from controller_core.log.records import (
    RecordType,
    SegmentRecord,
    decode_record,
    decode_segment_head,
    find_records,
)
from controller_core.log.recovery import segment_names
from controller_core.log.snapshots import decode_snapshot, snapshot_names


@dataclass(frozen=True, slots=True)
class Inspected:
    """One row: a record of a segment, a snapshot file, or a damaged place.

    Attributes:
        kind: SNAPSHOT, SEGMENT, ENTRY, HARD_STATE, RESET, DURABLE or DAMAGE.
        file: the file's name.
        offset: where in the file, in bytes.
        size_bytes: the whole record, its header included.
        index: log index; None if records of this kind do not carry one.
        term: Raft term; None for damage.
        text: what a person wants to know beside that.
        data: an entry's or snapshot's own bytes.
        incarnation: of the store, which a segment's head names. It is a secret among the members: do not
            print it.
    """

    kind: str
    file: str
    offset: int
    size_bytes: int
    index: int | None
    term: int | None
    text: str = ""
    data: bytes = b""
    incarnation: str = ""


def inspect_store(directory: Path, files: Files | None = None) -> Iterator[Inspected]:
    """Yield what a store holds: snapshots, then the records of all segments in order.

    Raises:
        OSError: the directory or a file cannot be read.
    """
    files = files or OsFiles()
    names = files.list(directory)
    for name in snapshot_names(names):
        yield _inspect_snapshot(name, files.read(directory / name))
    previous: int | None = None
    for name in segment_names(names):
        data = files.read(directory / name)
        offset = 0
        while offset < len(data):
            record = decode_record(data, offset)
            if not isinstance(record, SegmentRecord):
                behind = find_records(data, offset + 1)
                end = behind[0].offset if behind else len(data)
                text = f"expected {record.expected}, found {record.found}"
                yield Inspected("DAMAGE", name, offset, end - offset, None, None, text)
                previous, offset = None, end
                continue
            if previous is not None and record.previous != previous:
                text = f"expected a record after {previous:#010x}, found one after {record.previous:#010x}"
                yield Inspected("DAMAGE", name, offset, 0, None, None, text)
            yield _inspect_record(name, record)
            previous, offset = record.checksum, record.end


def _inspect_snapshot(name: str, data: bytes) -> Inspected:
    try:
        found = decode_snapshot(data, name)
    except LogCorruptError as error:
        return Inspected("DAMAGE", name, error.offset, len(data), None, None, str(error))
    text = f"voters {list(found.conf_state.voters)} learners {list(found.conf_state.learners)}"
    return Inspected("SNAPSHOT", name, 0, len(data), found.index, found.term, text, found.data)


def _inspect_record(name: str, record: SegmentRecord) -> Inspected:
    text = incarnation = ""
    index: int | None = record.index
    match record.type:
        case RecordType.SEGMENT:
            head = decode_segment_head(record)
            owner, _, incarnation = head.owner.partition("\0")
            text = f"format {head.format_version} sequence {head.sequence} owner {owner!r}"
        case RecordType.ENTRY:
            text = record.entry_type.name
        case RecordType.HARD_STATE:
            state = record.hard_state()
            index, text = None, f"vote {state.vote} commit {state.commit}"
        case RecordType.DURABLE:
            index = None
        case RecordType.RESET:
            text = "a snapshot replaced the log"
    data = record.body if record.type is RecordType.ENTRY else b""
    return Inspected(
        record.type.name,
        name,
        record.offset,
        record.end - record.offset,
        index,
        record.term,
        text,
        data,
        incarnation,
    )
