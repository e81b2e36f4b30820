"""An objectives file: its fields, their units and ranges, and the rules between them.

Problem: a mistyped objective must not become a quiet dashboard. Shape: frozen pydantic models in OpenSLO's
words; unknown fields are refused. `objectives.file` reads them, and turns every violation into one line that
names field and value. Never: nothing is repaired or guessed, and nothing is read here.

Source: OpenSLO v1 (SLO.spec: targetPercent, op, value, budgetingMethod, timeWindow, timeSliceWindow;
AlertCondition kind burnrate: threshold, lookbackWindow); the four burn rates: Site Reliability Workbook,
"Alerting on SLOs".
"""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from slo_pipeline.objectives.catalogue import INDICATORS, Indicator, Method, Op

UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
S_PER_DAY: Final = 86_400
WINDOW_DAYS_MAX: Final = 366
SLOS_MAX: Final = 64
# OpenSLO's bound, so that each file of objectives can be exported.
DESCRIPTION_CHARACTERS_MAX: Final = 1_050


class ObjectivesError(ValueError):
    """The file cannot be used; one line with the file, the field, its value and the fault."""


def seconds(text: str) -> int:
    """Return the seconds of OpenSLO's shorthand for a duration: 5m, 1h, 30d, 4w.

    Raises:
        ValueError: it is invalid.
    """
    match = re.fullmatch(r"([1-9][0-9]{0,4})([smhdw])", text)
    if match is None:
        raise ValueError("write a duration such as 10s, 5m, 6h, 3d or 4w")
    return int(match[1]) * UNITS_S[match[2]]


def _duration(text: str) -> str:
    seconds(text)
    return text


Duration = Annotated[str, AfterValidator(_duration)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class BurnAlert(_Model):
    """One burn-rate alert.

    It fires when both windows burn faster than `threshold` times the sustainable rate.
    """

    severity: Literal["page", "ticket"]
    threshold: float = Field(gt=0)
    lookbackWindow: Duration
    shortWindow: Duration

    @model_validator(mode="after")
    def _windows(self) -> Self:
        short, long = seconds(self.shortWindow), seconds(self.lookbackWindow)
        if short % 60 or long % 60 or short >= long:
            raise ValueError("windows are whole minutes, and shortWindow is shorter than lookbackWindow")
        return self


ALERTS_DEFAULT: Final = (
    BurnAlert(severity="page", threshold=14.4, lookbackWindow="1h", shortWindow="5m"),
    BurnAlert(severity="page", threshold=6.0, lookbackWindow="6h", shortWindow="30m"),
    BurnAlert(severity="ticket", threshold=3.0, lookbackWindow="1d", shortWindow="2h"),
    BurnAlert(severity="ticket", threshold=1.0, lookbackWindow="3d", shortWindow="6h"),
)


class TimeWindow(_Model):
    """The window of the budget.

    It is rolling, so that a bad day is forgiven day by day and not at the month's end.
    """

    duration: Duration = "30d"
    isRolling: Literal[True] = True

    @property
    def days(self) -> int:
        """Return the window in days."""
        return seconds(self.duration) // S_PER_DAY

    @model_validator(mode="after")
    def _whole_days(self) -> Self:
        if seconds(self.duration) % S_PER_DAY or not 1 <= self.days <= WINDOW_DAYS_MAX:
            raise ValueError(f"duration is 1 to {WINDOW_DAYS_MAX} whole days")
        return self


class Slo(_Model):
    """One objective on one indicator, for each broker group by itself."""

    name: Name
    description: str = Field(default="", max_length=DESCRIPTION_CHARACTERS_MAX)
    indicator: str
    budgetingMethod: Method
    targetPercent: float = Field(gt=0, le=100)
    op: Op | None = None
    value: float | None = Field(default=None, ge=0)
    timeSliceWindow: Duration | None = None

    @property
    def measured(self) -> Indicator:
        """Return the catalogue's entry."""
        return INDICATORS[self.indicator]

    @property
    def slice_s(self) -> int:
        """Return the width of a slice in seconds."""
        return seconds(self.timeSliceWindow) if self.timeSliceWindow else self.measured.slice_s

    @property
    def allowed(self) -> float:
        """Return the share that may be bad; 0 for an objective of 100 %."""
        return round(1.0 - self.targetPercent / 100.0, 12)

    @model_validator(mode="after")
    def _fits_its_indicator(self) -> Self:
        if self.indicator not in INDICATORS:
            raise ValueError(
                f"indicator: {self.indicator!r} is unknown (expected one of {', '.join(INDICATORS)})"
            )
        measured = self.measured
        if self.budgetingMethod != measured.method:
            raise ValueError(
                f"budgetingMethod: {self.budgetingMethod!r}, but {self.indicator} is {measured.method}"
            )
        if measured.op is None and (self.value is not None or self.op is not None):
            raise ValueError(f"value: {self.value!r}, but {self.indicator} does not take a threshold")
        if measured.op is not None and (self.value is None or self.op != measured.op):
            raise ValueError(
                f"op, value: {self.op!r}, {self.value!r}, but {self.indicator} needs op: {measured.op} and a "
                f"value in {measured.unit}"
            )
        sliced = self.timeSliceWindow
        if sliced and (measured.method == "Occurrences" or seconds(sliced) > UNITS_S["m"]):
            raise ValueError(f"timeSliceWindow: {sliced!r}, but only Timeslices have one, of at most 1m")
        if measured.fixed_slice and self.slice_s != measured.slice_s:
            raise ValueError(
                f"timeSliceWindow: {sliced!r}, but {self.indicator} is judged by {measured.slice_s}s"
            )
        return self

    def budget(self, total: float, window_days: int) -> float:
        """Return how much may be bad in the window: slices, or events of the `total` that there were."""
        if self.budgetingMethod == "Timeslices":
            return round(self.allowed * window_days * S_PER_DAY / self.slice_s, 6)
        return round(self.allowed * total, 6)


class Objectives(_Model):
    """A file of objectives."""

    service: Name
    timeWindow: TimeWindow = TimeWindow()
    alerting: tuple[BurnAlert, ...] = Field(default=ALERTS_DEFAULT, max_length=8, strict=False)
    slos: tuple[Slo, ...] = Field(min_length=1, max_length=SLOS_MAX, strict=False)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [slo.name for slo in self.slos]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"slos: {twice[0]!r} is there twice")
        return self

    def adjusted(self, target_percent: float | None, window_days: int | None) -> "Objectives":
        """Return these objectives with another target for write availability, or another window.

        None keeps a value.
        """
        slos = self.slos
        if target_percent is not None:
            change = {"targetPercent": target_percent}
            slos = tuple(
                slo.model_copy(update=change) if slo.indicator == "write_availability" else slo
                for slo in slos
            )
        window = self.timeWindow if window_days is None else TimeWindow(duration=f"{window_days}d")
        return self.model_copy(update={"slos": slos, "timeWindow": window})

    def first(self, indicator: str) -> Slo | None:
        """Return the first objective on an indicator."""
        return next((slo for slo in self.slos if slo.indicator == indicator), None)
