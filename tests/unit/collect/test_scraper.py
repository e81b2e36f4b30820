"""Scrapes: on time, and each target alone."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from slo_pipeline.collect import collector
from slo_pipeline.collect.scraping import scraper
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.scraper import phase_ns
from slo_pipeline.shell.clock import NS_PER_S
from slo_pipeline.shell.http_port import ListenAddressError, parse_address, served
from testkit.products.collector_in_process import collecting, until

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def pages(**handlers: Handler) -> AsyncIterator[str]:
    """Serve pages on loopback; yields the address to put before a page's name."""
    app = web.Application()
    for name, handler in handlers.items():
        app.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def good(_: web.Request) -> web.Response:
    return web.Response(text='sent_total{group="orders"} 5 1763710000123\n')


async def silent(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response()


async def broken(_: web.Request) -> web.Response:
    return web.Response(status=500)


def samples(directory: Path) -> list[dict[str, object]]:
    tables = [pq.ParquetFile(path).read() for path in directory.glob("samples/day=*/[!.]*.parquet")]
    rows = pa.concat_tables(tables).to_pylist() if tables else []
    return sorted(rows, key=lambda row: row["ts"])


def scrapes(metrics: CollectorMetrics, result: str) -> float:
    return metrics.registry.get_sample_value("rmqha_collector_scrapes_total", {"result": result}) or 0.0


async def test_a_silent_target_costs_only_its_own_samples(tmp_path: Path) -> None:
    async with pages(good=good, silent=silent, broken=broken) as base:
        targets = [
            {"name": name, "uid": f"uid-{name}", "kind": "metrics", "url": f"{base}/{name}"}
            for name in ("good", "silent", "broken")
        ]
        targets.append({"name": "nobody", "kind": "metrics", "url": "http://127.0.0.1:1/metrics"})
        before = time.time()
        async with collecting(tmp_path, targets) as metrics:
            await until(lambda: scrapes(metrics, "ok") >= 3 and scrapes(metrics, "timeout") >= 3)
    rows = samples(tmp_path / "out")
    assert [row["ts"].timestamp() >= before - 1 for row in rows].count(False) == 0
    up = {(row["instance"], row["value"]) for row in rows if row["metric"] == "up"}
    assert up == {("good", 1.0), ("silent", 0.0), ("broken", 0.0), ("nobody", 0.0)}
    sent = [row for row in rows if row["metric"] == "sent_total"]
    assert {(row["instance"], row["instance_uid"], row["value"]) for row in sent} == {
        ("good", "uid-good", 5.0)
    }
    assert {row["embedded_ts"].timestamp() for row in sent} == {1763710000.123}


async def test_scrapes_keep_their_distance_when_one_of_them_is_slow(tmp_path: Path) -> None:
    calls = 0

    async def sometimes_slow(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.1 if calls == 2 else 0)
        return web.Response(text="m 1\n")

    async with pages(m=sometimes_slow) as base:
        target = {"name": "m", "kind": "metrics", "url": f"{base}/m"}
        async with collecting(tmp_path, [target]) as metrics:
            await until(lambda: scrapes(metrics, "ok") >= 5)
    times = [row["ts"].timestamp() for row in samples(tmp_path / "out") if row["metric"] == "m"]
    offsets = [(at - times[0]) / 0.2 for at in times]
    assert max(abs(offset - round(offset)) for offset in offsets) < 0.35
    assert len({round(offset) for offset in offsets}) == len(offsets)


async def large(_: web.Request) -> web.Response:
    return web.Response(text="".join(f'm{{id="{number}"}} 1\n' for number in range(9)))


@pytest.mark.parametrize("bound", ["series", "bytes"])
async def test_a_page_beyond_a_bound_is_refused_and_told_once(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scraper, "PAGE_SERIES_MAX" if bound == "series" else "PAGE_BYTES_MAX", 8)
    async with pages(large=large, small=small) as base:
        targets = [{"name": name, "kind": "metrics", "url": f"{base}/{name}"} for name in ("large", "small")]
        async with collecting(tmp_path, targets) as metrics:
            await until(lambda: scrapes(metrics, "too_large") >= 3 and scrapes(metrics, "ok") >= 1)
    up = {(row["instance"], row["value"]) for row in samples(tmp_path / "out") if row["metric"] == "up"}
    assert up == {("large", 0.0), ("small", 1.0)}
    told = [record.getMessage() for record in caplog.records if "large" in record.getMessage()]
    assert told == [f"the page of large is refused: more than 8 {bound}"]
    labels = {"instance": "large", "bound": bound}
    assert (metrics.registry.get_sample_value("rmqha_collector_pages_too_large_total", labels) or 0) >= 3


async def small(_: web.Request) -> web.Response:
    return web.Response(text="m 1\n")


async def test_a_large_page_is_parsed_beside_the_loop_and_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraper, "INLINE_BYTES_MAX", 1)
    async with pages(large=large) as base:
        target = {"name": "large", "kind": "metrics", "url": f"{base}/large"}
        async with collecting(tmp_path, [target]) as metrics:
            await until(lambda: scrapes(metrics, "ok") >= 1)
    ids = {dict(row["labels"])["id"] for row in samples(tmp_path / "out") if row["metric"] == "m"}  # type: ignore[call-overload]
    assert ids == {str(number) for number in range(9)}


async def test_no_redirect_is_followed_to_a_page_or_a_stream(tmp_path: Path) -> None:
    followed = False

    async def moved(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/secret"})

    async def secret(_: web.Request) -> web.Response:
        nonlocal followed
        followed = True
        return web.Response(text="x 1\n")

    async with pages(moved=moved, secret=secret) as base:
        targets = [{"name": "moved", "kind": kind, "url": f"{base}/moved"} for kind in ("metrics", "events")]
        async with collecting(tmp_path, targets) as metrics:
            await until(lambda: scrapes(metrics, "error") >= 5)
    assert not followed


async def test_what_nobody_foresaw_of_one_target_ends_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object) -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(collector, "follow_stream", failing)
    async with pages(small=small) as base:
        targets = [
            {"name": "small", "kind": "metrics", "url": f"{base}/small"},
            {"name": "events", "kind": "events", "url": f"{base}/events"},
        ]
        async with collecting(tmp_path, targets) as metrics:
            await until(lambda: scrapes(metrics, "ok") >= 3)


def test_targets_are_spread_over_the_interval_and_stay_where_they_are() -> None:
    phases = [phase_ns(f"orders-{number}", NS_PER_S) for number in range(100)]
    assert phases == [phase_ns(f"orders-{number}", NS_PER_S) for number in range(100)]
    assert all(0 <= phase < NS_PER_S for phase in phases)
    assert len({phase * 10 // NS_PER_S for phase in phases}) == 10


async def test_the_collector_tells_about_itself() -> None:
    metrics = CollectorMetrics()
    metrics.samples.inc(7)
    async with served("127.0.0.1:0", metrics.registry) as address:
        host, port = parse_address(address or "")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
    assert "rmqha_collector_samples_total 7.0" in text


@pytest.mark.parametrize("text", ["", "9100", "host:", "host:x", "host:70000"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ListenAddressError, match="host:port"):
        parse_address(text)
