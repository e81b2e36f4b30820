"""Random lives of a store against a plain model.

Steps are append, overwrite, snapshot, compact, install, reopen and power loss.
"""

import contextlib
import random
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller_core.log.store import DiskStore
from controller_core.log.view import Batch, StoredState
from controller_core.raft.types import Entry, HardState, LogIndex, Snapshot, Term
from testkit.check.errors import PowerLossError
from testkit.raft.disk import SimulatedFiles
from testkit.raft.log_scripts import (
    DIRECTORY,
    INITIAL,
    VOTERS,
    Step,
    apply_step,
    contents,
    entry,
    hard_state,
    possible_states,
    ready,
    steps_of,
)

SIZES = st.lists(st.integers(0, 900), min_size=1, max_size=6)


class StoreMachine(RuleBasedStateMachine):
    """A store over a simulated disk; `model` is what it holds, `pending` what power loss may take back."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.store = self.open_store()
        self.model = StoredState(hard_state(1, 0, 1), INITIAL)
        self.synced = self.model
        self.pending: list[Step] = []

    def open_store(self) -> DiskStore:
        """Open the store on the simulated disk."""
        self.files.locks.clear()
        return DiskStore.open(DIRECTORY, INITIAL, files=self.files, segment_bytes_max=700)

    @initialize()
    def begin(self) -> None:
        """Let Hypothesis show the start of each life."""

    @rule(sizes=SIZES, back=st.integers(0, 4), new_term=st.booleans(), sync=st.booleans())
    def append(self, sizes: list[int], back: int, new_term: bool, sync: bool) -> None:
        """Append entries, perhaps over the end of the log, never over committed entries."""
        last = self.store.last_index()
        first = max(self.model.hard_state.commit, last - (back if new_term else 0)) + 1
        term = max(self.model.hard_state.term, 1) + new_term
        new = [entry(first + number, term, bytes(size)) for number, size in enumerate(sizes)]
        self.save(
            new,
            hard_state(term, 1, self.model.hard_state.commit) if new_term else None,
            sync=sync or new_term,
        )

    @rule(share=st.floats(0, 1), sync=st.booleans())
    def commit_some(self, share: float, sync: bool) -> None:
        """Raise the commit index."""
        state = self.model.hard_state
        commit = state.commit + int((self.store.last_index() - state.commit) * share)
        self.save((), hard_state(state.term, state.vote, commit), sync=sync)

    @rule(keep=st.integers(0, 5))
    def snapshot(self, keep: int) -> None:
        """Store a snapshot of the committed state and compact the log behind it."""
        index = self.model.hard_state.commit
        if index <= self.store.snapshot().index:
            return
        made = self.store.create_snapshot(LogIndex(index), VOTERS, b"s" * 100)
        self.pending.append(Step(kept=made))
        self.model = apply_step(self.model, Step(kept=made))
        if index - keep >= self.store.first_index():
            self.store.compact(LogIndex(index - keep))

    @rule(ahead=st.integers(1, 30))
    def install(self, ahead: int) -> None:
        """Receive a snapshot that replaces the log."""
        term = self.model.hard_state.term + 1
        received = Snapshot(LogIndex(self.store.last_index() + ahead), Term(term), VOTERS, b"r" * 50)
        self.save((), hard_state(term, 0, received.index), received)

    @rule()
    def reopen(self) -> None:
        """End the process without power loss: everything written is there."""
        self.store.close()
        self.restart(self.files)
        assert contents(self.store) == self.model

    @rule(seed=st.integers(0, 2**16), sizes=SIZES, step=st.integers(0, 14))
    def lose_power(self, seed: int, sizes: list[int], step: int) -> None:
        """Stop at some step of one more batch, then inspect the disk."""
        self.files.on_step = self.stop_after(step)
        last = self.store.last_index()
        new = [
            entry(last + 1 + number, max(self.model.hard_state.term, 1), bytes(size))
            for number, size in enumerate(sizes)
        ]
        with contextlib.suppress(PowerLossError):
            self.save(new, None, sync=True)
        self.restart(self.files.after_power_loss(random.Random(seed)))
        assert contents(self.store) in self.allowed()
        self.model = self.synced = contents(self.store)
        self.pending = []

    @invariant()
    def holds_the_model(self) -> None:
        """Reads agree with the model, boundary included."""
        held = contents(self.store)
        assert held == self.model
        assert self.store.term(held.snapshot.index) == held.snapshot.term or held.snapshot.index == 0

    def save(
        self,
        new: list[Entry] | tuple[()],
        state: HardState | None,
        snapshot: Snapshot | None = None,
        *,
        sync: bool = True,
    ) -> None:
        """Write one batch, as the node does, and keep the model beside it."""
        batch: Batch = self.store.prepare(ready(new, state, snapshot, sync=sync))
        self.pending += steps_of(batch)
        self.store.write(batch)
        self.store.commit(batch)
        for step in steps_of(batch):
            self.model = apply_step(self.model, step)
        if sync:
            self.synced, self.pending = self.model, []

    def restart(self, files: SimulatedFiles) -> None:
        """Reopen the store on a file system."""
        self.files = files
        self.files.on_step = None
        self.store = self.open_store()
        if self.store.last_index() < self.store.snapshot().index:
            raise AssertionError("the log ends before its snapshot")

    def stop_after(self, count: int) -> Callable[[int, str], None]:
        """Return an interference that takes the power `count` steps from now."""
        end = len(self.files.steps) + count

        def interfere(number: int, kind: str) -> None:
            if number >= end:
                raise PowerLossError(kind)

        return interfere

    def allowed(self) -> list[StoredState]:
        """Return the possible contents: snapshot files are durable at once, other pending steps in order."""
        early = [step for step in self.pending if step.kept is None]
        found = possible_states(self.synced, self.pending) + possible_states(self.synced, early)
        for kept in (step for step in self.pending if step.kept is not None):
            for state in list(found):
                found.append(apply_step(state, kept))
        return found


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
