"""Kubernetes objects as plain values.

Here are their keys, their common metadata, and whether a live one is as it should be.

`covers` decides without remembering anything: each field that we want must be there with our value; what
others or the API server added is theirs. So a second look after a crash finds the same as the first.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from rocketmq_operator.api.names import (
    API_VERSION,
    CERT_MANAGER_GROUP,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    FAILOVER_KIND,
    GROUP_LABEL,
    REPORT_LABEL,
)

Json = dict[str, Any]
Live = Mapping[str, Any]
MANAGED_BY: Final = "rocketmq-ha-operator"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
BROKER: Final = "broker"
"""Component label of the objects of brokers."""
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
IDENTITY_LABELS: Final = (INSTANCE_LABEL, CLUSTER_LABEL, GROUP_LABEL, REPORT_LABEL)
"""Labels that tell of which resource a child is."""

API_VERSIONS: Final[Mapping[str, str]] = {
    "Certificate": f"{CERT_MANAGER_GROUP}/v1",
    "ConfigMap": "v1",
    "CronJob": "batch/v1",
    "Deployment": "apps/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    FAILOVER_KIND.kind: API_VERSION,
    "Job": "batch/v1",
    "PersistentVolumeClaim": "v1",
    "Pod": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Secret": "v1",
    "Service": "v1",
    "StatefulSet": "apps/v1",
}
_SUFFIXES: Final = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20),
    "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?")


class ObjectKey(NamedTuple):
    """An object among those of one namespace."""

    kind: str
    name: str


Children = Mapping[ObjectKey, Live]


@dataclass(frozen=True, slots=True)
class Owner:
    """The custom resource that children belong to."""

    api_version: str
    kind: str
    name: str
    namespace: str
    uid: str

    def reference(self) -> Json:
        """Return the reference that makes Kubernetes delete a child with its owner."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def key_of(value: Live) -> ObjectKey:
    """Return an object's key."""
    return ObjectKey(value["kind"], value["metadata"]["name"])


def selector_labels(component: str, instance: str) -> dict[str, str]:
    """Return the labels that never change, the only ones a selector may use."""
    return {
        "app.kubernetes.io/name": "rocketmq",
        INSTANCE_LABEL: instance,
        COMPONENT_LABEL: component,
    }


def child(owner: Owner, kind: str, name: str, *, labels: Mapping[str, str], **body: Any) -> Json:  # noqa: ANN401 - JSON
    """Return a child of `owner` with the metadata that all children have."""
    return {
        "apiVersion": API_VERSIONS[kind],
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY, **labels},
            "ownerReferences": [owner.reference()],
        },
        **body,
    }


def belonging_labels(cluster: str, group: str | None = None) -> dict[str, str]:
    """Return the labels that tell where a child belongs."""
    return {"app.kubernetes.io/part-of": cluster, CLUSTER_LABEL: cluster} | (
        {GROUP_LABEL: group} if group is not None else {}
    )


def controller_of(live: Live) -> Live | None:
    """Return the owner reference of an object's controller, None if it has none."""
    references = live["metadata"].get("ownerReferences") or []
    return next((one for one in references if one.get("controller")), None)


def belongs_to(live: Live, owner: Owner) -> bool:
    """Tell whether an object was made for this very owner."""
    reference = controller_of(live)
    return reference is not None and reference["uid"] == owner.uid


def is_ours(live: Live, owner: Owner, labels: Mapping[str, str | None]) -> bool:
    """Tell whether an object is a child of this owner, or one that lost its owner.

    A child without an owner has the labels of such a child.

    Args:
        live: the object.
        owner: the custom resource.
        labels: those of its children that tell whose they are; None for a label that they have not.
    """
    if controller_of(live) is not None:
        return belongs_to(live, owner)
    has = live["metadata"].get("labels") or {}
    wanted = {MANAGED_BY_LABEL: MANAGED_BY, **labels}
    return all(has.get(key) == value for key, value in wanted.items())


def describe_owner(live: Live, owner: Owner) -> str:
    """Say whose an object is, by its owner reference, its labels, or else by who wrote it."""
    metadata = live["metadata"]
    labels = metadata.get("labels") or {}
    reference = controller_of(live)
    if reference is not None:
        name = f"{reference['kind']} {reference['name']}"
        if name == f"{owner.kind} {owner.name}":
            return f"it is of a former {name}, which was deleted; Kubernetes deletes it too"
        return f"its owner is {name}"
    if GROUP_LABEL in labels:
        return f"its labels name BrokerGroup {labels[GROUP_LABEL]} of cluster {labels.get(CLUSTER_LABEL, '')}"
    if CLUSTER_LABEL in labels:
        return f"its labels name RocketMQCluster {labels[CLUSTER_LABEL]}"
    if REPORT_LABEL in labels:
        return f"its labels name SLOReport {labels[REPORT_LABEL]}"
    if manager := labels.get(MANAGED_BY_LABEL):
        release = (metadata.get("annotations") or {}).get("meta.helm.sh/release-name", "")
        return f"it is managed by {manager}" + (f", release {release}" if release else "")
    writers = dict.fromkeys(
        one["manager"] for one in metadata.get("managedFields") or [] if one.get("manager")
    )
    return f"it was written by {', '.join(writers)}" if writers else "it names no owner"


def quantity(text: str) -> Decimal | None:
    """Return the value of a Kubernetes quantity, None for other texts."""
    match = _QUANTITY.fullmatch(text)
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""] if match else None


def covers(live: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether `live` has every field of `wanted` with an equal value; lists must be of equal length."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            key in live and covers(live[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(live, list | tuple)
            and len(live) == len(wanted)
            and all(covers(one, other) for one, other in zip(live, wanted, strict=True))
        )
    return bool(live == wanted) or _equal_quantities(live, wanted)


def _equal_quantities(live: object, wanted: object) -> bool:
    if not (isinstance(live, str) and isinstance(wanted, str)):
        return False
    value = quantity(live)
    return value is not None and value == quantity(wanted)


def replaced_by_key(children: Children, written: list[Json]) -> dict[ObjectKey, Live]:
    """Return the children, with written objects in place of the previous ones."""
    return dict(children) | {key_of(body): body for body in written}


def cluster_ip(service: Live) -> str:
    """Return a Service's ClusterIP, empty while it has none."""
    return str(service["spec"].get("clusterIP", ""))


def families_of(service: Live) -> tuple[str, ...]:
    """Return the families of a Service's addresses, that of its ClusterIP first."""
    spec = service["spec"]
    return tuple(spec.get("ipFamilies") or ()) or (family_of(cluster_ip(service)),)


def family_of(address: str) -> str:
    """Return the family of an IP address, in Kubernetes' words."""
    return "IPv6" if ":" in address else "IPv4"


def by_key(values: Iterable[Live]) -> dict[ObjectKey, Live]:
    """Return objects by kind and name."""
    return {key_of(value): value for value in values}
