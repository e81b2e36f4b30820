"""One objective in OpenSLO's terms: the name of an indicator, its threshold, and its target.

The catalogue of indicators is slo-pipeline's; only what decides whether an objective can be used is repeated
here, and a test holds the two equal. A person who copies the `slos` of a file for slo-pipeline has a list for
an SLOReport.

Source: OpenSLO v1, SLO.spec: targetPercent, op, value, budgetingMethod, timeSliceWindow.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel
from rocketmq_operator.api.common import PROPERTY_VALUE_PATTERN

VALUE_MAX: Final = 1e15


class BudgetingMethod(StrEnum):
    """How good and bad are counted."""

    TIMESLICES = "Timeslices"
    """Good stretches of time."""
    OCCURRENCES = "Occurrences"
    """Good events."""


class Comparison(StrEnum):
    """On which side of the threshold good is."""

    AT_MOST = "lte"
    AT_LEAST = "gte"


class IndicatorName(StrEnum):
    """What is measured."""

    WRITE_AVAILABILITY = "write_availability"
    SEND_LATENCY = "send_latency"
    REPLICATION_LAG = "replication_lag"
    IN_SYNC_RATIO = "in_sync_ratio"
    CONTROLLER_LEADER = "controller_leader"
    FAILOVER_DURATION = "failover_duration"
    DURABILITY = "durability"
    ELECTION_HEALTH = "election_health"


class ObjectiveIndicator(NamedTuple):
    """The comparison of an indicator; `op` is None for one without a threshold."""

    method: BudgetingMethod
    op: Comparison | None = None


INDICATORS: Final[dict[IndicatorName, ObjectiveIndicator]] = {
    IndicatorName.WRITE_AVAILABILITY: ObjectiveIndicator(BudgetingMethod.TIMESLICES),
    IndicatorName.SEND_LATENCY: ObjectiveIndicator(BudgetingMethod.OCCURRENCES, Comparison.AT_MOST),
    IndicatorName.REPLICATION_LAG: ObjectiveIndicator(BudgetingMethod.TIMESLICES, Comparison.AT_MOST),
    IndicatorName.IN_SYNC_RATIO: ObjectiveIndicator(BudgetingMethod.TIMESLICES, Comparison.AT_LEAST),
    IndicatorName.CONTROLLER_LEADER: ObjectiveIndicator(BudgetingMethod.TIMESLICES),
    IndicatorName.FAILOVER_DURATION: ObjectiveIndicator(BudgetingMethod.OCCURRENCES, Comparison.AT_MOST),
    IndicatorName.DURABILITY: ObjectiveIndicator(BudgetingMethod.OCCURRENCES),
    IndicatorName.ELECTION_HEALTH: ObjectiveIndicator(BudgetingMethod.OCCURRENCES),
}


def _in_cel(names: list[IndicatorName]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


_SLICED: Final = _in_cel(
    [name for name, one in INDICATORS.items() if one.method is BudgetingMethod.TIMESLICES]
)
_AT_MOST: Final = _in_cel([name for name, one in INDICATORS.items() if one.op is Comparison.AT_MOST])
_AT_LEAST: Final = _in_cel([name for name, one in INDICATORS.items() if one.op is Comparison.AT_LEAST])
_SECOND: Final = "1s"
_WANTED_OP_IN_CEL: Final = (
    f"(self.indicator in {_AT_MOST} ? 'needs op lte and a value' : "
    f"(self.indicator in {_AT_LEAST} ? 'needs op gte and a value' : 'has no op and no value'))"
)


def _fits_slice(spec: "Objective") -> bool:
    if spec.time_slice_window is None:
        return True
    if spec.indicator is IndicatorName.WRITE_AVAILABILITY:
        return spec.time_slice_window == _SECOND
    return spec.budgeting_method is BudgetingMethod.TIMESLICES


def _fits_threshold(spec: "Objective") -> bool:
    wanted = INDICATORS[spec.indicator].op
    return spec.op == wanted and (spec.value is None) == (wanted is None)


def _wanted_threshold(spec: "Objective") -> str:
    wanted = INDICATORS[spec.indicator].op
    return "has no op and no value" if wanted is None else f"needs op {wanted} and a value"


_WRONG_METHOD = Rule(
    name="WrongMethod",
    expression=f"(self.budgetingMethod == 'Timeslices') == (self.indicator in {_SLICED})",
    message="'objectives: ' + self.name + ': budgetingMethod is ' + self.budgetingMethod + ', but ' + "
    f"self.indicator + ' is judged by ' + (self.indicator in {_SLICED} ? 'Timeslices' : 'Occurrences')",
    holds=lambda spec: spec.budgeting_method is INDICATORS[spec.indicator].method,
    problem=lambda spec: (
        f"objectives: {spec.name}: budgetingMethod is {spec.budgeting_method}, but {spec.indicator} is "
        f"judged by {INDICATORS[spec.indicator].method}"
    ),
)
_WRONG_THRESHOLD = Rule(
    name="WrongThreshold",
    expression=f"self.indicator in {_AT_MOST} ? has(self.op) && self.op == 'lte' && has(self.value) : "
    f"(self.indicator in {_AT_LEAST} ? has(self.op) && self.op == 'gte' && has(self.value) : "
    "!has(self.op) && !has(self.value))",
    message=f"'objectives: ' + self.name + ': ' + self.indicator + ' ' + {_WANTED_OP_IN_CEL}",
    holds=_fits_threshold,
    problem=lambda spec: f"objectives: {spec.name}: {spec.indicator} {_wanted_threshold(spec)}",
)
_WRONG_SLICE = Rule(
    name="WrongSlice",
    expression=f"!has(self.timeSliceWindow) || (self.indicator == '{IndicatorName.WRITE_AVAILABILITY}' ? "
    f"self.timeSliceWindow == '{_SECOND}' : self.budgetingMethod == 'Timeslices')",
    message="'objectives: ' + self.name + ': timeSliceWindow is ' + self.timeSliceWindow + "
    f"': only Timeslices have one, and that of write_availability is {_SECOND}'",
    holds=_fits_slice,
    problem=lambda spec: (
        f"objectives: {spec.name}: timeSliceWindow is {spec.time_slice_window}: only Timeslices have one, "
        f"and that of write_availability is {_SECOND}"
    ),
)


class Objective(SpecModel):
    """One promise about one indicator, for each broker group by itself."""

    RULES: ClassVar[tuple[Rule, ...]] = (_WRONG_METHOD, _WRONG_THRESHOLD, _WRONG_SLICE)

    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
    """Unique in the list."""
    description: Annotated[str, Field(max_length=256, pattern=PROPERTY_VALUE_PATTERN)] = ""
    """For people."""
    indicator: IndicatorName
    """The measured indicator; docs/reference/objectives.md defines a good event of each."""
    budgeting_method: BudgetingMethod
    """How good and bad are counted: Timeslices or Occurrences, as the indicator has it."""
    target_percent: Annotated[float, Field(ge=1, le=100)]
    """Share that must be good, in per cent; 100 allows nothing bad."""
    op: Comparison | None = None
    """lte or gte, where the indicator has a threshold."""
    value: Annotated[float, Field(ge=0, le=VALUE_MAX)] | None = None
    """The threshold, in the indicator's unit."""
    time_slice_window: (
        Annotated[str, Field(max_length=3, pattern=r"^([1-9]|[1-5][0-9]|60)s$|^1m$")] | None
    ) = None
    """Width of a slice of time, at most 1m; the indicator's own when absent."""
