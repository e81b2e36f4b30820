"""What the core asks of stable storage: reads only, answered from memory or disk, never blocking for long.

The shell writes (see `Ready`); the core reads back through this protocol. `controller_core.log` has two
implementations with one contract test: a store on disk and one in memory.
"""

from typing import Protocol

from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, Snapshot, Term


class CompactedError(Exception):
    """The entries asked for were replaced by a snapshot."""


class UnavailableError(Exception):
    """The entries asked for are not (yet) in the store."""


class SnapshotTemporarilyUnavailableError(Exception):
    """No snapshot can be given now; asking again later may succeed."""


class Storage(Protocol):
    """The read side of the log, as the core sees it."""

    def initial_state(self) -> tuple[HardState, ConfState]:
        """Return the last saved state; zero values for a new store."""
        ...

    def entries(self, low: LogIndex, high: LogIndex, bytes_max: int | None = None) -> tuple[Entry, ...]:
        """Return entries of [low, high), cut after `bytes_max` encoded bytes but never to none.

        Raises:
            CompactedError: `low` is at or before the snapshot's index.
            UnavailableError: `high` is past the last index + 1.
        """
        ...

    def term(self, index: LogIndex) -> Term:
        """Return the term of the entry at `index`; the snapshot's own index is answerable.

        Raises:
            CompactedError: the index lies before the snapshot.
            UnavailableError: the index lies past the last entry.
        """
        ...

    def first_index(self) -> LogIndex:
        """Return the index of the first entry that `entries` can give (snapshot index + 1)."""
        ...

    def last_index(self) -> LogIndex:
        """Return the index of the last entry, or of the snapshot if no entry follows it."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot.

        Raises:
            SnapshotTemporarilyUnavailableError: it is being made.
        """
        ...
