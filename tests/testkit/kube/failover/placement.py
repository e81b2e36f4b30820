"""Bring a group's master to the node of another part, so that a fault of the node takes both.

    controllers    the controllers' leader: leadership is handed to the controller on the master's node
    dns            the cluster's only DNS server: its Deployment is pinned to the master's node
    operator       the operator that acts  }
    log-replica    the group's log replica }  the master is switched over to the broker on that node
    name-server    one of the name servers }

Where no broker is on the node of such a part, the placement is not possible, and `place` says so.
"""

import json
from typing import Final

from rocketmq_operator.plan.leadership.lease import LEASE_NAME
from testkit.kube.group import GroupView, KubeGroup
from testkit.kube.kubectl import Cluster, KubeError, until

CONTROLLERS: Final = "controllers"
OPERATOR: Final = "operator"
DNS: Final = "dns"
LOG_REPLICA: Final = "log-replica"
LOG_REPLICA_LABELS: Final = {"app.kubernetes.io/component": LOG_REPLICA}
"""Of the pods of log replicas."""
NAME_SERVER: Final = "name-server"
PLACEMENTS: Final = (CONTROLLERS, OPERATOR, LOG_REPLICA, NAME_SERVER, DNS)
SYSTEM: Final = "kube-system"
_CONTROLLERS: Final = tuple(f"main-controller-{number}" for number in range(3))
_HTTP_PORT: Final = 9880
_TOKEN: Final = "/etc/rocketmq-token/token"  # noqa: S105 - a path
_PLACED_WITHIN_S: Final = 60.0


async def nodes_of_pods(cluster: Cluster) -> dict[str, str]:
    """Return the node of each pod."""
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await cluster.find("pods")}


async def place(group: KubeGroup, part: str) -> GroupView:
    """Bring a part and the group's master to one node; return the group when it is whole there.

    Raises:
        KubeError: it is not possible, or did not come about.
    """
    if part in {CONTROLLERS, DNS}:
        view = await group.until_at_home()
        node = (await nodes_of_pods(group.cluster))[view.master]
        await (_lead_at if part == CONTROLLERS else _resolve_at)(group, node)
    else:
        await _switch_over(group, await _nodes_of(group, part))
    view = await group.until_at_home()
    if part not in await lost_with(group, view.master):
        raise KubeError(f"the master {view.master} and {part} did not come to one node")
    return view


async def lost_with(group: KubeGroup, master: str) -> tuple[str, ...]:
    """Return the parts that a node would take with the master."""
    node = (await nodes_of_pods(group.cluster))[master]
    return tuple([part for part in PLACEMENTS if node in await _nodes_of(group, part)])


async def _nodes_of(group: KubeGroup, part: str) -> frozenset[str]:
    """Return the nodes on which a part runs."""
    if part == DNS:
        pods = await Cluster(group.cluster.kubeconfig, SYSTEM).find("pods", "k8s-app=kube-dns")
        return frozenset(pod["spec"]["nodeName"] for pod in pods)
    nodes = await nodes_of_pods(group.cluster)
    if part == CONTROLLERS:
        return frozenset({nodes[await _leader(group.cluster)]})
    if part == OPERATOR:
        holder = str((await group.cluster.get("lease", LEASE_NAME))["spec"].get("holderIdentity", ""))
        return frozenset({nodes[holder.partition("_")[0]]})
    prefix = f"{group.name}-log-" if part == LOG_REPLICA else "main-nameserver-"
    return frozenset(node for pod, node in nodes.items() if pod.startswith(prefix))


async def _leader(cluster: Cluster) -> str:
    """Return the pod of the controller that leads.

    Raises:
        KubeError: none does, or none answers.
    """
    for pod in _CONTROLLERS:
        path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}:{_HTTP_PORT}/proxy/v1/status"
        if json.loads(await cluster.text(path))["role"] == "leader":
            return pod
    raise KubeError("no controller leads")


async def _lead_at(group: KubeGroup, node: str) -> None:
    nodes = await nodes_of_pods(group.cluster)
    chosen = next((pod for pod in _CONTROLLERS if nodes.get(pod) == node), None)
    if chosen is None:
        raise KubeError(f"no controller runs on {node}")

    async def leads() -> bool:
        leader = await _leader(group.cluster)
        if leader == chosen:
            return True
        name = f"n{_CONTROLLERS.index(chosen)}"
        command = f'controller-core transfer {name} --server 127.0.0.1:{_HTTP_PORT} --token "$(cat {_TOKEN})"'
        await group.cluster.shell(leader, "controller", command)
        return False

    await until(f"{chosen} leads", leads, _PLACED_WITHIN_S, poll_s=1.0)


async def _resolve_at(group: KubeGroup, node: str) -> None:
    system = Cluster(group.cluster.kubeconfig, SYSTEM)
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}}}
    await system.kubectl("patch", "deployment", "coredns", f"--patch={json.dumps(selector)}")

    async def alone() -> bool:
        pods = await system.find("pods", "k8s-app=kube-dns")
        return [pod["spec"].get("nodeName") for pod in pods] == [node]

    await until(f"DNS is on {node}", alone, _PLACED_WITHIN_S)


async def _switch_over(group: KubeGroup, wanted: frozenset[str]) -> None:
    view = await group.until_at_home()
    nodes = await nodes_of_pods(group.cluster)
    if nodes[view.master] in wanted:
        return
    chosen = next((broker for broker in view.brokers if nodes[broker] in wanted), None)
    if chosen is None:
        raise KubeError(f"no broker of {group.name} runs on {', '.join(sorted(wanted)) or 'such a node'}")
    await group.cluster.plugin("switchover", group.name, "--to", chosen)
