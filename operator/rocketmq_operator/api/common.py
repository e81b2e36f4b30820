"""Parts of specs that several kinds share: storage, resources, placement."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from rocketmq_operator.api.base import INT_OR_STRING, KEPT_WHOLE, Rule, SpecModel, schema_extra

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i)?$"
"""Quantities without sign and exponent: what people write for disks, processors and memory."""
Quantity = Annotated[str, Field(max_length=32, pattern=QUANTITY_PATTERN)]


def _number_as_text(value: object) -> object:
    """Return a whole number as its digits, and anything else as it is: in YAML `cpu: 1` is a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Amount = Annotated[
    str,
    Field(max_length=32, pattern=QUANTITY_PATTERN, json_schema_extra=INT_OR_STRING),
    BeforeValidator(_number_as_text),
]
"""A quantity that may also be a whole number, as in the resources of a Kubernetes pod."""
NAME_LENGTH_MAX = 63
CLUSTER_NAME_PATTERN: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""Of the name of a RocketMQCluster, in its own definition and where another kind names it."""
SECONDS_PER_DAY: Final = 86_400
SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""Of names of Kubernetes' objects: they become parts of URLs."""
LABEL_KEY_PATTERN: Final = r"^(([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
LABEL_VALUE_PATTERN: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN_PATTERN)]
PROPERTIES_MAX = 64
PROPERTY_VALUE_LENGTH_MAX = 1_024
PROPERTY_VALUE_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""One line, without control characters."""
Properties = Annotated[
    dict[str, Annotated[str, Field(max_length=PROPERTY_VALUE_LENGTH_MAX, pattern=PROPERTY_VALUE_PATTERN)]],
    Field(max_length=PROPERTIES_MAX),
]
"""Keys of a configuration file of RocketMQ, and their values."""

_NO_SHRINK = Rule(
    name="ShrinkRefused",
    expression="quantity(self).compareTo(quantity(oldSelf)) >= 0",
    message="'storage.size cannot shrink from ' + oldSelf + ' to ' + self + ': volumes only grow'",
    reason="FieldValueForbidden",
)


class StorageSpec(SpecModel):
    """The volume of each member."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="Unchangeable",
            expression="has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="'storage.storageClassName cannot change from ' + "
            "(has(oldSelf.storageClassName) ? oldSelf.storageClassName : 'the default') + ' to ' + "
            "(has(self.storageClassName) ? self.storageClassName : 'the default') + ': volumes do not move'",
            reason="FieldValueForbidden",
        ),
    )

    size: Annotated[Quantity, Field(json_schema_extra=schema_extra(_NO_SHRINK))]
    """Size of a volume, for instance 100Gi. May grow, never shrink."""
    storage_class_name: ObjectName | None = None
    """Class of the volumes; the cluster's default when absent. Cannot change."""


class Resources(SpecModel):
    """CPU and memory of each pod.

    The limit of memory equals the request, so that a pod is not evicted first.
    """

    cpu: Amount
    """Requested CPUs, for instance 1 or 500m; `cpuLimit` where that is less."""
    memory: Amount
    """Requested memory and its limit. A broker's heap is half of it, its direct memory a quarter."""
    cpu_limit: Amount | None = None
    """Limit of CPUs, for a namespace whose quota demands one. No limit when absent: throttling looks like a
    dead broker."""


class Spread(StrEnum):
    """How strictly the scheduler separates members."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


class Toleration(SpecModel):
    """A taint of nodes that members put up with. Source: Kubernetes 1.34 Toleration of core/v1."""

    key: Annotated[str, Field(max_length=253, pattern=LABEL_KEY_PATTERN)] = ""
    """Of the taint; every taint when empty, with operator Exists."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """Whether the taint must exist, or must have `value`."""
    value: Annotated[str, Field(max_length=NAME_LENGTH_MAX, pattern=LABEL_VALUE_PATTERN)] = ""
    """Of the taint, for Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Of the taint; every one when empty."""
    toleration_seconds: Annotated[int, Field(ge=0, le=SECONDS_PER_DAY)] | None = None
    """How long a taint with NoExecute is put up with, for ever when absent."""


class Placement(SpecModel):
    """Where members run."""

    spread: Spread = Spread.PREFERRED
    """Whether two members of a group must not, or rather should not, share a place."""
    topology_key: Annotated[str, Field(min_length=1, max_length=253, pattern=LABEL_KEY_PATTERN)] = (
        "kubernetes.io/hostname"
    )
    """What a place is: the label of nodes whose values tell places apart."""
    node_selector: Annotated[
        dict[str, Annotated[str, Field(max_length=NAME_LENGTH_MAX, pattern=LABEL_VALUE_PATTERN)]],
        Field(max_length=16),
    ] = Field(default={})
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16, json_schema_extra=KEPT_WHOLE)] = ()
    """Taints that members put up with. Without one of its own Kubernetes removes a pod from a node that is
    silent after 300 s."""


class LostPolicy(StrEnum):
    """What becomes of a member whose node is gone for good."""

    KEEP = "Keep"
    """It waits for its node. What it had on its volume is as safe as that."""
    REPLACE = "Replace"
    """The operator deletes its pod by force; if its volume is on the lost node only, the member starts with
    an empty volume elsewhere."""


class LostMembers(SpecModel):
    """Members whose node is gone."""

    policy: LostPolicy = LostPolicy.KEEP
    """Keep or Replace. A volume is given up only while the others hold all that was acknowledged or
    decided."""
    after_seconds: Annotated[int, Field(ge=30, le=SECONDS_PER_DAY)] = 600
    """How long a pod may be on its way out, or without a place for its volume's sake, until its node counts
    as lost."""


class LogLevel(StrEnum):
    """The least level that processes log."""

    DEBUG = "Debug"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


class LogTarget(StrEnum):
    """Where RocketMQ's own processes log."""

    STDOUT = "Stdout"
    """To standard output, where the container runtime bounds the size."""
    FILES = "Files"
    """As the image says: to files in the scratch space of the pod, rotated by size."""


class DeletionPolicy(StrEnum):
    """What becomes of what outlives an object, volumes or what brokers know, when the object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"
