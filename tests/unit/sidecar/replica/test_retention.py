"""Old files go, oldest first; nothing goes that a slave still needs; a disk without room receives nothing."""

import contextlib
import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.commitlog.disk import OsDisk
from ha_sidecar.commitlog.files import CommitLogUsageError
from ha_sidecar.commitlog.retention import LogFile, RetentionRule, must_refuse, new_min_offset
from ha_sidecar.commitlog.room import NoRoomError
from ha_sidecar.commitlog.store import LOG_DIRECTORY, ReplicaStore
from ha_sidecar.common.options import ConfigError
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica.config import from_texts
from ha_sidecar.replica.retention import LogRetention
from testkit.check.errors import PowerLossError
from testkit.ha.messages import log_bytes
from testkit.ha_sim.disk import SimulatedDisk

FILE_BYTES = 1024
RULE = RetentionRule(keep_ms=1_000, drop_above=0.75, refuse_above=0.9)
LOG = log_bytes(40, FILE_BYTES)
FILES = -(-len(LOG) // FILE_BYTES)
FAR = 1 << 60


def files(*written_ms: int) -> list[LogFile]:
    return [LogFile(index * FILE_BYTES, FILE_BYTES, at_ms) for index, at_ms in enumerate(written_ms)]


def test_old_files_go_and_younger_ones_stay() -> None:
    assert new_min_offset(files(0, 500, 1_500, 2_000), RULE, 1_600, 0, 100, FAR) == 2 * FILE_BYTES


def test_the_newest_file_stays_however_old_it_is() -> None:
    assert new_min_offset(files(0, 0), RULE, FAR, 0, 100, FAR) == FILE_BYTES
    assert new_min_offset(files(0), RULE, FAR, FAR, 100, FAR) is None


def test_an_old_file_behind_a_young_one_stays_since_a_log_has_no_gaps() -> None:
    assert new_min_offset(files(1_500, 0, 0), RULE, 1_600, 0, 100, FAR) is None


def test_a_full_disk_takes_young_files_until_it_is_below_the_mark() -> None:
    used = int(0.75 * 100_000) + FILE_BYTES + 1
    assert new_min_offset(files(9, 9, 9, 9), RULE, 10, used, 100_000, FAR) == 2 * FILE_BYTES


@pytest.mark.parametrize(("needed", "expected"), [(0, None), (FILE_BYTES, FILE_BYTES), (2_047, FILE_BYTES)])
def test_what_a_slave_has_still_to_read_stays_however_full_the_disk_is(
    needed: int, expected: int | None
) -> None:
    assert new_min_offset(files(0, 0, 0, 0), RULE, FAR, 100, 100, needed) == expected


def test_a_disk_without_room_receives_nothing() -> None:
    assert must_refuse(RULE, 91, 100)
    assert not must_refuse(RULE, 90, 100)


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=8),
    st.integers(0, 4_000),
    st.integers(0, 100_000),
    st.integers(0, 10 * FILE_BYTES),
)
def test_whatever_goes_is_a_beginning_that_nobody_needs(
    written_ms: list[int], now_ms: int, used: int, needed: int
) -> None:
    there = files(*written_ms)
    found = new_min_offset(there, RULE, now_ms, used, 100_000, needed)
    if found is not None:
        assert found <= needed
        assert found % FILE_BYTES == 0
        assert 0 < found <= there[-1].start_offset


def filled(store: ReplicaStore) -> ReplicaStore:
    store.adopt(EpochList.of((1, 0), (2, 1500), (3, 3000)))
    for at in range(0, len(LOG), FILE_BYTES):
        store.log.append(at, [memoryview(LOG)[at : at + FILE_BYTES]])
    store.log.sync()
    return store


def test_a_store_drops_its_oldest_files_and_goes_on(tmp_path: Path) -> None:
    store = filled(ReplicaStore(tmp_path, FILE_BYTES))
    for start in (0, FILE_BYTES):
        os.utime(store.log.layout.path(start), (1, 1))
    assert LogRetention(
        store, RetentionRule(3_600_000, 0.75, 0.9), lambda: None, lambda _: (1, 100)
    ).look() == (
        2 * FILE_BYTES,
        False,
    )
    assert store.log.min_offset == 2 * FILE_BYTES == store.log.layout.starts()[0]
    store.close()
    again = ReplicaStore(tmp_path, FILE_BYTES)
    assert (again.log.min_offset, again.log.max_offset) == (2 * FILE_BYTES, len(LOG))
    # The first epoch is empty now.
    assert again.epochs == EpochList.of((2, 1500), (3, 3000))
    again.close()


def test_a_connected_slave_holds_the_files_that_it_has_not_acknowledged(tmp_path: Path) -> None:
    store = filled(ReplicaStore(tmp_path, FILE_BYTES))
    full = RetentionRule(3_600_000, 0.1, 0.9)
    assert LogRetention(store, full, lambda: FILE_BYTES + 5, lambda _: (95, 100)).look() == (
        FILE_BYTES,
        False,
    )
    assert LogRetention(store, full, lambda: FILE_BYTES + 5, lambda _: (95_000, 100_000)).look() == (0, True)
    store.close()


class TwoDisks(OsDisk):
    """The log on one disk, everything else on another; used bytes of each, of 100,000."""

    def __init__(self, log_bytes: int, other_bytes: int) -> None:
        self.used = {True: log_bytes, False: other_bytes}

    def usage(self, path: Path) -> tuple[int, int]:
        """Return what a test says."""
        return self.used[path.name == LOG_DIRECTORY], 100_000

    def volume(self, path: Path) -> int:
        """Tell the two apart."""
        return 1 + (path.name == LOG_DIRECTORY)


@pytest.mark.parametrize(
    ("log_bytes", "other_bytes", "dropped", "refuses"),
    [
        (75_000, 75_001, 0, False),
        (75_001, 0, FILE_BYTES, False),
        (0, 90_000, 0, False),
        (0, 90_001, 0, True),
        (75_001, 90_001, FILE_BYTES, True),
    ],
)
def test_with_two_disks_files_go_by_the_use_of_the_logs_and_either_refuses(
    tmp_path: Path, log_bytes: int, other_bytes: int, dropped: int, refuses: bool
) -> None:
    store = filled(ReplicaStore(tmp_path, FILE_BYTES, TwoDisks(log_bytes, other_bytes)))
    keep = RetentionRule(1 << 50, 0.75, 0.9)
    assert LogRetention(store, keep, lambda: None).look() == (dropped, refuses)
    store.close()


def test_a_log_asks_the_disk_that_it_is_on_for_room(tmp_path: Path) -> None:
    disk = TwoDisks(0, 99_999)
    filled(ReplicaStore(tmp_path, FILE_BYTES, disk, refuse_above=0.9)).close()
    disk.used = {True: 99_999, False: 0}
    store = ReplicaStore(tmp_path, FILE_BYTES, disk, refuse_above=0.9)
    with pytest.raises(NoRoomError):
        store.log.append(len(LOG), [memoryview(bytes(8))])
    store.close()


def test_bytes_that_are_not_durable_never_go(tmp_path: Path) -> None:
    store = filled(ReplicaStore(tmp_path, FILE_BYTES))
    with pytest.raises(CommitLogUsageError):
        store.log.drop_before(FILES * FILE_BYTES + FILE_BYTES)
    store.close()


def test_power_lost_while_files_go_leaves_an_end_of_the_log() -> None:
    for fuse in range(6):
        disk = SimulatedDisk()
        store = filled(ReplicaStore(Path("/store"), FILE_BYTES, disk))
        disk.fuse = fuse
        with contextlib.suppress(PowerLossError):
            store.log.drop_before(3 * FILE_BYTES)
        for seed in range(10):
            after = disk.after_power_loss(Random(seed))
            again = ReplicaStore(Path("/store"), FILE_BYTES, after)
            assert again.log.max_offset == len(LOG)
            assert again.log.min_offset <= 3 * FILE_BYTES


def test_the_settings_of_retention_are_checked() -> None:
    texts = {
        "cluster": "c",
        "group": "g",
        "controllers": "c:1",
        "listen": "l:1",
        "store": "s",
        "http": "h:1",
    }
    assert from_texts(texts).retention_hours == 0
    with pytest.raises(ConfigError, match="below disk-refuse-percent"):
        from_texts({**texts, "disk_drop_percent": "96"})
