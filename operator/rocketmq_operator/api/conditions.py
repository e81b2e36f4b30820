"""Conditions: the one place that makes and merges them.

A condition is a fact about an object with one word why. Every kind lists its types; all of them are set at
the first visit, Unknown where nothing is known yet, so that `kubectl wait` never waits for a condition that
does not exist. `lastTransitionTime` moves when the status of a type changes, not when its reason or text
does.

Source: Kubernetes API conventions, "Typical status properties".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from rocketmq_operator.api.base import StatusModel, kept_by

ConditionStatus = Literal["True", "False", "Unknown"]
CONDITIONS_MAX = 16
MESSAGE_LENGTH_MAX = 1_024
NOT_OBSERVED: Final = -1
"""The observed generation that the API server writes into a new object: tools wait for the operator's."""
ObservedGeneration = Annotated[int, Field(ge=NOT_OBSERVED)]


class Condition(StatusModel):
    """One condition as it stands in `.status.conditions`."""

    type: Annotated[str, Field(max_length=64)]
    """What this is about, unique in the list."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """One CamelCase word why."""
    message: Annotated[str, Field(max_length=MESSAGE_LENGTH_MAX)] = ""
    """The same for people."""
    last_transition_time: datetime
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation of the object that this was found for."""


Conditions = Annotated[
    tuple[Condition, ...], Field(max_length=CONDITIONS_MAX, json_schema_extra=kept_by("type"))
]
"""The conditions of a kind, one a type."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The current finding for one type, before it is merged with the previous condition."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


def make_finding(type_: str, *, holds: bool | None, reason: str, message: str = "") -> Finding:
    """Return a finding; `holds` None is Unknown."""
    status: ConditionStatus = "Unknown" if holds is None else "True" if holds else "False"
    return Finding(type_, status, reason, message[:MESSAGE_LENGTH_MAX])


def merge_findings(
    before: Iterable[Condition], findings: Iterable[Finding], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the full list for the status, in the order of the findings.

    The result omits types without a finding: the operator always writes the whole list.
    """
    known: Mapping[str, Condition] = {condition.type: condition for condition in before}
    merged = []
    for finding in findings:
        old = known.get(finding.type)
        since = old.last_transition_time if old is not None and old.status == finding.status else now
        merged.append(
            Condition(
                type=finding.type,
                status=finding.status,
                reason=finding.reason,
                message=finding.message,
                last_transition_time=since,
                observed_generation=generation,
            )
        )
    return tuple(merged)
