"""Building blocks of the log's tests: entries, batches, and what a store may hold after a crash."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from controller_core.log.store import DiskStore
from controller_core.log.view import Batch, StoredState
from controller_core.raft.types import (
    ConfState,
    Entry,
    HardState,
    LogIndex,
    NodeId,
    Ready,
    Snapshot,
    Term,
)

DIRECTORY = Path("/store")
VOTERS = ConfState(voters=(NodeId(1), NodeId(2), NodeId(3)))
INITIAL = Snapshot(LogIndex(1), Term(1), VOTERS, b"")


def entry(index: int, term: int, data: bytes = b"") -> Entry:
    """Return a normal entry; its data tells index and term unless given."""
    return Entry(Term(term), LogIndex(index), data=data or f"e{index}t{term}".encode())


def entries(first: int, last: int, term: int, size_bytes: int = 0) -> tuple[Entry, ...]:
    """Return consecutive entries of one term, padded to a size."""
    return tuple(
        entry(index, term, f"e{index}t{term}".encode().ljust(size_bytes, b"."))
        for index in range(first, last + 1)
    )


def hard_state(term: int, vote: int, commit: int) -> HardState:
    """Return a hard state from plain numbers."""
    return HardState(Term(term), NodeId(vote), LogIndex(commit))


def ready(
    new: Sequence[Entry] = (),
    state: HardState | None = None,
    snapshot: Snapshot | None = None,
    *,
    sync: bool = True,
) -> Ready:
    """Return a Ready with only its durable part."""
    return Ready(hard_state=state, entries=tuple(new), snapshot=snapshot, must_sync=sync)


def contents(store: DiskStore) -> StoredState:
    """Return all that a store holds: hard state, snapshot, entries after the snapshot."""
    state, _ = store.initial_state()
    snapshot = store.snapshot()
    low = LogIndex(max(store.first_index(), snapshot.index + 1))
    return StoredState(state, snapshot, store.entries(low, LogIndex(store.last_index() + 1)))


@dataclass(frozen=True)
class Step:
    """One change that reaches the disk whole or not at all."""

    entry: Entry | None = None
    state: HardState | None = None
    reset: Snapshot | None = None
    kept: Snapshot | None = None


def steps_of(batch: Batch) -> list[Step]:
    """Return a batch's changes in the order in which they are written."""
    found = [] if batch.snapshot is None else [Step(reset=batch.snapshot)]
    found += [Step(entry=new) for new in batch.entries]
    if batch.hard_state is not None:
        found.append(Step(state=batch.hard_state))
    return found


def apply_step(stored: StoredState, step: Step) -> StoredState:
    """Return a stored state after one more change, as recovery is to find it."""
    state, snapshot, log = stored.hard_state, stored.snapshot, stored.entries
    if step.reset is not None:
        snapshot, log = step.reset, ()
    if step.kept is not None:
        log = tuple(old for old in log if old.index > step.kept.index)
        snapshot = step.kept
    if step.entry is not None:
        log = (*(old for old in log if old.index < step.entry.index), step.entry)
    if step.state is not None:
        state = step.state
    term = max(state.term, snapshot.term, *(last.term for last in log[-1:]))
    if term > state.term:
        state = replace(state, term=Term(term), vote=NodeId(0))
    return StoredState(replace(state, commit=LogIndex(max(state.commit, snapshot.index))), snapshot, log)


def possible_states(synced: StoredState, pending: Sequence[Step]) -> list[StoredState]:
    """Return every state of a store after a crash: the synced part and each prefix of the rest."""
    found = [synced]
    for step in pending:
        found.append(apply_step(found[-1], step))
    return found
