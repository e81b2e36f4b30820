"""What Topic, ConsumerGroup and User have in common.

Names in brokers' tables, the policy for drift, and the status.

Each stands for one entry of the metadata of every chosen broker group of a cluster. The words of their
settings are RocketMQ's own.
"""

import re
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, StatusModel, kept_by, schema_extra
from rocketmq_operator.api.common import CLUSTER_NAME_PATTERN, NAME_LENGTH_MAX
from rocketmq_operator.api.conditions import MESSAGE_LENGTH_MAX, NOT_OBSERVED, Conditions, ObservedGeneration
from rocketmq_operator.api.rules import unchangeable

BROKER_GROUPS_MAX: Final = 64
DIFFERENCES_MAX: Final = 16
VALUE_LENGTH_MAX: Final = 256
NAME_PATTERN: Final = "^[%|a-zA-Z0-9_-]+$"
"""Source: RocketMQ 5.3.3 TopicValidator.java, isTopicOrGroupIllegal."""
RESERVED_PREFIXES: Final = ("%RETRY%", "%DLQ%")
"""Topics that brokers make for consumer groups. Source: RocketMQ 5.3.3 MixAll.java."""

ClusterName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_LENGTH_MAX,
        pattern=CLUSTER_NAME_PATTERN,
        json_schema_extra=schema_extra(unchangeable("cluster", "make another object")),
    ),
]
GroupNames = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX, pattern=CLUSTER_NAME_PATTERN)], ...],
    Field(max_length=BROKER_GROUPS_MAX, json_schema_extra={"x-kubernetes-list-type": "set"}),
]


class DriftPolicy(StrEnum):
    """The operator's reaction when another client changes a topic, consumer group or user in brokers."""

    CORRECT = "Correct"
    """The operator writes the spec again, and an Event reports the difference."""
    REPORT = "Report"
    """The operator reports the difference and does not change it."""


def name_rules(
    field: str, attribute: str, system_names: tuple[str, ...], system_prefix: str
) -> tuple[Rule, ...]:
    """Return the rules of a name in brokers' tables: its characters, none of RocketMQ's own, and no change.

    Args:
        field: its name in the spec, which may be absent.
        attribute: the same on the model.
        system_names: names that RocketMQ has for itself.
        system_prefix: what others of them begin with.
    """
    forbidden = (*RESERVED_PREFIXES, system_prefix)
    listed = "[" + ", ".join(f"'{name}'" for name in system_names) + "]"
    begins = " || ".join(f"self.{field}.startsWith('{prefix}')" for prefix in forbidden)

    def given(holds: Callable[[str], bool]) -> Callable[[Any], bool]:
        return lambda spec: getattr(spec, attribute) is None or holds(getattr(spec, attribute))

    return (
        Rule(
            name="BadName",
            expression=f"!has(self.{field}) || self.{field}.matches('{NAME_PATTERN}')",
            message=f"'{field} is \"' + self.{field} + '\": RocketMQ takes letters, digits, %, |, _ and - "
            "alone'",
            holds=given(lambda name: re.fullmatch(NAME_PATTERN, name) is not None),
            problem=lambda spec: (
                f'{field} is "{getattr(spec, attribute)}": RocketMQ takes letters, digits, %, |, _ and - '
                "alone"
            ),
        ),
        Rule(
            name="SystemName",
            expression=f"!has(self.{field}) || !(self.{field} in {listed} || {begins})",
            message=f"'{field} is ' + self.{field} + ': RocketMQ has names like this for itself'",
            holds=given(lambda name: name not in system_names and not name.startswith(forbidden)),
            problem=lambda spec: (
                f"{field} is {getattr(spec, attribute)}: RocketMQ has names like this for itself"
            ),
        ),
        unchangeable_name(field),
    )


def unchangeable_name(field: str) -> Rule:
    """Return the rule that a name in brokers' tables, which may be absent, keeps its first value."""
    return Rule(
        name="Unchangeable",
        expression=f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        message=f"'{field} cannot change from ' + (has(oldSelf.{field}) ? oldSelf.{field} : "
        f"'metadata.name') + ' to ' + (has(self.{field}) ? self.{field} : 'metadata.name') + ': make "
        "another object'",
        reason="FieldValueForbidden",
    )


class FieldDrift(StatusModel):
    """One setting that a broker group has otherwise than the spec."""

    field: Annotated[str, Field(max_length=160)]
    """The field of the spec."""
    wanted: Annotated[str, Field(max_length=VALUE_LENGTH_MAX)] = ""
    """What the spec says."""
    found: Annotated[str, Field(max_length=VALUE_LENGTH_MAX)] = ""
    """What the group's master has; empty for none."""


class GroupState(StrEnum):
    """How one broker group has it."""

    APPLIED = "Applied"
    MISSING = "Missing"
    DRIFTED = "Drifted"
    UNREACHABLE = "Unreachable"
    UNKNOWN_GROUP = "UnknownGroup"


class GroupMetadataStatus(StatusModel):
    """What one broker group has."""

    group: Annotated[str, Field(max_length=NAME_LENGTH_MAX)]
    """The BrokerGroup."""
    state: GroupState
    """Applied, Missing, Drifted, Unreachable (its master did not answer or is unknown) or UnknownGroup (the
    BrokerGroup does not exist)."""
    message: Annotated[str, Field(max_length=MESSAGE_LENGTH_MAX)] = ""
    """Why it could not be asked."""
    differences: Annotated[
        tuple[FieldDrift, ...], Field(max_length=DIFFERENCES_MAX, json_schema_extra=kept_by("field"))
    ] = ()
    """What it has otherwise than the spec."""


class MetadataStatus(StatusModel):
    """What the operator says of a Topic, a ConsumerGroup or a User."""

    observed_generation: ObservedGeneration = 0
    """The generation that was acted on in every broker group, or that a person must correct."""
    applied_generation: Annotated[int, Field(ge=NOT_OBSERVED)] | None = None
    """The generation that was brought to every broker group: what differs from it is drift."""
    conditions: Conditions = ()
    """Ready, InSync, Unrivalled, Reconciling and Stalled; of a User RightsEnforced too."""
    name: Annotated[str, Field(max_length=255)] = ""
    """Its name in the brokers."""
    in_sync: Annotated[str, Field(max_length=16)] = ""
    """Broker groups that have it as the spec says, of all that should, for instance 2/2."""
    groups: Annotated[
        tuple[GroupMetadataStatus, ...],
        Field(max_length=BROKER_GROUPS_MAX, json_schema_extra=kept_by("group")),
    ] = ()
    """Each broker group that should have it."""
    last_corrected: datetime | None = None
    """When drift was last corrected."""
    last_correction: Annotated[str, Field(max_length=MESSAGE_LENGTH_MAX)] = ""
    """The differences that the operator corrected then."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """One word why it is not ready; empty when it is."""
