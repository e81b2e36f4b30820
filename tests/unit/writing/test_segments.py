"""Segments are on the disk whole or not at all."""

import asyncio
import datetime as dt
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slo_pipeline.formats.exposition import Sample, Series
from slo_pipeline.schemas import SAMPLES, SEGMENTS
from slo_pipeline.writing import buffers
from slo_pipeline.writing import segment_store as segments
from slo_pipeline.writing.buffers import RowBuffer, SampleBuffer
from slo_pipeline.writing.segment_store import SegmentError, SegmentStore
from slo_pipeline.writing.sink import SegmentSink

DAY = dt.date(2026, 11, 21)
NOON_US = int(dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp() * 1_000_000)
MIDNIGHT_US = int(dt.datetime(2026, 11, 22, tzinfo=dt.UTC).timestamp() * 1_000_000)
UP = Series("up", ())
SENT = Series("sent_total", (("group", "orders"),))


def sample_rows() -> Iterable[pa.Table]:
    buffer = SampleBuffer()
    buffer.add(NOON_US, "orders-0", "uid-0", [Sample(UP, 1.0, None), Sample(SENT, 7.0, 1_763_710_000_123)])
    ((_, rows),) = buffer.take().tables()
    return rows


def test_a_large_segment_is_made_part_by_part_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "PART_ROWS", 3)
    buffer = SampleBuffer()
    for second in range(4):
        buffer.add(NOON_US + second, "a", "", [Sample(UP, second, None), Sample(SENT, second, None)])
    ((day, parts),) = buffer.take().tables()
    assert [part.num_rows for part in parts] == [3, 3, 2]
    with SegmentStore(tmp_path, "collector") as store:
        paths = [store.write("samples", day, parts) for _ in range(2)]
    for path in paths:
        assert pq.ParquetFile(path).read()["value"].to_pylist() == [0.0, 1.0, 2.0, 3.0] * 2


def probe_row(seq: int, ts_us: int) -> tuple[object, ...]:
    return ("send", "orders", seq, ts_us, ts_us, None, "timeout", "", None, None, None, "clock")


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def test_a_segment_holds_what_was_given_in_the_schema_that_was_agreed(tmp_path: Path) -> None:
    with SegmentStore(tmp_path, "collector") as store:
        path = store.write("samples", DAY, sample_rows())
    assert path.parent == tmp_path / "samples" / "day=2026-11-21"
    read = pq.ParquetFile(path).read()
    assert read.schema.equals(SAMPLES)
    assert read["metric"].to_pylist() == ["sent_total", "up"]
    assert read["labels"].to_pylist() == [[("group", "orders")], []]
    assert read["instance_uid"].to_pylist() == ["uid-0", "uid-0"]
    assert [stamp and stamp.timestamp() for stamp in read["embedded_ts"].to_pylist()] == [
        1763710000.123,
        None,
    ]


def test_a_failing_disk_leaves_nothing_that_a_reader_could_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with SegmentStore(tmp_path, "collector") as store:
        monkeypatch.setattr(segments.os, "fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            store.write("samples", DAY, sample_rows())
    assert files(tmp_path) == []


def test_a_segment_is_flushed_before_it_gets_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    flush, rename = os.fsync, Path.rename

    def spy_flush(descriptor: int) -> None:
        steps.append("flush " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).name.split("@")[0])
        flush(descriptor)

    def spy_rename(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    with SegmentStore(tmp_path, "collector") as store:
        monkeypatch.setattr(segments.os, "fsync", spy_flush)
        monkeypatch.setattr(Path, "rename", spy_rename)
        store.write("samples", DAY, sample_rows())
    assert steps == ["flush .collector", "rename", "flush day=2026-11-21"]


def test_leftovers_of_a_killed_writer_are_hidden_and_then_swept(tmp_path: Path) -> None:
    folder = tmp_path / "samples" / "day=2026-11-21"
    folder.mkdir(parents=True)
    torn = folder / ".collector@abc-000001.parquet.tmp"
    other = folder / ".collector-2@abc-000001.parquet.tmp"
    for path in (torn, other):
        path.write_bytes(b"PAR1 torn")
    assert list(folder.glob("[!._]*.parquet")) == []
    with SegmentStore(tmp_path, "collector"):
        assert not torn.exists()
        assert other.exists()


def test_a_second_writer_of_the_same_name_is_kept_out(tmp_path: Path) -> None:
    with SegmentStore(tmp_path, "collector"):
        with pytest.raises(SegmentError, match="another collector"):
            SegmentStore(tmp_path, "collector")
        SegmentStore(tmp_path, "canary").close()
    SegmentStore(tmp_path, "collector").close()


def test_a_writer_whose_name_would_leave_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match="part of a file name"):
        SegmentStore(tmp_path, "../collector")


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    with SegmentStore(tmp_path, "collector") as store, pytest.raises(ValueError, match="another schema"):
        store.write("events", DAY, sample_rows())


def test_a_segment_never_mixes_days() -> None:
    buffer = RowBuffer("probe_ops", "intended_ts")
    for seq, ts_us in enumerate((MIDNIGHT_US - 1, MIDNIGHT_US, MIDNIGHT_US - 2)):
        assert buffer.add(probe_row(seq, ts_us))
    tables = {day: pa.concat_tables(parts)["seq"].to_pylist() for day, parts in buffer.take().tables()}
    assert tables == {dt.date(2026, 11, 21): [0, 2], dt.date(2026, 11, 22): [1]}

    samples = SampleBuffer()
    for ts_us in (MIDNIGHT_US - 1, MIDNIGHT_US):
        samples.add(ts_us, "i", "", [Sample(UP, 1.0, None)])
    assert [day.day for day, _ in samples.take().tables()] == [21, 22]


def test_samples_come_out_by_series_and_time_whatever_order_they_came_in() -> None:
    buffer = SampleBuffer()
    for second in range(3):
        for instance in ("b", "a"):
            buffer.add(
                NOON_US + second, instance, "", [Sample(UP, second, None), Sample(SENT, 10 + second, None)]
            )
    ((_, parts),) = buffer.take().tables()
    rows = pa.concat_tables(parts)
    keys = list(
        zip(rows["metric"].to_pylist(), rows["instance"].to_pylist(), rows["value"].to_pylist(), strict=True)
    )
    assert keys == [
        ("sent_total", instance, value) for instance in ("b", "a") for value in (10.0, 11.0, 12.0)
    ] + [("up", instance, value) for instance in ("b", "a") for value in (0.0, 1.0, 2.0)]


def test_a_full_buffer_refuses_a_scrape_whole() -> None:
    buffer = SampleBuffer(rows_max=3)
    two = [Sample(UP, 1.0, None), Sample(SENT, 1.0, None)]
    assert buffer.add(NOON_US, "i", "", two)
    assert not buffer.add(NOON_US, "i", "", two)
    assert len(buffer) == 2


async def test_a_batch_the_disk_refused_is_written_once_by_the_next_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SegmentStore(tmp_path, "canary") as store:
        sink = SegmentSink(store)
        write, fails = store.write, [True]

        def write_or_fail(*arguments: object) -> Path:
            if fails:
                fails.pop()
                raise OSError(28, "No space left on device")
            return write(*arguments)  # type: ignore[arg-type] # passes on whatever came

        monkeypatch.setattr(store, "write", write_or_fail)
        sink.add_row("probe_ops", probe_row(1, NOON_US))
        assert not await sink.flush()
        sink.add_row("probe_ops", probe_row(2, NOON_US))
        assert await sink.flush()
        assert (sink.failures, sink.written["probe_ops"], sink.buffered()["probe_ops"]) == (1, 2, 0)
    found = [seq for path in files(tmp_path) for seq in pq.ParquetFile(path).read()["seq"].to_pylist()]
    assert sorted(found) == [1, 2]


async def test_a_flush_that_nobody_waits_for_any_more_is_finished_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SegmentStore(tmp_path, "canary") as store:
        sink = SegmentSink(store)
        started, go_on = threading.Event(), threading.Event()
        write = store.write

        def write_slowly(*arguments: object) -> Path:
            started.set()
            assert go_on.wait(5)
            return write(*arguments)  # type: ignore[arg-type] # passes on whatever came

        monkeypatch.setattr(store, "write", write_slowly)
        sink.add_row("probe_ops", probe_row(1, NOON_US))
        first = asyncio.create_task(sink.flush())
        assert await asyncio.to_thread(started.wait, 5)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(sink.flush())
        go_on.set()
        assert await second
    assert len(files(tmp_path)) == 1


async def test_rows_that_find_no_place_are_counted(tmp_path: Path) -> None:
    with SegmentStore(tmp_path, "canary") as store:
        sink = SegmentSink(store)
        sink._rows["probe_ops"] = RowBuffer("probe_ops", "intended_ts", rows_max=1)
        for seq in range(3):
            sink.add_row("probe_ops", probe_row(seq, NOON_US))
        assert sink.refused == {"probe_ops": 2}


def test_every_table_of_the_schemas_has_a_buffer(tmp_path: Path) -> None:
    with SegmentStore(tmp_path, "collector") as store:
        assert set(SegmentSink(store).buffered()) == set(SEGMENTS)
