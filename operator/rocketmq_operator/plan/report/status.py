"""The status of an SLOReport: the time and result of its runs, and the address of its page.

The status shows the newest completed run until a newer one completes, even after its Job or pod is deleted.
Numbers are those of the newest run that made a report: a failed run reports its failure and removes no
numbers.

`Ready` means that reports are made; another condition, `ObjectivesMet`, tells whether the objectives are met.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from rocketmq_operator.api.conditions import Finding, make_finding, merge_findings
from rocketmq_operator.api.slo_report import ObjectiveStatus, SLOReportStatus
from rocketmq_operator.plan.common.actions import ResourcePlan
from rocketmq_operator.plan.pods.health import health_findings
from rocketmq_operator.plan.pods.member_trouble import describe_troubles
from rocketmq_operator.plan.pods.progress import observed_generation
from rocketmq_operator.plan.report.observed import EndedRun, ObservedReport, ReportedObjective

# What the status says of a budget where too little was measured.
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class KnownRuns:
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


def report_status(observed: ObservedReport, plan: ResourcePlan) -> SLOReportStatus:
    """Return the status of a report."""
    runs = known_runs(observed)
    is_ready = _ready(plan, runs)
    progress = _progressing(observed, plan, is_ready)
    health = health_findings(is_ready)
    findings = [is_ready, _objectives_met(runs), progress, *health, _paused(observed)]
    conditions = merge_findings(
        observed.status.conditions, findings, generation=observed.generation, now=observed.now
    )
    ready = conditions[0]
    worst = runs.objectives[0] if runs.objectives else None
    return SLOReportStatus(
        observed_generation=observed_generation(
            observed.status.observed_generation, observed.generation, plan
        ),
        conditions=conditions,
        attained=worst.attained if worst else "",
        budget_left=worst.budget_left if worst else "",
        objectives=runs.objectives,
        address=observed.address,
        last_run=runs.last_run,
        last_result=runs.last_result,
        last_job=runs.last_job,
        last_message=runs.last_message,
        last_report=runs.last_report,
        reason=ready.reason if ready.status != "True" else _deviation(observed, plan),
    )


def known_runs(observed: ObservedReport) -> KnownRuns:
    """Return the known runs: the newest one observed, and from the status those whose objects are gone."""
    before, run = observed.status, observed.newest
    known = KnownRuns(
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
    return known if same and not run.has_pod else _with_run(known, run)


def _with_run(known: KnownRuns, run: EndedRun) -> KnownRuns:
    runs = replace(
        known,
        last_run=run.ended,
        last_result="Succeeded" if run.succeeded else "Failed",
        last_job=run.job,
        last_message=run.exit_message,
    )
    if run.summary is None:
        return runs
    return replace(
        runs,
        last_message=run.summary.verdict,
        last_report=run.ended,
        objectives=tuple(map(_objective, run.summary.objectives)),
    )


def is_newer_run(observed: ObservedReport) -> bool:
    """Tell whether the newest run is not in the status yet."""
    runs = known_runs(observed)
    return (runs.last_job, runs.last_run) != (observed.status.last_job, observed.status.last_run)


def _objective(objective: ReportedObjective) -> ObjectiveStatus:
    return ObjectiveStatus(
        name=objective.name,
        group=objective.group,
        target=f"{objective.target_percent:g}%"[:16],
        attained="" if objective.attained is None else percent(objective.attained, decimals=3)[:16],
        budget_left=_budget_left(objective),
        holds=objective.holds,
    )


def _budget_left(objective: ReportedObjective) -> str:
    if objective.holds and not objective.measured:
        return UNKNOWN
    if objective.budget_left is None:
        return "kept" if objective.holds else "broken"
    return percent(objective.budget_left, decimals=1)[:32]


def percent(share: float, *, decimals: int) -> str:
    """Return a share as a percentage, cut and never rounded up: 99.9996 % does not read as 100 %."""
    scale = 10**decimals
    text = f"{math.floor(share * 100.0 * scale + 1e-6) / scale:.{decimals}f}"
    return text.rstrip("0").rstrip(".") + "%"


def _ready(plan: ResourcePlan, runs: KnownRuns) -> Finding:
    if plan.wait is not None:
        return make_finding("Ready", holds=False, reason=plan.wait.reason, message=plan.wait.message)
    if plan.steps:
        return make_finding("Ready", holds=None, reason="Applying", message=str(plan.steps[0]))
    if runs.last_result == "Failed":
        return make_finding(
            "Ready", holds=False, reason="RunFailed", message=f"{runs.last_job}: {runs.last_message}"
        )
    if runs.last_result is None:
        return make_finding("Ready", holds=True, reason="Scheduled", message="no run has ended yet")
    return make_finding("Ready", holds=True, reason="Reported", message=f"{runs.last_job} made a report")


def _objectives_met(runs: KnownRuns) -> Finding:
    if runs.without_summary:
        text = f"{runs.last_job} made a report and did not say what it came to"
        return make_finding("ObjectivesMet", holds=None, reason="NoSummary", message=text)
    if runs.last_report is None:
        return make_finding("ObjectivesMet", holds=None, reason="NotRunYet", message="no report was made yet")
    broken = [f"{one.name} of {one.group} ({one.budget_left})" for one in runs.objectives if not one.holds]
    if broken:
        return make_finding(
            "ObjectivesMet", holds=False, reason="Overspent", message=f"overspent: {', '.join(broken)}"
        )
    unknown = [f"{one.name} of {one.group}" for one in runs.objectives if one.budget_left == UNKNOWN]
    if unknown:
        text = f"too little was measured to judge {', '.join(unknown)}"
        return make_finding("ObjectivesMet", holds=None, reason="NotMeasured", message=text)
    text = f"all {len(runs.objectives)} objectives are met"
    return make_finding("ObjectivesMet", holds=True, reason="AllHold", message=text)


def _deviation(observed: ObservedReport, plan: ResourcePlan) -> str:
    """Return the reason of the worst deviation from the spec; empty without one."""
    if observed.troubles:
        return observed.troubles[0].trouble.reason
    return plan.notes[0].reason if plan.notes else ""


def _progressing(observed: ObservedReport, plan: ResourcePlan, ready: Finding) -> Finding:
    if plan.wait is not None:
        return make_finding("Progressing", holds=True, reason=plan.wait.reason, message=plan.wait.message)
    if plan.steps:
        return make_finding("Progressing", holds=True, reason="Applying", message=str(plan.steps[0]))
    if reason := _deviation(observed, plan):
        notes = (note.message for note in plan.notes)
        message = "; ".join(filter(None, (describe_troubles(observed.troubles), *notes)))
        return make_finding("Progressing", holds=True, reason=reason, message=message)
    if observed.running:
        return make_finding("Progressing", holds=True, reason="Running", message=", ".join(observed.running))
    if ready.status != "True":
        return make_finding("Progressing", holds=True, reason=ready.reason, message=ready.message)
    return make_finding("Progressing", holds=False, reason="Settled", message="nothing is left to do")


def _paused(observed: ObservedReport) -> Finding:
    suspended = observed.spec.suspend
    text = "spec.suspend is true: no report is made by itself" if suspended else ""
    return make_finding("Paused", holds=suspended, reason="Asked" if suspended else "NotAsked", message=text)
