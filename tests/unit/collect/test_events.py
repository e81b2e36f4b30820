"""Events of streams and files: each kept once, followed on from where the segments end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.collect.scraping.event_rows import EventError, TakenEvents, event_row
from slo_pipeline.formats.lines import LineSplitter
from slo_pipeline.schemas import EVENTS
from testkit.products.collector_in_process import (
    TS_NS,
    EventServer,
    as_line,
    collecting,
    kept,
    serving,
    taken,
    until,
    write_targets,
)


@pytest.fixture
async def stream() -> AsyncIterator[EventServer]:
    async with serving() as one:
        yield one


def test_an_event_becomes_a_row_of_the_schema() -> None:
    row = dict(zip(EVENTS.names, event_row(as_line(4)), strict=True))
    assert row["ts"] == (TS_NS + 4) // 1_000
    assert (row["ts_ns"], row["sequence"], row["epoch"]) == (TS_NS + 4, 4, 7)
    assert row["attrs"] == [("cause", "ConnectionClosed")]


def test_what_a_source_does_not_know_may_be_left_out() -> None:
    line = json.dumps(
        {"sequence": 1, "event_id": "x", "ts_ns": 5, "source": "nemesis", "kind": "FaultInjected"}
    )
    row = dict(zip(EVENTS.names, event_row(line.encode()), strict=True))
    assert (row["group"], row["epoch"], row["correlation_id"], row["attrs"]) == ("", None, None, [])


@pytest.mark.parametrize("line", [b"[" * 200_000, b'{"a":' * 100_000, b"9" * 5_000, b"\xff", b"[]"])
def test_rubbish_is_refused_however_deep_it_is(line: bytes) -> None:
    with pytest.raises(EventError, match="no JSON"):
        event_row(line)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sequence": "4"}, "sequence"),
        ({"sequence": None}, "sequence"),
        ({"ts_ns": 1.5}, "ts_ns"),
        ({"epoch": True}, "epoch"),
        ({"epoch": 2**63}, "epoch"),
        ({"event_id": ""}, "event_id"),
        ({"kind": None}, "kind"),
        ({"group": 7}, "group"),
        ({"group": "\ud800"}, "surrogate"),
        ({"attrs": {"n": 1}}, "attrs.n"),
        ({"attrs": ["a"]}, "attrs"),
    ],
)
def test_a_field_that_does_not_fit_is_named_and_refused(changes: dict[str, object], field: str) -> None:
    with pytest.raises(EventError, match=field):
        event_row(as_line(1, **changes))


@given(st.binary(max_size=40))
def test_any_line_is_an_event_or_refused(line: bytes) -> None:
    with contextlib.suppress(EventError):
        event_row(line)


def test_the_oldest_id_is_forgotten_first_when_there_are_too_many() -> None:
    log = TakenEvents(ids_max=2)
    assert [log.take(one) for one in ("a", "b", "a", "c")] == [True, True, False, True]
    assert log.take("a")
    assert not log.take("c")


@given(st.lists(st.binary(max_size=12)), st.integers(1, 7))
def test_lines_are_the_same_in_whatever_pieces_they_come(lines: list[bytes], piece_bytes: int) -> None:
    data = b"\n".join(lines) + b"\n"
    splitter, found = LineSplitter(), []
    for start in range(0, len(data), piece_bytes):
        found += splitter.feed(data[start : start + piece_bytes])
    assert [line for line, _ in found] == [line for line in data.split(b"\n") if line.strip()]
    assert splitter.consumed_bytes == len(data)


def test_a_line_without_end_is_dropped_and_the_next_one_read() -> None:
    splitter = LineSplitter(line_bytes_max=4)
    assert splitter.feed(b"12345678") == []
    assert splitter.feed(b"90\nab\n") == [(b"ab", 14)]
    assert splitter.dropped == 1


async def test_a_stream_that_breaks_is_followed_on_from_the_last_sequence(
    tmp_path: Path, stream: EventServer
) -> None:
    target = {"name": "n0", "kind": "events", "url": stream.url, "stream": "main"}
    await stream.add(1, 2)
    async with collecting(tmp_path, [target]) as metrics:
        await until(lambda: taken(metrics) == 2)
        await stream.cut()
        await stream.add(3)
        await until(lambda: taken(metrics) == 3)
    assert stream.asked_after == [0, 2]
    assert kept(tmp_path / "out") == [1, 2, 3]


async def test_the_same_event_from_two_nodes_is_kept_once(tmp_path: Path, stream: EventServer) -> None:
    targets = [
        {"name": f"n{node}", "kind": "events", "url": f"{stream.url}?node={node}", "stream": "main"}
        for node in range(3)
    ]
    await stream.add(1, 2, 3)
    async with collecting(tmp_path, targets) as metrics:
        await until(lambda: taken(metrics) + taken(metrics, "known") == 9)
    assert kept(tmp_path / "out") == [1, 2, 3]


async def test_a_killed_collector_neither_loses_nor_doubles_events(
    tmp_path: Path, stream: EventServer
) -> None:
    targets = [
        {"name": "n0", "kind": "events", "url": stream.url, "stream": "main"},
        {"name": "replica", "kind": "events", "url": stream.url},
    ]
    await stream.add(1, 2)
    async with collecting(tmp_path, targets, flush=False) as metrics:
        await until(lambda: kept(tmp_path / "out") == [1, 2])
        await stream.add(3)
        await until(lambda: taken(metrics) == 3)
    on_disk = kept(tmp_path / "out")
    stream.asked_after.clear()
    async with collecting(tmp_path, targets) as metrics:
        await stream.add(4)
        await until(lambda: taken(metrics) == 4 - len(on_disk) and len(stream.asked_after) == 2)
    assert kept(tmp_path / "out") == [1, 2, 3, 4]
    # The shared stream went on from the segments, the one of a single process began again.
    assert sorted(stream.asked_after) == [0, len(on_disk)]


async def test_a_file_that_grows_is_followed_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "nemesis.jsonl"
    targets = [{"name": "nemesis", "kind": "file", "url": str(path)}]
    async with collecting(tmp_path, targets) as metrics:
        with path.open("ab") as file:
            file.write(as_line(1) + b"\n" + as_line(2)[:20])
            file.flush()
            await until(lambda: taken(metrics) == 1)
            file.write(as_line(2)[20:] + b"\n")
        await until(lambda: taken(metrics) == 2)
    with path.open("ab") as file:
        file.write(as_line(3) + b"\n")
    async with collecting(tmp_path, targets) as metrics:
        await until(lambda: taken(metrics) == 1)
        assert taken(metrics, "known") == 0
    assert kept(tmp_path / "out") == [1, 2, 3]


async def test_a_line_that_is_no_event_is_counted_and_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "nemesis.jsonl"
    path.write_bytes(b"not json\n" + as_line(1) + b"\n")
    async with collecting(tmp_path, [{"name": "nemesis", "kind": "file", "url": str(path)}]) as metrics:
        await until(lambda: taken(metrics) == 1)
        assert taken(metrics, "malformed") == 1


async def test_a_target_added_while_running_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slo_pipeline.collect.collector.TARGETS_POLL_S", 0.05)
    path = tmp_path / "nemesis.jsonl"
    path.write_bytes(as_line(1) + b"\n")
    async with collecting(tmp_path, []) as metrics:
        write_targets(tmp_path / "targets.json", [{"name": "nemesis", "kind": "file", "url": str(path)}])
        await until(lambda: taken(metrics) == 1)
        # A mistake in the file keeps the old list.
        (tmp_path / "targets.json").write_text("{")
        await asyncio.sleep(0.1)
        with path.open("ab") as file:
            file.write(as_line(2) + b"\n")
        await until(lambda: taken(metrics) == 2)
