"""An API server and a kubelet in one: Events with a history that can be forgotten, pods, and a page of cadvisor's.

What it serves is laid out as Kubernetes does; a list comes in pages, a watch goes on from a version or answers 410.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from slo_pipeline.collect.cluster import ClusterSettings
from slo_pipeline.collect.cluster_api import ClusterApi

Json = dict[str, Any]
NAMESPACE = "mq"
POD_UID = "6c1a3d2e-0b1c-4f5d-9e8f-001122334455"
CGROUP = f"/kubepods.slice/kubepods-pod{POD_UID.replace('-', '_')}.slice/cri-containerd-ab.scope"


def kubernetes_event(uid: str, /, **changes: Any) -> Json:
    """Return an Event as a kubelet writes it; the keys of `changes` replace those of the Event."""
    event = {
        "metadata": {"uid": uid, "name": f"orders-0.{uid}", "namespace": NAMESPACE},
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": "orders-0", "uid": POD_UID},
        "reason": "Killing",
        "message": "Stopping container broker",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "node1"},
        "firstTimestamp": "2026-11-21T12:00:00Z",
        "lastTimestamp": "2026-11-21T12:00:05Z",
        "count": 1,
        "eventTime": None,
        "reportingComponent": "kubelet",
        "reportingInstance": "node1",
    }
    return event | changes


def member_pod(name: str, node: str, address: str, group: str = "orders") -> Json:
    """Return a pod of a broker group."""
    labels = {"rocketmq-ha.dev/cluster": "main", "rocketmq-ha.dev/group": group}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node},
        "status": {"hostIP": address},
    }


class FakeCluster:
    """See the module's text.

    Attributes:
        pods: what a list of pods says.
        page: what the kubelet says; None: it never answers.
        status: with what every request of the API server is answered, if not 200.
        lists: how often Events were listed, pages counted one by one.
        watched_from: the version of each watch.
        tokens: the tokens that were shown, by path.
    """

    def __init__(self, page_events: int = 2) -> None:
        """Begin without Events."""
        self.pods = [member_pod("orders-0", "node1", "127.0.0.1")]
        self.page: str | None = ""
        self.status = 200
        self.lists = 0
        self.watched_from: list[str] = []
        self.tokens: dict[str, set[str]] = {}
        self.port = 0
        self._page_events = page_events
        self._version = 100
        self._forgotten = 0
        self._live: dict[str, Json] = {}
        self._told: list[tuple[int, str, Json]] = []
        self._generation = 0
        self._changed = asyncio.Condition()

    async def put(self, event: Json) -> None:
        """Write an Event, or a new state of it, and tell those that watch."""
        kind = "MODIFIED" if event["metadata"]["uid"] in self._live else "ADDED"
        async with self._changed:
            self._version += 1
            event = event | {"metadata": event["metadata"] | {"resourceVersion": str(self._version)}}
            self._live[event["metadata"]["uid"]] = event
            self._told.append((self._version, kind, event))
            self._changed.notify_all()

    async def expire(self, uid: str) -> None:
        """Let an Event expire, as the server does an hour after it."""
        async with self._changed:
            self._version += 1
            gone = self._live.pop(uid)
            gone = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self._version)}}
            self._told.append((self._version, "DELETED", gone))
            self._changed.notify_all()

    async def bookmark(self) -> None:
        """Tell those that watch how far they are."""
        async with self._changed:
            self._version += 1
            body = {"kind": "Event", "metadata": {"resourceVersion": str(self._version)}}
            self._told.append((self._version, "BOOKMARK", body))
            self._changed.notify_all()

    async def cut(self) -> None:
        """End every watch."""
        async with self._changed:
            self._generation += 1
            self._changed.notify_all()

    async def forget(self, *, within: bool = False) -> None:
        """Forget the history: older versions are answered with 410, `within` a watch that was begun, or by status."""
        async with self._changed:
            self._forgotten = self._version + 1
            self._version += 1
            if within:
                self._told.append((self._version, "ERROR", {"kind": "Status", "code": 410, "message": "old"}))
                self._changed.notify_all()
            else:
                self._generation += 1
                self._changed.notify_all()

    def settings(self, token: Path, interval_s: float = 0.2) -> ClusterSettings:
        """Return a collector's settings for this cluster."""
        api = ClusterApi(
            f"http://127.0.0.1:{self.port}", token, kubelet_scheme="http", kubelet_port=self.port
        )
        return ClusterSettings(api, (NAMESPACE,), (NAMESPACE,), interval_s)

    async def handle_events(self, request: web.Request) -> web.StreamResponse:
        """Serve a list or a watch."""
        self._see(request)
        if self.status != 200:
            return web.Response(status=self.status)
        if request.query.get("watch"):
            return await self._watch(request)
        self.lists += 1
        start = int(request.query.get("continue", "0"))
        values = list(self._live.values())
        end = start + self._page_events
        more = {"continue": str(end)} if end < len(values) else {}
        metadata = {"resourceVersion": str(self._version), **more}
        return web.json_response({"metadata": metadata, "items": values[start:end]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        version = request.query["resourceVersion"]
        self.watched_from.append(version)
        if int(version) < self._forgotten:
            return web.Response(status=410)
        response = web.StreamResponse()
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            await self._tell(response, int(version))
        return response

    async def _tell(self, response: web.StreamResponse, after: int) -> None:
        generation = self._generation
        while generation == self._generation:
            for version, kind, body in [one for one in self._told if one[0] > after]:
                await response.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")
                after = version
                if kind == "ERROR":
                    return
            async with self._changed:
                if self._version <= after and generation == self._generation:
                    await self._changed.wait()

    async def handle_pods(self, request: web.Request) -> web.Response:
        """Serve the list of pods."""
        self._see(request)
        if self.status != 200:
            return web.Response(status=self.status)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.pods})

    async def handle_page(self, request: web.Request) -> web.Response:
        """Serve what the kubelet measured."""
        self._see(request)
        if self.page is None:
            await asyncio.sleep(60)
        return web.Response(text=self.page or "")

    def _see(self, request: web.Request) -> None:
        self.tokens.setdefault(request.path, set()).add(request.headers.get("Authorization", ""))


@contextlib.asynccontextmanager
async def cluster_served() -> AsyncIterator[FakeCluster]:
    """Serve a cluster on loopback while the context lasts."""
    one = FakeCluster()
    app = web.Application()
    app.router.add_get(f"/api/v1/namespaces/{NAMESPACE}/events", one.handle_events)
    app.router.add_get(f"/api/v1/namespaces/{NAMESPACE}/pods", one.handle_pods)
    app.router.add_get("/metrics/cadvisor", one.handle_page)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        one.port = runner.addresses[0][1]
        yield one
        await one.cut()
    finally:
        await runner.cleanup()
