"""Which pods belong to which broker group, and on which nodes they run.

Problem: a Kubernetes Event names a pod, and a report knows groups; and a pod that an Event tells of may be gone already.
Shape: pods are listed from time to time by their label. Names are remembered beyond a pod's life, up to a bound, oldest
forgotten first; a member keeps its name when its pod is replaced. Nodes are those of the newest list only.
Never: what is not known is not guessed from the look of a name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CLUSTER_LABEL = "rocketmq-ha.dev/cluster"
GROUP_LABEL = "rocketmq-ha.dev/group"
MEMBERS_MAX = 20_000
NODES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Belonging:
    """Where something belongs; "" where that is not known."""

    cluster: str = ""
    group: str = ""


NOWHERE = Belonging()


class Members:
    """Pods of broker groups.

    Attributes:
        nodes: address by name, of each node that a pod of a broker group runs on.
    """

    def __init__(self, members_max: int = MEMBERS_MAX) -> None:
        self._members_max = members_max
        self._known: dict[tuple[str, str], Belonging] = {}
        self._groups: dict[tuple[str, str], Belonging] = {}
        self.nodes: dict[str, str] = {}

    def learn(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Take a list of pods; it replaces the nodes and adds to the names."""
        nodes: dict[str, str] = {}
        for pod in pods:
            metadata, labels = pod["metadata"], pod["metadata"].get("labels") or {}
            group = labels.get(GROUP_LABEL, "")
            if not group:
                continue
            namespace, belonging = metadata["namespace"], Belonging(labels.get(CLUSTER_LABEL, ""), group)
            self._remember(namespace, metadata["name"], belonging)
            node, address = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("hostIP")
            if node and address and len(nodes) < NODES_MAX:
                nodes[node] = address
        self.nodes = nodes

    def _remember(self, namespace: str, pod: str, belonging: Belonging) -> None:
        self._groups[namespace, belonging.group] = belonging
        # A pod, the set that makes it, and its volume's claim: `data-orders-0` of `orders-0` of `orders`.
        for name in (pod, pod.rpartition("-")[0], f"data-{pod}"):
            self._known.pop((namespace, name), None)
            self._known[namespace, name] = belonging
        for book in (self._known, self._groups):
            while len(book) > self._members_max:
                del book[next(iter(book))]

    def of_pod(self, namespace: str, name: str) -> Belonging:
        """Return where a pod belongs."""
        return self._known.get((namespace, name), NOWHERE)

    def of_object(self, namespace: str, kind: str, name: str) -> Belonging:
        """Return where the object of an Event belongs."""
        match kind:
            case "BrokerGroup":
                return self._groups.get((namespace, name), Belonging("", name))
            case "RocketMQCluster":
                return Belonging(name, "")
            case _:
                return self._known.get((namespace, name), NOWHERE)
