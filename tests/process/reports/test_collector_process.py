"""The collector as a process that is killed again and again: no torn segment, no event lost or doubled."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from testkit.processes.process import ManagedProcess
from testkit.products.collector_in_process import EventServer, as_line, serving, write_targets

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

KILLS = 3
START_S_MAX = 90.0


def collector(directory: Path) -> ManagedProcess:
    program = Path(sys.executable).parent / "slo-pipeline"
    options = ["--targets", str(directory / "targets.json"), "--out", str(directory / "data")]
    speed = ["--interval", "100ms", "--segment-duration", "500ms"]
    return ManagedProcess(
        "collector", [str(program), "collect", *options, *speed], directory / "collector.log"
    )


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("data/*/day=*/[!.]*.parquet"))


def leftovers(directory: Path) -> list[Path]:
    return sorted(directory.glob("data/*/day=*/.*"))


def ids(directory: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in segments(directory):
        if path.parent.parent.name == "events":
            found.update(pq.ParquetFile(path).read()["event_id"].to_pylist())
    return found


async def feed(stream: EventServer, file: Path, first: int, count: int) -> None:
    """Make events on both kinds of source, a little apart, while the collector runs or does not."""
    for number in range(first, first + count):
        await stream.add(number)
        with file.open("ab") as lines:
            lines.write(as_line(number, event_id=f"nemesis/{number}") + b"\n")
        await asyncio.sleep(0.02)


async def test_kills_tear_no_segment_and_neither_lose_nor_double_an_event(tmp_path: Path) -> None:
    nemesis, fed = tmp_path / "nemesis.jsonl", 0
    async with serving() as stream:
        targets = [
            {"name": "n0", "kind": "events", "url": stream.url, "stream": "main"},
            {"name": "replica", "kind": "events", "url": stream.url},
            {"name": "nemesis", "kind": "file", "url": str(nemesis)},
            {"name": "dead", "kind": "metrics", "url": "http://127.0.0.1:1/metrics"},
        ]
        write_targets(tmp_path / "targets.json", targets)
        process = collector(tmp_path)
        try:
            for kill in range(KILLS):
                await process.start()
                await process.wait_for_text("ready", START_S_MAX)
                before = sum(ids(tmp_path).values())
                # Killed with events on the disk and events that are not, at another
                # place of the beat each time.
                while sum(ids(tmp_path).values()) == before:
                    await feed(stream, nemesis, fed + 1, 10)
                    fed += 10
                await feed(stream, nemesis, fed + 1, 5 + 7 * kill)
                fed += 5 + 7 * kill
                await process.kill()
                for path in segments(tmp_path):
                    pq.ParquetFile(path).read()
            await process.start()
            # From then on it ends in good order; all events may be on the disk before.
            await process.wait_for_text("collecting from", START_S_MAX)
            async with asyncio.timeout(START_S_MAX):
                while len(ids(tmp_path)) < 2 * fed:  # noqa: ASYNC110 - files of another process signal nothing
                    await asyncio.sleep(0.2)
            process.signal(signal.SIGTERM)
            assert await process.wait(START_S_MAX) == 0, process.tail()
        finally:
            await process.kill()
    numbers = range(1, fed + 1)
    assert ids(tmp_path) == Counter(
        f"{source}/{number}" for source in ("main/orders", "nemesis") for number in numbers
    )
    assert leftovers(tmp_path) == []
    # A stream of several nodes is resumed; its position came from the segments.
    assert any(after > 0 for after in stream.asked_after)
    assert any("samples" in path.parts for path in segments(tmp_path))


async def test_a_second_collector_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    write_targets(tmp_path / "targets.json", [])
    async with collector(tmp_path) as first:
        await first.wait_for_text("ready", START_S_MAX)
        second = collector(tmp_path)
        second.log_path = tmp_path / "second.log"
        async with second:
            assert await second.wait(START_S_MAX) == 1
        assert "another collector" in second.output()
