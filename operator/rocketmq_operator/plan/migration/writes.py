"""What a migration writes, as values: each is one write, and doing it twice is the same as doing it once."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import MANAGED_BY, Json, Live, belonging_labels
from rocketmq_operator.plan.migration.observed import (
    LOG_ANNOTATION,
    NOTE_ANNOTATION,
    POLICY_ANNOTATION,
    STORE_ANNOTATION,
    Holder,
    Note,
    ObservedMigration,
    OldMember,
    Said,
    Spot,
    annotation,
    held,
    noted,
    set_of,
)

RETAIN: Final = "Retain"


@dataclass(frozen=True, slots=True)
class Patch:
    """Write these fields of an object and no others; None takes one away."""

    kind: str
    namespace: str
    name: str
    body: Json
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.kind} {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object."""

    body: Json
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.body['kind']} {self.body['metadata']['name']}: {self.why}"


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete that very object."""

    kind: str
    namespace: str
    name: str
    uid: str
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.kind} {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Task:
    """Run a pod to its end.

    Attributes:
        body: the pod.
        why: what it does, for people.
        volume: the PersistentVolume that records its output; empty if none does.
        key: the annotation for the output.
        statuses: with what it may end.
    """

    body: Json
    why: str
    volume: str = ""
    key: str = ""
    statuses: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        """Say it in words."""
        return f"Pod {self.body['metadata']['name']}: {self.why}"


Write = Patch | Create | Remove | Task


def annotated(kind: str, live: Live | None, key: str, text: str | None, why: str) -> Patch:
    """Return the patch that writes one annotation of an object."""
    metadata = (live or {})["metadata"]
    body = {"metadata": {"annotations": {key: text}}}
    return Patch(kind, metadata.get("namespace", ""), metadata["name"], body, why)


def noting(observed: ObservedMigration) -> tuple[Patch, ...]:
    """Return what notes on each old StatefulSet who its pods are, while they still tell."""
    found = []
    for name in dict.fromkeys(set_of(member.pod) for member in observed.members):
        mine = [member for member in observed.members if set_of(member.pod) == name]
        live = mine[0].stateful_set or {}
        notes = {member.pod: note.json() for member in mine if (note := _note(observed, member)) is not None}
        value = {"group": observed.wish.group, "replicas": live["spec"]["replicas"], "pods": notes}
        found.append(
            annotated(
                "StatefulSet",
                live,
                NOTE_ANNOTATION,
                json.dumps(value, separators=(",", ":")),
                "note who runs there",
            )
        )
    return tuple(found)


def _note(observed: ObservedMigration, member: OldMember) -> Note | None:
    """Return the note of a broker; for one that need not answer and does not, its master's properties."""
    said: Said | None = member.said or observed.first.said
    if said is None or not isinstance(member.spot, Spot) or member.volume is None:
        return member.note
    return Note(
        claim=member.spot.claim,
        volume=member.volume["metadata"]["name"],
        store=member.spot.store,
        commit_log=member.spot.commit_log,
        file_bytes=said.file_bytes,
        min_offset=said.min_offset,
        max_offset=said.max_offset,
        topics=said.topics,
        groups=said.groups,
        offsets=said.offsets,
        consumed=said.consumed,
    )


def scaled(
    observed: ObservedMigration, members: Iterable[OldMember], replicas: int | None
) -> tuple[Patch, ...]:
    """Return what gives the old StatefulSets of these pods a size, or with None the one that they had."""
    found = []
    for name in dict.fromkeys(set_of(member.pod) for member in members):
        live = next(one.stateful_set for one in observed.members if set_of(one.pod) == name) or {}
        size = int(noted(live).get("replicas", 0)) if replicas is None else replicas
        if live["spec"].get("replicas") != size:
            why = f"{size} instead of {live['spec'].get('replicas')} pods"
            found.append(
                Patch("StatefulSet", observed.wish.namespace, name, {"spec": {"replicas": size}}, why)
            )
    return tuple(found)


def holding(member: OldMember) -> tuple[Write, ...]:
    """Return the writes that delete a volume's old claim and protect the volume from deletion."""
    if member.holder in {Holder.HELD, Holder.NEW}:
        claim = member.old_claim
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return ()
        metadata = claim["metadata"]
        why = "its volume is gone"
        return (Remove("PersistentVolumeClaim", member.namespace, metadata["name"], metadata["uid"], why),)
    volume = member.volume or {}
    policy = annotation(volume, POLICY_ANNOTATION) or volume["spec"]["persistentVolumeReclaimPolicy"]
    body = {
        "metadata": {
            "annotations": {POLICY_ANNOTATION: policy, "pv.kubernetes.io/bound-by-controller": None}
        },
        "spec": {
            "persistentVolumeReclaimPolicy": RETAIN,
            "claimRef": _reference(member, held(member.member)),
        },
    }
    why = f"policy Retain, no longer of the claim of {member.pod}"
    return (Patch("PersistentVolume", "", volume["metadata"]["name"], body, why),)


def claim_writes(observed: ObservedMigration, member: OldMember) -> tuple[Write, ...]:
    """Return what makes the claim that a broker of the operator's expects, for that very volume."""
    if member.new_claim is not None or member.volume is None:
        return ()
    volume = member.volume
    labels = belonging_labels(observed.wish.spec.cluster, observed.wish.group)
    template = parts.claim_template(
        volume["spec"]["capacity"]["storage"], volume["spec"].get("storageClassName", ""), labels
    )
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.claim(member.member),
            "namespace": member.namespace,
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY, **labels},
        },
        "spec": template["spec"]
        | {
            "volumeName": volume["metadata"]["name"],
            "accessModes": volume["spec"]["accessModes"],
            "volumeMode": volume["spec"].get("volumeMode", "Filesystem"),
        },
    }
    return (Create(body, f"for the volume of {member.pod}"),)


def joining(member: OldMember) -> tuple[Write, ...]:
    """Return what gives a volume to its new claim, and when that has it, its policy back."""
    volume = member.volume or {}
    name = volume.get("metadata", {}).get("name", "")
    if member.holder is Holder.HELD:
        claim = names.claim(member.member)
        body: Json = {"spec": {"claimRef": _reference(member, claim)}}
        return (Patch("PersistentVolume", "", name, body, f"to be bound to {claim}"),)
    bound = (member.new_claim or {}).get("status", {}).get("phase") == "Bound"
    policy = annotation(volume, POLICY_ANNOTATION)
    if member.holder is Holder.NEW and bound and policy:
        gone = {POLICY_ANNOTATION: None, LOG_ANNOTATION: None, STORE_ANNOTATION: None}
        body = {"metadata": {"annotations": gone}, "spec": {"persistentVolumeReclaimPolicy": policy}}
        return (Patch("PersistentVolume", "", name, body, f"policy {policy} again"),)
    return ()


def _reference(member: OldMember, claim: str) -> Json:
    """Return a volume's reference to a claim by its name only, whichever that will be."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": member.namespace,
        "name": claim,
        "uid": None,
        "resourceVersion": None,
    }
