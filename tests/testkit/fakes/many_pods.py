"""A hundred pods as one small process: an API server that lists them, and their pages and events.

Problem: the benchmark measures a collector of a hundred pods on a machine without a hundred pods, so the
substitute must cost little beside it. Shape: each pod has an address of its own in 127.0.0.0/8, all of which
is loopback, and serves at the ports of real pods. Its pages are those of `broker_pages`. Controllers tell of
a new event now and then, the others of a few from the beginning.

Run it: `python -m testkit.fakes.many_pods --pods 100`. It prints `ready` and the URL of the API server,
and serves until it is ended.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from slo_pipeline.collect.kubernetes.discovery import targets_of
from slo_pipeline.collect.kubernetes.pods import pod_of
from testkit.fakes.broker_pages import SERIES_OF_A_BROKER, SERIES_OF_A_COMPANION, MetricsPage, page
from testkit.fakes.kubernetes_pages import NAMESPACE, FakeCluster, cluster_pod
from testkit.products.collector_in_process import EventServer, event

CONTROLLERS: Final = 3
MEMBERS_OF_A_GROUP: Final = 3
EVENTS_OF_A_MEMBER: Final = 3
EVENT_EVERY_S: Final = 0.2
_NETWORKS: Final = range(1, 255)
# As much as a real pod has in its specification.
_PADDING: Final = "x" * 8_000

Json = dict[str, Any]


def pods(count: int, network: int) -> Iterator[Json]:
    """Yield three controllers, and groups of two brokers and a log replica, so many pods in all.

    Addresses are 127.<network>.0.x.
    """
    for number in range(count):
        address = f"127.{network}.{number // 250}.{number % 250 + 1}"
        group, member = divmod(number - CONTROLLERS, MEMBERS_OF_A_GROUP)
        if number < CONTROLLERS:
            name, component = f"main-controller-{number}", "controller"
        elif member < MEMBERS_OF_A_GROUP - 1:
            name, component = f"g{group}-{member}", "broker"
        else:
            name, component = f"g{group}-log-0", "log-replica"
        belongs = None if number < CONTROLLERS else f"g{group}"
        pod = cluster_pod(name, component, address=address, uid=f"uid-{number}", group=belongs)
        pod["metadata"]["annotations"] = {"padding": _PADDING}
        yield pod


@dataclass(slots=True)
class ManyPods:
    """The served content: pages by URL, events by URL, and the controllers' one stream.

    Attributes:
        series: of each page; None: as many as a real one has.
    """

    series: int | None = None
    stream: EventServer = field(default_factory=EventServer)
    pages: dict[str, MetricsPage] = field(default_factory=dict)
    events: dict[str, bytes] = field(default_factory=dict)

    def add(self, pod: Json) -> set[tuple[str, int]]:
        """Take a pod; return the address to serve it at."""
        found = targets_of(pod_of(pod))
        for target in found:
            if target.kind == "metrics":
                is_broker = target.name.endswith("-broker")
                lines = SERIES_OF_A_BROKER if is_broker else SERIES_OF_A_COMPANION
                group = target.name.rpartition("-")[0]
                self.pages[target.url] = page(target.name, group, self.series or lines)
            elif not target.stream:
                told = [
                    event(number, event_id=f"{target.uid}/{number}") for number in range(EVENTS_OF_A_MEMBER)
                ]
                self.events[target.url] = b"".join(json.dumps(one).encode() + b"\n" for one in told)
        return {(pod["status"]["podIP"], int(target.url.split(":")[2].partition("/")[0])) for target in found}

    async def handle_page(self, request: web.Request) -> web.Response:
        """Serve a page."""
        return web.Response(body=self.pages[f"http://{request.host}/metrics"].text())

    async def handle_events(self, request: web.Request) -> web.StreamResponse:
        """Serve events, and stay open."""
        told = self.events.get(f"http://{request.host}/v1/events")
        if told is None:
            return await self.stream.handle(request)
        response = web.StreamResponse()
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            await response.write(told)
            await asyncio.Event().wait()
        return response

    async def tell(self) -> None:
        """Let the controllers tell of something now and then."""
        for sequence in itertools.count(1):
            await self.stream.add(sequence)
            await asyncio.sleep(EVENT_EVERY_S)


async def _bound(runner: web.AppRunner, count: int, many: ManyPods, cluster: FakeCluster) -> None:
    """Serve the pods in the first network that is free."""
    for network in _NETWORKS:
        listed = list(pods(count, network))
        places = sorted(place for pod in listed for place in many.add(pod))
        try:
            await web.TCPSite(runner, *places[0]).start()
        except OSError:
            many.pages.clear()
            many.events.clear()
            continue
        for place in places[1:]:
            await web.TCPSite(runner, *place).start()
        for pod in listed:
            await cluster.pods.put(pod)
        return
    raise OSError("every network of loopback is taken")


async def serve(count: int, series: int | None) -> None:
    """Serve until a signal ends the process."""
    many, cluster, end = ManyPods(series), FakeCluster(), asyncio.Event()
    cluster.pods.page_items = 100
    app = web.Application()
    app.router.add_get(f"/api/v1/namespaces/{NAMESPACE}/{{kind:events|pods}}", cluster.handle)
    app.router.add_get("/metrics", many.handle_page)
    app.router.add_get("/v1/events", many.handle_events)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    await _bound(runner, count, many, cluster)
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    telling = asyncio.create_task(many.tell())
    sys.stdout.write(f"ready http://127.0.0.1:{runner.addresses[-1][1]} {len(many.pages)} pages\n")
    sys.stdout.flush()
    await end.wait()
    telling.cancel()
    await cluster.cut()
    await runner.cleanup()


def main() -> int:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pods", type=int, default=100, metavar="N")
    parser.add_argument("--series", type=int, metavar="N", help="of each page; default: as a real one has")
    args = parser.parse_args()
    asyncio.run(serve(args.pods, args.series))
    return 0


if __name__ == "__main__":
    sys.exit(main())
