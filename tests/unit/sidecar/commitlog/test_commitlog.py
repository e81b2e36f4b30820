"""The log on disk: records, recovery after any cut, truncation without ghosts, epochs in step."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ha_sidecar.commitlog.disk import write_atomically
from ha_sidecar.commitlog.files import CommitLog, CommitLogUsageError
from ha_sidecar.commitlog.layout import Layout, LogLayoutError
from ha_sidecar.commitlog.records import (
    CheckedRecord,
    RecordKind,
    check_record,
    sure_message_bytes,
    texts_hold_nul,
)
from ha_sidecar.commitlog.recovery import find_end, walk
from ha_sidecar.commitlog.store import ReplicaStore, StoreError, read_epochs
from ha_sidecar.commitlog.syncer import Syncer
from ha_sidecar.epoch import EpochList
from testkit.ha.messages import blank, boundaries, log_bytes, message

FILE_BYTES = 1024


def fill(log: CommitLog, data: bytes, start_offset: int = 0) -> None:
    """Append bytes as a stream of bodies would: never across a file."""
    at = 0
    while at < len(data):
        room = FILE_BYTES - (start_offset + at) % FILE_BYTES
        part = memoryview(data)[at : at + min(room, 300)]
        log.append(start_offset + at, [part[:7], part[7:]])
        at += len(part)


def on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.iterdir()))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "commitlog", FILE_BYTES)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(message(500), id="v1"),
        pytest.param(message(500, b""), id="empty-body"),
        pytest.param(message(500, v6=True), id="ipv6-hosts"),
        pytest.param(message(500, topic=b"t" * 200, v2=True), id="v2-long-topic"),
    ],
)
def test_a_whole_message_is_told_with_its_length(record: bytes) -> None:
    verdict = check_record(record, 0, len(record), 500, FILE_BYTES)
    assert (verdict.kind, verdict.length_bytes) == (RecordKind.MESSAGE, len(record))


@pytest.mark.parametrize("index", range(len(message(500))))
def test_a_message_with_one_flipped_byte_is_never_whole_where_it_matters(index: int) -> None:
    record = bytearray(message(500))
    record[index] ^= 0xFF
    verdict = check_record(bytes(record), 0, len(record), 500, FILE_BYTES)
    # Bytes that nothing covers: queue id, flag, queue offset; born and store times and hosts, retries,
    # transaction offset; topic and properties.
    body_end = 84 + 4 + len(b"body")
    uncovered = [
        *range(12, 28),
        *range(36, 84),
        *range(body_end + 1, body_end + 2),
        *range(body_end + 4, len(record)),
    ]
    assert (verdict.kind is RecordKind.MESSAGE) <= (index in uncovered)


def test_a_message_at_another_offset_is_stale() -> None:
    record = message(500)
    assert "500" in check_record(record, 0, len(record), 600, FILE_BYTES).problem


def test_a_record_must_leave_room_for_a_blank() -> None:
    record = message(0)
    assert check_record(record, 0, len(record), 0, len(record) + 8).kind is RecordKind.MESSAGE
    assert check_record(record, 0, len(record), 0, len(record) + 7).kind is RecordKind.DAMAGED


def test_a_blank_takes_exactly_the_rest_of_its_file() -> None:
    assert check_record(blank(100), 0, 100, 924, 100).kind is RecordKind.BLANK
    assert check_record(blank(100), 0, 100, 900, 124).kind is RecordKind.DAMAGED


@given(st.binary(max_size=200))
def test_any_bytes_get_a_verdict(data: bytes) -> None:
    assert check_record(data, 0, len(data), 0, FILE_BYTES).kind in RecordKind


def test_what_is_received_is_on_disk_byte_for_byte(layout: Layout) -> None:
    data = log_bytes(25, FILE_BYTES)
    log, _ = CommitLog.open(layout)
    fill(log, data)
    assert log.sync() == len(data)
    log.close()
    stored = on_disk(layout.directory)
    assert stored[: len(data)] == data
    assert not any(stored[len(data) :])
    assert [path.name for path in sorted(layout.directory.iterdir())][:2] == ["0" * 20, "0" * 16 + "1024"]
    assert {path.stat().st_size for path in layout.directory.iterdir()} == {FILE_BYTES}


def test_a_log_may_start_at_any_file(layout: Layout) -> None:
    data = log_bytes(5, FILE_BYTES, start_offset=4 * FILE_BYTES)
    log, _ = CommitLog.open(layout)
    fill(log, data, 4 * FILE_BYTES)
    log.close()
    again, _ = CommitLog.open(layout)
    assert (again.min_offset, again.max_offset) == (4 * FILE_BYTES, 4 * FILE_BYTES + len(data))
    again.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(cut=st.integers(0, 3200))
def test_recovery_ends_at_the_last_whole_record_whatever_was_cut(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    layout = Layout(tmp_path_factory.mktemp("log"), FILE_BYTES)
    data = log_bytes(25, FILE_BYTES)
    cut = min(cut, len(data))
    for start in range(0, cut, FILE_BYTES):
        part = data[start : min(cut, start + FILE_BYTES)]
        layout.path(start).write_bytes(part.ljust(FILE_BYTES, b"\0"))
    log, _ = CommitLog.open(layout)
    log.close()
    whole = [offset for offset in boundaries(data, FILE_BYTES) if offset <= cut]
    ends_at_file = whole[-1] % FILE_BYTES == 0 and len(whole) > 1
    assert log.max_offset == (whole[-2] if ends_at_file else whole[-1])
    stored = on_disk(layout.directory)
    assert stored[: log.max_offset] == data[: log.max_offset]
    assert not any(stored[log.max_offset :])


def test_recovery_is_settled_after_one_pass(layout: Layout) -> None:
    log, _ = CommitLog.open(layout)
    fill(log, log_bytes(25, FILE_BYTES)[:-10])
    log.close()
    first, _ = CommitLog.open(layout)
    first.close()
    stored = on_disk(layout.directory)
    second, _ = CommitLog.open(layout)
    second.close()
    assert (second.max_offset, on_disk(layout.directory)) == (first.max_offset, stored)


def test_truncation_leaves_no_stale_record_for_a_restart(layout: Layout) -> None:
    data = log_bytes(25, FILE_BYTES)
    cut = boundaries(data, FILE_BYTES)[4]
    log, _ = CommitLog.open(layout)
    fill(log, data)
    log.truncate(cut)
    log.close()
    again, _ = CommitLog.open(layout)
    again.close()
    assert again.max_offset == cut
    assert len(list(layout.directory.iterdir())) == 1


def test_truncation_at_a_file_s_start_drops_the_file(layout: Layout) -> None:
    log, _ = CommitLog.open(layout)
    fill(log, log_bytes(25, FILE_BYTES))
    log.truncate(FILE_BYTES)
    assert len(list(layout.directory.iterdir())) == 1
    fill(log, log_bytes(3, FILE_BYTES, FILE_BYTES, mark=b"n"), FILE_BYTES)
    log.close()


def test_a_crash_between_the_two_halves_of_a_cut_is_repaired(layout: Layout) -> None:
    data = log_bytes(5, FILE_BYTES)
    log, _ = CommitLog.open(layout)
    fill(log, data)
    log.close()
    cut = boundaries(data, FILE_BYTES)[2]
    os.truncate(layout.path(0), cut)
    again, _ = CommitLog.open(layout)
    again.close()
    assert again.max_offset == cut
    assert layout.path(0).stat().st_size == FILE_BYTES


def test_a_log_is_cut_only_between_records(layout: Layout) -> None:
    data = log_bytes(5, FILE_BYTES)
    log, _ = CommitLog.open(layout)
    fill(log, data)
    starts = boundaries(data, FILE_BYTES)
    assert all(log.can_cut_at(offset) for offset in starts)
    assert not any(log.can_cut_at(offset) for offset in range(1, len(data) - 8) if offset not in starts)
    log.close()


def test_appends_elsewhere_or_across_a_file_are_misuse(layout: Layout) -> None:
    log, _ = CommitLog.open(layout)
    with pytest.raises(CommitLogUsageError):
        log.append(5, [memoryview(b"x")])
    log.append(0, [memoryview(b"x")])
    for offset, data in ((0, b"x"), (2, b"x"), (1, bytes(FILE_BYTES))):
        with pytest.raises(CommitLogUsageError):
            log.append(offset, [memoryview(data)])
    with pytest.raises(CommitLogUsageError):
        log.truncate(2)
    log.close()


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        pytest.param({0: FILE_BYTES, 2048: FILE_BYTES}, "is due", id="gap"),
        pytest.param({0: 10, 1024: FILE_BYTES}, "has 10 bytes", id="short-file-inside"),
        pytest.param({0: 2048}, "has 2048 bytes", id="other-size"),
        pytest.param({512: FILE_BYTES}, "is due", id="start-off-the-grid"),
        pytest.param({0: FILE_BYTES, 1024: FILE_BYTES}, "starts with a whole record", id="nothing-whole"),
    ],
)
def test_files_that_make_no_log_are_refused(layout: Layout, sizes: dict[int, int], problem: str) -> None:
    layout.directory.mkdir()
    for start, size in sizes.items():
        layout.path(start).write_bytes(bytes(size))
    with pytest.raises(LogLayoutError, match=problem):
        find_end(layout)


def test_walk_counts_messages_and_names_the_first_damage(layout: Layout) -> None:
    data = bytearray(log_bytes(20, FILE_BYTES))
    starts = boundaries(bytes(data), FILE_BYTES)
    log, _ = CommitLog.open(layout)
    fill(log, bytes(data))
    log.close()
    assert walk(layout).messages == 20
    path = layout.path(0)
    damaged = bytearray(path.read_bytes())
    damaged[starts[3] + 90] ^= 1
    path.write_bytes(damaged)
    found = walk(layout)
    assert (found.messages, found.end.max_offset, found.end.stopped_by.problem) == (
        3,
        starts[3],
        "body checksum",
    )


def test_a_sync_covers_what_was_written_before_it_and_closes_finished_files(layout: Layout) -> None:
    log, _ = CommitLog.open(layout)
    data = log_bytes(25, FILE_BYTES)
    fill(log, data)
    assert log.synced_offset == layout.start_of(len(data))  # all but the newest file
    assert log.sync() == log.synced_offset == len(data)
    assert len(log._open) == 1
    log.close()


def test_the_syncer_melts_many_wakes_into_few_syncs() -> None:
    gate, entered, seen = threading.Event(), threading.Event(), []

    def sync() -> int:
        entered.set()
        assert gate.wait(30)
        return len(seen) + 1

    done = threading.Event()

    def synced(offset: int, _: float) -> None:
        seen.append(offset)
        if offset == 2:
            done.set()

    syncer = Syncer(sync, synced, lambda _: None)
    syncer.start()
    syncer.wake()
    assert entered.wait(30)
    for _ in range(50):
        syncer.wake()
    gate.set()
    assert done.wait(30)
    syncer.stop()
    assert seen == [1, 2]


def test_a_failed_sync_is_final() -> None:
    failures: list[OSError] = []
    failed = threading.Event()

    def sync() -> int:
        raise OSError("disk gone")

    def note(error: OSError) -> None:
        failures.append(error)
        failed.set()

    syncer = Syncer(sync, lambda _o, _d: pytest.fail("a failed sync must not count as a sync"), note)
    syncer.start()
    syncer.wake()
    assert failed.wait(30)
    syncer.wake()
    syncer.stop()
    assert len(failures) == 1


def test_the_store_drops_epochs_beyond_its_log_and_keeps_an_empty_newest_one(tmp_path: Path) -> None:
    store = ReplicaStore(tmp_path, FILE_BYTES)
    data = log_bytes(4, FILE_BYTES)
    fill(store.log, data)
    store.adopt(EpochList.of((1, 0), (2, len(data)), (3, len(data) + 50)))
    store.close()
    again = ReplicaStore(tmp_path, FILE_BYTES)
    assert again.epochs == read_epochs(tmp_path) == EpochList.of((1, 0), (2, len(data)))
    assert again.own_log().max_offset == len(data)
    again.close()


def test_a_diverged_log_is_moved_aside_a_bounded_number_of_times(tmp_path: Path) -> None:
    store = ReplicaStore(tmp_path, FILE_BYTES)
    data = log_bytes(4, FILE_BYTES)
    for number in (1, 2, 3):
        fill(store.log, data)
        store.adopt(EpochList.of((number, 0)))
        target = store.archive()
        assert on_disk(target / "commitlog")[: len(data)] == data
        assert read_epochs(target) == EpochList.of((number, 0))
        assert store.own_log().is_empty
        assert not (tmp_path / "epochFileCheckpoint").exists()
    with pytest.raises(StoreError, match="3 diverged logs"):
        store.archive()
    store.close()


def test_an_atomic_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    for data in (b"first", b"second"):
        write_atomically(tmp_path / "file", data)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"second")]


@pytest.mark.parametrize(
    "form", [{}, {"v6": True}, {"v2": True}, {"properties": b"K\x01\x00\x02"}, {"body": b""}]
)
def test_the_short_way_to_a_whole_message_never_contradicts_the_long_one(form: dict[str, Any]) -> None:
    record = message(512, **form)
    spoilt = [
        record[:at] + bytes([record[at] ^ bits]) + record[at + 1 :]
        for at in range(len(record))
        for bits in (0x01, 0x80, 0xFF)
    ]
    sure: list[bytes] = []
    for data in (record, *spoilt, *(record[:length] for length in range(len(record)))):
        with memoryview(data) as view:
            length = sure_message_bytes(data, view, 0, len(data), 512, 4096)
        judged = check_record(data, 0, len(data), 512, 4096)
        if length:
            assert judged == CheckedRecord(RecordKind.MESSAGE, length)
            assert not texts_hold_nul(data, 0)
            sure.append(data)
    assert (record in sure) == (form in ({}, {"body": b""}))


def test_a_whole_message_too_near_to_the_file_s_end_is_not_sure() -> None:
    record = message(512)
    with memoryview(record) as view:
        assert sure_message_bytes(record, view, 0, len(record), 512, len(record) + 8) == len(record)
        assert sure_message_bytes(record, view, 0, len(record), 512, len(record) + 7) == 0
