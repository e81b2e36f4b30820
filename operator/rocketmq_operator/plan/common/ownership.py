"""Whose an object is, and whether a name that the operator is about to write is taken.

| the live object has | it is |
|---|---|
| a controller reference with the UID of our resource | ours |
| a controller reference with another UID, also of a deleted resource of that name | somebody else's |
| no controller reference, and the labels with which we make it | ours: the next apply adopts it |
| no controller reference, and other labels | somebody else's |

The third row is what `kubectl delete --cascade=orphan` leaves. Pods and PersistentVolumeClaims belong to
their StatefulSet, and a claim outlives it: their labels alone decide.

Labels find our children, and a foreign object has other labels. So the operator looks up each name once, by
itself, before it writes the first object of that name (`handlers.observing.name_lookup`). Server-side apply
would take a foreign object over: its new fields conflict with nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketmq_operator.plan.common.actions import (
    Apply,
    IssueCertificates,
    ResourcePlan,
    Wait,
    WriteAuthority,
    name_taken,
)
from rocketmq_operator.plan.common.objects import Children, Live, ObjectKey, Owner, key_of
from rocketmq_operator.plan.common.objects import is_ours as is_child

OF_STATEFUL_SET: Final = frozenset({"Pod", "PersistentVolumeClaim"})
"""Kinds that the operator does not make: a StatefulSet does, and takes one that is there already."""
Identity = Mapping[str, str | None]
"""Labels that tell whose an object is; None for a label that it must not have."""


@dataclass(frozen=True, slots=True)
class NameLookup:
    """What the API server said of names that no child of ours has.

    Attributes:
        asked: the names.
        live: the objects that have one of them.
        reserved: names that an older resource of ours will write, with that resource in words.
    """

    asked: frozenset[ObjectKey] = frozenset()
    live: Children = field(default_factory=dict)
    reserved: Mapping[ObjectKey, str] = field(default_factory=dict)


NO_LOOKUP: Final = NameLookup()


@dataclass(frozen=True, slots=True)
class ClaimedNames:
    """The names that a resource of ours writes, and the labels of what it writes."""

    keys: frozenset[ObjectKey]
    identity: Identity


def is_ours(live: Live, owner: Owner, identity: Identity) -> bool:
    """Tell whether a live object that has a name of ours is ours."""
    if live.get("kind") in OF_STATEFUL_SET:
        labels = live["metadata"].get("labels") or {}
        return all(labels.get(key) == value for key, value in identity.items())
    return is_child(live, owner, identity)


def why_name_is_taken(
    owner: Owner, claim: ClaimedNames, children: Children, looked_up: NameLookup
) -> Wait | None:
    """Say which name of ours is somebody else's, None if none is as far as is known."""
    for key in sorted(claim.keys):
        live = children.get(key) or looked_up.live.get(key)
        if live is not None and not is_ours(live, owner, claim.identity):
            return name_taken(live, owner)
        if live is None and key in looked_up.reserved:
            return Wait(
                "NameTaken", f"{key.kind} {key.name} is that of {looked_up.reserved[key]}, which is older"
            )
    return None


def unknown_names(
    claim: ClaimedNames, plan: ResourcePlan, children: Children, looked_up: NameLookup
) -> frozenset[ObjectKey]:
    """Return the names to look up before this plan is carried out: none unless it makes an object."""
    made = {
        key_of(step.body)
        for step in plan.steps
        if isinstance(step, Apply) and _creates_objects(step, children)
    } | {
        ObjectKey("Secret", step.secret)
        for step in plan.steps
        if isinstance(step, WriteAuthority | IssueCertificates)
        and ObjectKey("Secret", step.secret) not in children
    }
    if not made:
        return frozenset()
    return (claim.keys | made) - children.keys() - looked_up.asked


def _creates_objects(step: Apply, children: Children) -> bool:
    """Tell whether a step makes an object, or has a StatefulSet make more of them."""
    live = children.get(key_of(step.body))
    if live is None:
        return True
    if step.body["kind"] != "StatefulSet":
        return False
    return int(step.body["spec"]["replicas"]) > int(live.get("spec", {}).get("replicas", 0))
