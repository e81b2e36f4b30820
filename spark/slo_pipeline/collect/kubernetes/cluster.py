"""What the collector gathers from Kubernetes itself: pods, Events, kubelets.

Problem: the cluster's own account must not be a condition of ours: without rights, without an API server, or
with a node that is gone, everything else is measured as before. Shape: one task a namespace follows its pods,
from which targets, members of groups and nodes are known; one task a namespace copies Events; one task a node
scrapes its kubelet. Errors are words in a counter, and each task tries again by itself. Never: nothing here
ends the collector.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp

from slo_pipeline.collect.kubernetes.api import ClusterApi
from slo_pipeline.collect.kubernetes.events import PAGE_EVENTS, EventCopier
from slo_pipeline.collect.kubernetes.kubelets import KubeletContext, Kubelets
from slo_pipeline.collect.kubernetes.pods import CLUSTER_LABEL, PAGE_PODS, Pod, PodBook
from slo_pipeline.collect.kubernetes.watching import ListWatch
from slo_pipeline.collect.scraping.followers import EventIntake
from slo_pipeline.shell.clock import AnchoredClock

NAMESPACES_MAX = 100
NODES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The sources within the cluster.

    Attributes:
        api: the API server.
        events: namespaces whose Events are copied.
        kubelets: namespaces for whose member containers to ask the kubelets.
        discover: namespaces whose pods are targets, the first first where two have the same name.
        cluster: of these, pods of this RocketMQCluster only; "" for all.
        controllers_of: controllers of this RocketMQCluster too, which `cluster` uses.
        interval_s: between two scrapes of a kubelet.
    """

    api: ClusterApi
    events: tuple[str, ...] = ()
    kubelets: tuple[str, ...] = ()
    discover: tuple[str, ...] = ()
    cluster: str = ""
    controllers_of: str = ""
    interval_s: float = 15.0

    @property
    def namespaces(self) -> list[str]:
        """Return all namespaces, in order; NAMESPACES_MAX at most."""
        return sorted({*self.events, *self.kubelets, *self.discover})


async def gather_cluster(
    settings: ClusterSettings, pods: PodBook, intake: EventIntake, clock: AnchoredClock
) -> None:
    """Gather until cancelled.

    Args:
        settings: what.
        pods: the store for pods of all its namespaces.
        intake: where Events go.
        clock: the collector's.
    """
    # The API server's connections are not those of targets: other certificates, and a token that only it may
    # see.
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False) as session,
        asyncio.TaskGroup() as group,
    ):
        watches = [_pods(settings.api, namespace, pods, intake) for namespace in settings.namespaces]
        for watch in watches:
            group.create_task(watch.run(session))
        for watch in watches:
            # Before the first Events, so that they find their groups.
            await watch.tried.wait()
        for namespace in settings.events:
            group.create_task(_events(settings.api, namespace, pods, intake).run(session))
        if settings.kubelets:
            group.create_task(
                _ask_kubelets(
                    settings,
                    pods,
                    KubeletContext(
                        settings.api,
                        session,
                        settings.kubelets,
                        pods.members,
                        intake.sink,
                        clock,
                        intake.metrics,
                        settings.interval_s,
                    ),
                )
            )


def _pods(api: ClusterApi, namespace: str, pods: PodBook, intake: EventIntake) -> ListWatch:
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": CLUSTER_LABEL}
    return ListWatch(api, "pods", path, pods.namespaces[namespace], intake.metrics, PAGE_PODS, query)


def _events(api: ClusterApi, namespace: str, pods: PodBook, intake: EventIntake) -> ListWatch:
    path = f"/api/v1/namespaces/{namespace}/events"
    return ListWatch(api, "events", path, EventCopier(pods.members, intake), intake.metrics, PAGE_EVENTS)


async def _ask_kubelets(settings: ClusterSettings, pods: PodBook, context: KubeletContext) -> None:
    async with asyncio.TaskGroup() as group:
        kubelets = Kubelets(context, group)
        while True:
            kubelets.adjust(nodes_of(pods.of(settings.kubelets)))
            await asyncio.sleep(settings.interval_s)


def nodes_of(pods: Iterable[Pod]) -> dict[str, str]:
    """Return the address by name of each node that a pod of a broker group runs on; NODES_MAX at most."""
    found: dict[str, str] = {}
    for pod in pods:
        if pod.group and pod.node and pod.node_address and (pod.node in found or len(found) < NODES_MAX):
            found[pod.node] = pod.node_address
    return found
