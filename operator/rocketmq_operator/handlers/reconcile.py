"""One pass over a resource.

It looks, plans, does the first step and looks again, until no step is left or the plan must wait.

A pass remembers nothing, so it may end anywhere: by a crash, by the loss of the Lease, by an unreachable API
server. The next pass finds the remaining work. The status is written at the end, and only if it changed.
After that the pass asks the canaries (`measuring`).
"""

from dataclasses import replace
from typing import Any, Final

from rocketmq_operator.api.conditions import Condition, make_finding, merge_findings
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.handlers.carry_out import PassContext, apply_status, carry_out, write_status
from rocketmq_operator.handlers.events import announce, announce_correction, announce_left_behind
from rocketmq_operator.handlers.kinds import KINDS, METADATA_KINDS, RESYNC_S, KindHandling, ObservedResource
from rocketmq_operator.handlers.observing.clusters_and_groups import InvalidSpecError
from rocketmq_operator.handlers.observing.name_lookup import look_up_names
from rocketmq_operator.plan.common.actions import (
    Apply,
    DeleteMetadata,
    DeleteRoute,
    ResourcePlan,
    Step,
    Wait,
    WriteMetadata,
    field_rewritten,
)
from rocketmq_operator.plan.common.objects import key_of, replaced_by_key
from rocketmq_operator.plan.common.rewritten_fields import first_difference
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.metadata.observed import ObservedMetadata
from rocketmq_operator.plan.metadata.status import metadata_status
from rocketmq_operator.plan.pods.health import stalled_findings

STEPS_PER_PASS_MAX: Final = 100
STEPS_PER_OBSERVATION_MAX: Final = 20
"""Maximum number of steps after one observation; the next observation shows changes by others."""


async def reconcile(context: PassContext, kind: str, namespace: str, name: str) -> float | None:
    """Do one pass; return after how many seconds the next one should come, None when the resource is gone.

    Raises:
        NotLeadingError: another operator acts.
        PeerUnavailableError: a peer does not answer.
    """
    try:
        if kind in METADATA_KINDS:
            return await _metadata_pass(METADATA_KINDS[kind], context, namespace, name)
        return await _pass(KINDS[kind], context, namespace, name)
    except InvalidSpecError as error:
        await _write_invalid(context, kind, namespace, name, error)
        return RESYNC_S


async def _pass(kind: KindHandling[Any], context: PassContext, namespace: str, name: str) -> float | None:
    worked_off = await _carry_out_steps(context, kind, namespace, name)
    if worked_off is None:
        return None
    observed, plan = worked_off
    await announce(context.environment, observed, plan)
    observed = await kind.with_causes(context.environment, observed)
    status = kind.status(observed, plan)
    await kind.announce(context.environment, observed, plan, status)
    await write_status(context, observed, status)
    # Why after all else: it may take as long as a canary is silent.
    for step in await kind.measure(context.environment, observed):
        await carry_out(context, observed, step)
    return kind.next_pass_s(plan)


async def _observe(context: PassContext, kind: KindHandling[Any], namespace: str, name: str) -> Any:  # noqa: ANN401 - what the kind observes
    observed = await kind.observe(context.environment, namespace, name)
    if isinstance(observed, ObservedGroup):
        context.on_group(observed)
    return observed


async def _carry_out_steps(
    context: PassContext, kind: KindHandling[Any], namespace: str, name: str
) -> tuple[Any, ResourcePlan] | None:
    """Look, carry out the first step, and look again, until nothing is left to do now.

    After a child was written that moves nothing else, the answer is laid over the look instead, for at most
    `STEPS_PER_OBSERVATION_MAX` steps: a look is a dozen calls, and the answer is the newest there is. Before
    the pass ends there is a look that found nothing to do.

    Args:
        context: what a pass needs.
        kind: how the resource is observed and planned.
        namespace: the resource's.
        name: the resource's.

    Returns:
        The last look and its plan, which says why a step was refused; None when the resource is gone.
    """
    steps_left, since_look = STEPS_PER_PASS_MAX, 0
    done: Step | None = None
    observed = await _observe(context, kind, namespace, name)
    while observed is not None:
        plan: ResourcePlan = kind.plan(observed)
        if (names := await look_up_names(context.environment.kube, observed, plan)) is not None:
            observed = replace(observed, name_lookup=names)
            plan = kind.plan(observed)
        if not steps_left or not (plan.steps or since_look):
            return observed, plan
        if not plan.steps or since_look >= STEPS_PER_OBSERVATION_MAX:
            observed, since_look = await _observe(context, kind, namespace, name), 0
            continue
        step = plan.steps[0]
        if step == done:
            return observed, replace(plan, wait=_why_still_wanted(observed, step))
        written, refused = await carry_out(context, observed, step)
        if refused is not None:
            return observed, replace(plan, wait=refused)
        steps_left -= 1
        done = step
        if kind.takes_time(step):
            return observed, plan
        if written is None:
            observed, since_look = await _observe(context, kind, namespace, name), 0
        else:
            observed = replace(observed, children=replaced_by_key(observed.children, [written]))
            since_look += 1
    return None


def _why_still_wanted(observed: ObservedResource, step: Step) -> Wait:
    """Say why a step that was done is wanted still: by which field of which object, if it wrote one."""
    problem = ""
    if isinstance(step, Apply) and not isinstance(observed, ObservedMetadata):
        problem = first_difference(observed.children.get(key_of(step.body)), step.body)
    unchanged = Wait("StepRefused", f"{step}: it was done, and is wanted still")
    return field_rewritten(problem) if problem else unchanged


async def _metadata_pass(
    kind: KindHandling[ObservedMetadata], context: PassContext, namespace: str, name: str
) -> float | None:
    """Bring one to each broker group; a group that refuses does not stop the others."""
    observed = await kind.observe(context.environment, namespace, name)
    if observed is None:
        return None
    plan = kind.plan(observed)
    refused: Wait | None = None
    done: list[Step] = []
    failed: list[Step] = []
    for step in plan.steps:
        problem = await _try_step(context, observed, step)
        (done if problem is None else failed).append(step)
        refused = refused or problem
        if problem is not None and observed.deleting_since is not None and not observed.is_overdue:
            # Let go of it last, and only when all else is done.
            break
        if problem is not None and isinstance(step, Apply):
            # A hold or a Secret that is not written: brokers would keep what nobody can delete or know.
            break
    corrected = [step for step in done if isinstance(step, WriteMetadata) and step.drifted]
    await announce_correction(context.environment, observed, corrected)
    if observed.is_overdue:
        await announce_left_behind(context.environment, observed, failed)
    if done:
        if (observed := await kind.observe(context.environment, namespace, name)) is None:
            return None
        plan = kind.plan(observed)
    if refused is not None:
        plan = ResourcePlan(plan.steps, refused)
    await announce(context.environment, observed, plan)
    status = metadata_status(observed, plan, corrected)
    await write_status(context, observed, status)
    # Do not hurry a write that did not take effect: the operator would otherwise call an unresponsive broker
    # every second.
    return kind.next_pass_s(plan)


async def _try_step(context: PassContext, observed: ObservedMetadata, step: Step) -> Wait | None:
    """Do one step, or return why not; only a deletion past its patience continues without a silent peer."""
    try:
        return (await carry_out(context, observed, step))[1]
    except PeerUnavailableError as error:
        if not (observed.is_overdue and isinstance(step, DeleteMetadata | DeleteRoute)):
            raise
        return Wait("StepRefused", f"{step}: {error}")


async def _write_invalid(
    context: PassContext, kind: str, namespace: str, name: str, error: InvalidSpecError
) -> None:
    """Write the error of an invalid spec to the status; the operator changes nothing else."""
    resource = await context.environment.kube.get(kind, namespace, name)
    if resource is None or not context.may_act():
        return
    status = dict(resource.get("status") or {})
    previous = tuple(Condition.model_validate(one) for one in status.get("conditions", []))
    finding = make_finding("Ready", holds=False, reason=error.reason, message=str(error))
    generation = resource["metadata"].get("generation", 0)
    findings = [finding, *stalled_findings(finding)]
    merged = merge_findings(previous, findings, generation=generation, now=context.environment.now())
    written = [one.model_dump(mode="json", by_alias=True) for one in merged]
    types = {one["type"] for one in written}
    others = [one for one in status.get("conditions", []) if one["type"] not in types]
    wanted = {
        "reason": error.reason,
        "observedGeneration": generation,
        "conditions": [*written, *others],
    }
    if any(status.get(key) != value for key, value in wanted.items()):
        await apply_status(context.environment.kube, kind, namespace, name, status | wanted)
