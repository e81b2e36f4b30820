"""An API server and a kubelet in one.

Events and pods have a history that can be forgotten; cadvisor has a page.

What it serves is laid out as Kubernetes does: a list comes in pages; a watch goes on from a version or is
answered with 410, and reports an object that lost the selected label as deleted.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from slo_pipeline.collect.kubernetes.api import ClusterApi
from slo_pipeline.collect.kubernetes.cluster import ClusterSettings

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


def cluster_pod(
    name: str,
    component: str = "broker",
    *,
    address: str | None = "127.0.0.9",
    uid: str = POD_UID,
    cluster: str = "main",
    group: str | None = "orders",
    node: str = "node1",
    node_address: str = "127.0.0.1",
    phase: str = "Running",
    namespace: str = NAMESPACE,
) -> Json:
    """Return a pod as the operator and Kubernetes make it; `address` None: no address yet."""
    labels = {"app.kubernetes.io/component": component, "rocketmq-ha.dev/cluster": cluster}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "labels": labels | ({"rocketmq-ha.dev/group": group} if group is not None else {}),
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "hostIP": node_address} | ({"podIP": address} if address else {}),
    }


class Kept:
    """The objects of one kind, with their history.

    Attributes:
        lists: how often they were listed, pages counted one by one.
        watched_from: the version of each watch.
        page_items: objects on a page of a list.
    """

    def __init__(self, page_items: int = 2) -> None:
        """Begin without any."""
        self.lists = 0
        self.watched_from: list[str] = []
        self.page_items = page_items
        self._version = 100
        self._forgotten = 0
        self._live: dict[str, Json] = {}
        # Version, the object before, the object after; neither for events without an
        # object: those travel unchanged.
        self._told: list[tuple[int, Json | None, Json | None, Json | str | None]] = []
        self._generation = 0
        self._changed = asyncio.Condition()

    async def put(self, value: Json) -> None:
        """Write an object, or a new state of it, and tell those that watch."""
        await self._write(_key(value), value)

    async def remove(self, key: str) -> None:
        """Delete an object, by an Event's uid or a pod's name: an Event is, an hour after it."""
        await self._write(key, None)

    async def _write(self, key: str, value: Json | None) -> None:
        async with self._changed:
            self._version += 1
            before = self._live.pop(key, None)
            version = {"resourceVersion": str(self._version)}
            if value is not None:
                self._live[key] = value = value | {"metadata": value["metadata"] | version}
            if before is not None:
                before = before | {"metadata": before["metadata"] | version}
            self._told.append((self._version, before, value, None))
            self._changed.notify_all()

    async def say(self, line: Json | str) -> None:
        """Tell those that watch a line as it is given."""
        async with self._changed:
            self._version += 1
            self._told.append((self._version, None, None, line))
            self._changed.notify_all()

    async def bookmark(self) -> None:
        """Tell those that watch how far they are."""
        body = {"kind": "Event", "metadata": {"resourceVersion": str(self._version + 1)}}
        await self.say({"type": "BOOKMARK", "object": body})

    async def cut(self) -> None:
        """End every watch."""
        async with self._changed:
            self._generation += 1
            self._changed.notify_all()

    async def forget(self, *, within: bool = False) -> None:
        """Forget the history: answer older versions with 410, `within` a begun watch or by status."""
        self._forgotten = self._version + 1
        if within:
            await self.say({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "old"}})
            return
        self._version += 1
        await self.cut()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve a list or a watch."""
        wanted = request.query.get("labelSelector", "")
        if request.query.get("watch"):
            return await self._watch(request, wanted)
        self.lists += 1
        start = int(request.query.get("continue", "0"))
        values = [value for value in self._live.values() if _has(value, wanted)]
        end = start + self.page_items
        more = {"continue": str(end)} if end < len(values) else {}
        metadata = {"resourceVersion": str(self._version), **more}
        return web.json_response({"metadata": metadata, "items": values[start:end]})

    async def _watch(self, request: web.Request, wanted: str) -> web.StreamResponse:
        version = request.query["resourceVersion"]
        self.watched_from.append(version)
        if int(version) < self._forgotten:
            return web.Response(status=410)
        response = web.StreamResponse()
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            await self._tell(response, int(version), wanted)
        return response

    async def _tell(self, response: web.StreamResponse, after: int, wanted: str) -> None:
        generation = self._generation
        while generation == self._generation:
            for version, before, value, said in [one for one in self._told if one[0] > after]:
                line = _as_told(before, value, wanted) if said is None else said
                after = version
                if line is not None:
                    text = line if isinstance(line, str) else json.dumps(line)
                    await response.write(text.encode() + b"\n")
                if isinstance(line, dict) and line["type"] == "ERROR":
                    return
            async with self._changed:
                if self._version <= after and generation == self._generation:
                    await self._changed.wait()


def _key(value: Json) -> str:
    metadata: Json = value["metadata"]
    return str(metadata["uid"] if "involvedObject" in value else metadata.get("name", metadata.get("uid")))


def _has(value: Json | None, label: str) -> bool:
    return value is not None and (not label or label in (value["metadata"].get("labels") or {}))


def _as_told(before: Json | None, value: Json | None, label: str) -> Json | None:
    match _has(before, label), _has(value, label):
        case False, True:
            return {"type": "ADDED", "object": value}
        case True, True:
            return {"type": "MODIFIED", "object": value}
        case True, False:
            # Show an object that lost its label in its old state, with the version of the change.
            return {"type": "DELETED", "object": before}
        case _:
            return None


class FakeCluster:
    """See the module's text.

    Attributes:
        events: Events.
        pods: pods; one broker's from the beginning.
        page: what the kubelet says; None: it never answers.
        status: with what every request of the API server is answered, if not 200.
        tokens: the tokens that were shown, by path.
    """

    def __init__(self) -> None:
        """Begin without Events."""
        self.events, self.pods = Kept(), Kept()
        self.page: str | None = ""
        self.status = 200
        self.tokens: dict[str, set[str]] = {}
        self.port = 0

    def settings(self, token: Path, interval_s: float = 0.2, **changes: Any) -> ClusterSettings:
        """Return a collector's settings for this cluster: Events and kubelets, unless `changes` say else."""
        api = ClusterApi(
            f"http://127.0.0.1:{self.port}", token, kubelet_scheme="http", kubelet_port=self.port
        )
        asked: dict[str, Any] = {"events": (NAMESPACE,), "kubelets": (NAMESPACE,)} | changes
        return ClusterSettings(api, interval_s=interval_s, **asked)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve Events or pods."""
        self._see(request)
        if self.status != 200:
            return web.Response(status=self.status)
        kept: Kept = getattr(self, request.match_info["kind"])
        return await kept.serve(request)

    async def handle_page(self, request: web.Request) -> web.Response:
        """Serve what the kubelet measured."""
        self._see(request)
        if self.page is None:
            await asyncio.sleep(60)
        return web.Response(text=self.page or "")

    def _see(self, request: web.Request) -> None:
        self.tokens.setdefault(request.path, set()).add(request.headers.get("Authorization", ""))

    async def cut(self) -> None:
        """End every watch."""
        await self.events.cut()
        await self.pods.cut()


@contextlib.asynccontextmanager
async def cluster_served() -> AsyncIterator[FakeCluster]:
    """Serve a cluster on loopback while the context lasts."""
    one = FakeCluster()
    await one.pods.put(cluster_pod("orders-0"))
    app = web.Application()
    app.router.add_get(f"/api/v1/namespaces/{NAMESPACE}/{{kind:events|pods}}", one.handle)
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
