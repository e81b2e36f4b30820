"""A collector in this process, an event stream whose connections can be cut, and the files it leaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from aiohttp import web

from slo_pipeline.collect.collector import Collector, CollectorSettings
from slo_pipeline.collect.kubernetes.cluster import ClusterSettings
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.writing.segment_store import SegmentStore

_UNTIL_S = 60.0
TS_NS = 1_795_262_400_000_000_000


def event(sequence: int, /, **changes: object) -> dict[str, object]:
    """Return an event as its source serves it."""
    return {
        "sequence": sequence,
        "event_id": f"main/orders/{sequence}",
        "ts_ns": TS_NS + sequence,
        "monotonic_ns": 5,
        "clock_id": "n0",
        "source": "controller",
        "kind": "MasterElected",
        "namespace": "",
        "cluster": "main",
        "group": "orders",
        "broker_id": 2,
        "epoch": 7,
        "term": 3,
        "index": 41,
        "correlation_id": "main/orders/7",
        "attrs": {"cause": "ConnectionClosed"},
    } | changes


def as_line(sequence: int, /, **changes: object) -> bytes:
    """Return an event as one line of JSON, without its end."""
    return json.dumps(event(sequence, **changes)).encode()


class EventServer:
    """A server of `/v1/events?after=N` whose connections can be cut."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []
        self.asked_after: list[int] = []
        self.url = ""
        self._changed = asyncio.Condition()
        self._generation = 0

    async def add(self, *sequences: int) -> None:
        """Serve these events too, to those connected and those to come."""
        async with self._changed:
            self.events += [event(sequence) for sequence in sequences]
            self._changed.notify_all()

    async def cut(self) -> None:
        """End every connection."""
        async with self._changed:
            self._generation += 1
            self._changed.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection."""
        after = int(request.query["after"])
        self.asked_after.append(after)
        response = web.StreamResponse()
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            await self._serve(response, after)
        return response

    async def _serve(self, response: web.StreamResponse, after: int) -> None:
        generation, sent = self._generation, 0
        while generation == self._generation:
            for one in self.events[sent:]:
                if int(str(one["sequence"])) > after:
                    await response.write(json.dumps(one).encode() + b"\n")
            sent = len(self.events)
            async with self._changed:
                await self._changed.wait_for(
                    lambda: len(self.events) > sent or generation != self._generation  # noqa: B023 - awaited here
                )


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[EventServer]:
    """Serve a stream on loopback while the context lasts."""
    one = EventServer()
    app = web.Application()
    app.router.add_get("/v1/events", one.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/events"
    try:
        yield one
    finally:
        await one.cut()
        await runner.cleanup()


def write_targets(path: Path, targets: list[dict[str, str]]) -> None:
    """Write a targets file."""
    path.write_text(json.dumps({"targets": targets}))


def kept(directory: Path) -> list[int]:
    """Return the sequences on disk, in the order of files and rows."""
    # Two may have been written within one tick of the disk's clock; their names are numbered.
    paths = sorted(
        directory.glob("events/day=*/[!.]*.parquet"), key=lambda path: (path.stat().st_mtime_ns, path.name)
    )
    return [sequence for path in paths for sequence in pq.ParquetFile(path).read()["sequence"].to_pylist()]


@contextlib.asynccontextmanager
async def collecting(
    directory: Path,
    targets: list[dict[str, str]],
    *,
    flush: bool = True,
    cluster: ClusterSettings | None = None,
) -> AsyncIterator[CollectorMetrics]:
    """Run a collector; without `flush` it ends as if it were killed."""
    write_targets(directory / "targets.json", targets)
    metrics = CollectorMetrics()
    with SegmentStore(directory / "out", "collector") as store:
        settings = CollectorSettings(
            directory / "targets.json", interval_s=0.2, segment_s=0.3, cluster=cluster
        )
        collector = Collector(settings, store, metrics)
        collector.recall()
        task = asyncio.create_task(collector.run())
        try:
            yield metrics
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            # The threads of a killed process are gone; one of ours would write on beside the next collector.
            await asyncio.gather(*collector._sink._flushes, return_exceptions=True)
            if flush:
                assert await collector.flush()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, far longer than any should take."""
    async with asyncio.timeout(_UNTIL_S):
        while not condition():  # noqa: ASYNC110 - conditions are on files and counters, which signal nothing
            await asyncio.sleep(0.01)


def taken(metrics: CollectorMetrics, result: str = "taken") -> float:
    """Return how many events had this result."""
    return metrics.registry.get_sample_value("rmqha_collector_events_total", {"result": result}) or 0.0


def asked(metrics: CollectorMetrics, what: str, result: str) -> float:
    """Return how many requests to the cluster for something had this result."""
    labels = {"what": what, "result": result}
    return metrics.registry.get_sample_value("rmqha_collector_cluster_requests_total", labels) or 0.0


def samples(directory: Path) -> list[dict[str, Any]]:
    """Return the samples on disk below a collector's directory, in no order."""
    found = [pq.ParquetFile(path).read() for path in directory.glob("out/samples/day=*/[!.]*.parquet")]
    rows: list[dict[str, Any]] = pa.concat_tables(found).to_pylist() if found else []
    return rows
