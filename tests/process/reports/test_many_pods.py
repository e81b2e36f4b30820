"""A collector of a hundred pods, as processes.

It keeps up with one scrape per second, within the planned memory, and a kill does not tear a file.
"""

import asyncio
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from project_tools import sizing
from testkit.products.collector import START_S_MAX, CollectorRun, peak_bytes

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

PODS = 100
SECONDS = 15
SEGMENT_S = 5
ANSWERED_SHARE_MIN = 0.99
STRETCHES_MAX = 8
"""A machine that stands still loses a stretch; a collector that is too slow loses all of them."""
WRITING_S_MAX = 120.0


async def _while_a_segment_is_written(run: CollectorRun) -> None:
    async with asyncio.timeout(WRITING_S_MAX):
        while not run.unfinished():  # noqa: ASYNC110 - files of another process signal nothing
            await asyncio.sleep(0.001)


async def _until_another_is_written(run: CollectorRun) -> None:
    before = len(run.segments())
    async with asyncio.timeout(WRITING_S_MAX):
        while len(run.segments()) < before + 2:  # noqa: ASYNC110 - files of another process signal nothing
            await asyncio.sleep(0.1)


async def test_a_hundred_pods_are_scraped_every_second_and_a_kill_tears_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    run = CollectorRun(tmp_path, SEGMENT_S)
    async with run.pods(PODS) as pods:
        collector = await run.collector(pods)
        async with collector:
            await run.until_collecting(collector)
            shares = []
            while not shares or (shares[-1] < ANSWERED_SHARE_MIN and len(shares) < STRETCHES_MAX):
                shares.append((await run.stretch(collector, SECONDS)).answered_share)
            assert shares[-1] >= ANSWERED_SHARE_MIN, shares
            planned = sizing.inputs_of(sizing.PAGE.read_text()) | {"segment_s": SEGMENT_S}
            assert planned["pods"] / planned["releases"] == PODS
            assert peak_bytes(collector) <= sizing.collector_bytes(planned)

            await _while_a_segment_is_written(run)
            await collector.kill()
            left = run.segments()
            await collector.start()
            await run.until_collecting(collector)
            await _until_another_is_written(run)
            collector.signal(signal.SIGTERM)
            assert await collector.wait(START_S_MAX) == 0, collector.tail()
    assert run.unfinished() == []
    assert len(run.segments()) > len(left) > 0
    for path in run.segments():
        pq.ParquetFile(path).read()
    assert run.doubles() == []
