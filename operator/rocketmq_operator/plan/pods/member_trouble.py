"""Say of each pod that a resource needs why it is not as asked: brokers, log replicas, controllers, name servers and proxies alike.

The order of the table is the order of the checks; the first line that holds wins.

    what is seen of a member                                       reason
    its claim is being deleted, or its volume is gone              VolumeTerminating, VolumeLost
    it has no pod, and Kubernetes says why                         FailedCreate
    it is not ready, and no node is the problem; its claim waits   VolumePending
    its pod's status says why                                      those of `pod_trouble`
    its broker refuses the companion's questions                   CompanionRefused
    it has no pod, or is not ready                                 MemberNotReady
    it is ready and runs a former spec, and Kubernetes replaces it RollingOut

Never here: what is done about it. Only the status depends on this, so a text may wait for an Event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Live, ObjectKey
from rocketmq_operator.plan.group.children import member_names
from rocketmq_operator.plan.group.observed import OVERDUE, ObservedCluster, ObservedGroup, PodSeen
from rocketmq_operator.plan.group.rolling import of_older_revision
from rocketmq_operator.plan.pods.events import EventSeen, why_not_bound, why_not_made, without_use
from rocketmq_operator.plan.pods.trouble import MESSAGE_LENGTH_MAX, PodTrouble

MISSING_FOR: Final = timedelta(seconds=5)
"""A pod or a volume that is missing for less is being made; no Event is asked for."""
QUESTIONS_MAX: Final = 4
"""Objects whose Events one look asks for: each costs a call."""
NAMES_SHOWN_MAX: Final = 5
WITHOUT_CAUSE: Final = frozenset({"MemberNotReady", "RollingOut"})
"""Reasons that name no cause: they pass by themselves, as far as is known."""
_CLAIM: Final = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class MemberTrouble:
    """What is wrong with one member, or with all proxies."""

    member: str
    trouble: PodTrouble


@dataclass(frozen=True, slots=True)
class _MemberSet:
    """The members that one StatefulSet makes, and what is known of them."""

    live: Live | None
    members: Sequence[str]
    pods: Mapping[str, PodSeen]
    claims: Mapping[str, Live]
    rolled_by_kubernetes: bool = False

    @property
    def name(self) -> str:
        return "" if self.live is None else str(self.live["metadata"]["name"])


Observed = ObservedCluster | ObservedGroup


def troubles_of(observed: Observed) -> tuple[MemberTrouble, ...]:
    """Return what is not as asked of the members of a resource, in the order of their names."""
    found = [one for member_set in _sets(observed) for one in _of_set(observed, member_set)]
    if isinstance(observed, ObservedCluster) and (proxies := _of_proxies(observed)) is not None:
        found.append(proxies)
    return tuple(found)


def in_words(troubles: Iterable[MemberTrouble]) -> str:
    """Say each trouble once, with all members that have it."""
    by_trouble: dict[PodTrouble, list[str]] = {}
    for one in troubles:
        by_trouble.setdefault(one.trouble, []).append(one.member)
    return "; ".join(f"{_listed(members)}: {trouble}" for trouble, members in by_trouble.items())


def with_cause(
    troubles: Iterable[MemberTrouble], members: Iterable[str] | None = None
) -> tuple[MemberTrouble, ...]:
    """Return the troubles that name a cause, of these members only if any are named."""
    among = None if members is None else frozenset(members)
    return tuple(
        one
        for one in troubles
        if one.trouble.reason not in WITHOUT_CAUSE and (among is None or one.member in among)
    )


def questions(observed: Observed, since: datetime | None) -> tuple[ObjectKey, ...]:
    """Return the objects whose Events may say why a pod or a volume is missing: none while nothing is missing for some time.

    Args:
        observed: the look.
        since: since when the status says that something is left to do; None where it does not.
    """
    if since is None or observed.now - since < MISSING_FOR:
        return ()
    asked: list[ObjectKey] = []
    for one in _sets(observed):
        missing = [name for name in one.members if name not in one.pods]
        if missing and _is_old(observed, one.live):
            asked.append(ObjectKey("StatefulSet", one.name))
        asked += [
            ObjectKey(_CLAIM, names.claim(name))
            for name in one.members
            if _is_pending(observed, one.claims.get(names.claim(name)))
        ]
    return tuple(asked[:QUESTIONS_MAX])


def proxies_lack(observed: ObservedCluster) -> bool:
    """Tell whether the proxies' Deployment has not all pods that it should have, ready and of the newest spec."""
    live = _deployment(observed)
    if observed.spec.proxy.mode is not ProxyMode.CLUSTER or live is None:
        return False
    status, asked = live.get("status", {}), observed.spec.proxy.replicas
    # The API server leaves a count of 0 out.
    updated = status.get("updatedReplicas", 0 if "observedGeneration" in status else asked)
    lacks = (
        status.get("readyReplicas", 0) < asked or updated < asked or bool(status.get("unavailableReplicas"))
    )
    return lacks or any(map(_is_failure, status.get("conditions", [])))


def _sets(observed: Observed) -> tuple[_MemberSet, ...]:
    """Return the StatefulSets that there may be, with the members that the spec asks of each."""
    return _group_sets(observed) if isinstance(observed, ObservedGroup) else _cluster_sets(observed)


def _group_sets(observed: ObservedGroup) -> tuple[_MemberSet, ...]:
    claims = {key.name: live for key, live in observed.children.items() if key.kind == _CLAIM}
    members = member_names(observed.owner.name, observed.spec)
    set_names = (observed.owner.name, names.log_set(observed.owner.name))
    return tuple(
        _MemberSet(
            observed.child("StatefulSet", set_name),
            [name for name in members if names.is_member(name, set_name)],
            observed.pods,
            claims,
        )
        for set_name in set_names
    )


def _cluster_sets(observed: ObservedCluster) -> tuple[_MemberSet, ...]:
    controllers, name_servers = (
        names.controllers(observed.owner.name),
        names.name_servers(observed.owner.name),
    )
    return (
        _MemberSet(
            observed.children.get(ObjectKey("StatefulSet", controllers)),
            [names.member(controllers, number) for number in range(observed.spec.controllers.replicas)],
            observed.pods,
            observed.claims,
        ),
        _MemberSet(
            observed.children.get(ObjectKey("StatefulSet", name_servers)),
            [names.member(name_servers, number) for number in range(observed.spec.name_servers.replicas)],
            observed.name_server_pods,
            {},
            rolled_by_kubernetes=True,
        ),
    )


def _of_set(observed: Observed, one: _MemberSet) -> Iterator[MemberTrouble]:
    if one.live is None:
        return
    events = observed.events.get(ObjectKey("StatefulSet", one.name), ())
    outdated = of_older_revision(one.live, one.pods.values()) if one.rolled_by_kubernetes else []
    for name in one.members:
        pod, claim = one.pods.get(name), one.claims.get(names.claim(name))
        if (
            trouble := _of_claim(observed, pod, name, claim) or _of_pod(observed, pod, name, events)
        ) is not None:
            yield MemberTrouble(name, trouble)
        elif pod in outdated:
            yield MemberTrouble(name, PodTrouble("RollingOut", "its pod is of an older revision"))


def _of_pod(
    observed: Observed, pod: PodSeen | None, name: str, events: Sequence[EventSeen]
) -> PodTrouble | None:
    if pod is None:
        why = why_not_made(events, name)
        return _trouble("FailedCreate", why) if why else PodTrouble("MemberNotReady", "it has no pod")
    if pod.ready and not pod.deleting:
        return None
    if pod.deleting:
        # Why not its status: a process that is told to end ends with a code too.
        is_lost = pod.gone_by is not None and observed.now - pod.gone_by > OVERDUE
        text = "its node does not confirm that its pod has ended" if is_lost else "its pod is being replaced"
        return PodTrouble("MemberNotReady", text)
    if pod.trouble is not None:
        return pod.trouble
    refusal = observed.refusals.get(name, "") if isinstance(observed, ObservedGroup) else ""
    if refusal:
        return _trouble("CompanionRefused", f"its broker refuses what the companion asks: {refusal}")
    return PodTrouble("MemberNotReady", "its pod is not ready")


def _of_claim(observed: Observed, pod: PodSeen | None, name: str, claim: Live | None) -> PodTrouble | None:
    """Return what is wrong with a member's claim; while it waits for a node that the scheduler does not find, that is the cause."""
    if claim is None:
        return None
    if "deletionTimestamp" in claim["metadata"]:
        text = "its PersistentVolumeClaim is being deleted, and ends with its pod"
        return PodTrouble("VolumeTerminating", text)
    if claim.get("status", {}).get("phase") == "Lost":
        return PodTrouble("VolumeLost", "its PersistentVolumeClaim has lost its PersistentVolume")
    if not _is_pending(observed, claim) or pod is None or pod.ready:
        return None
    if pod.trouble is not None and "persistentvolumeclaim" not in pod.trouble.message.lower():
        return None
    storage_class = claim.get("spec", {}).get("storageClassName")
    of = f"of storage class {storage_class}" if storage_class else "without a storage class"
    why = why_not_bound(observed.events.get(ObjectKey(_CLAIM, names.claim(name)), ()))
    return _trouble(
        "VolumePending", f"its PersistentVolumeClaim {of} is not bound" + (f": {why}" if why else "")
    )


def _of_proxies(observed: ObservedCluster) -> MemberTrouble | None:
    if not proxies_lack(observed):
        return None
    name, status = names.proxies(observed.owner.name), (_deployment(observed) or {}).get("status", {})
    failure = next((one for one in status.get("conditions", []) if _is_failure(one)), None)
    if failure is not None:
        why = without_use(str(failure.get("message", ""))).partition(" is forbidden: ")
        return MemberTrouble(name, _trouble("FailedCreate", f"forbidden: {why[2]}" if why[2] else why[0]))
    pods = [observed.proxy_pods[pod] for pod in sorted(observed.proxy_pods)]
    known = sorted({pod.trouble for pod in pods if pod.trouble is not None}, key=str)
    if known:
        return MemberTrouble(name, known[0])
    ready, asked = status.get("readyReplicas", 0), observed.spec.proxy.replicas
    if ready >= asked:
        return MemberTrouble(name, PodTrouble("RollingOut", "some pods are of an older revision"))
    return MemberTrouble(name, PodTrouble("MemberNotReady", f"{ready} of {asked} pods are ready"))


def _is_failure(condition: Live) -> bool:
    return condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"


def _deployment(observed: ObservedCluster) -> Live | None:
    return observed.children.get(ObjectKey("Deployment", names.proxies(observed.owner.name)))


def _is_pending(observed: Observed, claim: Live | None) -> bool:
    return (
        claim is not None
        and claim.get("status", {}).get("phase") == "Pending"
        and "deletionTimestamp" not in claim["metadata"]
        and _is_old(observed, claim)
    )


def _is_old(observed: Observed, live: Live | None) -> bool:
    made = None if live is None else live["metadata"].get("creationTimestamp")
    return live is not None and (made is None or observed.now - datetime.fromisoformat(made) >= MISSING_FOR)


def _trouble(reason: str, text: str) -> PodTrouble:
    return PodTrouble(reason, text[:MESSAGE_LENGTH_MAX])


def _listed(members: Sequence[str]) -> str:
    more = len(members) - NAMES_SHOWN_MAX
    return ", ".join(members[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
