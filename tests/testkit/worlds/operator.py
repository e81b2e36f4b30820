"""The operator's passes over a Kubernetes and controllers in memory, until nothing is left to do."""

import asyncio
import copy
import itertools
from datetime import timedelta
from functools import cache
from typing import Any

from rocketmq_operator.handlers.carry_out import PassContext
from rocketmq_operator.handlers.kinds import RECHECK_S
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.handlers.reconcile import reconcile
from rocketmq_operator.plan.common import names
from testkit.memory.brokers import MemoryBrokers
from testkit.memory.canaries import MemoryCanaries
from testkit.memory.companions import MemoryCompanions
from testkit.memory.controllers import MemoryControllers
from testkit.memory.kubernetes import MemoryKube
from testkit.memory.membership import NAMESPACE

Json = dict[str, Any]
API = "rocketmq-ha.dev/v1alpha1"
GROUP = "orders"
PASSES_MAX = 60


class OperatorWorld:
    """A namespace with one cluster, one group, and an operator that can be killed."""

    def __init__(self, group: Json | None = None, cluster: Json | None = None) -> None:
        self.kube = MemoryKube()
        self.controllers = MemoryControllers(self.kube, GROUP)
        self.canaries = MemoryCanaries()
        self.companions = MemoryCompanions()
        self.brokers = MemoryBrokers()
        self._tokens = itertools.count(1)
        self.write_cluster(cluster or {})
        self.write_group(group or {})

    def write_cluster(self, spec: Json) -> None:
        """Write the cluster as a person does."""
        self.kube.put(_resource("RocketMQCluster", "main", spec))

    def write_group(self, spec: Json) -> None:
        """Write the group as a person does."""
        base = {"cluster": "main", "storage": {"size": "1Gi"}}
        self.kube.put(_resource("BrokerGroup", GROUP, base | spec))

    async def one_pass(self) -> list[float | None]:
        """Let the operator have a pass over each resource."""
        return [
            await reconcile(self.pass_context(), "RocketMQCluster", NAMESPACE, "main"),
            await reconcile(self.pass_context(), "BrokerGroup", NAMESPACE, GROUP),
        ]

    async def settle(self) -> None:
        """Let the operator work until it is idle."""
        for _ in range(PASSES_MAX):
            delays = await self.one_pass()
            self.advance(seconds=1)
            if all(delay is None or delay > RECHECK_S for delay in delays):
                return
        raise AssertionError(f"not settled: {self.status().get('plan')}")

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.controllers.now += timedelta(seconds=seconds)

    def pass_context(self) -> PassContext:
        """Return a new operator process's shell."""
        return PassContext(
            Environment(
                kube=self.kube,
                controllers_of=lambda *_: self.controllers,
                now=lambda: self.controllers.now,
                new_token=lambda: f"token-{next(self._tokens)}",
                canaries=self.canaries,
                companions=self.companions,
                brokers=self.brokers,
            )
        )

    def get(self, kind: str, name: str) -> Json:
        """Return an object."""
        return self.kube.objects[kind, NAMESPACE, name]

    def has(self, kind: str, name: str) -> bool:
        """Tell whether there is such an object."""
        return (kind, NAMESPACE, name) in self.kube.objects

    def status(self, kind: str = "BrokerGroup", name: str = GROUP) -> Json:
        """Return the status of a resource of ours."""
        status: Json = self.get(kind, name).get("status", {})
        return status

    def condition(self, type_: str, kind: str = "BrokerGroup", name: str = GROUP) -> tuple[str, str]:
        """Return status and reason of a condition."""
        found = next(one for one in self.status(kind, name)["conditions"] if one["type"] == type_)
        return found["status"], found["reason"]

    def server_of(self, member: str) -> str:
        """Return the pod's name whose address stands in a member's EndpointSlice."""
        (endpoint,) = self.get("EndpointSlice", member)["endpoints"]
        by_ip: dict[str, str] = {pod["status"]["podIP"]: pod["metadata"]["name"] for pod in self.kube.pods()}
        return by_ip.get(endpoint["addresses"][0], "nobody")

    def fork(self) -> "OperatorWorld":
        """Return a copy of the whole world."""
        twin = copy.deepcopy(self)
        twin.kube.writes.clear()
        return twin

    def picture(self) -> dict[str, Json]:
        """Return all objects, without the parts that differ from run to run: identities, versions, times."""
        return {
            "/".join(key): _stripped(_without_keys(value))
            for key, value in sorted(self.kube.objects.items())
            if key[0] != "Event"
        }


@cache
def pod_templates() -> dict[str, Json]:
    """Return the pod template of each component that the operator makes.

    It has every kind of member and every port that members can have.
    """

    async def settled() -> list[OperatorWorld]:
        listeners = [{"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}]
        worlds = [
            OperatorWorld(
                group={"replicas": 2, "logReplicas": 1, "learners": {"count": 1, "kind": "Broker"}},
                cluster={"proxy": {"mode": mode}, "listeners": listeners},
            )
            for mode in ("Cluster", "Local")
        ]
        for world in worlds:
            await world.settle()
            await world.settle()  # proxies come after brokers
        return worlds

    templates = [
        value["spec"]["template"]
        for world in asyncio.run(settled())
        for (kind, _, _), value in world.kube.objects.items()
        if kind in {"StatefulSet", "Deployment"}
    ]
    # Brokers are those of the last world, with a proxy in each.
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in templates}


def _resource(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


_SECRET = {
    names.token_secret("main"),
    names.authority_secret("main"),
    names.controller_certificates("main"),
    names.trust("main"),
}
_VOLATILE = {
    "uid", "resourceVersion", "generation", "observedGeneration", "lastTransitionTime", "phases", "since",
    "at", "rocketmq-ha.dev/wanted-hash",
}  # fmt: skip


def _without_keys(value: Json) -> Json:
    """Return an object with keys and no values if it holds what is made by chance."""
    if value["metadata"]["name"] not in _SECRET:
        return value
    metadata = {key: part for key, part in value["metadata"].items() if key != "annotations"}
    return value | {"data": sorted(value["data"]), "metadata": metadata}


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(part) for key, part in value.items() if key not in _VOLATILE}
    if isinstance(value, list):
        return [_stripped(part) for part in value]
    return value
