"""Torn tails are cut, damage is refused.

Every cut of the last records, bit flips everywhere, copied and stale records.
"""

import random
from pathlib import Path

import pytest

from controller_core.log.errors import LogCorruptError, LogLockedError, LogMisuseError
from controller_core.log.records import RecordType, SegmentRecord, decode_record
from controller_core.log.recovery import segment_names
from controller_core.log.snapshots import encode_snapshot, snapshot_name, snapshot_names
from controller_core.log.store import DiskStore
from controller_core.log.view import Batch, StoredState
from controller_core.raft.types import LogIndex, Ready, Snapshot, Term
from testkit.raft.disk import SimulatedFiles
from testkit.raft.log_scripts import (
    DIRECTORY,
    INITIAL,
    contents,
    entries,
    hard_state,
    possible_states,
    ready,
    steps_of,
)

OWNER = "main/1"


def save(store: DiskStore, what: Ready) -> Batch:
    batch = store.prepare(what)
    store.write(batch)
    store.commit(batch)
    return batch


def open_store(files: SimulatedFiles, segment_bytes_max: int = 1 << 20) -> DiskStore:
    files.locks.clear()
    return DiskStore.open(DIRECTORY, INITIAL, owner=OWNER, files=files, segment_bytes_max=segment_bytes_max)


def with_bytes(name: str, data: bytes, files: SimulatedFiles) -> SimulatedFiles:
    """Return a copy of a file system in which one file has other bytes."""
    changed = SimulatedFiles()
    for path, inode in files.names.items():
        changed.put(path, data if path.name == name else bytes(inode.current))
    return changed


def records_of(data: bytes) -> list[SegmentRecord]:
    found, offset = [], 0
    while offset < len(data):
        record = decode_record(data, offset)
        assert isinstance(record, SegmentRecord)
        found.append(record)
        offset = record.end
    return found


def scene(*, segment_bytes_max: int = 1 << 20) -> tuple[SimulatedFiles, str, StoredState]:
    """Return a store of several batches, the name of its last segment, and what it holds."""
    files = SimulatedFiles()
    store = open_store(files, segment_bytes_max)
    save(store, ready(entries(2, 6, 1), hard_state(1, 1, 1)))
    save(store, ready(entries(7, 9, 2, 50), hard_state(2, 3, 6)))
    save(store, ready(entries(10, 11, 2, 700), hard_state(2, 3, 9)))
    held = contents(store)
    return files, segment_names(files.list(DIRECTORY))[-1], held


def test_a_log_cut_at_any_byte_of_its_last_records_opens_with_what_is_whole() -> None:
    files, name, held = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    records = records_of(data)
    last = [record for record in records if record.type is not RecordType.DURABLE][-4:]
    prefixes = possible_states(
        StoredState(hard_state(2, 3, 6), INITIAL, held.entries[:8]),
        steps_of(Batch(held.hard_state, held.entries[8:])),
    )
    for size in range(last[0].end, len(data)):
        whole = sum(1 for record in last[1:] if record.end <= size)
        store = open_store(with_bytes(name, data[:size], files))
        assert contents(store) == prefixes[whole], size
        torn = not any(record.end == size for record in records)
        assert (store.cut is not None) == torn, size


def test_a_store_whose_tail_was_cut_goes_on() -> None:
    files, name, _ = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    changed = with_bytes(name, data[:-60], files)
    store = open_store(changed)
    assert store.cut is not None
    assert store.cut.path.endswith(name)
    again = store.last_index() + 1
    save(store, ready(entries(again, again + 1, 3), hard_state(3, 1, 9)))
    wanted = contents(store)
    assert contents(open_store(changed)) == wanted
    assert open_store(changed).cut is None


def test_every_flipped_bit_in_what_was_durable_is_refused() -> None:
    files, name, _ = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    mark = records_of(data)[-1]
    assert mark.type is RecordType.DURABLE
    rng = random.Random(20)
    for _ in range(600):
        bit = rng.randrange(mark.offset * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LogCorruptError) as caught:
            open_store(with_bytes(name, bytes(flipped), files))
        assert name in caught.value.path
        assert caught.value.offset <= bit // 8
        assert str(caught.value.offset) in str(caught.value)


def test_a_flipped_bit_in_the_last_mark_costs_nothing() -> None:
    files, name, held = scene()
    data = bytearray(files.names[DIRECTORY / name].current)
    data[-1] ^= 1
    assert contents(open_store(with_bytes(name, bytes(data), files))) == held


def test_a_flipped_bit_in_an_older_segment_is_refused() -> None:
    files, _, _ = scene(segment_bytes_max=300)
    names = segment_names(files.list(DIRECTORY))
    assert len(names) > 2
    rng = random.Random(21)
    for _ in range(100):
        name = rng.choice(names[:-1])
        data = bytearray(files.names[DIRECTORY / name].current)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with pytest.raises(LogCorruptError, match=name):
            open_store(with_bytes(name, bytes(data), files))


def test_garbage_in_the_last_record_is_cut_when_nothing_says_that_it_was_durable() -> None:
    files, name, held = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    *_, last, mark = records_of(data)
    data = data[: last.end - 3] + b"\xff\xff\xff"
    store = open_store(with_bytes(name, data, files))
    assert store.cut is not None
    assert store.cut.offset == last.offset
    assert mark.offset == last.end
    assert contents(store).entries == held.entries


def test_a_lost_sector_of_an_unsynced_write_is_cut() -> None:
    files, name, held = scene()
    data = bytearray(files.names[DIRECTORY / name].current)
    records = records_of(bytes(data))
    del data[records[-1].offset :]
    sector = records[-3].offset // 512 * 512
    data[sector : sector + 512] = bytes(512)
    assert records[-4].offset < sector, "the scene has to have its lost sector inside the last batch"
    store = open_store(with_bytes(name, bytes(data), files))
    assert contents(store).entries == held.entries[: store.last_index() - 1]
    assert store.last_index() >= 9


def test_a_lost_sector_of_a_synced_write_is_refused() -> None:
    files, name, _ = scene()
    data = bytearray(files.names[DIRECTORY / name].current)
    data[512:1024] = bytes(512)
    with pytest.raises(LogCorruptError, match=name):
        open_store(with_bytes(name, bytes(data), files))


@pytest.mark.parametrize("pick", [slice(-2, -1), slice(-1, None), slice(2, 3), slice(2, 5)])
def test_a_copied_record_at_the_end_is_refused(pick: slice) -> None:
    files, name, _ = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    copied = b"".join(data[record.offset : record.end] for record in records_of(data)[pick])
    with pytest.raises(LogCorruptError, match="follows checksum"):
        open_store(with_bytes(name, data + copied, files))


def test_a_stale_tail_of_another_life_of_the_file_is_refused() -> None:
    files, name, _ = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    records = records_of(data)
    shorter = data[: records[8].offset] + data[records[10].offset :]
    with pytest.raises(LogCorruptError, match="follows checksum"):
        open_store(with_bytes(name, shorter, files))


def test_zeros_after_the_last_record_are_cut() -> None:
    files, name, held = scene()
    data = bytes(files.names[DIRECTORY / name].current)
    store = open_store(with_bytes(name, data + bytes(5000), files))
    assert contents(store) == held
    assert store.cut is not None
    assert store.cut.size_bytes == 5000


def test_a_missing_segment_is_refused() -> None:
    files, _, _ = scene(segment_bytes_max=300)
    names = segment_names(files.list(DIRECTORY))
    for missing in names[:-1]:
        changed = with_bytes("", b"", files)
        del changed.names[DIRECTORY / missing]
        with pytest.raises(LogCorruptError):
            open_store(changed)


def test_segments_that_all_went_missing_are_noticed_by_the_snapshot_left_alone() -> None:
    files, _, _ = scene()
    store = open_store(files)
    store.create_snapshot(LogIndex(9), INITIAL.conf_state, b"state of nine")
    for name in segment_names(files.list(DIRECTORY)):
        del files.names[DIRECTORY / name]
    with pytest.raises(LogCorruptError, match="log segments"):
        open_store(files)


def test_committed_entries_that_are_missing_are_noticed() -> None:
    files = SimulatedFiles()
    store = open_store(files)
    save(store, ready(entries(2, 9, 1)))
    save(store, ready((), hard_state(1, 1, 12)))
    with pytest.raises(LogCorruptError, match="commit index 12"):
        open_store(files)


def test_an_old_segment_left_before_a_gap_is_cleared_away() -> None:
    files, _, _ = scene(segment_bytes_max=300)
    store = open_store(files, 300)
    left = segment_names(files.list(DIRECTORY))[0]
    old = bytes(files.names[DIRECTORY / left].current)
    save(store, ready((), hard_state(2, 3, 11)))
    store.create_snapshot(LogIndex(11), INITIAL.conf_state, b"")
    store.compact(LogIndex(11))
    held = contents(store)
    files.put(DIRECTORY / left, old)
    assert contents(open_store(files, 300)) == held
    assert left not in files.list(DIRECTORY)


def test_every_flipped_bit_of_a_snapshot_is_refused() -> None:
    files, _, _ = scene()
    store = open_store(files)
    store.create_snapshot(LogIndex(9), INITIAL.conf_state, b"state of nine" * 10)
    (name,) = snapshot_names(files.list(DIRECTORY))
    data = bytes(files.names[DIRECTORY / name].current)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LogCorruptError, match=name):
            open_store(with_bytes(name, bytes(flipped), files))
    for size in range(0, len(data), 7):
        with pytest.raises(LogCorruptError, match=name):
            open_store(with_bytes(name, data[:size], files))


def test_a_missing_snapshot_is_refused() -> None:
    files, _, _ = scene(segment_bytes_max=100)
    store = open_store(files, 100)
    store.create_snapshot(LogIndex(9), INITIAL.conf_state, b"state of nine")
    store.compact(LogIndex(9))
    changed = with_bytes("", b"", files)
    for name in snapshot_names(files.list(DIRECTORY)):
        del changed.names[DIRECTORY / name]
    with pytest.raises(LogCorruptError, match="a snapshot at index"):
        open_store(changed)


def test_a_store_of_another_owner_is_refused() -> None:
    files, _, _ = scene()
    files.locks.clear()
    with pytest.raises(LogMisuseError, match="main/1"):
        DiskStore.open(DIRECTORY, INITIAL, owner="main/2", files=files)


def test_two_processes_cannot_open_one_store(tmp_path: Path) -> None:
    first = DiskStore.open(tmp_path, INITIAL)
    with pytest.raises(LogLockedError, match="LOCK"):
        DiskStore.open(tmp_path, INITIAL)
    first.close()
    DiskStore.open(tmp_path, INITIAL).close()


def test_a_refused_store_gives_its_lock_back(tmp_path: Path) -> None:
    DiskStore.open(tmp_path, INITIAL, owner="a").close()
    with pytest.raises(LogMisuseError):
        DiskStore.open(tmp_path, INITIAL, owner="b")
    DiskStore.open(tmp_path, INITIAL, owner="a").close()


def test_a_flipped_bit_that_no_lost_sector_explains_is_refused_even_in_an_unsynced_batch() -> None:
    files, name, _ = scene()
    data = bytearray(files.names[DIRECTORY / name].current)
    records = records_of(bytes(data))
    del data[records[-1].offset :]
    data[records[-3].end - 1] ^= 1
    with pytest.raises(LogCorruptError, match="checksum"):
        open_store(with_bytes(name, bytes(data), files))


@pytest.mark.parametrize(("index", "term"), [(10, 5), (30, 5)])
def test_a_received_snapshot_replaces_the_log_although_its_reset_was_never_written(
    index: int, term: int
) -> None:
    files, _, _ = scene()
    received = Snapshot(LogIndex(index), Term(term), INITIAL.conf_state, b"received")
    files.put(DIRECTORY / snapshot_name(index), encode_snapshot(received))
    store = open_store(files)
    assert contents(store) == StoredState(hard_state(term, 0, index), received)
    save(store, ready(entries(index + 1, index + 2, term), hard_state(term, 1, index)))
    wanted = contents(store)
    assert contents(open_store(files)) == wanted


def test_a_snapshot_of_our_own_keeps_the_log_behind_it() -> None:
    files, _, held = scene()
    made = Snapshot(LogIndex(9), Term(2), INITIAL.conf_state, b"made")
    files.put(DIRECTORY / snapshot_name(9), encode_snapshot(made))
    assert contents(open_store(files)).entries == held.entries[8:]
