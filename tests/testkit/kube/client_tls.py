"""Move a cluster to TLS with its clients, or back, and wait until all its pods have the last stage."""

import json
from typing import Final

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, Json, until

IN_TLS: Final = "-Dtls.enable=true"
"""The option of a JVM with which an unmodified client dials in TLS."""
_MOVED_WITHIN_S: Final = 1_200.0
_ANNOTATION: Final = "rocketmq-ha.dev/clients-tls"


async def clients_stage(cluster: Cluster) -> str:
    """Return how far the cluster is."""
    return str((await cluster.get("configmap", "main-trust"))["data"]["clients-tls"])


async def move_clients(cluster: Cluster, group: KubeGroup, clients: str, end: str) -> list[str]:
    """Set `spec.tls.clients` and wait until all pods have it.

    Args:
        cluster: its namespace; the RocketMQCluster is `main`.
        group: its only group.
        clients: the value of the field.
        end: the last stage that it leads to.

    Returns:
        The stages on the way.
    """
    seen = list[str]()
    patch = json.dumps({"spec": {"tls": {"clients": clients}}})
    await cluster.kubectl("patch", "rocketmqcluster", "main", "--type=merge", f"--patch={patch}")
    sets = ("main-nameserver", group.name, f"{group.name}-log")

    async def is_there() -> bool:
        now = await clients_stage(cluster)
        if now not in seen:
            seen.append(now)
        if now != end:
            return False
        live = [await cluster.get("statefulset", name) for name in sets]
        return all(_is_at(one, end) for one in live) and (await group.view()).whole

    await until(f"the cluster is {end}", is_there, _MOVED_WITHIN_S, poll_s=2.0)
    return seen


def _is_at(live: Json, end: str) -> bool:
    """Tell whether all pods of a StatefulSet are ready and at a stage."""
    annotations = live["spec"]["template"]["metadata"].get("annotations") or {}
    status = live["status"]
    counts = {status.get("updatedReplicas"), status.get("readyReplicas"), live["spec"]["replicas"]}
    return annotations.get(_ANNOTATION, "disabled") == end and len(counts) == 1
