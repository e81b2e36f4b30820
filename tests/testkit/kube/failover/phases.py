"""The moments of a failover: of the controllers, the companion, the moved address and the client.

All are milliseconds after the fault.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Final

from testkit.kube.group import GroupView, KubeGroup
from testkit.kube.kubectl import Cluster, Json, KubeError, program
from testkit.rocketmq.load import Send, summarise

_CONTROLLER_PORT: Final = 9880
_COMPANION_PORT: Final = 9882


class EndpointWatch:
    """Notes when a member's address was given to another."""

    def __init__(self, cluster: Cluster, member: str) -> None:
        """Take whose address is watched."""
        self._cluster: Final = cluster
        self._member: Final = member
        self.moved_ns: int | None = None

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch for as long as the context lasts."""
        process = await asyncio.create_subprocess_exec(
            *(program("kubectl") or "kubectl", f"--kubeconfig={self._cluster.kubeconfig}"),
            *(f"--namespace={self._cluster.namespace}", "get", "endpointslice", self._member, "--watch"),
            *("-o", r'jsonpath={.metadata.labels.rocketmq-ha\.dev/served-by}{"\n"}'),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        task = asyncio.create_task(self._read(process))
        try:
            yield
        finally:
            process.terminate()
            await process.wait()
            await task

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise KubeError("kubectl has no output")
        async for line in process.stdout:
            server = line.decode().strip()
            if server and server != self._member and self.moved_ns is None:
                self.moved_ns = time.time_ns()


async def phases_of(group: KubeGroup, after: GroupView, sends: list[Send], fault_ns: int) -> dict[str, float]:
    """Return the moments of a failover in milliseconds after the fault."""
    events = [event for event in await events_of(group) if event.get("epoch") == after.epoch]
    first: dict[str, int] = {}
    for event in events:
        first.setdefault(str(event["kind"]), int(event["ts_ns"]))
        if event["kind"] == "SyncStateSetChanged" and "," in str(
            event["attrs"].get("sync_state_set_after", "")
        ):
            first.setdefault("two copies", int(event["ts_ns"]))
        if event["kind"] == "MasterElected" and event["attrs"].get("suspected_ns"):
            first.setdefault("suspected", int(event["attrs"]["suspected_ns"]))
    kept = any(
        "," in event["attrs"].get("sync_state_set_after", "")
        for event in events
        if event["kind"] == "MasterElected"
    )
    if kept and "RoleTaken" in first:
        first["two copies"] = first["RoleTaken"]
    acknowledged = [send.end_ns for send in sends if send.acknowledged and send.start_ns > fault_ns]
    gap_start_ns = summarise(sends).gap_start_ns
    moments = {
        "suspected": first.get("suspected"),
        "elected": first.get("MasterElected"),
        "role taken": first.get("RoleTaken"),
        "two copies": first.get("two copies"),
        "first ack": min((end for end in acknowledged if gap_start_ns and end > gap_start_ns), default=None),
    }
    return {name: ms(at - fault_ns) for name, at in moments.items() if at is not None}


async def held_phases(group: KubeGroup, before: GroupView, fault_ns: int) -> dict[str, float]:
    """Return when the dead master's companion held clients and let them go; empty for a replaced pod."""
    try:
        events = await events_at(group, f"{before.master}:{_COMPANION_PORT}")
    except KubeError:
        return {}
    phases = {"ClientsHeld": "held", "ClientsReleased": "released"}
    return {
        phases[event["kind"]]: ms(int(event["ts_ns"]) - fault_ns)
        for event in events
        if event["kind"] in phases and event["epoch"] == before.epoch and int(event["ts_ns"]) > fault_ns
    }


async def events_of(group: KubeGroup) -> list[Json]:
    """Return the controllers' events of a group, asked through the API server."""
    return await events_at(group, f"main-controller-0:{_CONTROLLER_PORT}")


async def events_at(group: KubeGroup, place: str) -> list[Json]:
    """Return the events of a group that a pod tells at its port, asked through the API server."""
    path = f"/api/v1/namespaces/{group.cluster.namespace}/pods/{place}/proxy/v1/events?after=0&follow=false"
    lines = (await group.cluster.text(path)).splitlines()
    events = [json.loads(line) for line in lines if line.strip()]
    return [event for event in events if event.get("group") == group.name]


def ms(nanoseconds: int) -> float:
    """Return nanoseconds as milliseconds."""
    return nanoseconds / 1e6
