"""The observation of an SLOReport.

It has the children, the newest run, that run's result, and the server of the page.

A run is a Job. What it came to is in the termination message of its pod, which `slo-pipeline report
--summary` wrote; where a pod failed without one, Kubernetes puts the end of its log there, and that is the
run's own account of what went wrong.

A pod's message is untrusted: the operator rejects a message of unexpected shape as a whole.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller_core import bounded_json
from rocketmq_operator.api.conditions import MESSAGE_LENGTH_MAX
from rocketmq_operator.api.slo_report import OBJECTIVES_MAX, SLOReportSpec, SLOReportStatus
from rocketmq_operator.plan.common.objects import Children, Live, Owner
from rocketmq_operator.plan.common.ownership import NO_LOOKUP, NameLookup
from rocketmq_operator.plan.common.report_servers import ReportServer
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble
from rocketmq_operator.plan.pods.trouble import trouble_of
from rocketmq_operator.plan.report.allowed import NOTHING_ALLOWED, AllowedInReports

_NAME_LENGTH_MAX: Final = 63
_GROUP_LENGTH_MAX: Final = 253


@dataclass(frozen=True, slots=True)
class ReportedObjective:
    """One objective as a run reported it; shares, None without measurements or without a budget.

    Attributes:
        measured: False where too little was measured to say that it holds.
    """

    name: str
    group: str
    target_percent: float
    attained: float | None
    budget_left: float | None
    holds: bool
    measured: bool = True


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to; the objective with the least budget left comes first."""

    verdict: str
    objectives: tuple[ReportedObjective, ...]


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended.

    Attributes:
        summary: None where it failed, or its pod is gone or said something else.
        exit_message: why it failed, in its own words if its pod had any.
        has_pod: whether its pod was still there to be read.
    """

    job: str
    ended: datetime
    succeeded: bool
    summary: RunSummary | None = None
    exit_message: str = ""
    has_pod: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReport:
    """An SLOReport and all that belongs to it.

    Attributes:
        children: objects with the name of a child, by kind and name, with any owner.
        servers: report servers of the namespace.
        claims: PersistentVolumeClaims that exist, of those that may be meant.
        newest: the newest run that has ended.
        running: names of Jobs that have not ended.
        troubles: why pods of these Jobs do not start, in the order of the Jobs' names.
        name_lookup: existing objects with the names of its future children.
        allowed: images, claims and accounts that reports may name.
    """

    now: datetime
    owner: Owner
    generation: int
    spec: SLOReportSpec
    status: SLOReportStatus
    children: Children
    servers: tuple[ReportServer, ...] = ()
    claims: frozenset[str] = frozenset()
    newest: EndedRun | None = None
    running: tuple[str, ...] = ()
    troubles: tuple[MemberTrouble, ...] = ()
    name_lookup: NameLookup = NO_LOOKUP
    allowed: AllowedInReports = NOTHING_ALLOWED

    @property
    def claim(self) -> str:
        """The claim with the measurements, empty if unknown."""
        if self.spec.source.claim_name is not None:
            return self.spec.source.claim_name
        return self.servers[0].claim if len(self.servers) == 1 else ""

    @property
    def server(self) -> ReportServer | None:
        """The report server that shows this claim."""
        return next((one for one in self.servers if one.claim == self.claim), None)

    @property
    def account(self) -> str:
        """The ServiceAccount that creates pods of executors, empty if unknown."""
        return self.spec.service_account_name or (self.server.account if self.server is not None else "")

    @property
    def address(self) -> str:
        """The address of the page, empty if no server shows it."""
        if self.server is None:
            return ""
        return f"{self.server.url(self.owner.namespace)}/reports/{self.owner.name}/"


def parse_runs(jobs: Iterable[Live], pods: Iterable[Live]) -> tuple[EndedRun | None, tuple[str, ...]]:
    """Return the newest run that has ended, None if none has, and the names of those that run.

    Args:
        jobs: the Jobs of one report.
        pods: their pods.
    """
    by_owner = _by_owner(pods)
    ended, running = [], []
    for job in jobs:
        run = _run(job, by_owner.get(job["metadata"]["uid"], []))
        if run is None:
            running.append(job["metadata"]["name"])
        else:
            ended.append(run)
    newest = max(ended, key=lambda run: (run.ended, run.job), default=None)
    return newest, tuple(sorted(running))


def run_troubles(jobs: Iterable[Live], pods: Iterable[Live]) -> tuple[MemberTrouble, ...]:
    """Return for each Job that has not ended why its newest pod does not start, if that is so."""
    by_owner = _by_owner(pods)
    troubles = []
    for job in jobs:
        mine = by_owner.get(job["metadata"]["uid"], [])
        if not mine or _run(job, mine) is not None:
            continue
        newest = max(mine, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
        trouble = trouble_of(newest)
        # A pod that has ended is not in trouble: the Job makes another one or fails.
        if trouble is not None and newest.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            troubles.append(MemberTrouble(job["metadata"]["name"], trouble))
    return tuple(sorted(troubles, key=lambda one: one.member))


def _by_owner(pods: Iterable[Live]) -> dict[str, list[Live]]:
    by_owner: dict[str, list[Live]] = {}
    for pod in pods:
        for reference in pod["metadata"].get("ownerReferences", []):
            by_owner.setdefault(reference["uid"], []).append(pod)
    return by_owner


def _run(job: Live, pods: list[Live]) -> EndedRun | None:
    """Return a run, None while it has not ended."""
    name, status = job["metadata"]["name"], job.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions") or [] if one["status"] == "True"}
    end = _newest_end(pods)
    if "Complete" in conditions:
        at = status.get("completionTime") or conditions["Complete"]["lastTransitionTime"]
        summary = None if end is None else parse_summary(end.get("message", ""))
        return EndedRun(name, _time(at), succeeded=True, summary=summary, has_pod=end is not None)
    if "Failed" in conditions:
        failed = conditions["Failed"]
        words = _exit_message(end) or f"{failed.get('reason', 'Failed')}: {failed.get('message', '')}"
        at = _time(failed["lastTransitionTime"])
        return EndedRun(
            name, at, succeeded=False, exit_message=words[:MESSAGE_LENGTH_MAX], has_pod=end is not None
        )
    return None


def _newest_end(pods: Iterable[Live]) -> Live | None:
    """Return how the container ended that ended last; its `message` is what it left.

    One that only prepares counts where it failed: the report's own was never started then.
    """
    ends = [
        end
        for pod in pods
        for of, prepares in (("containerStatuses", False), ("initContainerStatuses", True))
        for container in pod.get("status", {}).get(of) or []
        if (end := container.get("state", {}).get("terminated")) is not None
        and not (prepares and end.get("exitCode") == 0)
    ]
    return max(ends, key=lambda end: _time(end["finishedAt"]), default=None)


def _exit_message(end: Live | None) -> str:
    """Return the last line that a container left.

    Add what Kubernetes calls its end if that says more than Error.
    """
    if end is None:
        return ""
    lines = [line.strip() for line in str(end.get("message", "")).splitlines() if line.strip()]
    reason = end.get("reason", "Error")
    if reason in {"Error", "Completed"}:
        reason = ""
    return ": ".join(word for word in (reason, lines[-1] if lines else "") if word) or (
        f"it ended with status {end.get('exitCode', '?')} and said nothing"
    )


def parse_summary(text: str) -> RunSummary | None:
    """Read what `slo-pipeline report --summary` wrote, None where it is something else."""
    try:
        value = bounded_json.decode_object(text)
        objectives = tuple(_objective(one) for one in value["objectives"][:OBJECTIVES_MAX])
        verdict = str(value["verdict"])[:MESSAGE_LENGTH_MAX]
    except (ValueError, KeyError, TypeError):
        return None
    if len({one.name for one in objectives}) != len(objectives):
        return None
    return RunSummary(verdict, objectives)


def _objective(value: Any) -> ReportedObjective:  # noqa: ANN401 - a JSON value
    return ReportedObjective(
        name=str(value["name"])[:_NAME_LENGTH_MAX],
        group=str(value["group"])[:_GROUP_LENGTH_MAX],
        target_percent=_number(value["target"]),
        attained=None if value["attained"] is None else _number(value["attained"]),
        budget_left=None if value["left"] is None else _number(value["left"]),
        holds=bool(value["holds"]),
        # Programs that predate the field told of no objective that they had not measured.
        measured=bool(value.get("measured", True)),
    )


def _number(value: Any) -> float:  # noqa: ANN401 - a JSON value
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no share")
    return number


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
