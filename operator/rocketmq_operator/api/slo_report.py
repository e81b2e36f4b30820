"""SLOReport: a periodic report of the measurements, and the result of the newest one.

The words of an objective are OpenSLO's, as `slo-pipeline` reads them; what it would refuse is refused here
already, when a person writes it and not when the report is due.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel, StatusModel, kept_by
from rocketmq_operator.api.cluster import Image
from rocketmq_operator.api.common import ObjectName, Resources
from rocketmq_operator.api.conditions import MESSAGE_LENGTH_MAX, Conditions, ObservedGeneration
from rocketmq_operator.api.objectives import Objective

OBJECTIVES_MAX: Final = 32
EXECUTORS_MAX: Final = 16
HISTORY_MAX: Final = 10
HOURS_PER_DAY: Final = 24
WINDOW_DAYS_MAX: Final = 366
_HOURS: Final = {"h": 1, "d": HOURS_PER_DAY, "w": 7 * HOURS_PER_DAY}
_WINDOW: Final = "^[1-9][0-9]{0,3}[hdw]$"
_WINDOW_HOURS_IN_CEL: Final = (
    "int(self.window.substring(0, size(self.window) - 1)) * "
    "(self.window.endsWith('h') ? 1 : (self.window.endsWith('d') ? 24 : 168))"
)


def _cron_field(value: str) -> str:
    """Return the pattern of one of cron's fields: steps of ranges of values, and lists of them."""
    one = f"([*?]|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{one}(,{one})*"


_MONTHS: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DAYS: Final = "sun|mon|tue|wed|thu|fri|sat"
CRON: Final = (
    "^"
    + " +".join(
        _cron_field(value)
        for value in (
            "[0-5]?[0-9]",
            "([01]?[0-9]|2[0-3])",
            "(0?[1-9]|[12][0-9]|3[01])",
            f"(0?[1-9]|1[0-2]|(?i:{_MONTHS}))",
            f"([0-6]|(?i:{_DAYS}))",
        )
    )
    + "$"
)
"""Source: Kubernetes CronJob, "Schedule syntax". A range that ends before it begins passes here; the API
server names it."""


class Engine(StrEnum):
    """Where Spark runs."""

    LOCAL = "local"
    """In the job's own pod."""
    KUBERNETES = "kubernetes"
    """On executors in pods of their own, for what no longer fits into one."""


class Source(SpecModel):
    """Where the measurements are."""

    claim_name: ObjectName | None = None
    """A PersistentVolumeClaim of this namespace; that of the chart's collector when absent."""
    path: Annotated[
        str, Field(max_length=253, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$")
    ] = "segments"
    """The collector's directory on that volume. Reports go to `reports/` beside it, at the top of the
    volume."""


def window_days(window: str) -> int | None:
    """Return the days of a window such as 24h, 7d or 4w; None if it is not 1 to 366 whole days."""
    if not re.fullmatch(_WINDOW, window):
        return None
    days, rest = divmod(int(window[:-1]) * _HOURS[window[-1]], HOURS_PER_DAY)
    return days if not rest and days <= WINDOW_DAYS_MAX else None


_BAD_SCHEDULE = Rule(
    name="BadSchedule",
    expression=f"self.schedule.matches('{CRON}')",
    message="'schedule is \"' + self.schedule + '\": write cron\\'s five fields (minute, hour, day of month, "
    "month, day of week), such as 17 * * * *'",
    holds=lambda spec: re.fullmatch(CRON, spec.schedule) is not None,
    problem=lambda spec: (
        f'schedule is "{spec.schedule}": write cron\'s five fields (minute, hour, day of month, month, day '
        "of week), "
        "such as 17 * * * *"
    ),
)
_BAD_WINDOW = Rule(
    name="BadWindow",
    expression=f"self.window.matches('{_WINDOW}') && {_WINDOW_HOURS_IN_CEL} % {HOURS_PER_DAY} == 0 && "
    f"{_WINDOW_HOURS_IN_CEL} <= {HOURS_PER_DAY * WINDOW_DAYS_MAX}",
    message=f"'window is ' + self.window + ': write 1 to {WINDOW_DAYS_MAX} whole days, such as 24h, 7d or "
    "4w'",
    holds=lambda spec: window_days(spec.window) is not None,
    problem=lambda spec: (
        f"window is {spec.window}: write 1 to {WINDOW_DAYS_MAX} whole days, such as 24h, 7d or 4w"
    ),
)


class SLOReportSpec(SpecModel):
    """What a person asks of a report."""

    RULES: ClassVar[tuple[Rule, ...]] = (_BAD_SCHEDULE, _BAD_WINDOW)

    schedule: Annotated[str, Field(min_length=1, max_length=100)]
    """When it is made: cron's five fields, in UTC."""
    window: Annotated[str, Field(max_length=8)] = "30d"
    """How far back it looks from the newest measurement, and the window of each budget: 1 to 366 whole days,
    as 24h, 7d or 4w."""
    objectives: Annotated[
        tuple[Objective, ...],
        Field(
            max_length=OBJECTIVES_MAX,
            json_schema_extra=kept_by("name"),
        ),
    ] = ()
    """The objectives, for each broker group by itself; if empty, the default ones of slo-pipeline."""
    source: Source = Source()
    """Where the measurements are."""
    engine: Engine = Engine.LOCAL
    """Where Spark runs: local, in the job's own pod; kubernetes, on executors in pods of their own."""
    executors: Annotated[int, Field(ge=1, le=EXECUTORS_MAX)] = 2
    """How many executors the engine kubernetes has."""
    service_account_name: ObjectName | None = None
    """Account that makes and removes the executors' pods; the chart's (measure.report.executors=true) when
    absent."""
    daily: bool = False
    """Whether each run first takes out of the segments of closed days, once for each day, what reports read,
    and reads that instead. It stays on the volume; the extract omits and counts data that came too late for a
    closed day."""
    suspend: bool = False
    """Whether none is made by itself. One that is running ends."""
    successful_jobs_history_limit: Annotated[int, Field(ge=1, le=HISTORY_MAX)] = 1
    """Number of successful Jobs that Kubernetes keeps. The operator reads the result from the newest, so at
    least one."""
    failed_jobs_history_limit: Annotated[int, Field(ge=1, le=HISTORY_MAX)] = 1
    """Number of failed Jobs that Kubernetes keeps."""
    resources: Resources = Resources(cpu="250m", memory="2Gi")
    """Of the job's pod, and of each executor's. Spark uses as many threads as there are processors here, in
    the job's pod at least two."""
    image: Image = "rocketmq-ha/slo-pipeline:0.1.0"
    """Has the command slo-pipeline."""

    @property
    def window_days(self) -> int:
        """The window in days."""
        return window_days(self.window) or 0


class ObjectiveStatus(StatusModel):
    """What the newest report says of one objective, for the group that has spent most of its budget."""

    name: Annotated[str, Field(max_length=63)]
    """The objective."""
    group: Annotated[str, Field(max_length=253)] = ""
    """The broker group."""
    target: Annotated[str, Field(max_length=16)] = ""
    """The target, for instance 99.95%."""
    attained: Annotated[str, Field(max_length=16)] = ""
    """The attained share; empty without measurements."""
    budget_left: Annotated[str, Field(max_length=32)] = ""
    """Share of the budget that is left, below 0 where it is overspent; kept or broken for a promise of 100 %;
    unknown where too little was measured."""
    holds: bool = True
    """Whether the budget is not overspent."""


class SLOReportStatus(StatusModel):
    """What the operator says of a report."""

    observed_generation: ObservedGeneration = 0
    """The generation that was acted on."""
    conditions: Conditions = ()
    """Ready, ObjectivesMet, Progressing, Reconciling, Stalled and Paused."""
    attained: Annotated[str, Field(max_length=16)] = ""
    """The attained share of the objective with the least budget left."""
    budget_left: Annotated[str, Field(max_length=32)] = ""
    """Its share of the budget that is left."""
    objectives: Annotated[
        tuple[ObjectiveStatus, ...],
        Field(
            max_length=OBJECTIVES_MAX,
            json_schema_extra=kept_by("name"),
        ),
    ] = ()
    """Each objective in the newest report that was made, the one with the least budget left first."""
    address: Annotated[str, Field(max_length=512)] = ""
    """The newest page, for those inside the cluster; empty where no report server shows the volume."""
    last_run: datetime | None = None
    """When the newest run ended."""
    last_result: Literal["Succeeded", "Failed"] | None = None
    """How it ended."""
    last_job: Annotated[str, Field(max_length=253)] = ""
    """Its Job."""
    last_message: Annotated[str, Field(max_length=MESSAGE_LENGTH_MAX)] = ""
    """Its verdict, or its last words where it failed."""
    last_report: datetime | None = None
    """When the newest run that made a report ended; the numbers above are that one's."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """One word why no report is made; empty when they are."""
