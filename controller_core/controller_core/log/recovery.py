"""Reading a store back: which records count, where a torn tail is cut, and when to refuse.

The files of a store are snapshots and segments. Segments are numbered without a gap and chained by checksums.
Only the last one was being written when the process ended, so only its end may be torn. There, and at nothing
else, recovery cuts. The rule for bytes at offset `o` of the last segment that are not a record:

    behind `o` there is ...              what it means                                          recovery
    no whole record                      the write under way when the machine stopped           cuts at `o`
    a DURABLE record                     what stood at `o` was synced: the disk lost it         refuses
    other records, a sector lost at `o`  one unsynced write reached the disk in parts           cuts at `o`
    other records, no sector lost        bits changed; a disk tears by whole sectors            refuses

A record that is whole but does not continue the chain is never cut: power loss does not cause that. Bytes
that are cut were not synced, so no message that revealed them ever left this node.

A snapshot received from the leader replaces the whole log. Its file comes first, the RESET record second; a
crash between leaves a newer snapshot over a log that does not fit it. `Replay.finish` finds that (the log
ends before the snapshot, or has another term there) and says that the reset is still to be written.

Not: falling back to older snapshots, skipping damaged records, repairing. Tests: tests/unit/log/.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from controller_core.log.errors import LogBoundsError, LogCorruptError
from controller_core.log.files import Files
from controller_core.log.records import (
    FORMAT_VERSION,
    Flaw,
    RecordType,
    SegmentRecord,
    decode_record,
    decode_segment_head,
    find_records,
)
from controller_core.log.snapshots import read_newest
from controller_core.log.view import StoredState
from controller_core.raft.bounds import STORED_INDEX_MAX, STORED_TERM_MAX
from controller_core.raft.types import NO_NODE, Entry, HardState, Snapshot, Term

SECTOR_BYTES = 512
"""The smallest piece a disk writes whole; a torn write is missing pieces of this size and alignment."""

_SEGMENT_NAME = re.compile(r"^log-(\d{10})-(\d{20})\.wal$")


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file: its number in the chain, and the index before its first entry."""

    name: str
    sequence: int
    previous_index: int


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the next record goes, and what a new segment's head must repeat."""

    size_bytes: int
    checksum: int
    last_index: int
    last_term: int
    hard_state: HardState


@dataclass(frozen=True, slots=True)
class Cut:
    """A torn tail that recovery cuts off."""

    path: str
    offset: int
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a store holds, and what opening it has to do."""

    stored: StoredState
    segments: tuple[Segment, ...]
    tail: Tail
    tail_bytes: bytes
    owner: str
    cut: Cut | None = None
    needs_reset: bool = False


def segment_name(sequence: int, first_index: int) -> str:
    """Return a segment's file name; names sort as sequences do."""
    return f"log-{sequence:010d}-{first_index:020d}.wal"


def segment_names(names: list[str]) -> list[str]:
    """Return the names of segments among `names`, oldest first."""
    return sorted(name for name in names if _SEGMENT_NAME.match(name))


def last_run(names: list[str]) -> list[str]:
    """Return the segments after the last gap in the numbers.

    Old segments are removed oldest first, but a file system may make the removals durable in another order.
    Segments before such a gap are not needed; if they were, the log would begin after the snapshot, which
    recovery refuses.
    """
    start = len(names)
    while start > 0 and (start == len(names) or _sequence(names[start - 1]) + 1 == _sequence(names[start])):
        start -= 1
    return names[start:]


def _sequence(name: str) -> int:
    return int(name[4:14])


class Replay:
    """Takes the records of all segments in order and keeps the log that they describe."""

    __slots__ = ("_base_index", "_base_term", "_entries", "_hard_state", "_path")

    def __init__(self) -> None:
        self._path = ""
        self._base_index = 0
        self._base_term: int | None = 0
        self._entries: list[Entry] = []
        self._hard_state = HardState()

    def start(self, path: str, head: SegmentRecord, *, is_first: bool) -> None:
        """Go to the next file; the first file's head says where the log begins."""
        self._path = path
        _check_bounds(path, head)
        if is_first:
            self._base_index, self._base_term = head.index, head.term

    def take(self, record: SegmentRecord) -> None:
        """Take one record.

        Raises:
            LogCorruptError: an entry leaves a gap after its predecessor, or a number is over its bound.
        """
        _check_bounds(self._path, record)
        match record.type:
            case RecordType.ENTRY:
                self._take_entry(record)
            case RecordType.HARD_STATE:
                self._hard_state = record.hard_state()
            case RecordType.RESET:
                self._base_index, self._base_term, self._entries = record.index, record.term, []
            case RecordType.SEGMENT:
                raise LogCorruptError(
                    self._path, record.offset, "a segment head only at byte 0", "another one"
                )
            case RecordType.DURABLE:
                pass

    def last(self) -> tuple[int, int]:
        """Return index and term of the last entry, or of the base."""
        if self._entries:
            return self._entries[-1].index, self._entries[-1].term
        return self._base_index, self._base_term or 0

    def finish(self, snapshot: Snapshot, end_offset: int) -> tuple[StoredState, bool]:
        """Join log and snapshot.

        The second value says whether the snapshot replaced a log that does not fit it.

        Raises:
            LogCorruptError: entries between the snapshot and the log, or committed ones, are missing.
        """
        last_index, _ = self.last()
        if snapshot.index < self._base_index:
            expected = f"a snapshot at index {self._base_index} or later"
            raise LogCorruptError(self._path, 0, expected, f"the newest at {snapshot.index}")
        if snapshot.index > last_index or self._term(snapshot.index) != snapshot.term:
            return StoredState(self._raised(snapshot, ()), snapshot), True
        entries = tuple(self._entries[snapshot.index - self._base_index :])
        hard_state = self._raised(snapshot, entries)
        if hard_state.commit > last_index:
            expected = f"entries up to the commit index {hard_state.commit}"
            raise LogCorruptError(self._path, end_offset, expected, f"the last one at {last_index}")
        return StoredState(hard_state, snapshot, entries), False

    def _take_entry(self, record: SegmentRecord) -> None:
        position = record.index - self._base_index
        if position > len(self._entries) + 1:
            expected = f"index {self._base_index + len(self._entries) + 1} or before"
            raise LogCorruptError(self._path, record.offset, expected, f"index {record.index}")
        if position <= 0:
            self._base_index, self._base_term, self._entries = record.index - 1, None, []
            position = 1
        del self._entries[position - 1 :]
        self._entries.append(record.entry())

    def _term(self, index: int) -> int | None:
        position = index - self._base_index
        return self._base_term if position == 0 else self._entries[position - 1].term

    def _raised(self, snapshot: Snapshot, entries: tuple[Entry, ...]) -> HardState:
        """Return the hard state, no older than snapshot and entries.

        Entries stand before the hard state of their batch, so a torn batch can leave an entry of a term whose
        hard state was cut. No vote in that term can have left this node, since the vote would have been
        synced.
        """
        found = self._hard_state
        term = max(found.term, snapshot.term, *(entry.term for entry in entries[-1:]))
        vote = found.vote if term == found.term else NO_NODE
        return replace(found, term=Term(term), vote=vote, commit=max(found.commit, snapshot.index))


def recover(files: Files, directory: Path, names: list[str]) -> Recovered | None:
    """Read a store; None for a new store, which is without segments.

    Raises:
        LogCorruptError: something that was durable is damaged or missing; the text names file and offset.
        OSError: a file cannot be read.
    """
    snapshot = read_newest(files, directory, names)
    found = last_run(segment_names(names))
    replay, segments, cut, checksum, data, owner = Replay(), list[Segment](), None, 0, b"", ""
    for position, name in enumerate(found):
        path = str(directory / name)
        data = files.read(directory / name)
        is_last = position == len(found) - 1
        records, flaw = walk(data, path, None if position == 0 else checksum)
        if flaw is not None:
            cut = judge_flaw(data, path, flaw, is_last=is_last)
            data = data[: flaw.offset]
        owner = _take_head(replay, segments, records, path, name)
        for record in records[1:]:
            replay.take(record)
        checksum = records[-1].checksum
    if not found:
        return None
    stored, needs_reset = replay.finish(snapshot, len(data))
    tail = Tail(len(data), checksum, *replay.last(), stored.hard_state)
    return Recovered(stored, tuple(segments), tail, data, owner, cut, needs_reset)


def walk(data: bytes, path: str, previous: int | None) -> tuple[list[SegmentRecord], Flaw | None]:
    """Return the records of a segment up to its end or first flaw; `previous` is the checksum to continue.

    Raises:
        LogCorruptError: a whole record does not continue the chain.
    """
    records: list[SegmentRecord] = []
    offset = 0
    while offset < len(data):
        record = decode_record(data, offset)
        if isinstance(record, Flaw):
            return records, record
        if previous is not None and record.previous != previous:
            raise LogCorruptError(
                path,
                offset,
                f"a record that follows checksum {previous:#010x}",
                f"one after {record.previous:#010x}",
            )
        records.append(record)
        previous, offset = record.checksum, record.end
    return records, None


def judge_flaw(data: bytes, path: str, flaw: Flaw, *, is_last: bool) -> Cut:
    """Decide whether bytes that are not a record are a torn tail, by the table on top.

    Raises:
        LogCorruptError: they are damage.
    """
    damage = LogCorruptError(path, flaw.offset, flaw.expected, flaw.found)
    if not is_last or flaw.offset == 0:
        raise damage
    behind = find_records(data, flaw.offset + 1)
    if any(record.type is RecordType.DURABLE for record in behind):
        raise damage
    if behind and not _sector_lost(data, flaw.offset, behind[0].offset):
        raise damage
    return Cut(path, flaw.offset, len(data) - flaw.offset, f"expected {flaw.expected}, found {flaw.found}")


def _sector_lost(data: bytes, start: int, end: int) -> bool:
    """Say whether a sector that lies before `end`, or the part of one after `start`, is all zero.

    A record begins with a nonzero byte, so even a short part at `start` tells.
    """
    boundary = (start // SECTOR_BYTES + 1) * SECTOR_BYTES
    while boundary <= end:
        if not any(data[start:boundary]):
            return True
        start, boundary = boundary, boundary + SECTOR_BYTES
    return False


def _check_bounds(path: str, record: SegmentRecord) -> None:
    """Refuse a record whose term or index leaves no room to go on.

    Raises:
        LogBoundsError: it does.
    """
    commit = record.hard_state().commit if record.type is RecordType.HARD_STATE else 0
    for what, value, value_max in (
        ("term", record.term, STORED_TERM_MAX),
        ("index", record.index, STORED_INDEX_MAX),
        ("commit index", commit, STORED_INDEX_MAX),
    ):
        if value > value_max:
            raise LogBoundsError(path, record.offset, what, value, value_max)


def _take_head(
    replay: Replay, segments: list[Segment], records: list[SegmentRecord], path: str, name: str
) -> str:
    """Check a segment's head against its name and the segment before it; return the owner that it names."""
    if not records or records[0].type is not RecordType.SEGMENT:
        raise LogCorruptError(path, 0, "a segment head", "none")
    head = decode_segment_head(records[0])
    if head.format_version != FORMAT_VERSION:
        raise LogCorruptError(path, 0, f"format {FORMAT_VERSION}", f"format {head.format_version}")
    if segment_name(head.sequence, records[0].index + 1) != name:
        raise LogCorruptError(
            path, 0, f"the head of {name}", f"sequence {head.sequence} after {records[0].index}"
        )
    if segments and segments[-1].sequence + 1 != head.sequence:
        raise LogCorruptError(path, 0, f"segment {segments[-1].sequence + 1}", f"segment {head.sequence}")
    replay.start(path, records[0], is_first=not segments)
    segments.append(Segment(name, head.sequence, records[0].index))
    return head.owner
