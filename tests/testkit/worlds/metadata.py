"""Topics, consumer groups and users in a Kubernetes in memory, with two groups of brokers in memory."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from controller_core.access.signing import Credentials
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.handlers.carry_out import PassContext
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.handlers.reconcile import reconcile
from testkit.memory.brokers import MemoryBrokers
from testkit.memory.canaries import MemoryCanaries
from testkit.memory.companions import MemoryCompanions
from testkit.memory.controllers import MemoryControllers
from testkit.memory.kubernetes import MemoryKube
from testkit.memory.membership import NAMESPACE

Json = dict[str, Any]
API = "rocketmq-ha.dev/v1alpha1"
ORDERS, PAY = "10.0.0.1:10911", "10.0.0.2:10911"
"""Masters of the broker groups orders and pay."""
SPARE = "10.0.0.9:10911"
"""An empty broker."""
SLAVE = "10.0.0.3:10911"
"""The slave of the group orders, in a world with users."""
TOPIC: Json = {"cluster": "main", "readQueues": 4, "writeQueues": 4}
USER: Json = {"cluster": "main", "rights": [{"resource": "Topic:prices", "actions": ["Sub", "Pub"]}]}
WITH_USERS: Json = {"authentication": {"type": "Signature"}, "authorization": {"type": "Simple"}}
INNER = Credentials("rocketmq-ha", "inner-1")
"""The super user of the operator."""


class _Masters(MemoryControllers):
    """Controllers that know masters alone.

    Attributes:
        masters: address of each group's master, None without one.
        slaves: addresses of each group's slaves.
    """

    def __init__(self, kube: MemoryKube) -> None:
        super().__init__(kube, "")
        self.masters: dict[str, str | None] = {"orders": ORDERS, "pay": PAY}
        self.slaves: dict[str, list[str]] = {}

    async def group(self, cluster: str, name: str) -> Json | None:
        """Return a group, without members."""
        if not self.reachable:
            raise PeerUnavailableError("no controller answers")
        if cluster != "main" or name not in self.masters:
            return None
        address = self.masters[name]
        return {
            "master_id": None if address is None else 1,
            "master_address": address,
            "master_epoch": 1,
            "failure_reason": None,
            "replicas": [
                {
                    "broker_id": number + 2,
                    "address": slave,
                    "electable": True,
                    "in_sync": True,
                    "alive": True,
                    "max_offset": 0,
                }
                for number, slave in enumerate(self.slaves.get(name, []))
            ],
        }


class MetadataWorld:
    """A namespace with a cluster, two broker groups, and an operator."""

    def __init__(self) -> None:
        self.kube = MemoryKube()
        self.brokers = MemoryBrokers()
        self.controllers = _Masters(self.kube)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.put("RocketMQCluster", "main", {})
        for group in ("orders", "pay"):
            self.put("BrokerGroup", group, {"cluster": "main", "storage": {"size": "1Gi"}})
        labels = {"rocketmq-ha.dev/cluster": "main", "app.kubernetes.io/component": "nameserver"}
        for name in ("main-nameserver", "main-nameserver-0"):
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
            self.kube.put({"kind": "Service", "metadata": metadata, "spec": {}})

    def put(self, kind: str, name: str, spec: Json) -> None:
        """Write an object as a person does, now."""
        made = self.kube.objects.get((kind, NAMESPACE, name), {}).get("metadata", {}).get("creationTimestamp")
        metadata = {"name": name, "namespace": NAMESPACE, "creationTimestamp": made or text(self.now)}
        self.kube.put({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})

    def put_secret(self, name: str, **values: str) -> None:
        """Write a Secret as a person does."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        metadata = {"name": name, "namespace": NAMESPACE}
        self.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def secret(self, name: str) -> dict[str, str]:
        """Return the decoded values of a Secret."""
        data = self.kube.objects["Secret", NAMESPACE, name]["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def delete(self, kind: str, name: str) -> None:
        """Delete an object as a person does, now."""
        self.kube.remove(kind, NAMESPACE, name, text(self.now))

    def has(self, kind: str, name: str) -> bool:
        """Tell whether there is such an object."""
        return (kind, NAMESPACE, name) in self.kube.objects

    async def one_pass(self, kind: str = "Topic", name: str = "prices") -> float | None:
        """Let a new operator process have a pass."""
        world = Environment(
            kube=self.kube,
            controllers_of=lambda *_: self.controllers,
            now=lambda: self.now,
            new_token=lambda: "token",
            canaries=MemoryCanaries(),
            companions=MemoryCompanions(),
            brokers=self.brokers,
        )
        return await reconcile(PassContext(world), kind, NAMESPACE, name)

    def advance(self, minutes: float) -> None:
        """Let time pass."""
        self.now += timedelta(minutes=minutes)

    def config(self, address: str, name: str = "prices", kind: str = "Topic") -> Json:
        """Return what a broker has, to be read or changed behind the operator's back."""
        return self.brokers.tables[address][kind, name]

    def knows(self, address: str, name: str = "prices", kind: str = "Topic") -> bool:
        """Tell whether a broker has it."""
        return (kind, name) in self.brokers.tables.get(address, {})

    def status(self, kind: str = "Topic", name: str = "prices") -> Json:
        """Return an object's status."""
        status: Json = self.kube.objects[kind, NAMESPACE, name].get("status", {})
        return status

    def condition(self, type_: str, kind: str = "Topic", name: str = "prices") -> tuple[str, str]:
        """Return status and reason of a condition."""
        found = next(one for one in self.status(kind, name)["conditions"] if one["type"] == type_)
        return found["status"], found["reason"]

    def events(self) -> list[tuple[str, str]]:
        """Return reason and note of all Events."""
        found = [value for (kind, _, _), value in self.kube.objects.items() if kind == "Event"]
        return [(one["reason"], one["note"]) for one in found]


async def made_user(**spec: object) -> MetadataWorld:
    """Return a world with users in which alice was made, with these fields beside those of `USER`."""
    world = users_world()
    world.put("User", "alice", USER | spec)
    await world.one_pass("User", "alice")
    return world


def users_world() -> MetadataWorld:
    """Return a world whose brokers know users and rights, and the group orders has a slave."""
    world = MetadataWorld()
    world.put("RocketMQCluster", "main", WITH_USERS)
    world.put_secret("main-broker-credentials", username="rocketmq-ha", password=INNER.password)
    world.brokers.credentials = INNER
    world.controllers.slaves = {"orders": [SLAVE]}
    return world


async def made_topic(**spec: object) -> MetadataWorld:
    """Return a world in which the topic prices was made, with these fields beside those of `TOPIC`."""
    world = MetadataWorld()
    world.put("Topic", "prices", TOPIC | spec)
    await world.one_pass()
    return world


def text(time: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return time.isoformat().replace("+00:00", "Z")
