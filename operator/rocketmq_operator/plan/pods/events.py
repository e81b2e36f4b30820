"""Parse the Events of Kubernetes' own controllers.

They say why a StatefulSet creates no pod, and why a claim gets no volume.

No field of a StatefulSet or a PersistentVolumeClaim says it. The operator reads Events only when a pod or a
volume is missing (`member_trouble.event_queries`). Events come again with other counts and times, so a text
leaves out what differs between two of them.

Source: Kubernetes 1.34, pkg/controller/statefulset/stateful_pod_control.go (recordPodEvent,
recordClaimEvent), pkg/controller/volume/events/event.go, staging/src/k8s.io/apiserver/pkg/quota.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.common.objects import Live

_WHY_NOT_BOUND: Final = ("ProvisioningFailed", "FailedBinding", "ExternalProvisioning")
"""Reasons of Events about a claim. The first that there is counts, so that two that alternate give one
text."""
_USED: Final = re.compile(r", used: \S+(?=, limited: )")
"""Of a quota: what others use changes all the time."""


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """One Event; `at` orders those about one object."""

    reason: str
    note: str
    at: str


def parse_events(values: Iterable[Live]) -> tuple[ObservedEvent, ...]:
    """Read Events of `events.k8s.io/v1`, the oldest first."""
    found = (ObservedEvent(str(one.get("reason") or ""), _text(one), _at(one)) for one in values)
    return tuple(sorted(found, key=lambda one: one.at))


def why_not_created(events: Sequence[ObservedEvent], pod: str) -> str:
    """Return why a StatefulSet could not make a pod when it tried last.

    The result is empty where it could, or nothing is known.
    """
    about = re.compile(rf"\bPod {re.escape(pod)} in StatefulSet ")
    newest = next((one for one in reversed(events) if about.search(one.note)), None)
    if newest is None or newest.reason != "FailedCreate":
        return ""
    _, _, why = newest.note.partition(" failed error: ")
    # Why without the pod's name: the status groups members that fail for the same reason.
    return re.sub(rf'^pods "{re.escape(pod)}" is ', "", why or newest.note)


def why_not_bound(events: Sequence[ObservedEvent]) -> str:
    """Return why a claim has no volume; empty if unknown."""
    by_reason = {one.reason: one.note for one in events}
    return next((by_reason[reason] for reason in _WHY_NOT_BOUND if reason in by_reason), "")


def without_use(text: str) -> str:
    """Return the words of a quota without the amount in use."""
    return _USED.sub("", text)


def _text(event: Live) -> str:
    return without_use(" ".join(str(event.get("note") or event.get("message") or "").split()))


def _at(event: Live) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("deprecatedLastTimestamp"), event.get("eventTime"))
    return max((str(one) for one in times if one), default="")
