"""Say of each pod that a resource needs why it is not as asked.

This treats brokers, log replicas, controllers, name servers and proxies alike.

The order of the table is the order of the checks; the first line that holds wins.

    observed state of a member                                     reason
    its claim is being deleted, or its volume is gone              VolumeTerminating, VolumeLost
    it has no pod, and an Event gives the reason                   FailedCreate
    it is not ready, and no node is the problem; its claim waits   VolumePending
    its pod's status says why                                      those of `pod_trouble`
    its broker refuses the companion's questions                   CompanionRefused
    its pod is missing or not ready                                MemberNotReady
    it is ready and runs a former spec, and Kubernetes replaces it RollingOut

This module plans no action. Only the status depends on it, so a text may wait for an Event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Live, ObjectKey
from rocketmq_operator.plan.pods.events import ObservedEvent, why_not_bound, why_not_created
from rocketmq_operator.plan.pods.observed import OVERDUE, ObservedPod, of_older_revision
from rocketmq_operator.plan.pods.trouble import MESSAGE_LENGTH_MAX, PodTrouble

MISSING_FOR: Final = timedelta(seconds=5)
"""Kubernetes is still creating a pod or a volume that is missing for less; the operator reads no Event."""
EVENT_QUERIES_MAX: Final = 4
"""Objects whose Events one look asks for: each costs a call."""
NAMES_SHOWN_MAX: Final = 5
WITHOUT_CAUSE: Final = frozenset({"MemberNotReady", "RollingOut"})
"""Reasons that name no cause: they pass by themselves, as far as is known."""
CLAIM: Final = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class MemberTrouble:
    """The trouble of one member, or of all proxies."""

    member: str
    trouble: PodTrouble


@dataclass(frozen=True, slots=True)
class MemberSet:
    """The members that one StatefulSet creates, and their observed state.

    Attributes:
        live: the StatefulSet, None until it exists.
        members: names of the members that the spec asks for.
        pods: by name.
        claims: PersistentVolumeClaims, by name.
        rolled_by_kubernetes: whether Kubernetes and not the operator replaces pods of an older revision.
        refusals: by member, how its broker refused the companion's questions.
    """

    live: Live | None
    members: Sequence[str]
    pods: Mapping[str, ObservedPod]
    claims: Mapping[str, Live]
    rolled_by_kubernetes: bool = False
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The StatefulSet's name, empty until one exists."""
        return "" if self.live is None else str(self.live["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class NeededMembers:
    """All members that one resource needs, as one look found them.

    Attributes:
        now: the time of the look.
        sets: the StatefulSets that there may be, with the members that the spec asks of each.
        events: about StatefulSets and claims, as far as `event_queries` asked.
    """

    now: datetime
    sets: tuple[MemberSet, ...]
    events: Mapping[ObjectKey, tuple[ObservedEvent, ...]]


def troubles_of(needed: NeededMembers) -> tuple[MemberTrouble, ...]:
    """Return the troubles of a resource's members, in the order of their names."""
    return tuple(one for member_set in needed.sets for one in _set_troubles(needed, member_set))


def describe_troubles(troubles: Iterable[MemberTrouble]) -> str:
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


def event_queries(needed: NeededMembers, since: datetime | None) -> tuple[ObjectKey, ...]:
    """Return the objects whose Events may say why a pod or a volume is missing.

    Empty until something has been missing for some time.

    Args:
        needed: the members.
        since: since when the status says that something is left to do; None where it does not.
    """
    if since is None or needed.now - since < MISSING_FOR:
        return ()
    keys: list[ObjectKey] = []
    for one in needed.sets:
        missing = [name for name in one.members if name not in one.pods]
        if missing and _is_old(needed, one.live):
            keys.append(ObjectKey("StatefulSet", one.name))
        keys += [
            ObjectKey(CLAIM, names.claim(name))
            for name in one.members
            if _is_pending(needed, one.claims.get(names.claim(name)))
        ]
    return tuple(keys[:EVENT_QUERIES_MAX])


def _set_troubles(needed: NeededMembers, one: MemberSet) -> Iterator[MemberTrouble]:
    if one.live is None:
        return
    events = needed.events.get(ObjectKey("StatefulSet", one.name), ())
    outdated = of_older_revision(one.live, one.pods.values()) if one.rolled_by_kubernetes else []
    for name in one.members:
        pod, claim = one.pods.get(name), one.claims.get(names.claim(name))
        if (
            trouble := _claim_trouble(needed, pod, name, claim) or _pod_trouble(needed, one, name, events)
        ) is not None:
            yield MemberTrouble(name, trouble)
        elif pod in outdated:
            yield MemberTrouble(name, PodTrouble("RollingOut", "its pod is of an older revision"))


def _pod_trouble(
    needed: NeededMembers, one: MemberSet, name: str, events: Sequence[ObservedEvent]
) -> PodTrouble | None:
    pod = one.pods.get(name)
    if pod is None:
        why = why_not_created(events, name)
        return shortened("FailedCreate", why) if why else PodTrouble("MemberNotReady", "it has no pod")
    if pod.ready and not pod.deleting:
        return None
    if pod.deleting:
        # Why not its status: a terminated process has an exit code too.
        is_lost = pod.gone_by is not None and needed.now - pod.gone_by > OVERDUE
        text = "its node does not confirm that its pod has ended" if is_lost else "its pod is being replaced"
        return PodTrouble("MemberNotReady", text)
    if pod.trouble is not None:
        return pod.trouble
    refusal = one.refusals.get(name, "")
    if refusal:
        return shortened("CompanionRefused", f"its broker refuses what the companion asks: {refusal}")
    return PodTrouble("MemberNotReady", "its pod is not ready")


def _claim_trouble(
    needed: NeededMembers, pod: ObservedPod | None, name: str, claim: Live | None
) -> PodTrouble | None:
    """Return the trouble of a member's claim.

    If it waits for a node that the scheduler does not find, the pod is the cause.
    """
    if claim is None:
        return None
    if "deletionTimestamp" in claim["metadata"]:
        text = "its PersistentVolumeClaim is being deleted, and ends with its pod"
        return PodTrouble("VolumeTerminating", text)
    if claim.get("status", {}).get("phase") == "Lost":
        return PodTrouble("VolumeLost", "its PersistentVolumeClaim has lost its PersistentVolume")
    if not _is_pending(needed, claim) or pod is None or pod.ready:
        return None
    if pod.trouble is not None and "persistentvolumeclaim" not in pod.trouble.message.lower():
        return None
    storage_class = claim.get("spec", {}).get("storageClassName")
    of = f"of storage class {storage_class}" if storage_class else "without a storage class"
    why = why_not_bound(needed.events.get(ObjectKey(CLAIM, names.claim(name)), ()))
    return shortened(
        "VolumePending", f"its PersistentVolumeClaim {of} is not bound" + (f": {why}" if why else "")
    )


def _is_pending(needed: NeededMembers, claim: Live | None) -> bool:
    return (
        claim is not None
        and claim.get("status", {}).get("phase") == "Pending"
        and "deletionTimestamp" not in claim["metadata"]
        and _is_old(needed, claim)
    )


def _is_old(needed: NeededMembers, live: Live | None) -> bool:
    made = None if live is None else live["metadata"].get("creationTimestamp")
    return live is not None and (made is None or needed.now - datetime.fromisoformat(made) >= MISSING_FOR)


def shortened(reason: str, text: str) -> PodTrouble:
    """Return a trouble whose text is cut at `MESSAGE_LENGTH_MAX`."""
    return PodTrouble(reason, text[:MESSAGE_LENGTH_MAX])


def _listed(members: Sequence[str]) -> str:
    more = len(members) - NAMES_SHOWN_MAX
    return ", ".join(members[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
