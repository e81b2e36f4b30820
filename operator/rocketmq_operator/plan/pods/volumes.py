"""The volumes of a group's members: templates for new claims, and what existing claims lack.

Kubernetes does not let the templates of a StatefulSet change, so the operator writes to each claim itself: a
larger size, another VolumeAttributesClass, further labels and annotations. Members of an ephemeral group have
an emptyDir under the same name.
"""

from collections.abc import Callable, Mapping
from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.api.pods.storage import GroupStorage
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.actions import Apply, ResourcePlan, Step
from rocketmq_operator.plan.common.objects import Children, Json, Live, covers, quantity

TIERED_VOLUME: Final = "tiered"
TIERED_PATH: Final = "/var/lib/rocketmq-tiered"
TIERED_KEY: Final = "tieredStoreFilePath"
"""Source: RocketMQ 5.5.0 tieredstore/MessageStoreConfig.java."""
_CLAIM: Final = "PersistentVolumeClaim"


def claim_templates(storage: GroupStorage, labels: Mapping[str, str], *, brokers: bool) -> list[Json]:
    """Return the templates of the claims of each member.

    Args:
        storage: of the members.
        labels: by which a claim is found again.
        brokers: whether the members are brokers, and not log replicas.
    """
    if storage.ephemeral:
        return []
    made = [parts.claim_template(storage.size, storage.storage_class_name, labels)]
    if storage.tiered is not None and brokers:
        tiered = parts.claim_template(storage.tiered.size, storage.tiered.storage_class_name, labels)
        made.append(tiered | {"metadata": tiered["metadata"] | {"name": TIERED_VOLUME}})
    for one in made:
        one["metadata"]["labels"] |= storage.labels or {}
        if storage.annotations:
            one["metadata"]["annotations"] = dict(storage.annotations)
        if storage.volume_attributes_class_name is not None:
            one["spec"]["volumeAttributesClassName"] = storage.volume_attributes_class_name
    return made


def with_volumes(pod: Json, storage: GroupStorage, *, brokers: bool) -> Json:
    """Return a member's pod with the volumes that its claims do not bring, and the mount of the second."""
    if storage.ephemeral:
        volume = {"name": names.DATA_VOLUME, "emptyDir": {"sizeLimit": storage.size}}
        return pod | {"volumes": [*pod["volumes"], volume]}
    if storage.tiered is None or not brokers:
        return pod
    (main,) = pod["containers"]
    mount = {"name": TIERED_VOLUME, "mountPath": TIERED_PATH}
    return pod | {"containers": [main | {"volumeMounts": [*main["volumeMounts"], mount]}]}


def tiered_keys(spec: BrokerGroupSpec) -> dict[str, str]:
    """Return the keys of broker.conf that point at the second volume; empty without one."""
    return {} if spec.storage.tiered is None else {TIERED_KEY: TIERED_PATH}


def claim_steps(
    children: Children, storage_of: Callable[[str], GroupStorage], namespace: str
) -> ResourcePlan:
    """Return the steps that bring existing claims to the spec; a volume only grows.

    Args:
        children: of the group.
        storage_of: what the spec says of a pod's volumes, by its name.
        namespace: of the group.
    """
    steps: list[Step] = []
    for key, live in sorted(children.items()):
        if key.kind != _CLAIM:
            continue
        storage = storage_of(key.name.partition("-")[2])
        if (body := _claim(storage, namespace, key.name, live)) is not None:
            grows = not covers(live["spec"]["resources"], body["spec"]["resources"])
            steps.append(Apply(body, "to grow" if grows else "differs"))
    return ResourcePlan(tuple(steps))


def _claim(storage: GroupStorage, namespace: str, name: str, live: Live) -> Json | None:
    """Return what a claim lacks, with all that we write to it; None if it lacks nothing."""
    size = storage.size
    if name.startswith(f"{TIERED_VOLUME}-"):
        size = "" if storage.tiered is None else storage.tiered.size
    wanted, given = quantity(size), quantity(live["spec"]["resources"]["requests"]["storage"])
    if wanted is None or given is None:
        return None
    if given > wanted:
        size = live["spec"]["resources"]["requests"]["storage"]
    metadata: Json = {"name": name}
    spec: Json = {"resources": {"requests": {"storage": size}}}
    if storage.labels:
        metadata["labels"] = dict(storage.labels)
    if storage.annotations:
        metadata["annotations"] = dict(storage.annotations)
    if storage.volume_attributes_class_name is not None:
        spec["volumeAttributesClassName"] = storage.volume_attributes_class_name
    wanted_fields = {"metadata": metadata, "spec": spec}
    if covers(live, wanted_fields):
        return None
    whole = metadata | {"namespace": namespace}
    return {"apiVersion": "v1", "kind": _CLAIM, "metadata": whole, "spec": spec}


def storage_findings(spec: BrokerGroupSpec) -> tuple[Finding, ...]:
    """Return that the storage of an ephemeral group does not last; nothing for others."""
    if not spec.storage.ephemeral:
        return ()
    text = "storage.ephemeral is true: a member that is deleted or moves loses all its messages"
    return (make_finding("StorageDurable", holds=False, reason="Ephemeral", message=text),)
