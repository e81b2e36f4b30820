"""Two RocketMQClusters at the controllers of the first, in one namespace or in two, and an operator."""

from typing import Any

from rocketmq_operator.handlers.carry_out import PassContext
from rocketmq_operator.handlers.kinds import RECHECK_S
from rocketmq_operator.handlers.reconcile import reconcile
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import API, PASSES_MAX, OperatorWorld

Json = dict[str, Any]
MAIN = "main"
SECOND = "second"


class SharedControllersWorld(OperatorWorld):
    """The world of one cluster, and a second one that names the controllers of the first.

    Attributes:
        asked: namespace, name and token of each client for controllers that the operator took.
        noted_trust: the ConfigMaps of authorities that it noted, by namespace and name of the cluster.
        place: the namespace of the second cluster and its group.
    """

    def __init__(
        self,
        second: Json | None = None,
        *,
        main: Json | None = None,
        place: str = NAMESPACE,
        name: str = SECOND,
        group: Json | None = None,
    ) -> None:
        super().__init__(cluster=main)
        self.place, self.second = place, name
        self.group = "bills" if place == NAMESPACE else "orders"
        self.asked: list[tuple[str, str, str]] = []
        self.noted_trust: list[tuple[tuple[str, str], Any]] = []
        self.write_second(second or {})
        self._put("BrokerGroup", self.group, {"cluster": name, "storage": {"size": "1Gi"}} | (group or {}))

    def write_second(self, spec: Json) -> None:
        """Write the second cluster as a person does."""
        ref = {"name": MAIN} if self.place == NAMESPACE else {"name": MAIN, "namespace": NAMESPACE}
        self._put("RocketMQCluster", self.second, {"controllers": {"ref": ref}} | spec)

    def _put(self, kind: str, name: str, spec: Json) -> None:
        metadata = {"name": name, "namespace": self.place}
        self.kube.put({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})

    async def one_pass(self) -> list[float | None]:
        """Let the operator have a pass over each resource; a gone one has no delay."""
        context = self.pass_context()
        return [
            *await super().one_pass(),
            await reconcile(context, "RocketMQCluster", self.place, self.second),
            await reconcile(context, "BrokerGroup", self.place, self.group),
        ]

    async def passes(self, count: int = 8) -> None:
        """Let the operator have some passes, whatever they wait for."""
        for _ in range(count):
            await self.one_pass()
            self.advance(seconds=RECHECK_S)

    async def settle_clusters(self) -> None:
        """Let the operator work until it is idle on both clusters.

        Members of the second group never have a role.
        """
        for _ in range(PASSES_MAX):
            main, _, second, _ = await self.one_pass()
            self.advance(seconds=RECHECK_S)
            if all(delay is None or delay > RECHECK_S for delay in (main, second)):
                return
        raise AssertionError(f"not settled: {self.status_there()}")

    def pass_context(self) -> PassContext:
        """Return a new operator process's shell that records which controllers it asks."""
        context = super().pass_context()

        def controllers_of(namespace: str, name: str, token: str) -> Any:
            self.asked.append((namespace, name, token))
            return self.controllers

        def note(namespace: str, name: str, config_map: Any) -> None:
            self.noted_trust.append(((namespace, name), config_map))

        object.__setattr__(context.environment, "controllers_of", controllers_of)
        object.__setattr__(context.environment.trust, "note", note)
        return context

    def there(self, kind: str, name: str) -> Json:
        """Return an object of the second cluster's namespace."""
        return self.kube.objects[kind, self.place, name]

    def status_there(self) -> Json:
        """Return the status of the second cluster."""
        status: Json = self.there("RocketMQCluster", self.second).get("status", {})
        return status

    def condition_there(self, type_: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition of the second cluster."""
        found = next(one for one in self.status_there()["conditions"] if one["type"] == type_)
        return found["status"], found["reason"], found["message"]

    def kinds_there(self) -> set[tuple[str, str]]:
        """Return kind and name of the objects of the second cluster, without its group's."""
        return {
            (kind, name)
            for (kind, namespace, name), value in self.kube.objects.items()
            if namespace == self.place
            and value["metadata"].get("labels", {}).get("rocketmq-ha.dev/cluster") == self.second
            and "rocketmq-ha.dev/group" not in value["metadata"]["labels"]
        }

    def events(self) -> list[str]:
        """Return the reasons of all Events."""
        return [value["reason"] for (kind, *_), value in self.kube.objects.items() if kind == "Event"]
