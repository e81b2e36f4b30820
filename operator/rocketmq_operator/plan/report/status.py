"""The status of an SLOReport: the time and result of its runs, and the address of its page.

The status shows the newest completed run until a newer one completes, even after its Job or pod is deleted. Numbers are those of the
newest run that made a report: a failed run reports its failure and removes no numbers.

`Ready` means that reports are made; another condition, `ObjectivesMet`, tells whether the objectives are met.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from rocketmq_operator.api.conditions import Finding, found, merge
from rocketmq_operator.api.slo_report import ObjectiveStatus, SLOReportStatus
from rocketmq_operator.plan.common.actions import Plan
from rocketmq_operator.plan.pods.member_trouble import in_words
from rocketmq_operator.plan.report.observed import ObjectiveSeen, ObservedReport, RunSeen

# What the status says of a budget where too little was measured.
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Told:
    """What the status says of runs."""

    last_run: datetime | None
    last_result: Literal["Succeeded", "Failed"] | None
    last_job: str
    last_message: str
    last_report: datetime | None
    objectives: tuple[ObjectiveStatus, ...]

    @property
    def without_summary(self) -> bool:
        """Whether the newest run made a report and did not say what it came to."""
        return self.last_result == "Succeeded" and self.last_report != self.last_run


def report_status(observed: ObservedReport, plan: Plan) -> SLOReportStatus:
    """Return the status of a report."""
    told = told_of_runs(observed)
    is_ready = _ready(plan, told)
    progress = _progressing(observed, plan, is_ready)
    findings = [is_ready, _objectives_met(told), progress, _paused(observed)]
    conditions = merge(observed.status.conditions, findings, generation=observed.generation, now=observed.now)
    ready = conditions[0]
    worst = told.objectives[0] if told.objectives else None
    return SLOReportStatus(
        # The new generation only when nothing is left to write.
        observed_generation=observed.status.observed_generation if plan.steps else observed.generation,
        conditions=conditions,
        attained=worst.attained if worst else "",
        budget_left=worst.budget_left if worst else "",
        objectives=told.objectives,
        address=observed.address,
        last_run=told.last_run,
        last_result=told.last_result,
        last_job=told.last_job,
        last_message=told.last_message,
        last_report=told.last_report,
        reason=ready.reason if ready.status != "True" else _deviation(observed, plan),
    )


def told_of_runs(observed: ObservedReport) -> Told:
    """Return the known runs: the newest one observed, and from the status those whose objects are gone."""
    before, run = observed.status, observed.newest
    known = Told(
        before.last_run,
        before.last_result,
        before.last_job,
        before.last_message,
        before.last_report,
        before.objectives,
    )
    if run is None or (before.last_run is not None and run.ended < before.last_run):
        return known
    same = (run.job, run.ended) == (before.last_job, before.last_run)
    return known if same and not run.heard else _with(known, run)


def _with(known: Told, run: RunSeen) -> Told:
    told = replace(
        known,
        last_run=run.ended,
        last_result="Succeeded" if run.succeeded else "Failed",
        last_job=run.job,
        last_message=run.last_words,
    )
    if run.summary is None:
        return told
    return replace(
        told,
        last_message=run.summary.verdict,
        last_report=run.ended,
        objectives=tuple(map(_objective, run.summary.objectives)),
    )


def is_news(observed: ObservedReport) -> bool:
    """Tell whether the newest run is not in the status yet."""
    told = told_of_runs(observed)
    return (told.last_job, told.last_run) != (observed.status.last_job, observed.status.last_run)


def _objective(seen: ObjectiveSeen) -> ObjectiveStatus:
    return ObjectiveStatus(
        name=seen.name,
        group=seen.group,
        target=f"{seen.target_percent:g}%"[:16],
        attained="" if seen.attained is None else percent(seen.attained, decimals=3)[:16],
        budget_left=_left(seen),
        holds=seen.holds,
    )


def _left(seen: ObjectiveSeen) -> str:
    if seen.holds and not seen.measured:
        return UNKNOWN
    if seen.left is None:
        return "kept" if seen.holds else "broken"
    return percent(seen.left, decimals=1)[:32]


def percent(share: float, *, decimals: int) -> str:
    """Return a share as a percentage, cut and never rounded up: 99.9996 % does not read as 100 %."""
    scale = 10**decimals
    text = f"{math.floor(share * 100.0 * scale + 1e-6) / scale:.{decimals}f}"
    return text.rstrip("0").rstrip(".") + "%"


def _ready(plan: Plan, told: Told) -> Finding:
    if plan.wait is not None:
        return found("Ready", holds=False, reason=plan.wait.reason, message=plan.wait.message)
    if plan.steps:
        return found("Ready", holds=None, reason="Applying", message=str(plan.steps[0]))
    if told.last_result == "Failed":
        return found(
            "Ready", holds=False, reason="RunFailed", message=f"{told.last_job}: {told.last_message}"
        )
    if told.last_result is None:
        return found("Ready", holds=True, reason="Scheduled", message="no run has ended yet")
    return found("Ready", holds=True, reason="Reported", message=f"{told.last_job} made a report")


def _objectives_met(told: Told) -> Finding:
    if told.without_summary:
        text = f"{told.last_job} made a report and did not say what it came to"
        return found("ObjectivesMet", holds=None, reason="NoSummary", message=text)
    if told.last_report is None:
        return found("ObjectivesMet", holds=None, reason="NotRunYet", message="no report was made yet")
    broken = [f"{one.name} of {one.group} ({one.budget_left})" for one in told.objectives if not one.holds]
    if broken:
        return found(
            "ObjectivesMet", holds=False, reason="Overspent", message=f"overspent: {', '.join(broken)}"
        )
    unknown = [f"{one.name} of {one.group}" for one in told.objectives if one.budget_left == UNKNOWN]
    if unknown:
        text = f"too little was measured to judge {', '.join(unknown)}"
        return found("ObjectivesMet", holds=None, reason="NotMeasured", message=text)
    text = f"all {len(told.objectives)} objectives are met"
    return found("ObjectivesMet", holds=True, reason="AllHold", message=text)


def _deviation(observed: ObservedReport, plan: Plan) -> str:
    """Return the reason of the worst deviation from the spec while reports are made; empty without a deviation."""
    if observed.troubles:
        return observed.troubles[0].trouble.reason
    return plan.notes[0].reason if plan.notes else ""


def _progressing(observed: ObservedReport, plan: Plan, ready: Finding) -> Finding:
    if plan.wait is not None:
        return found("Progressing", holds=True, reason=plan.wait.reason, message=plan.wait.message)
    if plan.steps:
        return found("Progressing", holds=True, reason="Applying", message=str(plan.steps[0]))
    if reason := _deviation(observed, plan):
        notes = (note.message for note in plan.notes)
        message = "; ".join(filter(None, (in_words(observed.troubles), *notes)))
        return found("Progressing", holds=True, reason=reason, message=message)
    if observed.running:
        return found("Progressing", holds=True, reason="Running", message=", ".join(observed.running))
    if ready.status != "True":
        return found("Progressing", holds=True, reason=ready.reason, message=ready.message)
    return found("Progressing", holds=False, reason="Settled", message="nothing is left to do")


def _paused(observed: ObservedReport) -> Finding:
    asked = observed.spec.suspend
    text = "spec.suspend is true: no report is made by itself" if asked else ""
    return found("Paused", holds=asked, reason="Asked" if asked else "NotAsked", message=text)
