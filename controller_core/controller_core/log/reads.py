"""The reads that every store answers from memory."""

from controller_core.log.view import Batch, LogView
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, Ready, Snapshot, Term


class StoreReads:
    """The reads of `raft.storage.Storage`, for a store that keeps its log in a `LogView`."""

    __slots__ = ("_view",)

    _view: LogView

    def initial_state(self) -> tuple[HardState, ConfState]:
        """Return the hard state, and the membership as of the snapshot."""
        return self._view.initial_state()

    @property
    def is_empty(self) -> bool:
        """Whether this store never held anything: no entry, no snapshot, no vote."""
        return self._view.last_index() == 0 and self._view.initial_state()[0] == HardState()

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

    def build_snapshot(self, index: LogIndex, conf_state: ConfState, data: bytes) -> Snapshot:
        """Return a snapshot of `index` with the log's term there; nothing is stored yet."""
        return self._view.build_snapshot(index, conf_state, data)
