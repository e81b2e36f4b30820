"""Find where a log ends: a walk over its records, after a crash or for a person who asks.

Nothing on disk says how far the log of a process that died reaches: files have their full length from the
start, and unwritten bytes are zeros. So the end is found by walking: every record must be whole (sizes,
magic, own offset, body checksum), and the first one that is not ends the log. A message that arrived only in
part is given up: no acknowledgement can have counted it, since an ack covers a message only with its last
byte. No checksum covers a message's topic and properties, so the last message must also hold no zeros in them
(`texts_hold_nul`), and none of them before the end of a sector (`texts_lack_bytes`).

A BLANK ends a file, not the log. If no record follows in the next file, the log is taken to end before the
BLANK: whether its unused rest was received is unknown, and fetching it again keeps the files byte-identical.

`find_end` starts at the newest file whose first record is whole, `walk` at the oldest byte, `check_span` at a
given offset. None changes anything.

Source: CommitLog.recoverNormally, recoverAbnormally 5.4.0, without their checkpoint: a replica keeps no
consume queue.
"""

from dataclasses import dataclass

from ha_sidecar.commitlog.layout import Layout, LogLayoutError
from ha_sidecar.commitlog.records import (
    CheckedRecord,
    RecordKind,
    check_record,
    sure_message_bytes,
    texts_hold_nul,
    texts_lack_bytes,
)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The extent of a log in bytes, and the verdict on the bytes at its end."""

    min_offset: int
    max_offset: int
    stopped_by: CheckedRecord


@dataclass(frozen=True, slots=True)
class Walk:
    """What a whole log holds: its extent, how many messages, and the verdict that ended the walk."""

    end: LogEnd
    messages: int
    bytes_in_messages: int


def find_end(layout: Layout) -> LogEnd:
    """Return the log's extent by walking its newest files.

    Raises:
        LogLayoutError: the files make no log, or several hold not one whole record at their start.
    """
    starts = layout.starts()
    if not starts:
        return LogEnd(0, 0, CheckedRecord(RecordKind.UNUSED))
    for start_offset in reversed(starts):
        if _first_record(layout, start_offset).length_bytes:
            max_offset, stopped_by = _walk_from(layout, [s for s in starts if s >= start_offset], None)
            # A file may turn out to hold nothing after all; then the BLANK before it is the end.
            if max_offset > start_offset:
                return LogEnd(starts[0], max_offset, stopped_by)
    if len(starts) > 1:
        raise LogLayoutError(
            f"none of the {len(starts)} files in {layout.directory} starts with a whole record"
        )
    return LogEnd(starts[0], starts[0], _first_record(layout, starts[0]))


def walk(layout: Layout) -> Walk:
    """Check every record from the oldest to the first that is not whole.

    Raises:
        LogLayoutError: the files make no log.
    """
    starts = layout.starts()
    counts = [0, 0]
    if not starts:
        return Walk(LogEnd(0, 0, CheckedRecord(RecordKind.UNUSED)), 0, 0)
    max_offset, stopped_by = _walk_from(layout, starts, counts)
    return Walk(LogEnd(starts[0], max_offset, stopped_by), counts[0], counts[1])


def record_at(layout: Layout, offset: int, max_offset: int) -> CheckedRecord:
    """Judge the one record at `offset` of a log that ends at `max_offset`."""
    start_offset = layout.start_of(offset)
    path = layout.path(start_offset)
    if offset >= max_offset or layout.disk.size(path) is None:
        return CheckedRecord(RecordKind.UNUSED)
    end = min(max_offset - start_offset, layout.file_bytes)
    with layout.disk.content(layout.path(start_offset)) as data:
        at = offset - start_offset
        return check_record(data, at, min(end, len(data)), offset, layout.file_bytes - at)


def check_span(layout: Layout, from_offset: int, to_offset: int) -> tuple[int, CheckedRecord]:
    """Check the records between two offsets, the first of which is a record's start, and read nothing above.

    Return where the first one stands that is not whole below `to_offset`, with the verdict on it; `to_offset`
    if none does.
    """
    offset = from_offset
    while offset < to_offset:
        end_offset = min(layout.start_of(offset) + layout.file_bytes, to_offset)
        stop = _walk_file(layout, offset, end_offset)
        if stop.record.kind is not RecordKind.BLANK:
            return stop.offset, stop.record
        offset = end_offset
    return offset, CheckedRecord(RecordKind.UNUSED)


def _walk_from(layout: Layout, starts: list[int], counts: list[int] | None) -> tuple[int, CheckedRecord]:
    """Walk the files and return the log's end with the verdict there.

    Count messages and bytes into `counts`.
    """
    blank_offset = starts[0]
    for start_offset in starts:
        stop = _walk_file(layout, start_offset, start_offset + layout.file_bytes)
        if counts is not None:
            counts[0] += stop.messages
            counts[1] += stop.offset - start_offset
        if stop.record.kind is not RecordKind.BLANK:
            return (blank_offset if stop.offset == start_offset else stop.offset), stop.record
        blank_offset = stop.offset
    return blank_offset, CheckedRecord(RecordKind.UNUSED)


@dataclass(frozen=True, slots=True)
class _Stop:
    """Where a walk through one file ended, the verdict on the bytes at its end, and its messages."""

    offset: int
    record: CheckedRecord
    messages: int


def _walk_file(layout: Layout, from_offset: int, end_offset: int) -> _Stop:
    """Check records of one file up to the first that is not a message or not whole below `end_offset`."""
    file_bytes, start_offset = layout.file_bytes, layout.start_of(from_offset)
    with layout.disk.content(layout.path(start_offset)) as data, memoryview(data) as view:
        messages, end = 0, min(len(data), end_offset - start_offset)
        at = previous_at = from_offset - start_offset
        while True:
            offset = start_offset + at
            # Records that pass these cheap checks, nearly all of a log, take a third of the time.
            length = sure_message_bytes(data, view, at, end, offset, file_bytes - at)
            if not length:
                record = check_record(data, at, end, offset, file_bytes - at)
                if (
                    record.kind is RecordKind.UNUSED
                    and at > previous_at
                    and texts_hold_nul(data, previous_at)
                ):
                    return _Stop(start_offset + previous_at, CheckedRecord(RecordKind.TORN), messages - 1)
                if record.kind is RecordKind.MESSAGE and texts_lack_bytes(data, at):
                    record = CheckedRecord(RecordKind.TORN)
                if record.kind is not RecordKind.MESSAGE:
                    return _Stop(offset, record, messages)
                length = record.length_bytes
            previous_at, at = at, at + length
            messages += 1


def _first_record(layout: Layout, start_offset: int) -> CheckedRecord:
    with layout.disk.content(layout.path(start_offset)) as data:
        return check_record(data, 0, len(data), start_offset, layout.file_bytes)
