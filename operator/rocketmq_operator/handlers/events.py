"""Events of Kubernetes: what a person should see in `kubectl describe`, never from a hot loop.

Only a change is told: a refusal when the status did not say it yet, a step when it is taken.
"""

import hashlib
from typing import Final

from rocketmq_operator.api.names import API_VERSION, FIELD_MANAGER
from rocketmq_operator.clients.api import Json, UnavailableError
from rocketmq_operator.handlers.observe import World
from rocketmq_operator.plan.actions import Delete, Designate, Plan
from rocketmq_operator.plan.objects import Owner
from rocketmq_operator.plan.observed import ObservedGroup

REFUSALS: Final = frozenset({"NameTaken", "NoCandidate", "NoCluster", "ScaleInRefused", "StepRefused"})
NOTE_LENGTH_MAX: Final = 1_000


async def announce(world: World, observed: ObservedGroup, plan: Plan) -> None:
    """Tell what is new about a plan; an Event that cannot be written is not missed."""
    told = _new(observed, plan)
    if told is None:
        return
    reason, note, type_ = told
    try:
        await world.kube.create(_event(world, observed.owner, reason, note, type_))
    except UnavailableError:
        return


def _new(observed: ObservedGroup, plan: Plan) -> tuple[str, str, str] | None:
    step = plan.steps[0] if plan.steps else None
    if plan.wait is not None and plan.wait.reason == "StepRefused":
        step = None
    if isinstance(step, Designate):
        return "SwitchoverStarted", str(step), "Normal"
    if isinstance(step, Delete) and step.key.kind == "Pod":
        return "MemberRestarted", str(step), "Normal"
    if plan.wait is None or plan.wait.reason not in REFUSALS:
        return None
    said = {condition.reason for condition in observed.status.conditions}
    return None if plan.wait.reason in said else (plan.wait.reason, plan.wait.message, "Warning")


def _event(world: World, owner: Owner, reason: str, note: str, type_: str) -> Json:
    now = world.now()
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
