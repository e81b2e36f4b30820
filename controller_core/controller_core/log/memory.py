"""A store that keeps everything in memory, with the contract of the one on disk.

For tests, simulation, and nodes whose settings say so (`controllerStoreType`). A simulated crash keeps the
object and drops the batches that were prepared but not yet committed: what `commit` has seen is what a disk
would hold. It never fails and never blocks.
"""

from collections.abc import Iterable

from controller_core.log.errors import LogMisuseError
from controller_core.log.reads import StoreReads
from controller_core.log.view import Batch, LogView, StoredState
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, Ready, Snapshot


class MemoryStore(StoreReads):
    """The log of one node, in memory."""

    __slots__ = ("_closed", "incarnation")

    def __init__(self, initial: Snapshot | None = None, incarnation: str = "") -> None:
        """Start empty, or from `initial`, which then is the first snapshot of a new cluster.

        `incarnation` is a text that no other store has.
        """
        self.incarnation = incarnation
        self._view = LogView(stored_from(initial))
        self._closed = False

    def write(self, batch: Batch) -> None:
        """Do what a disk would need time for: nothing."""
        if self._closed:
            raise LogMisuseError("write after close")

    def commit(self, batch: Batch) -> None:
        """Make a written batch visible to the reads."""
        self._view.apply(batch)

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

    def found(self, initial: Snapshot) -> None:
        """Put the first snapshot of a new cluster into an empty store.

        Raises:
            LogMisuseError: the store is not empty.
        """
        if not self.is_empty:
            raise LogMisuseError("the store in memory is not empty")
        self.commit(founding_batch(initial))

    def append(self, entries: Iterable[Entry]) -> None:
        """Put entries into the log at once (tests set a scene with it)."""
        self._view.apply(self._view.prepare(Ready(entries=tuple(entries))))

    def set_hard_state(self, hard_state: HardState) -> None:
        """Replace the hard state at once (tests set a scene with it)."""
        self._view.apply(Batch(hard_state=hard_state))

    def apply_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a snapshot at once (tests set a scene with it)."""
        self._view.apply(self._view.prepare(Ready(snapshot=snapshot)))


def founding_batch(initial: Snapshot) -> Batch:
    """Return what puts the first snapshot of a new cluster into an empty store."""
    hard_state = HardState(term=initial.term, commit=initial.index)
    return Batch(hard_state, snapshot=initial, must_sync=True)


def stored_from(initial: Snapshot | None) -> StoredState:
    """Return the state of a new store: empty, or as if `initial` had been agreed on by everybody before."""
    if initial is None:
        return StoredState()
    return StoredState(HardState(term=initial.term, commit=initial.index), initial)
