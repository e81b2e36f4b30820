"""The log's files as one growing row of bytes: append, sync and truncate, byte for byte as in a broker's log.

Two threads use a `CommitLog`. One receives: it appends, and sometimes truncates. The other syncs: it makes
written bytes durable, many appends at a time. `append` waits for the disk's cache only where it begins a
file, and `sync` never keeps it from going on otherwise; a truncation waits for a sync under way, because it
closes files.

Invariant: only the newest file can hold bytes that are not durable. Before a file is begun all others are
synced, and so are all when the log is opened, since a process that was killed leaves its bytes with the
operating system and nowhere else. Recovery counts on it: it looks for the end in the newest file, and a
machine that loses power may have kept the later of two files and not the earlier one.

A truncation ends with zeros behind the new end and everything durable. Java only resets its position in
memory and leaves the old records in place, where a restart finds them again as if they were part of the log.
Newer files go first, newest of all first, so that a crash leaves a log without gaps.

A log with a `Room` refuses a write that does not fit, before it writes. Others may take the space in between,
so the disk can still be full; then the log takes back the bytes of that write. Either way it keeps its
content, and goes on when the volume has space. A failed sync is different: it ends the process.

Source: MappedFileQueue.java (layout on disk) 5.4.0.
"""

import threading
from collections.abc import Sequence
from typing import Final, Self

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.commitlog.cuts import CutGuard
from ha_sidecar.commitlog.disk import DiskFile, remove_durably
from ha_sidecar.commitlog.layout import Layout
from ha_sidecar.commitlog.records import CheckedRecord, RecordKind
from ha_sidecar.commitlog.recovery import find_end, record_at
from ha_sidecar.commitlog.room import NO_SPACE, Room


class CommitLogUsageError(Exception):
    """This program asked for a write or a cut that the log's extent does not allow."""


class CommitLog:
    """An open log, [min_offset, max_offset); the two are equal when it is empty.

    Attributes:
        layout: directory and length of files.
        min_offset: offset of the oldest byte; of an empty log meaningless until the first append.
        max_offset: end of the written bytes.
        synced_offset: end of the durable bytes.
        record_offset: where a record ended when the log was opened or cut last, or the start of an empty log.
        cuts: keeps readers of the files and truncations apart.
        room: says how much still fits on the volume; None for no limit.
    """

    def __init__(
        self, layout: Layout, min_offset: LogOffset, max_offset: LogOffset, cuts: CutGuard, room: Room | None
    ) -> None:
        """Use `open` instead."""
        self.layout: Final = layout
        self.cuts: Final = cuts
        self.room: Final = room
        self.record_offset = max_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.synced_offset = max_offset
        self._state_lock: Final = threading.Lock()
        self._sync_lock: Final = threading.Lock()
        self._open: Final[dict[int, DiskFile]] = {}
        self._dirty: set[int] = set()

    @classmethod
    def open(
        cls, layout: Layout, cuts: CutGuard | None = None, room: Room | None = None
    ) -> tuple[Self, CheckedRecord]:
        """Recover the log in the directory; return it with the verdict on what stood at its end.

        The log ends behind its last whole record; everything after that is zeros and durable when this
        returns. `cuts` is given when the log takes the place of one that may still be read.

        Raises:
            LogLayoutError: the files make no log.
        """
        layout.disk.make_directory(layout.directory)
        end = find_end(layout)
        log = cls(layout, LogOffset(end.min_offset), LogOffset(end.max_offset), cuts or CutGuard(), room)
        log._cut_files(end.max_offset)  # also makes a file whole that a cut-short truncation left behind
        log._sync_files()
        return log, end.stopped_by

    @property
    def is_empty(self) -> bool:
        """Say whether the log holds no byte."""
        return self.max_offset == self.min_offset

    def append(self, offset: LogOffset, parts: Sequence[memoryview]) -> None:
        """Write the parts one after another at `offset`, the log's end; they stay inside one file.

        An empty log takes any file's start as its own.

        Raises:
            CommitLogUsageError: another offset, or a write across a file's end.
            NoRoomError: the volume lacks room for it; nothing was written.
            OSError: the disk refused. What it holds is unknown from then on; the process must end.
        """
        layout = self.layout
        length = sum(len(part) for part in parts)
        start_offset = layout.start_of(offset)
        if self.is_empty and offset == start_offset:
            self.record_offset = offset
            self.min_offset = self.max_offset = self.synced_offset = offset
        if offset != self.max_offset or offset + length > start_offset + layout.file_bytes:
            raise CommitLogUsageError(f"{length} bytes at {offset}, the log ends at {self.max_offset}")
        if self.room is not None:
            self.room.take(length, begins_file=offset == start_offset)
        try:
            self._file(start_offset).write_at(parts, offset - start_offset)
        except OSError as error:
            if self.room is None or error.errno not in NO_SPACE:
                raise
            self._take_back()
            raise self.room.refused(length, str(error)) from error
        with self._state_lock:
            self._dirty.add(start_offset)
            self.max_offset = LogOffset(offset + length)

    def sync(self) -> int:
        """Make everything durable that was written before this call; return the durable end.

        Raises:
            OSError: the disk refused. What it holds is unknown from then on; the process must end.
        """
        with self._sync_lock:
            with self._state_lock:
                dirty, self._dirty = self._dirty, set()
                written_offset = self.max_offset
            for start_offset in sorted(dirty):
                # The length never changes after creation: data and block allocation suffice.
                self._open[start_offset].sync_data()
                if self.layout.start_of(written_offset) > start_offset:
                    self._open.pop(start_offset).close()
            self.synced_offset = written_offset
            return written_offset

    def truncate(self, to_offset: LogOffset) -> None:
        """Cut the log to end at `to_offset`, inside its extent; zeros follow, and all is durable.

        Raises:
            CommitLogUsageError: an offset outside the log.
        """
        if not self.min_offset <= to_offset <= self.max_offset:
            raise CommitLogUsageError(
                f"cut to {to_offset}, the log is [{self.min_offset}, {self.max_offset})"
            )
        with self._sync_lock, self.cuts.cutting():
            self._close_files()
            self._cut_files(to_offset)
            self.record_offset = self.max_offset = self.synced_offset = to_offset

    def drop_before(self, offset: int) -> None:
        """Remove the oldest files that end at or below `offset`, durably; readers that have one open keep it.

        Raises:
            CommitLogUsageError: bytes that are not durable, or the newest file, would go.
        """
        with self._sync_lock:
            if offset > self.layout.start_of(self.synced_offset):
                raise CommitLogUsageError(f"drop before {offset}, the log is durable to {self.synced_offset}")
            for start_offset in self.layout.starts():
                if start_offset + self.layout.file_bytes > offset:
                    break
                # Readers learn of it first: a reader below the new start is refused before the file is gone.
                self.min_offset = LogOffset(start_offset + self.layout.file_bytes)
                remove_durably(self.layout.path(start_offset), self.layout.disk)

    def record_at(self, offset: int) -> CheckedRecord:
        """Judge the record that starts at `offset`."""
        return record_at(self.layout, offset, self.max_offset)

    def can_cut_at(self, offset: int) -> bool:
        """Say whether a record starts at `offset`, or the log ends there: a cut must lie between records.

        Source: AutoSwitchHAClient.doTruncate 5.4.0: otherwise "need manual fix".
        """
        kind = self.record_at(offset).kind
        return offset == self.max_offset or kind not in (RecordKind.DAMAGED, RecordKind.UNUSED)

    def close(self) -> None:
        """Make everything durable and close the files."""
        self.sync()
        with self._sync_lock:
            self._close_files()

    def _file(self, start_offset: int) -> DiskFile:
        file = self._open.get(start_offset)
        if file is not None:
            return file
        disk, path = self.layout.disk, self.layout.path(start_offset)
        fresh = disk.size(path) is None
        if fresh:
            self._sync_before_file()
        file = disk.open(path, create=True)
        if fresh:
            file.resize(self.layout.file_bytes)
            file.sync()
            disk.sync_directory(self.layout.directory)
        with self._state_lock:
            self._open[start_offset] = file
        return file

    def _sync_before_file(self) -> None:
        try:
            self.sync()
        except OSError as error:
            # Without the number: unlike a write without space, a failed sync leaves the disk unknown.
            raise OSError(None, f"sync: {error}") from error

    def _take_back(self) -> None:
        """Remove what a write left that found no space: zeros from the log's end on, and all durable.

        The end may lie inside a record, so `record_offset` stays.
        """
        with self._sync_lock, self.cuts.cutting():
            self._close_files()
            self._cut_files(self.max_offset)
            self.synced_offset = self.max_offset

    def _sync_files(self) -> None:
        for start_offset in self.layout.starts():
            file = self.layout.disk.open(self.layout.path(start_offset))
            try:
                file.sync()
            finally:
                file.close()

    def _close_files(self) -> None:
        with self._state_lock:
            for file in self._open.values():
                file.close()
            self._open.clear()
            self._dirty.clear()

    def _cut_files(self, to_offset: int) -> None:
        layout = self.layout
        for start_offset in reversed(layout.starts()):
            if start_offset >= to_offset:
                remove_durably(layout.path(start_offset), layout.disk)
        if to_offset % layout.file_bytes:
            file = layout.disk.open(layout.path(layout.start_of(to_offset)))
            try:
                file.resize(to_offset % layout.file_bytes)
                file.resize(layout.file_bytes)
                file.sync()
            finally:
                file.close()
