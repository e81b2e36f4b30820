"""Listeners of a RocketMQCluster on the cluster: added, awaited, removed; clients outside that use one."""

import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.outside.outside_load import OutsideGrpcLoad, OutsideLoad
from testkit.nodes.outside_network import VIRTUAL, OutsideNetwork, lacking, outside_network
from testkit.rocketmq.load import LoadSettings

LISTENER: Final = "outside"
"""Of the clients that benchmarks measure."""
READY_WITHIN_S: Final = 180.0
KNOWN_WITHIN_S: Final = 180.0
"""The kubelet brings new addresses to a route front within about a minute."""
GONE_WITHIN_S: Final = 120.0
PROXIES_WITHIN_S: Final = 180.0
_CLUSTER: Final = "main"
_HTTP_PORT: Final = 9883
_ADDRESSES: Final = "rmqha_route_front_addresses"
_LISTENER_LABEL: Final = "rocketmq-ha.dev/listener"


class KubeListeners:
    """The listeners of a RocketMQCluster."""

    def __init__(self, cluster: Cluster, name: str = _CLUSTER) -> None:
        """Take where the RocketMQCluster is and its name."""
        self._cluster: Final = cluster
        self._name: Final = name

    async def add(self, listener: Json) -> None:
        """Add a listener, or change the one of this name."""
        others = [one for one in await self._spec() if one["name"] != listener["name"]]
        await self._set([*others, listener])

    async def remove(self, name: str) -> None:
        """Remove a listener, and wait until its Services are gone."""
        await self._set([one for one in await self._spec() if one["name"] != name])

        async def gone() -> bool:
            return not await self.services_of(name)

        await until(f"listener {name} is gone", gone, GONE_WITHIN_S, poll_s=1.0)

    async def until_serving(self, name: str) -> str:
        """Wait until clients of a listener get the addresses of all brokers; return that of its route front.

        That is when the status says so, and each route front has read its file.
        """

        async def ready() -> bool:
            status, number = await self.status(name), await self._generation()
            condition = await self.condition()
            current = condition.get("observedGeneration") == number
            return current and condition.get("status") == "True" and bool(status.get("address"))

        await until(f"listener {name} is ready", ready, READY_WITHIN_S, poll_s=1.0)
        status = await self.status(name)
        brokers = int(status["brokers"].partition("/")[0])

        async def known() -> bool:
            counts = [await self._addresses_at(pod) for pod in await self._route_fronts(name)]
            return bool(counts) and set(counts) == {brokers}

        await until(f"route fronts of {name} know {brokers} brokers", known, KNOWN_WITHIN_S, poll_s=2.0)
        return str(status["address"])

    async def status(self, name: str) -> Json:
        """Return what the status says of a listener; empty if it says nothing."""
        status: Json = (await self._get()).get("status", {})
        found: list[Json] = status.get("listeners", [])
        return next((one for one in found if one["name"] == name), {})

    async def condition(self) -> Json:
        """Return the condition ListenersReady; empty before the first one."""
        status: Json = (await self._get()).get("status", {})
        found: list[Json] = status.get("conditions", [])
        return next((one for one in found if one["type"] == "ListenersReady"), {})

    async def until_condition(self, reason: str) -> Json:
        """Wait until ListenersReady has a reason, for the newest spec; return the condition."""

        async def holds() -> bool:
            condition = await self.condition()
            is_current = condition.get("observedGeneration") == await self._generation()
            return is_current and condition.get("reason") == reason

        await until(f"ListenersReady has the reason {reason}", holds, READY_WITHIN_S, poll_s=0.5)
        return await self.condition()

    async def services_of(self, name: str) -> list[str]:
        """Return the names of a listener's Services."""
        found = await self._cluster.find("services", f"{_LISTENER_LABEL}={name}")
        return [one["metadata"]["name"] for one in found]

    async def _route_fronts(self, name: str) -> list[str]:
        selector = f"{_LISTENER_LABEL}={name},app.kubernetes.io/component=route-front"
        return [pod["metadata"]["name"] for pod in await self._cluster.find("pods", selector)]

    async def _addresses_at(self, pod: str) -> int:
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods/{pod}:{_HTTP_PORT}/proxy/metrics"
        return addresses_in(await self._cluster.text(path))

    async def _generation(self) -> int:
        return int((await self._get())["metadata"]["generation"])

    async def _get(self) -> Json:
        return await self._cluster.get("rocketmqcluster", self._name)

    async def _spec(self) -> list[Json]:
        found: list[Json] = (await self._get())["spec"].get("listeners", [])
        return found

    async def _set(self, listeners: list[Json]) -> None:
        patch = json.dumps({"spec": {"listeners": listeners}})
        await self._cluster.kubectl(
            "patch", "rocketmqcluster", self._name, "--type=merge", f"--patch={patch}"
        )


def addresses_in(metrics: str) -> int:
    """Return how many addresses a route front has, by its metrics; -1 if they do not say."""
    lines = (line.split() for line in metrics.splitlines() if line.startswith(f"{_ADDRESSES} "))
    return next((int(float(words[1])) for words in lines), -1)


@dataclass(frozen=True, slots=True)
class OutsideClients:
    """What clients outside need.

    Attributes:
        network: where they run.
        name_server: the route front of their listener.
        endpoints: the proxies of the listener; empty without any.
        nodes: address by name of each node.
        directory: for their files.
    """

    network: OutsideNetwork
    name_server: str
    endpoints: str
    nodes: dict[str, str]
    directory: Path

    def lead_to(self, node: str) -> None:
        """Lead new connections from outside to a node, by its name."""
        self.network.lead_to(self.nodes[node])

    @contextlib.asynccontextmanager
    async def load(self, topic: str, settings: LoadSettings) -> AsyncIterator[OutsideLoad]:
        """Send from outside for as long as the context lasts."""
        async with _running(
            OutsideLoad(self.network, self.name_server, topic, self._fresh(topic)), settings
        ) as load:
            yield load

    @contextlib.asynccontextmanager
    async def grpc_load(self, topic: str, settings: LoadSettings) -> AsyncIterator[OutsideLoad]:
        """Do the same through the proxies, which the listener must have."""
        async with _running(
            OutsideGrpcLoad(self.network, self.name_server, self.endpoints, topic, self._fresh(topic)),
            settings,
        ) as load:
            yield load

    def _fresh(self, topic: str) -> Path:
        """Make a folder: another run may have a topic of this name, and a ledger only grows."""
        return Path(tempfile.mkdtemp(dir=self.directory, prefix=topic))


@contextlib.asynccontextmanager
async def _running(load: OutsideLoad, settings: LoadSettings) -> AsyncIterator[OutsideLoad]:
    try:
        await load.start(settings)
        yield load
    finally:
        await load.remove()


async def node_addresses(cluster: Cluster) -> dict[str, str]:
    """Return the address of each node."""
    return {
        node["metadata"]["name"]: next(
            one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"
        )
        for node in await cluster.find("nodes")
    }


@contextlib.asynccontextmanager
async def outside_clients(
    cluster: Cluster, directory: Path, beside: Json | None = None
) -> AsyncIterator[OutsideClients]:
    """Add a listener of node ports, and the network from which clients use it; remove both afterwards.

    Args:
        cluster: where the RocketMQCluster is.
        directory: for the clients' files.
        beside: labels of pods. On one of their nodes a proxy runs, which the listener serves too; None for no
            proxy.

    Raises:
        KubeError: this machine cannot have the network, or the listener does not serve.
    """
    if why := lacking():
        raise KubeError(f"no client outside: {why}")
    nodes, listeners = await node_addresses(cluster), KubeListeners(cluster)
    listener: Json = {"name": LISTENER, "type": "NodePort", "advertisedHost": VIRTUAL}
    async with contextlib.AsyncExitStack() as stack:
        network = stack.enter_context(outside_network(next(iter(nodes.values()))))
        if beside is not None:
            await stack.enter_async_context(_proxy(cluster, beside))
            listener["protocols"] = ["Remoting", "GRPC"]
        await listeners.add(listener)
        stack.push_async_callback(listeners.remove, LISTENER)
        name_server = await listeners.until_serving(LISTENER)
        endpoints = (await listeners.status(LISTENER)).get("grpcAddress", "")
        yield OutsideClients(network, name_server, endpoints, nodes, directory)


@contextlib.asynccontextmanager
async def _proxy(cluster: Cluster, beside: Json) -> AsyncIterator[None]:
    """Give the RocketMQCluster one proxy on a node of pods with these labels; take it away afterwards."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": beside}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    proxy = {"mode": "Cluster", "replicas": 1, "pod": {"affinity": near}}
    await cluster.patch_spec(f"rmqc/{_CLUSTER}", {"proxy": proxy})
    try:
        ready = ("--for=condition=ProxyReady", f"--timeout={PROXIES_WITHIN_S:.0f}s")
        await cluster.kubectl("wait", f"rmqc/{_CLUSTER}", *ready, timeout_s=PROXIES_WITHIN_S + 10.0)
        yield
    finally:
        await cluster.patch_spec(f"rmqc/{_CLUSTER}", {"proxy": None})
