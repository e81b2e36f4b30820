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
    BrokerRecord,
    BrokerReport,
    ObservedMigration,
    OldMember,
    StoreInClaim,
    VolumeHolder,
    annotation,
    recorded_pods,
    stateful_set_of,
    unbindable_claim,
)

RETAIN: Final = "Retain"


@dataclass(frozen=True, slots=True)
class PatchObject:
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
class CreateObject:
    """Make an object."""

    body: Json
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.body['kind']} {self.body['metadata']['name']}: {self.why}"


@dataclass(frozen=True, slots=True)
class DeleteObject:
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
class RunPod:
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


Write = PatchObject | CreateObject | DeleteObject | RunPod


def write_annotation(kind: str, live: Live | None, key: str, text: str | None, why: str) -> PatchObject:
    """Return the patch that writes one annotation of an object."""
    metadata = (live or {})["metadata"]
    body = {"metadata": {"annotations": {key: text}}}
    return PatchObject(kind, metadata.get("namespace", ""), metadata["name"], body, why)


def record_brokers(observed: ObservedMigration) -> tuple[PatchObject, ...]:
    """Return what notes on each old StatefulSet who its pods are, while they still tell."""
    found = []
    for name in dict.fromkeys(stateful_set_of(member.pod) for member in observed.members):
        mine = [member for member in observed.members if stateful_set_of(member.pod) == name]
        live = mine[0].stateful_set or {}
        records = {
            member.pod: record.json()
            for member in mine
            if (record := _record_of_broker(observed, member)) is not None
        }
        value = {"group": observed.request.group, "replicas": live["spec"]["replicas"], "pods": records}
        found.append(
            write_annotation(
                "StatefulSet",
                live,
                NOTE_ANNOTATION,
                json.dumps(value, separators=(",", ":")),
                "note who runs there",
            )
        )
    return tuple(found)


def _record_of_broker(observed: ObservedMigration, member: OldMember) -> BrokerRecord | None:
    """Return the note of a broker; for one that need not answer and does not, its master's properties."""
    report: BrokerReport | None = member.report or observed.first.report
    if report is None or not isinstance(member.store_location, StoreInClaim) or member.volume is None:
        return member.record
    return BrokerRecord(
        claim=member.store_location.claim,
        volume=member.volume["metadata"]["name"],
        store=member.store_location.store,
        commit_log=member.store_location.commit_log,
        file_bytes=report.file_bytes,
        min_offset=report.min_offset,
        max_offset=report.max_offset,
        topics=report.topics,
        groups=report.groups,
        offsets=report.offsets,
        consumed=report.consumed,
    )


def scale_stateful_sets(
    observed: ObservedMigration, members: Iterable[OldMember], replicas: int | None
) -> tuple[PatchObject, ...]:
    """Return what gives the old StatefulSets of these pods a size, or with None the one that they had."""
    found = []
    for name in dict.fromkeys(stateful_set_of(member.pod) for member in members):
        live = next(one.stateful_set for one in observed.members if stateful_set_of(one.pod) == name) or {}
        size = int(recorded_pods(live).get("replicas", 0)) if replicas is None else replicas
        if live["spec"].get("replicas") != size:
            why = f"{size} instead of {live['spec'].get('replicas')} pods"
            found.append(
                PatchObject(
                    "StatefulSet", observed.request.namespace, name, {"spec": {"replicas": size}}, why
                )
            )
    return tuple(found)


def release_volume(member: OldMember) -> tuple[Write, ...]:
    """Return the writes that delete a volume's old claim and protect the volume from deletion."""
    if member.holder in {VolumeHolder.HELD, VolumeHolder.NEW}:
        claim = member.old_claim
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return ()
        metadata = claim["metadata"]
        why = "its volume is gone"
        return (
            DeleteObject("PersistentVolumeClaim", member.namespace, metadata["name"], metadata["uid"], why),
        )
    volume = member.volume or {}
    policy = annotation(volume, POLICY_ANNOTATION) or volume["spec"]["persistentVolumeReclaimPolicy"]
    body = {
        "metadata": {
            "annotations": {POLICY_ANNOTATION: policy, "pv.kubernetes.io/bound-by-controller": None}
        },
        "spec": {
            "persistentVolumeReclaimPolicy": RETAIN,
            "claimRef": _reference(member, unbindable_claim(member.member)),
        },
    }
    why = f"policy Retain, no longer of the claim of {member.pod}"
    return (PatchObject("PersistentVolume", "", volume["metadata"]["name"], body, why),)


def create_claim(observed: ObservedMigration, member: OldMember) -> tuple[Write, ...]:
    """Return what makes the claim that a broker of the operator's expects, for that very volume."""
    if member.new_claim is not None or member.volume is None:
        return ()
    volume = member.volume
    labels = belonging_labels(observed.request.spec.cluster, observed.request.group)
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
    return (CreateObject(body, f"for the volume of {member.pod}"),)


def bind_volume(member: OldMember) -> tuple[Write, ...]:
    """Return what gives a volume to its new claim, and when that has it, its policy back."""
    volume = member.volume or {}
    name = volume.get("metadata", {}).get("name", "")
    if member.holder is VolumeHolder.HELD:
        claim = names.claim(member.member)
        body: Json = {"spec": {"claimRef": _reference(member, claim)}}
        return (PatchObject("PersistentVolume", "", name, body, f"to be bound to {claim}"),)
    bound = (member.new_claim or {}).get("status", {}).get("phase") == "Bound"
    policy = annotation(volume, POLICY_ANNOTATION)
    if member.holder is VolumeHolder.NEW and bound and policy:
        gone = {POLICY_ANNOTATION: None, LOG_ANNOTATION: None, STORE_ANNOTATION: None}
        body = {"metadata": {"annotations": gone}, "spec": {"persistentVolumeReclaimPolicy": policy}}
        return (PatchObject("PersistentVolume", "", name, body, f"policy {policy} again"),)
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
