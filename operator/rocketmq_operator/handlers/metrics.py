"""The operator's own metrics, and where they and its health are served."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from controller_core.channel.http_port import HttpPort
from rocketmq_operator.plan.tls.observed import ObservedTls
from rocketmq_operator.plan.tls.steps import CertificateSecrets, first_end

SHUTDOWN_S: Final = 0.5
_PASS_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TAKEOVER_BUCKETS_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class OperatorMetrics:
    """All metrics of one operator."""

    def __init__(self, leading: Callable[[], bool]) -> None:
        """Make them in a registry of their own."""
        self.registry: Final = CollectorRegistry()
        self.passes: Final = Counter(
            "rmqha_operator_passes", "Passes over a resource", ["kind", "result"], registry=self.registry
        )
        self.pass_duration: Final = Histogram(
            "rmqha_operator_pass_duration_seconds",
            "Duration of a pass",
            ["kind"],
            buckets=_PASS_BUCKETS_S,
            registry=self.registry,
        )
        self.steps: Final = Counter(
            "rmqha_operator_steps", "Steps of plans that were done", ["step"], registry=self.registry
        )
        self.takeover_duration: Final = Histogram(
            "rmqha_operator_takeover_duration_seconds",
            "From the event of an election to the last written EndpointSlice",
            buckets=_TAKEOVER_BUCKETS_S,
            registry=self.registry,
        )
        self.certificate_end: Final = Gauge(
            "rmqha_operator_certificate_end_timestamp_seconds",
            "When the first certificate of a cluster ends, as Unix time",
            ["namespace", "cluster"],
            registry=self.registry,
        )
        self.group_hibernated: Final = Gauge(
            "rmqha_operator_group_hibernated",
            "1 for each group whose spec.hibernated is true",
            ["namespace", "group"],
            registry=self.registry,
        )
        gauge = Gauge("rmqha_operator_leading", "1 while this operator acts", registry=self.registry)
        gauge.set_function(lambda: float(leading()))

    def note_certificates(self, namespace: str, cluster: str, observed: ObservedTls) -> None:
        """Take over when the certificates of a cluster end; forget a cluster without certificates."""
        if observed.controllers:
            end, _ = first_end(observed, CertificateSecrets("", "", ""))
            self.certificate_end.labels(namespace=namespace, cluster=cluster).set(end.timestamp())
            return
        with contextlib.suppress(KeyError):
            self.certificate_end.remove(namespace, cluster)

    def note_group(self, body: Mapping[str, Any], gone: bool) -> None:
        """Take over whether a BrokerGroup hibernates; forget one that does not, or is gone."""
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        if not gone and body.get("spec", {}).get("hibernated"):
            self.group_hibernated.labels(namespace=namespace, group=name).set(1)
            return
        with contextlib.suppress(KeyError):
            self.group_hibernated.remove(namespace, name)

    def text(self) -> bytes:
        """Return all in Prometheus' text format."""
        return generate_latest(self.registry)


class HealthServer:
    """Serves /metrics, /livez and /readyz.

    /livez fails if the loop or a watch is dead; /readyz if one of our kinds is missing, or another operator
    must act.
    """

    def __init__(
        self,
        metrics: OperatorMetrics,
        ready: Callable[[], bool],
        alive: Callable[[], bool] = lambda: True,
        missing: Callable[[], Sequence[str]] = tuple,
        problem: Callable[[], str] = str,
    ) -> None:
        """Store the sources of the metrics.

        `missing` returns kinds unknown to the API server, `problem` why this operator must not act.
        """
        self._problem: Final = problem
        self._alive: Final = alive
        self._missing: Final = missing
        self._metrics: Final = metrics
        self._ready: Final = ready
        application = web.Application()
        application.router.add_get("/metrics", self._serve_metrics)
        application.router.add_get("/livez", self._serve_livez)
        application.router.add_get("/readyz", self._serve_readyz)
        self._port: Final = HttpPort(application, shutdown_s=SHUTDOWN_S)

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port; raise OSError if it cannot be had."""
        await self._port.start(host, port)
        return self._port.port

    async def stop(self) -> None:
        """Stop listening."""
        await self._port.stop()

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), content_type="text/plain", charset="utf-8")

    async def _serve_livez(self, _: web.Request) -> web.Response:
        alive = self._alive()
        return web.Response(status=200 if alive else 503, text="ok\n" if alive else "a watch is dead\n")

    async def _serve_readyz(self, _: web.Request) -> web.Response:
        missing = self._missing()
        if not self._ready():
            return web.Response(status=503, text="the API server is silent\n")
        if missing:
            kinds = ", ".join(missing)
            return web.Response(status=503, text=f"no kind {kinds}: apply the chart's definitions (crds/)\n")
        if problem := self._problem():
            return web.Response(status=503, text=f"{problem}\n")
        return web.Response(text="ok\n")
