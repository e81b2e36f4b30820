"""Kubelets: what the containers of broker groups cost, every 15 s.

Problem: a broker that is throttled or short of memory explains a slow failover, and only its node's kubelet
knows. Shape: a task a node, each on a schedule of its own phase, as for targets; the page is filtered while
it comes in. Kubelets are asked directly, at their port: that needs the right `nodes/metrics` only, where the
way through the API server needs `nodes/proxy`, by which programs can be run in any pod of the node. A kubelet
that does not answer costs `up` and a count. Never: what a kubelet says times nothing; it measures every 10 s
at best.

Source: Kubernetes documentation, "Kubelet authentication/authorization".
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import aiohttp

from slo_pipeline.collect.kubernetes.api import CONNECT_TIMEOUT_S, ClusterApi, ClusterError
from slo_pipeline.collect.kubernetes.cadvisor import PageFilter, TooMuchError, member_samples
from slo_pipeline.collect.kubernetes.members import Members
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.scraper import phase_ns
from slo_pipeline.formats.exposition import ExpositionParser, Sample, Series
from slo_pipeline.formats.lines import LineSplitter
from slo_pipeline.shell.clock import NS_PER_S, NS_PER_US, AnchoredClock
from slo_pipeline.shell.schedule import Schedule
from slo_pipeline.writing.sink import SegmentSink

PAGE = "/metrics/cadvisor"
KUBELET_TIMEOUT_S = 5.0
PAGE_BYTES_MAX = 134_217_728
"""Read, not kept; a node of 500 pods says about 30 MB."""

_UP = Series("up", ())
_DURATION = Series("scrape_duration_seconds", ())

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KubeletContext:
    """What the tasks of all nodes share."""

    api: ClusterApi
    session: aiohttp.ClientSession
    namespaces: Collection[str]
    members: Members
    sink: SegmentSink
    clock: AnchoredClock
    metrics: CollectorMetrics
    interval_s: float


class Kubelets:
    """A task for each node on which members run."""

    def __init__(self, context: KubeletContext, group: asyncio.TaskGroup) -> None:
        self._context = context
        self._group = group
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def adjust(self, nodes: Mapping[str, str]) -> None:
        """Start scraping new nodes and stop scraping nodes without a member; `nodes` is address by name."""
        wanted = set(nodes.items())
        for gone in set(self._tasks) - wanted:
            self._tasks.pop(gone).cancel()
        for node, address in wanted - set(self._tasks):
            self._tasks[node, address] = self._group.create_task(
                _scrape_forever(node, address, self._context)
            )


async def _scrape_forever(node: str, address: str, context: KubeletContext) -> None:
    parser, told = ExpositionParser(), "ok"
    interval_ns = int(context.interval_s * NS_PER_S)
    begin_ns = context.clock.monotonic_ns() + phase_ns(node, interval_ns)
    schedule = Schedule(begin_ns, interval_ns, late_max_ns=interval_ns // 2)
    while True:
        await asyncio.sleep(schedule.wait_ns(context.clock.monotonic_ns()) / NS_PER_S)
        due = schedule.take(context.clock.monotonic_ns())
        context.metrics.missed_slots.inc(due.missed)
        if due.slots:
            told = await _scrape(node, address, parser, context, told)


async def _scrape(
    node: str, address: str, parser: ExpositionParser, context: KubeletContext, before: str
) -> str:
    """Scrape once; return the result's word, which is logged when it is another than before."""
    clock, metrics = context.clock, context.metrics
    start_ns = clock.monotonic_ns()
    samples: list[Sample] = []
    result = "ok"
    try:
        samples, malformed = member_samples(parser, await _page(address, context), context.members)
        metrics.malformed_lines.inc(malformed)
    except (ClusterError, TooMuchError) as error:
        result = error.result if isinstance(error, ClusterError) else "error"
        if result != before:
            _log.warning("kubelet of %s: %s", node, error)
    metrics.cluster_requests.labels("kubelet", result).inc()
    metrics.samples.inc(len(samples))
    duration_s = (clock.monotonic_ns() - start_ns) / NS_PER_S
    own = [Sample(_UP, float(result == "ok"), None), Sample(_DURATION, duration_s, None)]
    ts_us = clock.utc_ns_of(start_ns) // NS_PER_US
    context.sink.add_samples(ts_us, f"kubelet-{node}", "", samples + own)
    return result


async def _page(address: str, context: KubeletContext) -> str:
    kept, splitter, size = PageFilter(context.namespaces), LineSplitter(), 0
    timeout = aiohttp.ClientTimeout(total=KUBELET_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    url = context.api.kubelet_url(address, PAGE)
    async with context.api.asked(context.session, url, {}, timeout, of_kubelet=True) as response:
        async for part in response.content.iter_any():
            size += len(part)
            if size > PAGE_BYTES_MAX:
                raise ClusterError("error", f"{url}: more than {PAGE_BYTES_MAX} bytes")
            for line, _ in splitter.feed(part):
                kept.add(line)
    return kept.text()
