"""A log about to fill its volume refuses before it writes, keeps its data, and goes on with space."""

import contextlib
import errno
from pathlib import Path
from random import Random

import pytest

from ha_sidecar.commitlog.disk import OsDisk
from ha_sidecar.commitlog.retention import RetentionRule
from ha_sidecar.commitlog.room import GO_ON_STEPS, STEP_BYTES_MAX, NoRoomError, Room
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_link import NO_ROOM, HaLink
from ha_sidecar.replica.retention import LogRetention
from ha_sidecar.transfer.reconcile import SlaveConfig
from testkit.check.errors import PowerLossError
from testkit.ha.by_hand import HandMaster
from testkit.ha.messages import log_bytes
from testkit.ha.peers import LinkNotes
from testkit.ha_sim.disk import SimulatedDisk

FILE_BYTES = 4096
STORE = Path("/store")
LOG = log_bytes(80, FILE_BYTES)
REFUSE_ABOVE = 0.9
WAIT_S = 30.0


class CountingDisk(SimulatedDisk):
    """Counts the calls that ask how full it is."""

    asked = 0

    def usage(self, path: Path) -> tuple[int, int]:
        """Count and answer."""
        self.asked += 1
        return super().usage(path)


def room_of(disk: SimulatedDisk, file_bytes: int = FILE_BYTES) -> Room:
    return Room(disk, STORE, file_bytes, REFUSE_ABOVE)


def store_on(disk: SimulatedDisk) -> ReplicaStore:
    return ReplicaStore(STORE, FILE_BYTES, disk, REFUSE_ABOVE)


def append_all(store: ReplicaStore, step_bytes: int = 512) -> None:
    """Append the rest of `LOG` until it is there."""
    while (at := store.log.max_offset) < len(LOG):
        file_end = at + FILE_BYTES - at % FILE_BYTES
        store.log.append(at, [memoryview(LOG)[at : min(at + step_bytes, file_end)]])


def content(store: ReplicaStore, disk: SimulatedDisk) -> bytes:
    data = b""
    for start in store.log.layout.starts():
        with disk.content(store.log.layout.path(start)) as file:
            data += bytes(file)
    return data


def test_the_disk_is_asked_before_each_file_and_after_each_step_of_bytes_only() -> None:
    disk = CountingDisk()
    disk.capacity_bytes = 1 << 40
    room = room_of(disk, 64 * STEP_BYTES_MAX)
    room.take(10, begins_file=True)
    assert disk.asked == 1
    for _ in range(16):
        room.take(STEP_BYTES_MAX // 16 - 1, begins_file=False)
    assert disk.asked == 1
    room.take(STEP_BYTES_MAX // 16, begins_file=False)
    assert disk.asked == 2
    room.take(1, begins_file=True)
    assert disk.asked == 3


def test_what_would_pass_the_mark_is_refused_to_the_byte() -> None:
    disk = SimulatedDisk()
    disk.capacity_bytes = 10_000
    room_of(disk).take(9_000, begins_file=True)
    with pytest.raises(NoRoomError, match="lacks room for 9001 bytes: 0 of its 10000 bytes are used"):
        room_of(disk).take(9_001, begins_file=True)


def test_a_refused_log_wants_room_for_some_steps_and_no_longer_once_it_went_on() -> None:
    disk = SimulatedDisk()
    disk.capacity_bytes = 100
    room = room_of(disk)
    with pytest.raises(NoRoomError):
        room.take(91, begins_file=False)
    assert room.wanted_bytes == GO_ON_STEPS * FILE_BYTES
    disk.capacity_bytes = None
    room.take(91, begins_file=False)
    assert room.wanted_bytes == 0


def test_a_log_refuses_before_its_volume_is_full_and_goes_on_with_what_it_holds() -> None:
    disk = SimulatedDisk()
    disk.capacity_bytes = 8_192
    store = store_on(disk)
    with pytest.raises(NoRoomError):
        append_all(store)
    held = store.log.max_offset
    assert 0 < held <= disk.used_bytes() <= REFUSE_ABOVE * 8_192
    with pytest.raises(NoRoomError):
        append_all(store)
    assert store.log.max_offset == held
    disk.capacity_bytes = 65_536
    append_all(store)
    assert content(store, disk)[: len(LOG)] == LOG


class BelatedDisk(SimulatedDisk):
    """Says that there is room, whatever others have taken."""

    def usage(self, _path: Path) -> tuple[int, int]:
        """Answer as of long ago."""
        return 0, 1 << 40


def taken_meanwhile(disk: SimulatedDisk, held: int) -> ReplicaStore:
    """Return a store that holds so much and has less room for more than it believes."""
    store = store_on(disk)
    while (at := store.log.max_offset) < held:
        store.log.append(at, [memoryview(LOG)[at : min(held, at + FILE_BYTES - at % FILE_BYTES)]])
    disk.capacity_bytes = disk.used_bytes() + 512
    return store


@pytest.mark.parametrize("held", [700, FILE_BYTES, FILE_BYTES + 1])
def test_what_a_write_left_that_found_no_space_is_taken_back(held: int) -> None:
    disk = BelatedDisk()
    store = taken_meanwhile(disk, held)
    with pytest.raises(NoRoomError):
        store.log.append(held, [memoryview(LOG)[held : held + 2_000]])
    assert (store.log.max_offset, store.log.synced_offset) == (held, held)
    data = content(store, disk)
    assert data[:held] == LOG[:held]
    assert not data[held:].strip(b"\0")
    disk.capacity_bytes = None
    append_all(store)
    assert content(store, disk)[: len(LOG)] == LOG


def test_power_lost_while_it_is_taken_back_leaves_a_beginning_of_the_log() -> None:
    for fuse in range(8):
        disk = BelatedDisk()
        store = taken_meanwhile(disk, FILE_BYTES + 700)
        store.log.sync()
        disk.fuse = fuse
        with contextlib.suppress(PowerLossError, NoRoomError):
            store.log.append(FILE_BYTES + 700, [memoryview(LOG)[FILE_BYTES + 700 :][:2_000]])
        for seed in range(10):
            after = disk.after_power_loss(Random(seed))
            after.capacity_bytes = None
            again = ReplicaStore(STORE, FILE_BYTES, after)
            found = content(again, after)[: again.log.max_offset]
            assert found == LOG[: len(found)]
            assert len(found) > FILE_BYTES


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_other_errors_of_the_disk_are_no_want_of_room(number: int) -> None:
    disk = SimulatedDisk()
    store = store_on(disk)

    def fail(text: str) -> OSError:
        return OSError(number, text)

    disk.fuse, disk.fuse_error = 0, fail  # type: ignore[assignment]  # called as a class is
    with pytest.raises(OSError, match=r"at step"):
        append_all(store)


def test_a_sync_that_finds_no_space_is_final() -> None:
    disk = SimulatedDisk()
    store = store_on(disk)
    store.log.append(0, [memoryview(LOG)[:FILE_BYTES]])

    def fail(text: str) -> OSError:
        return OSError(errno.ENOSPC, text)

    disk.fuse, disk.fuse_error = 0, fail  # type: ignore[assignment]  # called as a class is
    with pytest.raises(OSError, match="sync") as raised:
        append_all(store)
    assert raised.value.errno is None


def test_a_link_ends_for_want_of_room_and_the_next_one_goes_on() -> None:
    disk = SimulatedDisk()
    disk.capacity_bytes = 8_192
    store = store_on(disk)
    with HandMaster(FILE_BYTES) as master:
        notes = LinkNotes()
        HaLink(master.address, store, SlaveConfig(2, FILE_BYTES), notes, None).start()
        master.accept()
        master.reply(len(LOG), (1, 0))
        with contextlib.suppress(ConnectionError):
            master.send_log(LOG, 0, 1)
        end = notes.end()
        assert (end.reason, end.disk_error) == (NO_ROOM, None)
        assert "the disk lacks room for" in end.detail
        held = store.log.max_offset
        disk.capacity_bytes = None
        notes = LinkNotes()
        link = HaLink(master.address, store, SlaveConfig(2, FILE_BYTES), notes, None)
        link.start()
        master.accept()
        master.reply(len(LOG), (1, 0))
        master.send_log(LOG[held:], held, 1)
        master.ack_of(len(LOG))
        link.stop()
        notes.end()
    assert content(store, disk)[: len(LOG)] == LOG


class SizedDisk(OsDisk):
    """The real disk, as if it had a size and nothing but logs on it."""

    def __init__(self, disk_bytes: int) -> None:
        """Take its size."""
        self.disk_bytes = disk_bytes

    def usage(self, path: Path) -> tuple[int, int]:
        """Add up files by their length."""
        return sum(file.stat().st_size for file in path.rglob("0*")), self.disk_bytes


def test_a_refused_log_takes_its_oldest_files_below_the_mark_for_that_if_nobody_needs_them(
    tmp_path: Path,
) -> None:
    disk, file = SizedDisk(8 * FILE_BYTES), [memoryview(bytes([1]) * FILE_BYTES)]
    store = ReplicaStore(tmp_path, FILE_BYTES, disk, REFUSE_ABOVE)
    while store.log.max_offset < 7 * FILE_BYTES:
        store.log.append(store.log.max_offset, file)
    with pytest.raises(NoRoomError):
        store.log.append(7 * FILE_BYTES, file)
    store.log.sync()
    rule = RetentionRule(1 << 60, 0.89, REFUSE_ABOVE)
    assert disk.usage(tmp_path)[0] < rule.drop_above * disk.disk_bytes
    assert LogRetention(store, rule, lambda: 0).look() == (0, True)
    # Room for some steps of a file each, and no more.
    assert LogRetention(store, rule, lambda: None).look() == (GO_ON_STEPS * FILE_BYTES, False)
    store.log.append(7 * FILE_BYTES, file)
    store.close()
