"""A route front over HTTP, for probes and metrics; it only reads.

/livez          200 while the process works
/readyz         200 while clients get routes from here, else 503 with the reason
/metrics        Prometheus text
"""

from collections.abc import Iterable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller_core.channel.http_port import HttpPort
from controller_core.route_front.front import RouteFront

UNSENT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of answers that wait for their clients: a route front has little memory, and its pages are short."""
_SHUTDOWN_S: Final = 0.5


class _Numbers(Collector):
    """Reads a route front's numbers at the moment of a scrape."""

    def __init__(self, front: RouteFront) -> None:
        self._front = front

    def collect(self) -> Iterable[Metric]:
        """Return all series."""
        requests = CounterMetricFamily(
            "rmqha_route_front_requests", "Requests of clients, by result.", labels=["result"]
        )
        for result, count in self._front.numbers.counts.items():
            requests.add_metric([result.value], count)
        yield requests
        yield CounterMetricFamily(
            "rmqha_route_front_refused_connections",
            "Connections that were turned away because too many were open.",
            self._front.connections_refused,
        )
        yield GaugeMetricFamily(
            "rmqha_route_front_connections", "Clients that are connected.", self._front.connections
        )
        yield GaugeMetricFamily(
            "rmqha_route_front_addresses",
            "Brokers that the listener has an address of.",
            len(self._front.file.addresses),
        )
        yield GaugeMetricFamily(
            "rmqha_route_front_address_file_problem",
            "1 while the address file is not taken, so that the previous addresses are in force.",
            int(bool(self._front.file.problem)),
        )


class HttpPages:
    """The HTTP server of a route front."""

    def __init__(self, front: RouteFront) -> None:
        """Take the route front; nothing listens yet."""
        self._front: Final = front
        self._registry: Final = CollectorRegistry()
        self._registry.register(_Numbers(front))
        app = web.Application()
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._port: Final = HttpPort(app, shutdown_s=_SHUTDOWN_S, unsent_bytes_max=UNSENT_BYTES_MAX)

    @property
    def port(self) -> int:
        """The listening port; 0 before `start`."""
        return self._port.port

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be had.
        """
        await self._port.start(host, port)

    async def stop(self) -> None:
        """Stop listening."""
        await self._port.stop()

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        problem = await self._front.why_not_ready()
        return web.Response(status=503 if problem else 200, text=(problem or "ready") + "\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), content_type="text/plain", charset="utf-8")
