"""Which of two operators acts: a Lease, taken and renewed by its holder, taken over when it is old.

The holder's own clock and the watcher's may differ. So a watcher never compares the times in the Lease with
its clock; it measures with its own monotonic clock how long the Lease has not changed. The holder in turn
stops acting when it could not renew for `RENEW_DEADLINE_S`, which is shorter than `DURATION_S`: it is quiet
before another may act.

Source: Kubernetes client-go, tools/leaderelection, for the rule and its 15, 10 and 2 seconds.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from rocketmq_operator.plan.common.objects import Json, Live

DURATION_S: Final = 15.0
RENEW_DEADLINE_S: Final = 10.0
RETRY_S: Final = 2.0
STANDBY_S: Final = 0.5
"""Interval in seconds at which a standby operator checks whether the holder released the Lease; one small
read."""
LEASE_NAME: Final = "rocketmq-operator"


class LeaseAction(StrEnum):
    """What to do with the Lease now."""

    TAKE = "Take"
    RENEW = "Renew"
    WATCH = "Watch"


@dataclass(frozen=True, slots=True)
class LeaseSighting:
    """A version of the Lease and when it was first seen, by our own monotonic clock in seconds."""

    version: str
    since_s: float


def sighting_of(lease: Live | None, before: LeaseSighting | None, now_s: float) -> LeaseSighting:
    """Return the sight of this version: the former one while nothing changed."""
    version = "" if lease is None else str(lease["metadata"].get("resourceVersion", ""))
    return before if before is not None and before.version == version else LeaseSighting(version, now_s)


def lease_action(lease: Live | None, identity: str, sight: LeaseSighting, now_s: float) -> LeaseAction:
    """Return what to do with a Lease that has been as it is since `sight`."""
    holder = "" if lease is None else lease.get("spec", {}).get("holderIdentity", "")
    if holder == identity:
        return LeaseAction.RENEW
    if not holder or now_s - sight.since_s >= DURATION_S:
        return LeaseAction.TAKE
    return LeaseAction.WATCH


def may_act(renewed_s: float | None, now_s: float) -> bool:
    """Tell whether a holder that renewed at `renewed_s` may still act."""
    return renewed_s is not None and now_s - renewed_s < RENEW_DEADLINE_S


def lease_body(lease: Live | None, namespace: str, identity: str, now: datetime) -> Json:
    """Return the Lease as its new or old holder writes it.

    It carries the observed resource version: if two operators take the Lease at once, the API server refuses
    the second.
    """
    spec = dict(lease.get("spec", {})) if lease is not None else {}
    taken_over = spec.get("holderIdentity") != identity
    text = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec |= {"holderIdentity": identity, "leaseDurationSeconds": int(DURATION_S), "renewTime": text}
    if taken_over:
        spec |= {"acquireTime": text, "leaseTransitions": int(spec.get("leaseTransitions", 0)) + 1}
    metadata: Json = {"name": LEASE_NAME, "namespace": namespace}
    if lease is not None:
        # Labels and annotations are the installer's: a Lease that came with a release must stay recognisable
        # as its.
        kept = ("labels", "annotations", "resourceVersion")
        metadata |= {key: lease["metadata"][key] for key in kept if key in lease["metadata"]}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
