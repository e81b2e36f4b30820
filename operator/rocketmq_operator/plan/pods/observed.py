"""One pod as the API server describes it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rocketmq_operator.plan.common.names import GUESTS, HOLD
from rocketmq_operator.plan.common.objects import Json, Live
from rocketmq_operator.plan.common.observation import parse_time
from rocketmq_operator.plan.pods.trouble import PodTrouble, main_answers, main_runs, trouble_of

OVERDUE: Final = timedelta(seconds=30)
"""A node that answers says within this after a pod's grace period that the pod has ended."""
_VOLUME_ELSEWHERE: Final = (
    "volume node affinity conflict",
    "persistentvolume's node affinity",
    "bound to non-existent pv",
)
"""Words of the scheduler, Kubernetes 1.29 to 1.34, pkg/scheduler/framework/plugins/volumebinding. No field
contains it."""
_CLAIM_GONE: Final = re.compile(r'persistentvolumeclaim "[^"]*" not found')
"""The scheduler's message for a pod whose claim was deleted, until the pod is recreated."""


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod.

    Attributes:
        gone_by: when it should have ended, if it is being deleted; None otherwise.
        stranded_since: since when its volume prevents scheduling on any node; None if it does not.
        hold_port: the port at which new connections wait for its end; None if its companion is of a version
            without this port.
        guest_port: the port for clients that come by the address of a former master; None as for `hold_port`.
        more_ips: its addresses after `ip`: that of the other family, where Kubernetes has both.
        runs: whether the process of its main container may run; False only where its status excludes it.
        answers: whether its main container passes its own readiness probe, whatever its companion says.
        trouble: why it does not become ready; None where it is ready or no cause is known.
    """

    name: str
    uid: str
    ip: str
    ready: bool
    deleting: bool
    revision: str
    gone_by: datetime | None = None
    stranded_since: datetime | None = None
    hold_port: int | None = None
    guest_port: int | None = None
    runs: bool = True
    answers: bool = False
    trouble: PodTrouble | None = None
    more_ips: tuple[str, ...] = ()


def parse_pod(pod: Live) -> ObservedPod:
    """Read a pod of the API server."""
    metadata, status = pod["metadata"], pod.get("status", {})
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    return ObservedPod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        ip=status.get("podIP", ""),
        ready=conditions.get("Ready") == "True",
        deleting="deletionTimestamp" in metadata,
        revision=metadata.get("labels", {}).get("controller-revision-hash", ""),
        gone_by=parse_time(metadata.get("deletionTimestamp")),
        stranded_since=_stranded_since(status.get("conditions", [])),
        hold_port=_companion_port(pod.get("spec", {}), HOLD),
        guest_port=_companion_port(pod.get("spec", {}), GUESTS),
        runs=main_runs(pod),
        answers=main_answers(pod),
        trouble=trouble_of(pod),
        more_ips=tuple(one["ip"] for one in status.get("podIPs", [])[1:]),
    )


def _companion_port(spec: Json, name: str) -> int | None:
    ports = (port for one in spec.get("initContainers", []) for port in one.get("ports", []))
    return next((port["containerPort"] for port in ports if port.get("name") == name), None)


def _stranded_since(conditions: Sequence[Json]) -> datetime | None:
    """Return since when the scheduler finds no node that has the pod's volume, or no volume."""
    for one in conditions:
        if one["type"] == "PodScheduled" and one["status"] == "False":
            words = str(one.get("message", "")).lower()
            if any(text in words for text in _VOLUME_ELSEWHERE) or _CLAIM_GONE.search(words):
                return parse_time(one.get("lastTransitionTime"))
    return None


def of_older_revision(live: Live | None, pods: Iterable[ObservedPod]) -> list[ObservedPod]:
    """Return which of a StatefulSet's pods are not of its newest revision; none while that is not known."""
    status = live.get("status", {}) if live is not None else {}
    revision = status.get("updateRevision", "")
    # Why the generation: an older status may still name the former revision.
    if live is None or status.get("observedGeneration") != live["metadata"].get("generation") or not revision:
        return []
    return [pod for pod in pods if pod.revision != revision]
