"""The part of the log that is in memory: entries after the last compaction, snapshot, hard state, membership.

Both stores answer every read of the core from here, so a read never touches the disk. The controller's log is
small (a failover is a handful of entries), and compaction bounds it. The view changes only in `apply`,
`publish_snapshot` and `compact`, on the thread that runs the core; the writer thread never looks at it.

It keeps, as etcd's MemoryStorage does, the index and term of the entry just before the first one, so that the
core can ask for the term there. That boundary lies at or before the snapshot's index: entries kept behind the
snapshot feed followers that are a little late without sending them everything.
"""

from dataclasses import dataclass, field

from controller_core.log.errors import LogMisuseError
from controller_core.raft.bounds import STORED_INDEX_MAX, STORED_TERM_MAX
from controller_core.raft.log.storage import CompactedError, UnavailableError
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, Ready, Snapshot, Term

ENTRY_OVERHEAD_BYTES = 16
"""Counted for each entry beside its data when a read is bounded by bytes.

About what its header costs on the wire.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one `write` puts on disk: the durable part of one `Ready`."""

    hard_state: HardState | None = None
    entries: tuple[Entry, ...] = ()
    snapshot: Snapshot | None = None
    must_sync: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether the batch is empty."""
        return self.hard_state is None and not self.entries and self.snapshot is None


@dataclass(frozen=True, slots=True)
class StoredState:
    """What a store holds when it is opened; `entries` follow `snapshot` without a gap."""

    hard_state: HardState = field(default_factory=HardState)
    snapshot: Snapshot = field(default_factory=Snapshot)
    entries: tuple[Entry, ...] = ()


class LogView:
    """Entries, snapshot and hard state in memory, with the reads of `raft.log.storage.Storage`."""

    __slots__ = ("_boundary_index", "_boundary_term", "_entries", "_hard_state", "_snapshot")

    def __init__(self, stored: StoredState) -> None:
        self._hard_state = stored.hard_state
        self._snapshot = stored.snapshot
        self._entries = list(stored.entries)
        self._boundary_index: int = stored.snapshot.index
        self._boundary_term = stored.snapshot.term

    def initial_state(self) -> tuple[HardState, ConfState]:
        """Return the hard state, and the membership as of the snapshot."""
        return self._hard_state, self._snapshot.conf_state

    def first_index(self) -> LogIndex:
        """Return the index of the first entry that `entries` can give."""
        return LogIndex(self._boundary_index + 1)

    def last_index(self) -> LogIndex:
        """Return the index of the last entry, or the boundary's if the log is empty."""
        return LogIndex(self._boundary_index + len(self._entries))

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot; index 0 when there never was one."""
        return self._snapshot

    def term(self, index: LogIndex) -> Term:
        """Return the term of the entry at `index`; the boundary itself is answerable.

        Raises:
            CompactedError: the index lies before the boundary.
            UnavailableError: the index lies past the last entry.
        """
        position = index - self._boundary_index
        if position < 0:
            raise CompactedError(f"term of index {index}: the log starts after {self._boundary_index}")
        if position == 0:
            return self._boundary_term
        if position > len(self._entries):
            raise UnavailableError(f"term of index {index}: the log ends at {self.last_index()}")
        return self._entries[position - 1].term

    def entries(self, low: LogIndex, high: LogIndex, bytes_max: int | None = None) -> tuple[Entry, ...]:
        """Return entries of [low, high), cut after `bytes_max` bytes but never to none.

        Raises:
            CompactedError: `low` is at or before the boundary.
            UnavailableError: `high` is past the last index + 1.
        """
        if low <= self._boundary_index:
            raise CompactedError(f"entries from {low}: the log starts after {self._boundary_index}")
        if high > self.last_index() + 1:
            raise UnavailableError(f"entries up to {high}: the log ends at {self.last_index()}")
        start = low - self._boundary_index - 1
        found = self._entries[start : high - self._boundary_index - 1]
        return tuple(found if bytes_max is None else _within(found, bytes_max))

    def prepare(self, ready: Ready) -> Batch:
        """Take the durable part of a `Ready`, checked against the log as it is now.

        Raises:
            LogMisuseError: the entries would leave a gap or overwrite what a snapshot replaced, or a term or
                index is over the bound up to which this log can be opened again.
        """
        _check_bounds(ready)
        last: int = self.last_index()
        if ready.snapshot is not None:
            if ready.snapshot.index <= self._snapshot.index:
                raise LogMisuseError(f"snapshot {ready.snapshot.index} is not after {self._snapshot.index}")
            last = ready.snapshot.index
        if ready.entries:
            first = ready.entries[0].index
            floor = self._boundary_index if ready.snapshot is None else last
            if not floor < first <= last + 1:
                raise LogMisuseError(f"entries from {first} do not continue ({floor}, {last}]")
            if ready.entries[-1].index != first + len(ready.entries) - 1:
                raise LogMisuseError(f"entries from {first} are not consecutive")
        return Batch(ready.hard_state, ready.entries, ready.snapshot, ready.must_sync)

    def apply(self, batch: Batch) -> None:
        """Make a written batch visible to the reads."""
        if batch.snapshot is not None:
            self._snapshot = batch.snapshot
            self._boundary_index, self._boundary_term = batch.snapshot.index, batch.snapshot.term
            self._entries = []
        if batch.entries:
            del self._entries[batch.entries[0].index - self._boundary_index - 1 :]
            self._entries.extend(batch.entries)
        if batch.hard_state is not None:
            self._hard_state = batch.hard_state

    def build_snapshot(self, index: LogIndex, conf_state: ConfState, data: bytes) -> Snapshot:
        """Return a snapshot of `index` with the term that the log has there.

        Raises:
            LogMisuseError: there is a snapshot at or after `index`, or the log does not reach it.
        """
        if not self._snapshot.index < index <= self.last_index():
            raise LogMisuseError(f"snapshot at {index}: not in ({self._snapshot.index}, {self.last_index()}]")
        return Snapshot(index, self.term(index), conf_state, data)

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Make a written snapshot the newest one; older than the present one is ignored."""
        if snapshot.index > self._snapshot.index:
            self._snapshot = snapshot

    def compact(self, index: LogIndex) -> None:
        """Forget entries up to and including `index`.

        Raises:
            CompactedError: they were forgotten before.
            LogMisuseError: no snapshot covers them.
        """
        if index <= self._boundary_index:
            raise CompactedError(f"compaction to {index}: the log starts after {self._boundary_index}")
        if index > self._snapshot.index:
            raise LogMisuseError(f"compaction to {index}: the snapshot covers {self._snapshot.index} only")
        term = self.term(index)
        del self._entries[: index - self._boundary_index]
        self._boundary_index, self._boundary_term = index, term


def _within(entries: list[Entry], bytes_max: int) -> list[Entry]:
    """Cut the list where the sum of sizes passes the bound; the first entry always stays."""
    total = 0
    for position, entry in enumerate(entries):
        total += ENTRY_OVERHEAD_BYTES + len(entry.data)
        if total > bytes_max and position > 0:
            return entries[:position]
    return entries


def _check_bounds(ready: Ready) -> None:
    state, snapshot, last = ready.hard_state, ready.snapshot, ready.entries[-1:]
    terms = [0 if state is None else state.term, 0 if snapshot is None else snapshot.term]
    indices = [0 if state is None else state.commit, 0 if snapshot is None else snapshot.index]
    term = max(terms + [entry.term for entry in last])
    index = max(indices + [entry.index for entry in last])
    if term > STORED_TERM_MAX or index > STORED_INDEX_MAX:
        raise LogMisuseError(
            f"term {term} and index {index}, the log takes at most {STORED_TERM_MAX} and {STORED_INDEX_MAX}"
        )
