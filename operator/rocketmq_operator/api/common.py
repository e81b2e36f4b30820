"""Parts of specs that several kinds share: storage, resources, placement."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel, schema_extra

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i)?$"
"""Quantities without sign and exponent: what people write for disks, processors and memory."""
Quantity = Annotated[str, Field(max_length=32, pattern=QUANTITY_PATTERN)]
NAME_LENGTH_MAX = 63
PROPERTIES_MAX = 64
PROPERTY_VALUE_LENGTH_MAX = 1_024

_NO_SHRINK = Rule(
    name="ShrinkRefused",
    expression="quantity(self).compareTo(quantity(oldSelf)) >= 0",
    message="'storage.size cannot shrink from ' + oldSelf + ' to ' + self + ': volumes only grow'",
    reason="FieldValueForbidden",
)


class Storage(SpecModel):
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
    storage_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Class of the volumes; the cluster's default when absent. Cannot change."""


class Resources(SpecModel):
    """Processor and memory of each pod; the request equals the limit of memory, so that a pod is not evicted first."""

    cpu: Quantity
    """Requested processors. No limit is set: throttling looks like a dead broker."""
    memory: Quantity
    """Requested memory and its limit. A broker's heap is half of it, its direct memory a quarter."""


class Spread(StrEnum):
    """How hard members are kept apart."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


class Placement(SpecModel):
    """Where members run."""

    spread: Spread = Spread.PREFERRED
    """Whether two members of a group must not, or rather should not, share a place."""
    topology_key: Annotated[str, Field(min_length=1, max_length=253)] = "kubernetes.io/hostname"
    """What a place is: the label of nodes whose values tell places apart."""
    node_selector: Annotated[
        dict[str, Annotated[str, Field(max_length=NAME_LENGTH_MAX)]], Field(max_length=16)
    ] = Field(default={})
    """Labels that a node must have."""


class DeletionPolicy(StrEnum):
    """What becomes of what outlives an object, volumes or what brokers know, when the object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"
