"""Events of Kubernetes: what a person should see in `kubectl describe`, never from a hot loop.

Events report changes only: a refusal that the status does not report yet, and each step that the operator
takes.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from rocketmq_operator.api.names import API_VERSION, FIELD_MANAGER
from rocketmq_operator.api.slo_report import SLOReportStatus
from rocketmq_operator.clients.api import Json, PeerUnavailableError
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.shared_controllers import IN_USE, REFUSED
from rocketmq_operator.plan.common.actions import (
    ChangeMembers,
    Delete,
    Designate,
    ResourcePlan,
    RotateCredentials,
    Step,
    WriteMetadata,
)
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.metadata.observed import ObservedMetadata
from rocketmq_operator.plan.metadata.status import correction
from rocketmq_operator.plan.metadata.steps import left_behind
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble, with_cause
from rocketmq_operator.plan.report.observed import ObservedReport
from rocketmq_operator.plan.report.status import is_newer_run

REFUSALS: Final = frozenset(
    {
        "AuthenticationOff",
        "Conflict",
        "ControllerHasLog",
        IN_USE,
        REFUSED,
        "FieldRewritten",
        "NameTaken",
        "NoAccount",
        "NoCandidate",
        "NoCluster",
        "NoGroup",
        "NoSource",
        "PasswordInvalid",
        "PodRefused",
        "ScaleInRefused",
        "SecretMissing",
        "SignsForMembers",
        "StepRefused",
        "SwitchoverRefused",
        "TooFewVoters",
        "VolumeKept",
    }
)
NOTE_LENGTH_MAX: Final = 1_000


async def announce(
    environment: Environment,
    observed: ObservedCluster | ObservedGroup | ObservedReport | ObservedMetadata,
    plan: ResourcePlan,
) -> None:
    """Write Events for the changes in a plan; a failed write of an Event is ignored."""
    await _write_once(environment, observed.owner, _new(observed, plan))


async def announce_trouble(
    environment: Environment,
    observed: ObservedCluster | ObservedGroup | ObservedReport,
    plan: ResourcePlan,
    troubles: Sequence[MemberTrouble],
) -> None:
    """Write an Event for each kind of problem that the status does not name yet.

    A problem is a member's trouble, or a field that somebody rewrites. The first of each reason is told.
    """
    previous = [text for one in observed.status.conditions for text in (one.reason, one.message)]
    causes = with_cause(troubles)
    # A claim that ends while the plan waits is one that the plan gave up.
    problems = [
        (one.trouble.reason, f"{one.member}: {one.trouble.message}")
        for one in causes
        if plan.wait is None or one.trouble.reason != "VolumeTerminating"
    ]
    problems += [(note.reason, note.message) for note in plan.notes]
    first_notes: dict[str, str] = {}
    for reason, note in problems:
        # A rewritten field stands in a condition by its message: the reason there may be a member's.
        if not any(reason in text or note in text for text in previous):
            first_notes.setdefault(reason, note)
    for reason, note in first_notes.items():
        await _write_once(environment, observed.owner, (reason, note, "Warning"))


async def announce_run(environment: Environment, observed: ObservedReport, status: SLOReportStatus) -> None:
    """Tell of a run that failed, or that found a budget overspent, once."""
    if is_newer_run(observed):
        await _write_once(environment, observed.owner, _new_run(status))


async def announce_correction(
    environment: Environment, observed: ObservedMetadata, corrected: Sequence[WriteMetadata]
) -> None:
    """Tell what drift was written over."""
    if corrected:
        await _write_once(environment, observed.owner, ("DriftCorrected", correction(corrected), "Normal"))


async def announce_left_behind(
    environment: Environment, observed: ObservedMetadata, failed: Sequence[Step]
) -> None:
    """Tell what a deletion did not wait for any more."""
    if places := left_behind(observed, failed):
        note = f"{observed.name} may be left in {', '.join(places)}: nothing could be deleted there"
        await _write_once(environment, observed.owner, ("LeftBehind", note, "Warning"))


async def _write_once(environment: Environment, owner: Owner, event: tuple[str, str, str] | None) -> None:
    if event is None:
        return
    reason, note, type_ = event
    try:
        await environment.kube.create(_event(environment, owner, reason, note, type_))
    except PeerUnavailableError:
        return


def _new_run(status: SLOReportStatus) -> tuple[str, str, str] | None:
    conditions = {condition.type: condition for condition in status.conditions}
    if status.last_result == "Failed":
        return "RunFailed", f"{status.last_job}: {status.last_message}", "Warning"
    if conditions["ObjectivesMet"].status == "False":
        return "Overspent", conditions["ObjectivesMet"].message, "Warning"
    return None


def _new(
    observed: ObservedCluster | ObservedGroup | ObservedReport | ObservedMetadata, plan: ResourcePlan
) -> tuple[str, str, str] | None:
    step = plan.steps[0] if plan.steps else None
    if plan.wait is not None and plan.wait.reason in {"ControllersBusy", "StepRefused"}:
        step = None
    if isinstance(step, RotateCredentials):
        return step.reason, step.why, "Normal"
    if isinstance(step, ChangeMembers):
        return step.reason, str(step), "Normal"
    if isinstance(step, Designate):
        return "SwitchoverStarted", str(step), "Normal"
    if isinstance(step, Delete) and step.key.kind == "PersistentVolumeClaim":
        return "VolumeGivenUp", str(step), "Warning"
    if isinstance(step, Delete) and step.key.kind == "Pod":
        return "MemberFreed" if step.by_force else "MemberRestarted", str(step), "Normal"
    if plan.wait is None or plan.wait.reason not in REFUSALS:
        return None
    reasons = {condition.reason for condition in observed.status.conditions}
    return None if plan.wait.reason in reasons else (plan.wait.reason, plan.wait.message, "Warning")


def _event(environment: Environment, owner: Owner, reason: str, note: str, type_: str) -> Json:
    now = environment.now()
    text = f"{owner.uid}/{reason}/{note}/{now.isoformat()}"
    name = f"{owner.name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": owner.namespace},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "action": reason,
        "reason": reason,
        "note": note[:NOTE_LENGTH_MAX],
        "type": type_,
        "reportingController": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": owner.kind,
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
    }
