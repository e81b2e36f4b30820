"""Real controllers whose pods are an operator's in memory.

A pod is a process, a volume a folder; all else is real.

The operator's own client speaks to them over HTTP, so what the controllers answer, refuse and call themselves
is the real thing. A host of the cluster is an address of loopback here; changes are translated on their way.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

import aiohttp

from rocketmq_operator.clients.controllers import ControllersClient
from rocketmq_operator.plan.common import names
from testkit.memory.controllers import MemoryControllers
from testkit.memory.kubernetes import MemoryKube
from testkit.memory.membership import NAMESPACE, SET
from testkit.processes.ports import LOOPBACK, free_ports
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import command_path
from testkit.rocketmq.processes import write_properties

Json = dict[str, Any]
_PORTS: Final = 3
_TOKEN: Final = "secret"  # noqa: S105 - of processes that end with the test


class OperatedControllers(MemoryControllers):
    """Processes for the controllers' pods of a `MemoryKube`."""

    def __init__(self, kube: MemoryKube, group: str, directory: Path, session: aiohttp.ClientSession) -> None:
        """Take where the pods are, the broker group, a folder for volumes, and what connects."""
        super().__init__(kube, group)
        self._pods: Final = kube
        self._directory: Final = directory
        runs = [free_ports(_PORTS) for _ in range(names.CONTROLLERS_MAX)]
        self._addresses: Final = [f"{LOOPBACK}:{run[0]}" for run in runs]
        self._client: Final = ControllersClient(session, [f"{LOOPBACK}:{run[2]}" for run in runs], _TOKEN)
        self._running: Final[dict[str, tuple[str, ManagedProcess]]] = {}

    async def nodes(self) -> list[Json | None]:
        """Return what each controller says of itself, with its leader's address as the cluster names it."""
        told = await self._client.nodes()
        for node in told:
            if node is not None and node["leader_address"] in self._addresses:
                ordinal = self._addresses.index(node["leader_address"])
                node["leader_address"] = f"{names.pod_host(SET, ordinal, NAMESPACE)}:{names.CONTROLLER_PORT}"
        return told

    async def members(self, node: int) -> Json:
        """Return the members as one of the controllers knows them."""
        return await self._client.members(node)

    async def change_members(self, action: str, member: str) -> None:
        """Have the membership changed."""
        name, has_address, _ = member.partition("-")
        await self._client.change_members(
            action, f"{name}-{self._addresses[int(name[1:])]}" if has_address else name
        )

    async def follow(self) -> None:
        """Start the processes of existing pods, each on its volume, and end those of pods that are gone."""
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self._pods.pods()}
        for name, (uid, process) in list(self._running.items()):
            if pods.get(name) != uid:
                await process.stop()
                del self._running[name]
        for name, uid in pods.items():
            if name.startswith(f"{SET}-") and name not in self._running:
                self._running[name] = uid, await self._started(name)

    async def stop(self) -> None:
        """End all processes."""
        await asyncio.gather(*(process.stop() for _, process in self._running.values()))

    async def _started(self, pod: str) -> ManagedProcess:
        volume = self._pods.objects["PersistentVolumeClaim", NAMESPACE, names.claim(pod)]["metadata"]["uid"]
        listed: str = self._pods.objects["ConfigMap", NAMESPACE, SET]["data"]["peers"]
        count = len(listed.split(";"))
        values = {
            "controllerDLegerGroup": "main",
            "controllerDLegerPeers": ";".join(
                f"n{number}-{self._addresses[number]}" for number in range(count)
            ),
            "controllerDLegerSelfId": f"n{pod.rpartition('-')[2]}",
            "controllerStorePath": str(self._directory / volume),
            "bindAddress": LOOPBACK,
            "httpToken": _TOKEN,
        }
        path = write_properties(self._directory / f"{pod}.conf", values)
        command = [command_path("controller-core"), "serve", "-c", str(path)]
        process = ManagedProcess(pod, command, self._directory / f"{pod}.log")
        await process.start()
        return process
