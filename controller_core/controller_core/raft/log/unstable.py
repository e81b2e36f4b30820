"""The part of the log that is not yet known to be on stable storage: a snapshot, entries, or both.

Three positions matter. Before `offset` everything is on stable storage. From `offset` to `offset_in_progress`
the entries were handed out in a Ready and are being written. From there on they wait for the next Ready.
Writing is confirmed by (index, term), because a new leader may have replaced these entries during the write:
a confirmation of the old entries must not pass for one of the new.
"""

from collections.abc import Sequence

from controller_core.raft.errors import invariant
from controller_core.raft.types import Entry, Snapshot


class Unstable:
    """Entries from `offset` on, and perhaps a snapshot that precedes them.

    Invariant: entries[i].index == offset + i, and offset <= offset_in_progress <= offset + len(entries).
    """

    __slots__ = ("entries", "offset", "offset_in_progress", "snapshot", "snapshot_in_progress")

    def __init__(self, offset: int) -> None:
        self.entries: list[Entry] = []
        self.offset = offset
        self.offset_in_progress = offset
        self.snapshot: Snapshot | None = None
        self.snapshot_in_progress = False

    def first_index(self) -> int | None:
        """Return the first index of the whole log, if a snapshot here determines it."""
        return None if self.snapshot is None else self.snapshot.index + 1

    def last_index(self) -> int | None:
        """Return the last index of the whole log, if anything here determines it."""
        if self.entries:
            return self.offset + len(self.entries) - 1
        return None if self.snapshot is None else self.snapshot.index

    def term(self, index: int) -> int | None:
        """Return the term at `index` if it is known here."""
        position = index - self.offset
        if position < 0:
            if self.snapshot is not None and self.snapshot.index == index:
                return self.snapshot.term
            return None
        return self.entries[position].term if position < len(self.entries) else None

    def next_entries(self) -> tuple[Entry, ...]:
        """Return the entries that wait to be written and are not being written."""
        return tuple(self.entries[self.offset_in_progress - self.offset :])

    def has_next_entries(self) -> bool:
        """Return whether `next_entries` would return any."""
        return self.offset_in_progress - self.offset < len(self.entries)

    def next_snapshot(self) -> Snapshot | None:
        """Return the snapshot if it waits to be written and is not being written."""
        return None if self.snapshot_in_progress else self.snapshot

    def accept_in_progress(self) -> None:
        """Note that all that waited is being written now."""
        self.offset_in_progress = self.offset + len(self.entries)
        if self.snapshot is not None:
            self.snapshot_in_progress = True

    def stable_to(self, index: int, term: int) -> None:
        """Drop the entries up to `index`: they are on stable storage, if their last one still has `term`."""
        position = index - self.offset
        if not 0 <= position < len(self.entries) or self.entries[position].term != term:
            return
        del self.entries[: position + 1]
        self.offset = index + 1
        self.offset_in_progress = max(self.offset_in_progress, self.offset)

    def stable_snapshot_to(self, index: int) -> None:
        """Drop the snapshot if it is that of `index`."""
        if self.snapshot is not None and self.snapshot.index == index:
            self.snapshot = None
            self.snapshot_in_progress = False

    def restore(self, snapshot: Snapshot) -> None:
        """Restart after `snapshot`."""
        self.offset = snapshot.index + 1
        self.offset_in_progress = self.offset
        self.entries = []
        self.snapshot = snapshot
        self.snapshot_in_progress = False

    def truncate_and_append(self, entries: Sequence[Entry]) -> None:
        """Append `entries`, first dropping everything from the index of the first of them on."""
        start = entries[0].index
        end = self.offset + len(self.entries)
        invariant(start <= end, "entries leave a gap in the log", start=start, end=end)
        if start <= self.offset:
            self.entries = list(entries)
            self.offset = start
            self.offset_in_progress = start
            return
        if start < end:
            del self.entries[start - self.offset :]
            self.offset_in_progress = min(self.offset_in_progress, start)
        self.entries.extend(entries)

    def slice(self, low: int, high: int) -> tuple[Entry, ...]:
        """Return the entries of [low, high), which must all be here."""
        end = self.offset + len(self.entries)
        invariant(self.offset <= low <= high <= end, "slice out of range", low=low, high=high, end=end)
        return tuple(self.entries[low - self.offset : high - self.offset])
