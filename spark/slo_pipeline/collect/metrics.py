"""What the collector says about itself, and the small HTTP face that collector and canary share.

Never: the default registry of prometheus_client is not used; two collectors in one test process would share it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SCRAPE_SECONDS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AddressError(ValueError):
    """An address is not host:port."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`; the host of `:port` is every interface.

    Raises:
        AddressError: anything else.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise AddressError(f"{text!r} is not host:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - a page for a scraper in the same network


class CollectorMetrics:
    """The collector's own series, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scrapes = self._counter("scrapes", "Scrapes by outcome.", "result")
        self.scrape_seconds = Histogram(
            "rmqha_collector_scrape_duration_seconds",
            "Time of a scrape.",
            buckets=SCRAPE_SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.missed_slots = self._counter("missed_slots", "Scrapes given up because the process was late.")
        self.samples = self._counter("samples", "Samples taken.")
        self.malformed_lines = self._counter("malformed_lines", "Lines of pages that were no samples.")
        self.pages_too_large = self._counter(
            "pages_too_large", "Pages refused because of a bound: bytes, series.", "instance", "bound"
        )
        self.events = self._counter("events", "Events by what became of them.", "result")
        self.segments = self._gauge("segments_written", "Segments written since the start.", "table")
        self.refused_rows = self._gauge(
            "refused_rows", "Rows lost to a full buffer since the start.", "table"
        )
        self.buffered_rows = self._gauge("buffered_rows", "Rows not written yet.", "table")
        self.write_failures = self._gauge("write_failures", "Segments the disk refused since the start.")
        self.cluster_requests = self._counter(
            "cluster_requests", "Requests to the API server and to kubelets.", "what", "result"
        )
        self.targets = self._gauge("targets", "Targets by kind.", "kind")
        self.targets_left_out = self._gauge(
            "targets_left_out", "Targets of pods that nothing is collected from: name, bound.", "why"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"rmqha_collector_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"rmqha_collector_{name}", text, labels, registry=self.registry)


@asynccontextmanager
async def served(
    address: str | None, registry: CollectorRegistry, values: Mapping[str, Callable[[], object]] | None = None
) -> AsyncIterator[str | None]:
    """Serve `/metrics` and `/livez` while the context lasts; yields host:port, None if no address was given.

    Args:
        address: host:port to listen at, None for nowhere.
        registry: what `/metrics` shows.
        values: further paths, each with what returns the value that is shown there as JSON.

    Raises:
        AddressError: the address is not host:port.
        OSError: it cannot be bound.
    """
    if address is None:
        yield None
        return
    host, port = parse_address(address)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": _CONTENT_TYPE})

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/livez", livez)])
    app.add_routes([web.get(path, _shown(value)) for path, value in (values or {}).items()])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound_host, bound_port = runner.addresses[0][:2]
        yield f"{bound_host}:{bound_port}"
    finally:
        await runner.cleanup()


def _shown(value: Callable[[], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def show(_: web.Request) -> web.Response:
        return web.json_response(value())

    return show
