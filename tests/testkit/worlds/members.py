"""Members of a group and a cluster in memory, and the troubles that each can have."""

from dataclasses import dataclass
from typing import Any

from testkit.memory.membership import NAMESPACE
from testkit.memory.pod_faults import PodFault, pod_status
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
QUOTA = "forbidden: exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9"


@dataclass(frozen=True, slots=True)
class MemberKind:
    """One kind of member.

    It has the resource whose status tells of it, one pod, and the StatefulSet or Deployment that makes it.
    """

    resource: tuple[str, str]
    pod: str
    made_by: str

    @property
    def member(self) -> str:
        """How the status names it: proxies have generated names."""
        return self.made_by if self.made_by == "main-proxy" else self.pod


GROUP = ("BrokerGroup", "orders")
CLUSTER = ("RocketMQCluster", "main")
KINDS = {
    "broker": MemberKind(GROUP, "orders-1", "orders"),
    "log replica": MemberKind(GROUP, "orders-log-0", "orders-log"),
    "controller": MemberKind(CLUSTER, "main-controller-2", "main-controller"),
    "name server": MemberKind(CLUSTER, "main-nameserver-1", "main-nameserver"),
    "proxy": MemberKind(CLUSTER, "main-proxy-7c9d-x", "main-proxy"),
}
WITH_VOLUME = ("broker", "log replica", "controller")


async def settled() -> OperatorWorld:
    """Return a world with two of each, where nothing is left to do."""
    world = OperatorWorld(
        {"replicas": 2, "logReplicas": 1}, {"nameServers": {"replicas": 2}, "proxy": {"mode": "Cluster"}}
    )
    await world.settle()
    await world.settle()
    assert progress(world, GROUP)[:2] == progress(world, CLUSTER)[:2] == ("False", "Settled")
    return world


def progress(world: OperatorWorld, resource: tuple[str, str]) -> tuple[str, str, str]:
    """Return status, reason and message of Progressing."""
    found = next(one for one in world.status(*resource)["conditions"] if one["type"] == "Progressing")
    return found["status"], found["reason"], found["message"]


async def passes(world: OperatorWorld, count: int = 3) -> None:
    """Let the operator look some times, ten seconds apart."""
    for _ in range(count):
        await world.one_pass()
        world.advance(10)


def break_member(world: OperatorWorld, kind: MemberKind, fault: PodFault) -> None:
    """Give one member's pod the status of a fault."""
    if kind.made_by == "main-proxy":
        world.kube.unready.add("main-proxy")
        pod: Json = {
            "metadata": {
                "name": kind.pod,
                "namespace": NAMESPACE,
                "uid": "uid-proxy",
                "labels": world.get("Deployment", "main-proxy")["spec"]["template"]["metadata"]["labels"],
            },
            "spec": world.get("Deployment", "main-proxy")["spec"]["template"]["spec"],
        }
        pod["status"] = pod_status(pod, fault, ready=False)
        world.kube.objects["Pod", NAMESPACE, kind.pod] = pod
    else:
        world.kube.break_pods(NAMESPACE, [kind.pod], fault)
    world.kube.settle()


def forbid(world: OperatorWorld, kind: MemberKind) -> None:
    """Let a quota refuse a member's pod, which goes."""
    if kind.made_by == "main-proxy":
        world.kube.forbidden["main-proxy"] = QUOTA
    else:
        world.kube.forbidden[kind.pod] = QUOTA
        world.kube.remove("Pod", NAMESPACE, kind.pod)
    world.kube.settle()
