"""OpenSLO v1 documents: the fields of each kind, and the rules within one document.

Problem: documents written for other tools must be understood exactly, or refused with the field that is
wrong. Shape: frozen pydantic models with OpenSLO's own names; unknown fields are refused. Fields of which
nothing is used are accepted. What refers from one document to another, and what our objectives cannot say, is
`openslo_reader`'s.

Source: OpenSLO v1 specification, kinds Service, SLO, SLI, DataSource, AlertPolicy, AlertCondition,
AlertNotificationTarget.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

API_VERSION: Final = "openslo/v1"
DESCRIPTION_CHARS_MAX: Final = 1_050

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
OpenSloDuration = Annotated[str, Field(pattern=r"^[0-9]{1,5}[mhdwMQY]$")]
Description = Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)]
OpenSloOp = Literal["lte", "gte", "lt", "gt"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def _require_one_of(self, *fields: str) -> None:
        """Refuse this part unless exactly one of the fields is given."""
        given = [field for field in fields if getattr(self, field) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "neither"
            raise ValueError(f"{found} given (expected exactly one of {', '.join(fields)})")


class Metadata(_Part):
    """Name and what people and tools attach to it."""

    name: Label
    displayName: str = ""
    labels: dict[str, str | list[str]] = {}
    annotations: dict[str, str] = {}


class MetricSource(_Part):
    """Where a metric comes from; `spec` is the source's own."""

    metricSourceRef: Label | None = None
    type: str | None = None
    spec: Annotated[dict[str, Any], Field(min_length=1)]


class Metric(_Part):
    """One query."""

    metricSource: MetricSource


class RatioMetric(_Part):
    """Good or bad of total, or a ratio that is stored already."""

    counter: bool = False
    good: Metric | None = None
    bad: Metric | None = None
    total: Metric | None = None
    rawType: Literal["success", "failure"] | None = None
    raw: Metric | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        self._require_one_of("total", "raw")
        if self.raw is None:
            self._require_one_of("good", "bad")
        elif self.good or self.bad or self.rawType is None:
            raise ValueError("raw given (expected rawType with it, and neither good nor bad)")
        return self


class SliSpec(_Part):
    """What is measured."""

    description: Description = ""
    thresholdMetric: Metric | None = None
    ratioMetric: RatioMetric | None = None

    @model_validator(mode="after")
    def _one_metric(self) -> Self:
        self._require_one_of("thresholdMetric", "ratioMetric")
        return self

    @property
    def sources(self) -> list[MetricSource]:
        """Return the sources of all its queries."""
        ratio = self.ratioMetric
        metrics = [self.thresholdMetric] if ratio is None else [ratio.raw, ratio.good, ratio.bad, ratio.total]
        return [metric.metricSource for metric in metrics if metric is not None]


class Sli(_Part):
    """An SLI, inline or in a document of its own."""

    metadata: Metadata
    spec: SliSpec


class Calendar(_Part):
    """When a window begins that is aligned to a calendar."""

    startTime: Any
    timeZone: str


class OpenSloTimeWindow(_Part):
    """The window of a budget."""

    duration: OpenSloDuration
    isRolling: bool = False
    calendar: Calendar | None = None

    @model_validator(mode="after")
    def _rolls_or_has_a_calendar(self) -> Self:
        if self.isRolling == (self.calendar is not None):
            raise ValueError(
                f"isRolling is {self.isRolling} (expected a calendar if it is false, and none if it is true)"
            )
        return self


class OpenSloObjective(_Part):
    """The target promised for the indicator."""

    displayName: str = ""
    op: OpenSloOp | None = None
    value: float | None = None
    target: Annotated[float, Field(ge=0, lt=1)] | None = None
    targetPercent: Annotated[float, Field(ge=0, lt=100)] | None = None
    timeSliceTarget: Annotated[float, Field(gt=0, le=1)] | None = None
    timeSliceWindow: OpenSloDuration | Annotated[int, Field(ge=1)] | None = None
    indicator: Sli | None = None
    indicatorRef: Label | None = None
    compositeWeight: float | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        self._require_one_of("target", "targetPercent")
        return self


class ConditionSpec(_Part):
    """The burn rate of an AlertCondition."""

    kind: Literal["burnrate"] = "burnrate"
    op: OpenSloOp
    threshold: float
    lookbackWindow: OpenSloDuration
    alertAfter: OpenSloDuration = "0m"


class AlertConditionSpec(_Part):
    """When an alert fires, and how much it matters."""

    description: Description = ""
    severity: str
    condition: ConditionSpec


class ConditionItem(_Part):
    """A condition of a policy: a reference, or the condition itself."""

    conditionRef: Label | None = None
    kind: Literal["AlertCondition"] | None = None
    metadata: Metadata | None = None
    spec: AlertConditionSpec | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        self._require_one_of("conditionRef", "spec")
        return self


class TargetSpec(_Part):
    """Whom an alert reaches."""

    description: Description = ""
    target: str


class TargetItem(_Part):
    """A target of a policy: a reference, or the target itself."""

    targetRef: Label | None = None
    kind: Literal["AlertNotificationTarget"] | None = None
    metadata: Metadata | None = None
    spec: TargetSpec | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        self._require_one_of("targetRef", "spec")
        return self


class AlertPolicySpec(_Part):
    """One condition and whom it reaches."""

    description: Description = ""
    alertWhenNoData: bool = False
    alertWhenBreaching: bool = False
    alertWhenResolved: bool = False
    conditions: Annotated[list[ConditionItem], Field(min_length=1, max_length=1)]
    notificationTargets: Annotated[list[TargetItem], Field(min_length=1)]


class PolicyItem(_Part):
    """A policy of an SLO: a reference, or the policy itself."""

    alertPolicyRef: Label | None = None
    kind: Literal["AlertPolicy"] | None = None
    metadata: Metadata | None = None
    spec: AlertPolicySpec | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        self._require_one_of("alertPolicyRef", "spec")
        return self


class SloSpec(_Part):
    """A promise about one indicator."""

    description: Description = ""
    service: str
    indicator: Sli | None = None
    indicatorRef: Label | None = None
    timeWindow: Annotated[list[OpenSloTimeWindow], Field(max_length=1)] = []
    budgetingMethod: Literal["Occurrences", "Timeslices", "RatioTimeslices"]
    objectives: Annotated[list[OpenSloObjective], Field(min_length=1)]
    alertPolicies: list[PolicyItem] | None = None


class ServiceSpec(_Part):
    """What people call the service."""

    description: Description = ""


class DataSourceSpec(_Part):
    """A place to query."""

    description: Description = ""
    type: str
    connectionDetails: Any = None


SPECS: Final[dict[str, type[BaseModel]]] = {
    "Service": ServiceSpec,
    "SLO": SloSpec,
    "SLI": SliSpec,
    "DataSource": DataSourceSpec,
    "AlertPolicy": AlertPolicySpec,
    "AlertCondition": AlertConditionSpec,
    "AlertNotificationTarget": TargetSpec,
}
"""The spec of each kind."""
