"""A store that keeps everything in memory, with the contract of the one on disk.

For tests and simulation. A simulated crash keeps the object and drops the batches that were prepared but not
yet committed: what `commit` has seen is what a disk would hold. It never fails and never blocks.
"""

from collections.abc import Iterable

from controller_core.log.errors import LogMisuseError
from controller_core.log.view import Batch, LogView, StoredState
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, Ready, Snapshot, Term


class MemoryStore:
    """The log of one node, in memory."""

    __slots__ = ("_closed", "_view")

    def __init__(self, initial: Snapshot | None = None) -> None:
        """Start empty, or from `initial`, which then is the first snapshot of a new cluster."""
        self._view = LogView(stored_from(initial))
        self._closed = False

    def initial_state(self) -> tuple[HardState, ConfState]:
        """Return the hard state, and the membership as of the snapshot."""
        return self._view.initial_state()

    def entries(self, low: LogIndex, high: LogIndex, bytes_max: int | None = None) -> tuple[Entry, ...]:
        """Return entries of [low, high); see `Storage.entries`."""
        return self._view.entries(low, high, bytes_max)

    def term(self, index: LogIndex) -> Term:
        """Return the term at `index`; see `Storage.term`."""
        return self._view.term(index)

    def first_index(self) -> LogIndex:
        """Return the index of the first entry in the log."""
        return self._view.first_index()

    def last_index(self) -> LogIndex:
        """Return the index of the last entry in the log."""
        return self._view.last_index()

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot; index 0 without one."""
        return self._view.snapshot()

    def prepare(self, ready: Ready) -> Batch:
        """Take the durable part of a `Ready`; see `LogView.prepare`."""
        return self._view.prepare(ready)

    def write(self, batch: Batch) -> None:
        """Do what a disk would need time for: nothing."""
        if self._closed:
            raise LogMisuseError("write after close")

    def commit(self, batch: Batch) -> None:
        """Make a written batch visible to the reads."""
        self._view.apply(batch)

    def build_snapshot(self, index: LogIndex, conf_state: ConfState, data: bytes) -> Snapshot:
        """Return a snapshot of `index` with the log's term there; nothing is stored yet."""
        return self._view.build_snapshot(index, conf_state, data)

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Do what a disk would need time for: nothing."""
        if self._closed:
            raise LogMisuseError("write_snapshot after close")

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Make a written snapshot the newest one."""
        self._view.publish_snapshot(snapshot)

    def create_snapshot(self, index: LogIndex, conf_state: ConfState, data: bytes) -> Snapshot:
        """Build, write and publish a snapshot in one call."""
        snapshot = self.build_snapshot(index, conf_state, data)
        self.write_snapshot(snapshot)
        self.publish_snapshot(snapshot)
        return snapshot

    def compact(self, index: LogIndex) -> None:
        """Forget entries up to and including `index`; see `LogView.compact`."""
        self._view.compact(index)

    def close(self) -> None:
        """Refuse further writes; closing twice is allowed."""
        self._closed = True

    def reopen(self) -> None:
        """Take writes again after `close`, as a store on disk does when it is opened again."""
        self._closed = False

    def append(self, entries: Iterable[Entry]) -> None:
        """Put entries into the log at once (tests set a scene with it)."""
        self._view.apply(self._view.prepare(Ready(entries=tuple(entries))))

    def set_hard_state(self, hard_state: HardState) -> None:
        """Replace the hard state at once (tests set a scene with it)."""
        self._view.apply(Batch(hard_state=hard_state))

    def apply_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a snapshot at once (tests set a scene with it)."""
        self._view.apply(self._view.prepare(Ready(snapshot=snapshot)))


def stored_from(initial: Snapshot | None) -> StoredState:
    """Return the state of a new store: empty, or as if `initial` had been agreed on by everybody before."""
    if initial is None:
        return StoredState()
    return StoredState(HardState(term=initial.term, commit=initial.index), initial)
