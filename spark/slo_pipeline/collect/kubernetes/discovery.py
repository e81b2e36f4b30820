"""Pods to targets: whom the collector scrapes without being given a list.

Problem: a list of targets is out of date with the first broker that is added, and a wrong one measures
nothing. Shape: what a pod is follows from its component label, and with it at which ports it answers: a
controller's page and events at 9880, a broker's page at 5557 and its companion's page and events at 9882, a
log replica's page and events at 9881. Names are the pods', with `-broker` for what the broker itself says;
`uid` is the pod's. `merged` lays the result beside the targets that are listed in a file: the first target
keeps the name. Never: pure; and nothing is left out without being counted and named.

Source: rocketmq_operator.plan.common.names for ports and names; tests hold both against the pods that the
operator makes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller_core.remoting.host_port import bracketed
from slo_pipeline.collect.kubernetes.pods import Pod
from slo_pipeline.collect.scraping.targets import TARGETS_MAX, Target

CONTROLLER_HTTP_PORT = 9880
REPLICA_HTTP_PORT = 9881
COMPANION_HTTP_PORT = 9882
BROKER_METRICS_PORT = 5557


def targets_of(pod: Pod) -> list[Target]:
    """Return the targets of a pod; an empty result if it lacks an address or is not ours."""
    if not pod.address or not pod.cluster:
        return []
    match pod.component:
        case "controller":
            # The controllers of a cluster serve one sequence of events.
            return _served(pod, CONTROLLER_HTTP_PORT, stream=pod.cluster)
        case "broker":
            return [_broker(pod), *_served(pod, COMPANION_HTTP_PORT)]
        case "learner":
            # It has no companion.
            return [_broker(pod)]
        case "log-replica":
            return _served(pod, REPLICA_HTTP_PORT)
        case _:
            return []


def _broker(pod: Pod) -> Target:
    return Target(f"{pod.name}-broker", _url(pod, BROKER_METRICS_PORT, "/metrics"), "metrics", pod.uid)


def _served(pod: Pod, port: int, stream: str = "") -> list[Target]:
    return [
        Target(pod.name, _url(pod, port, "/metrics"), "metrics", pod.uid),
        Target(pod.name, _url(pod, port, "/v1/events"), "events", pod.uid, stream),
    ]


def _url(pod: Pod, port: int, path: str) -> str:
    return f"http://{bracketed(pod.address)}:{port}{path}"


@dataclass(frozen=True, slots=True)
class Merged:
    """Targets of a file and of pods together.

    Attributes:
        targets: all targets, those of the file first.
        taken: names of pods' targets that somebody before them has.
        beyond: how many there were beyond the bound.
    """

    targets: list[Target]
    taken: frozenset[str] = frozenset()
    beyond: int = 0


def merged(
    listed: Sequence[Target],
    pods: Iterable[Pod],
    cluster: str = "",
    controllers_of: str = "",
    targets_max: int = TARGETS_MAX,
) -> Merged:
    """Lay targets that are listed and those of pods beside each other.

    A name belongs to the first target that uses it: samples of two under one name would mix their counters.
    So does the name of a cluster to the first namespace, as its controllers' events are one sequence, whose
    position is stored under that name.

    Args:
        listed: those of the file; they have their names in any case.
        pods: in order of priority for the remaining places.
        cluster: only pods of this one; "" for all.
        controllers_of: controllers of this one too, which `cluster` uses.
        targets_max: at most so many.
    """
    targets, homes, taken, beyond = list(listed), dict[str, str](), set[str](), 0
    names = {(target.kind == "metrics", target.name) for target in listed}
    for pod in pods:
        is_shared = pod.component == "controller" and pod.cluster == controllers_of
        if cluster not in ("", pod.cluster) and not is_shared:
            continue
        elsewhere = homes.setdefault(pod.cluster, pod.namespace) != pod.namespace
        for target in targets_of(pod):
            name = (target.kind == "metrics", target.name)
            if elsewhere or name in names:
                taken.add(target.name)
            elif len(targets) >= targets_max:
                beyond += 1
            else:
                names.add(name)
                targets.append(target)
    return Merged(targets, frozenset(taken), beyond)
