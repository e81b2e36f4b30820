"""The store on a disk that loses power.

Every step of a cut and of moving a log aside, and facts that only the disk knows.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ha_sidecar.commitlog.recovery import find_end
from ha_sidecar.commitlog.store import ReplicaStore, StoreError
from ha_sidecar.epoch import EpochList, EpochOrderError
from testkit.check.errors import PowerLossError
from testkit.ha.messages import boundaries, log_bytes, message
from testkit.ha.stores import append
from testkit.ha_sim.disk import SimulatedDisk

FILE_BYTES = 1024
DIRECTORY = Path("/store")
LOG = log_bytes(24, FILE_BYTES)
SURVIVORS = 30
"""Disks to be found after each power loss."""


def opened(disk: SimulatedDisk) -> ReplicaStore:
    return ReplicaStore(DIRECTORY, FILE_BYTES, disk)


def filled(disk: SimulatedDisk) -> ReplicaStore:
    """Return a store with some files, in two epochs, all of it durable."""
    store = opened(disk)
    store.adopt(EpochList.of((1, 0), (4, boundaries(LOG, FILE_BYTES)[9])))
    append(store, LOG)
    store.log.sync()
    return store


def content(store: ReplicaStore, disk: SimulatedDisk) -> bytes:
    """Return the log's bytes."""
    data = bytearray()
    for start in store.log.layout.starts():
        with disk.content(store.log.layout.path(start)) as part:
            data += part
    return bytes(data[: store.log.max_offset])


def each_step(work: Callable[[ReplicaStore], object]) -> list[tuple[bool, SimulatedDisk]]:
    """Cut the power at each step of the work; return if it was done, and the disks that may result."""
    found: list[tuple[bool, SimulatedDisk]] = []
    fuse, done = 0, False
    while not done:
        disk = SimulatedDisk()
        store = filled(disk)
        disk.fuse = fuse
        try:
            work(store)
            done = True
        except PowerLossError:
            fuse += 1
        found += [(done, disk.after_power_loss(Random(seed))) for seed in range(SURVIVORS)]
    assert fuse > 3
    return found


@pytest.mark.parametrize("number", [3, 7, 8, 9, 15])
def test_power_lost_at_any_step_of_a_cut_leaves_a_beginning_of_the_log_and_a_done_cut_stays(
    number: int,
) -> None:
    to_offset = boundaries(LOG, FILE_BYTES)[number]
    for done, disk in each_step(lambda store: store.log.truncate(to_offset)):
        store = opened(disk)
        found = content(store, disk)
        assert found == LOG[: len(found)]
        assert len(found) >= to_offset or LOG[len(found) : len(found) + 8].endswith(b"\xcb\xd4\x31\x94")
        assert not done or len(found) <= to_offset


def test_no_record_behind_a_cut_comes_back_under_what_is_written_next() -> None:
    to_offset = boundaries(LOG, FILE_BYTES)[4]
    disk = SimulatedDisk()
    store = filled(disk)
    store.log.truncate(to_offset)
    # A message of the length of one that was there leaves the stale ones behind it where records start.
    append(store, message(to_offset, b"new".ljust(20, b".")))
    expected = content(store, disk)
    for seed in range(SURVIVORS):
        after = disk.after_power_loss(Random(seed))
        found = content(opened(after), after)
        assert found == expected[: len(found)]
        assert len(found) >= to_offset


def test_power_lost_while_a_log_is_moved_aside_leaves_the_old_one_or_none() -> None:
    for done, disk in each_step(lambda store: store.archive()):
        store = opened(disk)
        found = content(store, disk)
        assert found in (b"", LOG)
        assert not done or found == b""
        # Its epoch list goes first: no writer continues a log without one.
        assert len(store.epochs) in ((0, 2) if found else (0,))


def test_what_a_killed_process_left_is_durable_once_the_log_is_open_again() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.adopt(EpochList.of((1, 0)))
    append(store, LOG)
    assert store.log.synced_offset < len(LOG)
    again = opened(disk)
    assert again.log.synced_offset == len(LOG)
    for seed in range(SURVIVORS):
        after = disk.after_power_loss(Random(seed))
        assert content(opened(after), after) == LOG


def test_only_the_newest_file_can_lose_anything() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    append(store, LOG)
    newest = store.log.layout.start_of(len(LOG) - 1)
    assert newest > 0
    for seed in range(SURVIVORS):
        after = disk.after_power_loss(Random(seed))
        found = content(opened(after), after)
        assert found == LOG[: len(found)]
        assert len(found) >= newest - FILE_BYTES // 2


@pytest.mark.parametrize("lost", [512, 1024, 1536])
def test_a_message_that_lacks_a_sector_of_its_long_texts_ends_the_log(lost: int) -> None:
    file_bytes = 8192
    disk = SimulatedDisk()
    store = ReplicaStore(DIRECTORY, file_bytes, disk)
    first = message(0, b"whole")
    second = message(len(first), properties=b"P\x01" + b"v" * 2400 + b"\x02")
    data = bytearray(first + second + message(len(first + second)))
    data[lost : lost + 512] = bytes(512)
    store.log.append(0, [memoryview(data)])
    assert find_end(store.log.layout).max_offset == len(first)


def test_a_master_s_epoch_begins_at_its_last_whole_record() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    append(store, message(len(LOG))[:50])
    assert list(store.open_epoch(9))[-1].start_offset == len(LOG) == store.log.max_offset
    assert store.epochs.last_epoch == 9
    again = opened(disk)
    assert (again.log.max_offset, again.epochs) == (len(LOG), store.epochs)


def test_an_epoch_without_a_byte_gives_way_to_the_next_master_s() -> None:
    store = filled(SimulatedDisk())
    before = store.epochs
    store.open_epoch(5)
    store.open_epoch(6)
    assert store.epochs == EpochList([*before, *EpochList.of((6, len(LOG)))])


def test_an_epoch_that_has_bytes_already_cannot_be_opened_again() -> None:
    store = filled(SimulatedDisk())
    with pytest.raises(EpochOrderError):
        store.open_epoch(4)
    assert store.log.max_offset == len(LOG)


def test_bytes_without_an_epoch_are_nobody_s_to_continue() -> None:
    store = opened(SimulatedDisk())
    append(store, LOG)
    with pytest.raises(StoreError, match="no epochs"):
        store.open_epoch(1)
