"""The whole log as the core sees it.

Stable storage below, the unstable part above, and three positions in it.

    applied <= applying <= committed <= last index

`committed` is the highest index known to be on a quorum. `applying` is the highest handed out to be applied,
and `applied` the highest known to be. Entries handed out and not yet applied are bounded in bytes, so that a
fast log does not bury a slow state machine.

The log never forgets a committed entry and never lets one change: a conflict there means that a member lost
what it had promised to keep, and ends the node.
"""

from collections.abc import Iterator, Sequence

from controller_core.raft.errors import InvariantError, invariant
from controller_core.raft.log.sizes import UNLIMITED_BYTES, entries_size_bytes, limit_size
from controller_core.raft.log.storage import CompactedError, Storage, UnavailableError
from controller_core.raft.log.unstable import Unstable
from controller_core.raft.types import Entry, LogIndex, Snapshot


class RaftLog:
    """Reads and appends over storage and the unstable part."""

    __slots__ = (
        "applied",
        "applying",
        "applying_bytes",
        "applying_bytes_max",
        "applying_paused",
        "committed",
        "storage",
        "unstable",
    )

    def __init__(self, storage: Storage, applying_bytes_max: int = UNLIMITED_BYTES) -> None:
        self.storage = storage
        first = storage.first_index()
        self.unstable = Unstable(storage.last_index() + 1)
        self.committed = first - 1
        self.applying = first - 1
        self.applied = first - 1
        self.applying_bytes_max = applying_bytes_max
        self.applying_bytes = 0
        self.applying_paused = False

    def first_index(self) -> int:
        """Return the index of the first entry that is not compacted."""
        index = self.unstable.first_index()
        return self.storage.first_index() if index is None else index

    def last_index(self) -> int:
        """Return the index of the last entry, or of the snapshot it follows."""
        index = self.unstable.last_index()
        return self.storage.last_index() if index is None else index

    def last_term(self) -> int:
        """Return the term of the last entry."""
        return self.term(self.last_index())

    def term(self, index: int) -> int:
        """Return the term at `index`; that of the last compacted entry is known too.

        Raises:
            CompactedError: the index lies before that.
            UnavailableError: the index lies past the last entry.
        """
        term = self.unstable.term(index)
        if term is not None:
            return term
        if index + 1 < self.first_index():
            raise CompactedError(f"index {index}")
        if index > self.last_index():
            raise UnavailableError(f"index {index}")
        return self.storage.term(LogIndex(index))

    def term_or_zero(self, index: int) -> int:
        """Return the term at `index`, or 0 where it is not known."""
        try:
            return self.term(index)
        except (CompactedError, UnavailableError):
            return 0

    def matches(self, index: int, term: int) -> bool:
        """Return whether the entry at `index` is known and has `term`."""
        try:
            return self.term(index) == term
        except (CompactedError, UnavailableError):
            return False

    def is_up_to_date(self, index: int, term: int) -> bool:
        """Return whether a log that ends with (index, term) is at least as up to date as ours.

        Source: Raft thesis 3.6.1.
        """
        last = self.last_index()
        last_term = self.term(last)
        return term > last_term or (term == last_term and index >= last)

    def maybe_append(self, index: int, term: int, entries: Sequence[Entry], leader_commit: int) -> int | None:
        """Append a leader's entries after (index, term) if our log has that.

        Return the last new index or None.
        """
        if not self.matches(index, term):
            return None
        last_new = index + len(entries)
        conflict = self._find_conflict(entries)
        if conflict:
            invariant(
                conflict > self.committed, "a leader's entry conflicts with a committed one", at=conflict
            )
            self.append(entries[conflict - index - 1 :])
        self.commit_to(min(leader_commit, last_new))
        return last_new

    def append(self, entries: Sequence[Entry]) -> int:
        """Append `entries`, replacing entries of the same indices, and return the last index."""
        if entries:
            invariant(entries[0].index > self.committed, "append below the commit index", at=entries[0].index)
            self.unstable.truncate_and_append(entries)
        return self.last_index()

    def find_conflict_by_term(self, index: int, term: int) -> tuple[int, int]:
        """Return the last (index', term') with index' <= `index` and term' <= `term`.

        Where the two logs agree cannot lie above it: terms never decrease along a log. Term 0 means that the
        term at that index is not known any more, and the logs may agree there.
        """
        while index > 0:
            try:
                ours = self.term(index)
            except (CompactedError, UnavailableError):
                return index, 0
            if ours <= term:
                return index, ours
            index -= 1
        return 0, 0

    def entries(self, low: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries from `low` to the end, cut after `bytes_max` but never to none.

        Raises:
            CompactedError: `low` is compacted.
        """
        high = self.last_index() + 1
        return () if low >= high else self.slice(low, high, bytes_max)

    def slice(self, low: int, high: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return the entries of [low, high), cut after `bytes_max` but never to none.

        Raises:
            CompactedError: `low` is compacted.
        """
        if low < self.first_index():
            raise CompactedError(f"index {low}")
        if low == high:
            return ()
        offset = self.unstable.offset
        if low >= offset:
            return limit_size(self.unstable.slice(low, high), bytes_max)
        cut = min(high, offset)
        stable = tuple(self.storage.entries(LogIndex(low), LogIndex(cut), bytes_max))
        if high <= offset or len(stable) < cut - low:
            return stable
        return stable + self._unstable_within(high, bytes_max - entries_size_bytes(stable))

    def next_committed(self) -> tuple[Entry, ...]:
        """Return the committed entries to be applied next, within the bound of bytes being applied."""
        if not self.has_next_committed():
            return ()
        return self.slice(
            self.applying + 1, self.committed + 1, self.applying_bytes_max - self.applying_bytes
        )

    def has_next_committed(self) -> bool:
        """Return whether `next_committed` would return any: none before a pending snapshot is applied."""
        return not self.applying_paused and self.unstable.snapshot is None and self.applying < self.committed

    def accept_applying(self, index: int, size_bytes: int) -> None:
        """Note that the entries up to `index` were handed out to be applied."""
        invariant(index <= self.committed, "applying past the commit index", index=index)
        self.applying = index
        self.applying_bytes += size_bytes
        # More is committed than was handed out: the bound was reached, wait for some to be applied.
        self.applying_paused = self.applying_bytes >= self.applying_bytes_max or index < self.committed

    def applied_to(self, index: int, size_bytes: int) -> None:
        """Note that the entries up to `index` are applied."""
        invariant(
            self.applied <= index <= self.committed, "applied out of range", index=index, applied=self.applied
        )
        self.applied = index
        self.applying = max(self.applying, index)
        self.applying_bytes = max(self.applying_bytes - size_bytes, 0)
        self.applying_paused = self.applying_bytes >= self.applying_bytes_max

    def commit_to(self, index: int) -> None:
        """Raise the commit index; it never decreases."""
        if index > self.committed:
            last = self.last_index()
            invariant(
                index <= last, "commit index past the log: was it truncated or lost?", index=index, last=last
            )
            self.committed = index

    def maybe_commit(self, index: int, term: int) -> bool:
        """Commit up to `index` if its entry is of `term`, not 0; return whether the commit index rose.

        Only entries of the leader's own term are committed by counting replicas. Source: Raft thesis 3.6.2.
        """
        if term == 0 or index <= self.committed or not self.matches(index, term):
            return False
        self.commit_to(index)
        return True

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot, that of storage unless one waits to be written."""
        return self.unstable.snapshot or self.storage.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Restart the log after `snapshot`."""
        self.committed = snapshot.index
        self.unstable.restore(snapshot)

    def pages(self, low: int, high: int, bytes_max: int) -> Iterator[tuple[Entry, ...]]:
        """Yield the entries of [low, high) in pages of at most `bytes_max`."""
        while low < high:
            page = self.slice(low, high, bytes_max)
            if not page:
                raise InvariantError(f"no entries in [{low}, {high})")
            yield page
            low += len(page)

    def _find_conflict(self, entries: Sequence[Entry]) -> int:
        """Return the index of the first entry that is new or has another term than ours; 0 without one."""
        last = self.last_index()
        for entry in entries:
            if entry.index > last or not self.matches(entry.index, entry.term):
                return entry.index
        return 0

    def _unstable_within(self, high: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return unstable entries before `high` that fit into `bytes_max`, perhaps none."""
        if bytes_max <= 0:
            return ()
        entries = limit_size(self.unstable.slice(self.unstable.offset, high), bytes_max)
        return () if len(entries) == 1 and entries_size_bytes(entries) > bytes_max else entries
