"""The replicated log under simulated failures, and planted bugs that it catches.

A few seeds run here, thousands with `make sim-ha`.
"""

from collections.abc import Callable, Sequence

import pytest

from ha_sidecar.commitlog import files
from ha_sidecar.commitlog.files import CommitLog
from ha_sidecar.common.ha_link import HaLink
from ha_sidecar.epoch import EpochEntry, EpochList
from testkit.check.errors import SafetyViolation
from testkit.ha_sim.group import run_schedule

SEEDS = 60
SEEDS_TO_CATCH = 150
"""Every planted bug is seen within so many."""


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_nothing_acknowledged_is_lost_and_all_logs_become_equal(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            run_schedule(seed)
        except SafetyViolation as violation:
            pytest.fail(f"{violation}; replay: make sim-ha SEEDS=1 FIRST={seed}")


def test_a_seed_gives_the_same_run_every_time() -> None:
    one, other = run_schedule(7), run_schedule(7)
    assert one.acknowledged.data == other.acknowledged.data != b""
    assert [member.disk.steps for member in one.all] == [member.disk.steps for member in other.all]


def leave_the_tail(patch: pytest.MonkeyPatch) -> None:
    """A cut that only moves a position, as Java's: old records stay in the file."""
    patch.setattr(CommitLog, "_cut_files", lambda _self, _to_offset: None)


def ack_before_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Acks and reads wait for the write and not for the sync."""

    def sync(log: CommitLog) -> int:
        log.synced_offset = log.max_offset
        return log.max_offset

    patch.setattr(CommitLog, "sync", sync)


def begin_a_file_before_the_last_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Two files hold bytes that are not durable, and the later one may survive alone."""

    def find(log: CommitLog, start_offset: int) -> files.DiskFile:
        disk, path = log.layout.disk, log.layout.path(start_offset)
        if start_offset not in log._open:
            fresh = disk.size(path) is None
            file = log._open[start_offset] = disk.open(path, create=True)
            if fresh:
                file.resize(log.layout.file_bytes)
                file.sync()
                disk.sync_directory(log.layout.directory)
        return log._open[start_offset]

    patch.setattr(CommitLog, "_file", find)


def keep_an_epoch_without_bytes(patch: pytest.MonkeyPatch) -> None:
    """A new master goes on in the last epoch if that is empty, as Java's does."""

    def opened(epochs: EpochList, epoch: int, end_offset: int) -> EpochList:
        entry = EpochEntry(epoch, end_offset)
        return epochs.appended(entry) if epochs.accepts(entry) else epochs

    patch.setattr(EpochList, "opened", opened)


def write_bytes_before_their_epoch(patch: pytest.MonkeyPatch) -> None:
    """A crash between the two leaves bytes that pass for the older epoch's."""
    carry_out = HaLink._carry_out

    def late(link: HaLink, actions: Sequence[object]) -> object:
        def is_epochs(action: object) -> bool:
            return type(action).__name__ == "AdoptEpochs"

        return carry_out(link, sorted(actions, key=is_epochs))  # type: ignore[arg-type]  # the same actions

    patch.setattr(HaLink, "_carry_out", late)


def keep_the_files_of_a_tail(patch: pytest.MonkeyPatch) -> None:
    """A cut that removes no file."""
    patch.setattr(files, "remove_durably", lambda _path, _disk: None)


@pytest.mark.parametrize(
    "bug",
    [
        leave_the_tail,
        keep_the_files_of_a_tail,
        ack_before_the_disk,
        keep_an_epoch_without_bytes,
        begin_a_file_before_the_last_is_durable,
        write_bytes_before_their_epoch,
    ],
)
def test_a_planted_bug_is_caught(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)

    def run_many() -> None:
        for seed in range(SEEDS_TO_CATCH):
            run_schedule(seed)

    with pytest.raises(SafetyViolation):
        run_many()


def test_disks_run_full_and_what_a_write_left_on_them_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_back = 0
    take_back = CommitLog._take_back

    def count(log: CommitLog) -> None:
        nonlocal taken_back
        taken_back += 1
        take_back(log)

    monkeypatch.setattr(CommitLog, "_take_back", count)
    refusals = sum(run_schedule(seed).refusals for seed in range(SEEDS))
    assert refusals > taken_back > 0
