"""What the collector gathers from Kubernetes itself: Events, the pods of broker groups, kubelets.

Problem: the cluster's own account must not be a condition of ours: without rights, without an API server, or with a node
that is gone, everything else is measured as before.
Shape: one task a namespace copies Events; one task lists pods every 15 s, by which Events are given to groups and nodes are
found; one task a node scrapes its kubelet. Errors are words in a counter, and each task tries again by itself.
Never: nothing here ends the collector.
"""

import asyncio
import logging
from dataclasses import dataclass

import aiohttp

from slo_pipeline.collect.clock import AnchoredClock
from slo_pipeline.collect.cluster_api import ClusterApi, ClusterError, Json
from slo_pipeline.collect.followers import EventIntake
from slo_pipeline.collect.kubelets import KubeletContext, Kubelets
from slo_pipeline.collect.kubernetes_events import EventCopier
from slo_pipeline.collect.members import GROUP_LABEL, Members

PODS_PAGE = 500
NAMESPACES_MAX = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What is gathered from the cluster.

    Attributes:
        api: who is asked.
        events: namespaces whose Events are copied.
        kubelets: namespaces of whose members' containers the kubelets are asked.
        interval_s: between two scrapes of a kubelet, and between two lists of pods.
    """

    api: ClusterApi
    events: tuple[str, ...] = ()
    kubelets: tuple[str, ...] = ()
    interval_s: float = 15.0

    @property
    def namespaces(self) -> list[str]:
        """Return all namespaces, in order; NAMESPACES_MAX at most."""
        return sorted({*self.events, *self.kubelets})


async def gather_cluster(settings: ClusterSettings, intake: EventIntake, clock: AnchoredClock) -> None:
    """Gather until cancelled."""
    members = Members()
    # The API server's connections are not those of targets: other certificates, and a token that only it may see.
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False) as session,
        asyncio.TaskGroup() as group,
    ):
        context = KubeletContext(
            settings.api,
            session,
            settings.kubelets,
            members,
            intake.sink,
            clock,
            intake.metrics,
            settings.interval_s,
        )
        kubelets = Kubelets(context, group)
        # Before the first Events, so that they find their groups.
        result = await _learn(settings, session, members, intake, "ok")
        for namespace in settings.events:
            group.create_task(EventCopier(settings.api, namespace, members, intake).run(session))
        while True:
            if settings.kubelets:
                kubelets.adjust()
            await asyncio.sleep(settings.interval_s)
            result = await _learn(settings, session, members, intake, result)


async def _learn(
    settings: ClusterSettings,
    session: aiohttp.ClientSession,
    members: Members,
    intake: EventIntake,
    before: str,
) -> str:
    """List the pods of all namespaces; if one cannot be listed, what was known stays. Returns the result's word."""
    result = "ok"
    try:
        pods = [pod for name in settings.namespaces for pod in await _pods(settings.api, session, name)]
        members.learn(pods)
    except ClusterError as error:
        result = error.result
        if result != before:
            _log.warning("pods: %s", error)
    except (KeyError, TypeError, AttributeError) as error:
        result = "error"
        if result != before:
            _log.warning("pods: no list of pods: %r", error)
    intake.metrics.cluster_requests.labels("pods", result).inc()
    return result


async def _pods(api: ClusterApi, session: aiohttp.ClientSession, namespace: str) -> list[Json]:
    """Return the members' pods, with the few fields that are needed of each."""
    found: list[Json] = []
    query = {"labelSelector": GROUP_LABEL, "limit": str(PODS_PAGE)}
    while True:
        page = await api.read(session, f"/api/v1/namespaces/{namespace}/pods", query)
        found += [_slim(pod) for pod in page["items"]]
        if not page["metadata"].get("continue"):
            return found
        query["continue"] = str(page["metadata"]["continue"])


def _slim(pod: Json) -> Json:
    metadata = pod["metadata"]
    return {
        "metadata": {name: metadata.get(name) for name in ("namespace", "name", "labels")},
        "spec": {"nodeName": pod["spec"].get("nodeName")},
        "status": {"hostIP": (pod.get("status") or {}).get("hostIP")},
    }
