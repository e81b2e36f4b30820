"""Power loss at every step, full disks and failing disks.

Acknowledged entries survive, and entries are whole or absent.
"""

import contextlib
import errno
import random
from collections.abc import Callable

import pytest

from controller_core.log.errors import LogFailedError, LogFullError, LogMisuseError
from controller_core.log.recovery import segment_names
from controller_core.log.store import DiskStore
from controller_core.log.view import StoredState
from controller_core.raft.types import LogIndex, Ready, Snapshot, Term
from testkit.check.errors import PowerLossError
from testkit.raft.disk import SimulatedFiles
from testkit.raft.log_scripts import (
    DIRECTORY,
    INITIAL,
    VOTERS,
    Step,
    contents,
    entries,
    hard_state,
    possible_states,
    ready,
    steps_of,
)

SEGMENT_BYTES_MAX = 600
"""Small, so that the scripts below pass several segments."""

RECEIVED = Snapshot(LogIndex(40), Term(4), VOTERS, b"received" * 100)

SCRIPT: list[Ready | int] = [
    ready(entries(2, 5, 2), hard_state(2, 1, 1)),
    ready((), hard_state(2, 1, 4), sync=False),
    ready(entries(6, 9, 2, 200), hard_state(2, 1, 5)),
    ready(entries(8, 10, 3, 150), hard_state(3, 0, 7)),
    ready((), hard_state(3, 0, 10), sync=False),
    9,
    ready(entries(11, 12, 3, 300)),
    ready((), hard_state(4, 2, 12)),
    ready((), hard_state(4, 2, 40), RECEIVED),
    ready(entries(41, 43, 4, 100), hard_state(4, 2, 41)),
    42,
    ready(entries(43, 45, 5)),
]
"""Batches, and numbers: a local snapshot and compaction at that index."""


class CrashRun:
    """Plays the script and keeps what the store may hold if the power goes now."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.files = files
        self.synced = [StoredState(hard_state(1, 0, 1), INITIAL)]
        self.pending: list[Step] = []
        self.store: DiskStore | None = None

    def play(self) -> None:
        """Open a store and do everything in the script."""
        self.store = open_store(self.files)
        for item in SCRIPT:
            if isinstance(item, int):
                self.keep_snapshot(LogIndex(item))
            else:
                self.save(item)

    def save(self, what: Ready) -> None:
        """Write one batch; from the sync on, it counts as durable."""
        assert self.store is not None
        batch = self.store.prepare(what)
        self.pending += steps_of(batch)
        self.store.write(batch)
        if batch.must_sync:
            self.settle()
        self.store.commit(batch)

    def keep_snapshot(self, index: LogIndex) -> None:
        """Make a local snapshot and compact the log behind it."""
        assert self.store is not None
        made = self.store.build_snapshot(index, VOTERS, b"made" * 50)
        self.pending.append(Step(kept=made))
        self.store.write_snapshot(made)
        self.store.publish_snapshot(made)
        self.store.compact(index)

    def settle(self) -> None:
        """Take everything that is pending for durable."""
        self.synced = [possible_states(self.synced[0], self.pending)[-1]]
        self.pending = []

    def allowed(self) -> list[StoredState]:
        """Return the possible contents; a snapshot file is durable before unsynced records of the log are."""
        found = possible_states(self.synced[0], self.pending)
        kept = [step for step in self.pending if step.kept is not None or step.reset is not None]
        for step in kept:
            early = [other for other in self.pending if other is not step]
            for state in possible_states(self.synced[0], early):
                found += possible_states(state, [step])
        return found


def open_store(files: SimulatedFiles) -> DiskStore:
    files.locks.clear()
    return DiskStore.open(DIRECTORY, INITIAL, files=files, segment_bytes_max=SEGMENT_BYTES_MAX)


def stop_at(step: int, kind_wanted: str | None = None) -> Callable[[int, str], None]:
    def interfere(number: int, kind: str) -> None:
        if number >= step and kind_wanted in (None, kind):
            raise PowerLossError(step)

    return interfere


def count_steps() -> int:
    run = CrashRun(SimulatedFiles())
    run.play()
    return len(run.files.steps)


def test_the_script_passes_several_segments_and_drops_old_ones() -> None:
    run = CrashRun(SimulatedFiles())
    run.play()
    names = segment_names(run.files.list(DIRECTORY))
    assert names[0] > "log-0000000003"
    assert contents(open_store(run.files)) == possible_states(run.synced[0], run.pending)[-1]


@pytest.mark.parametrize("seed", range(12))
def test_power_loss_at_every_step_keeps_what_was_synced(seed: int) -> None:
    rng = random.Random(seed)
    for step in range(count_steps()):
        run = CrashRun(SimulatedFiles())
        run.files.on_step = stop_at(step)
        with pytest.raises(PowerLossError):
            run.play()
        found = run.files.after_power_loss(rng)
        store = open_store(found)
        assert contents(store) in run.allowed(), f"seed {seed}, power lost at step {step}"


@pytest.mark.parametrize("seed", range(4))
def test_power_loss_while_recovering_changes_nothing(seed: int) -> None:
    rng = random.Random(100 + seed)
    for step in range(0, count_steps(), 3):
        run = CrashRun(SimulatedFiles())
        run.files.on_step = stop_at(step)
        with pytest.raises(PowerLossError):
            run.play()
        found = run.files.after_power_loss(rng)
        for second in range(12):
            found.on_step = stop_at(len(found.steps) + second)
            try:
                open_store(found)
            except PowerLossError:
                found = found.after_power_loss(rng)
        found.on_step = None
        assert contents(open_store(found)) in run.allowed(), f"seed {seed}, power lost at step {step}"


def test_a_batch_of_several_sectors_may_reach_the_disk_in_parts() -> None:
    cuts = 0
    for seed in range(200):
        files = SimulatedFiles()
        store = open_store(files)
        kept = entries(2, 3, 1)
        store.write(store.prepare(ready(kept)))
        files.on_step = stop_at(len(files.steps), "sync")
        with pytest.raises(PowerLossError):
            store.write(store.prepare(ready(entries(2, 3, 1) + entries(4, 12, 1, 400))))
        again = open_store(files.after_power_loss(random.Random(seed)))
        found = contents(again).entries
        assert found[:2] == kept
        assert found == (kept + entries(4, 12, 1, 400))[: len(found)]
        cuts += again.cut is not None
    assert cuts > 40


def test_a_full_disk_is_said_clearly_and_waited_out() -> None:
    files = SimulatedFiles()
    store = open_store(files)
    first = store.prepare(ready(entries(2, 3, 1), hard_state(1, 1, 1)))
    store.write(first)
    store.commit(first)
    held = contents(store)
    batch = store.prepare(ready(entries(4, 6, 1, 500)))
    for room in range(0, 1600, 111):
        files.capacity_bytes = sum(len(inode.current) for inode in files.names.values()) + room
        with pytest.raises(LogFullError):
            store.write(batch)
    files.capacity_bytes = 1 << 30
    assert contents(open_store(files.after_power_loss(random.Random(1)))) == held
    store.write(batch)
    store.commit(batch)
    assert contents(open_store(files)) == contents(store)


def test_a_disk_that_is_full_when_a_segment_or_snapshot_starts_is_waited_out() -> None:
    files = SimulatedFiles()
    store = open_store(files)
    first = store.prepare(ready(entries(2, 6, 1, 150)))
    store.write(first)
    store.commit(first)
    used = sum(len(inode.current) for inode in files.names.values())
    batch = store.prepare(ready((), hard_state(4, 1, 40), RECEIVED))
    made = store.build_snapshot(LogIndex(5), VOTERS, b"x" * 300)
    for room in (0, 10, 100, 200):
        files.capacity_bytes = used + room
        with pytest.raises(LogFullError):
            store.write(batch)
        with pytest.raises(LogFullError):
            store.write_snapshot(made)
    files.capacity_bytes = 1 << 30
    store.write(batch)
    store.commit(batch)
    assert contents(open_store(files)) == contents(store)
    assert not [name for name in files.list(DIRECTORY) if name.endswith(".tmp")]


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_failed_write_or_fsync_is_final(kind: str) -> None:
    files = SimulatedFiles()
    store = open_store(files)

    def fail(number: int, step: str) -> None:
        if step == kind:
            raise OSError(errno.EIO, "simulated")

    files.on_step = fail
    with pytest.raises(LogFailedError, match="simulated"):
        store.write(store.prepare(ready(entries(2, 3, 1))))
    files.on_step = None
    with pytest.raises(LogFailedError, match="failed before"):
        store.write(store.prepare(ready(entries(2, 3, 1))))
    with pytest.raises(LogFailedError, match="failed before"):
        store.write_snapshot(Snapshot(LogIndex(1), Term(1)))


def test_a_full_disk_during_fsync_is_final_because_pages_may_be_gone() -> None:
    files = SimulatedFiles()
    store = open_store(files)

    def fail(number: int, step: str) -> None:
        if step == "sync":
            raise OSError(errno.ENOSPC, "simulated")

    files.on_step = fail
    with pytest.raises(LogFailedError):
        store.write(store.prepare(ready(entries(2, 3, 1))))


def test_a_failure_at_any_step_is_one_of_ours_and_loses_nothing() -> None:
    for step in range(count_steps()):
        for code in (errno.EIO, errno.ENOSPC):
            run = CrashRun(SimulatedFiles())

            def fail(number: int, kind: str, at: int = step, code: int = code) -> None:
                if number == at:
                    raise OSError(code, "simulated")

            run.files.on_step = fail
            with contextlib.suppress(LogFailedError, LogFullError, LogMisuseError):
                run.play()
            run.files.on_step = None
            assert contents(open_store(run.files)) in run.allowed(), f"step {step} code {code}"


def test_a_commit_only_batch_is_not_synced() -> None:
    files = SimulatedFiles()
    store = open_store(files)
    before = len(files.steps)
    store.write(store.prepare(ready((), hard_state(1, 0, 1), sync=False)))
    assert files.steps[before:] == ["write"]


def test_a_batch_costs_one_sync() -> None:
    files = SimulatedFiles()
    store = open_store(files)
    before = len(files.steps)
    store.write(store.prepare(ready(entries(2, 9, 1), hard_state(1, 1, 1))))
    assert files.steps[before:] == ["write", "sync", "write"]
