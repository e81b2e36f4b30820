"""One pass over a custom resource: look, plan, do the first step, look again, until nothing is left or it must wait.

A pass remembers nothing, so it may end anywhere: by a crash, by the loss of the Lease, by an API server that goes away. The next one
finds what is left. The status is written at the end, and only when it says something new. After it the canaries are asked (`measuring`).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from rocketmq_operator.api.conditions import Condition, found, merge
from rocketmq_operator.api.names import (
    API_VERSION,
    CLUSTER_KIND,
    CONSUMER_GROUP_KIND,
    FAILOVER_KIND,
    GROUP_KIND,
    REPORT_KIND,
    TOPIC_KIND,
)
from rocketmq_operator.clients.api import Json, Kube, NotYetError, RefusedError, UnavailableError
from rocketmq_operator.handlers.causes import cluster_with_causes, group_with_causes
from rocketmq_operator.handlers.events import (
    announce,
    announce_correction,
    announce_left_behind,
    announce_run,
    announce_trouble,
)
from rocketmq_operator.handlers.look_up import look_up_names
from rocketmq_operator.handlers.measuring import steps_of_measuring
from rocketmq_operator.handlers.observe import (
    InvalidSpecError,
    World,
    controllers_for,
    observe_cluster,
    observe_group,
)
from rocketmq_operator.handlers.observe_metadata import observe_metadata
from rocketmq_operator.handlers.observe_report import observe_report
from rocketmq_operator.handlers.quiet import nothing_to_do
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.status import cluster_status
from rocketmq_operator.plan.cluster.steps import cluster_plan
from rocketmq_operator.plan.cluster.trouble import cluster_troubles
from rocketmq_operator.plan.common.actions import (
    Apply,
    ApplyStatus,
    ChangeMembers,
    Delete,
    DeleteMetadata,
    DeleteRoute,
    Designate,
    Plan,
    Step,
    Wait,
    WriteMetadata,
    field_rewritten,
)
from rocketmq_operator.plan.common.objects import by_key_added, key_of
from rocketmq_operator.plan.common.rewritten import first_difference
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.status import group_status
from rocketmq_operator.plan.group.steps import group_plan
from rocketmq_operator.plan.group.trouble import group_troubles
from rocketmq_operator.plan.metadata.observed import ObservedMetadata
from rocketmq_operator.plan.metadata.status import metadata_status
from rocketmq_operator.plan.metadata.steps import metadata_plan
from rocketmq_operator.plan.report.observed import ObservedReport
from rocketmq_operator.plan.report.status import report_status
from rocketmq_operator.plan.report.steps import report_plan

STEPS_PER_PASS_MAX: Final = 100
LOOK_STEPS_MAX: Final = 20
"""Steps by one look and the answers to them: what others do meanwhile is seen then."""
_MOVES_MORE: Final = frozenset({"StatefulSet", "Deployment", FAILOVER_KIND.kind})
"""Kinds after whose change there is more to see than the answer: pods come and go; a record is no child."""
_LIVES_ON: Final = frozenset({"Pod", "PersistentVolumeClaim"})
"""Kinds that are still there for a while after they were deleted."""
_BY_OTHERS: Final = frozenset({"FieldRewritten", "NameTaken", "StepRefused"})
"""Reasons of a wait that ends when a person does something: each look at one costs dozens of calls."""
RECHECK_S: Final = 1.0
"""After a pass that waits for something."""
RESYNC_S: Final = 10.0
"""After a pass that left nothing to do: what a watch missed is seen then."""
REPORT_RESYNC_S: Final = 60.0
"""The same for a report: nobody waits for it, and a watch tells of its Jobs."""
METADATA_RESYNC_S: Final = 60.0
"""The same for a Topic or a ConsumerGroup: how long drift lasts. There may be a thousand of them."""
Observed = ObservedCluster | ObservedGroup | ObservedReport | ObservedMetadata
Looked = TypeVar("Looked", ObservedCluster, ObservedGroup, ObservedReport)
_LOG: Final = logging.getLogger(__name__)


class NotLeadingError(Exception):
    """The Lease is not ours any more: stop before the next write."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What a pass needs beside the world.

    Attributes:
        may_act: whether the Lease is ours now; asked before every write.
        on_group: told of each look at a group, for whoever must act faster than a pass.
        on_step: told of each step that was done.
    """

    world: World
    may_act: Callable[[], bool] = lambda: True
    on_group: Callable[[ObservedGroup], None] = lambda _: None
    on_step: Callable[[Step], None] = lambda _: None


async def reconcile(shell: Shell, kind: str, namespace: str, name: str) -> float | None:
    """Do one pass; return after how many seconds the next one should come, None when the resource is gone.

    Raises:
        NotLeadingError: another operator acts.
        UnavailableError: a peer does not answer.
    """
    try:
        return await _PASSES[kind](shell, namespace, name)
    except InvalidSpecError as error:
        await _write_invalid(shell, kind, namespace, name, error)
        return RESYNC_S


async def quiet(kept: World, kind: str, namespace: str, name: str) -> float | None:
    """Return after how many seconds the next pass should come if, by what is kept, there is nothing to do; else None."""
    plan = await nothing_to_do(kept, kind, namespace, name)
    if plan is None:
        return None
    if kind in {CLUSTER_KIND.kind, GROUP_KIND.kind}:
        return _next_pass(plan)
    return RESYNC_S if plan.wait is not None else METADATA_RESYNC_S


async def _worked_off(
    shell: Shell,
    look: Callable[[], Awaitable[Looked | None]],
    plan_of: Callable[[Looked], Plan],
    takes_time: Callable[[Step], bool] = lambda _: False,
) -> tuple[Looked, Plan] | None:
    """Look, carry out the first step, and look again, until nothing is left to do now.

    After a child was written that moves nothing else, the answer is laid over the look instead, for at most `LOOK_STEPS_MAX` steps: a
    look is a dozen calls, and the answer is the newest there is. Before the pass ends there is a look that found nothing to do.

    Args:
        shell: what a pass needs.
        look: observes the resource; None when it is gone.
        plan_of: its plan.
        takes_time: says of which steps the next look right now would only see the beginning.

    Returns:
        The last look and its plan, which says why a step was refused; None when the resource is gone.
    """
    steps_left, since_look = STEPS_PER_PASS_MAX, 0
    done: Step | None = None
    observed = await look()
    while observed is not None:
        plan = plan_of(observed)
        if (names := await look_up_names(shell.world.kube, observed, plan)) is not None:
            observed = replace(observed, looked_up=names)
            plan = plan_of(observed)
        if not steps_left or not (plan.steps or since_look):
            return observed, plan
        if not plan.steps or since_look >= LOOK_STEPS_MAX:
            observed, since_look = await look(), 0
            continue
        step = plan.steps[0]
        if step == done:
            return observed, replace(plan, wait=_done_in_vain(observed, step))
        written, refused = await _carry_out(shell, observed, step)
        if refused is not None:
            return observed, replace(plan, wait=refused)
        steps_left -= 1
        done = step
        if takes_time(step):
            return observed, plan
        if written is None:
            observed, since_look = await look(), 0
        else:
            observed = replace(observed, children=by_key_added(observed.children, [written]))
            since_look += 1
    return None


def _done_in_vain(observed: Observed, step: Step) -> Wait:
    """Say why a step that was done is wanted still: by which field of which object, if it wrote one."""
    problem = ""
    if isinstance(step, Apply) and not isinstance(observed, ObservedMetadata):
        problem = first_difference(observed.children.get(key_of(step.body)), step.body)
    unchanged = Wait("StepRefused", f"{step}: it was done, and is wanted still")
    return field_rewritten(problem) if problem else unchanged


async def _cluster_pass(shell: Shell, namespace: str, name: str) -> float | None:
    # A change of membership and a restart take their time.
    worked_off = await _worked_off(
        shell,
        lambda: observe_cluster(shell.world, namespace, name),
        cluster_plan,
        takes_time=lambda step: (
            isinstance(step, ChangeMembers) or (isinstance(step, Delete) and step.key.kind in _LIVES_ON)
        ),
    )
    if worked_off is None:
        return None
    observed, plan = worked_off
    await announce(shell.world, observed, plan)
    observed = await cluster_with_causes(shell.world, observed)
    await announce_trouble(shell.world, observed, plan, cluster_troubles(observed))
    status = cluster_status(observed, plan).model_dump(mode="json", by_alias=True, exclude_none=True)
    await _write_status(shell, observed, status)
    return _next_pass(plan)


async def _group_pass(shell: Shell, namespace: str, name: str) -> float | None:
    async def look() -> ObservedGroup | None:
        observed = await observe_group(shell.world, namespace, name)
        if observed is not None:
            shell.on_group(observed)
        return observed

    # A restart and a switchover take their time.
    worked_off = await _worked_off(
        shell, look, group_plan, takes_time=lambda step: not isinstance(step, Apply | ApplyStatus)
    )
    if worked_off is None:
        return None
    observed, plan = worked_off
    await announce(shell.world, observed, plan)
    observed = await group_with_causes(shell.world, observed)
    await announce_trouble(shell.world, observed, plan, group_troubles(observed))
    status = group_status(observed, plan).model_dump(mode="json", by_alias=True, exclude_none=True)
    await _write_status(shell, observed, status)
    # Why after all else: it may take as long as a canary is silent.
    for step in await steps_of_measuring(shell.world, observed):
        await _carry_out(shell, observed, step)
    return _next_pass(plan)


async def _report_pass(shell: Shell, namespace: str, name: str) -> float | None:
    worked_off = await _worked_off(shell, lambda: observe_report(shell.world, namespace, name), report_plan)
    if worked_off is None:
        return None
    observed, plan = worked_off
    await announce(shell.world, observed, plan)
    status = report_status(observed, plan)
    await announce_run(shell.world, observed, status)
    await _write_status(shell, observed, status.model_dump(mode="json", by_alias=True, exclude_none=True))
    return RESYNC_S if plan.steps or plan.wait is not None else REPORT_RESYNC_S


async def _metadata_pass(kind: str, shell: Shell, namespace: str, name: str) -> float | None:
    """Bring a Topic or a ConsumerGroup to each broker group; one that refuses does not stop the others."""
    observed = await observe_metadata(shell.world, kind, namespace, name)
    if observed is None:
        return None
    plan = metadata_plan(observed)
    refused: Wait | None = None
    done: list[Step] = []
    failed: list[Step] = []
    for step in plan.steps:
        problem = await _tried(shell, observed, step)
        (done if problem is None else failed).append(step)
        refused = refused or problem
        if problem is not None and observed.deleting_since is not None and not observed.impatient:
            # Let go of it last, and only when all else is done.
            break
    corrected = [step for step in done if isinstance(step, WriteMetadata) and step.drifted]
    await announce_correction(shell.world, observed, corrected)
    if observed.impatient:
        await announce_left_behind(shell.world, observed, failed)
    if done:
        if (observed := await observe_metadata(shell.world, kind, namespace, name)) is None:
            return None
        plan = metadata_plan(observed)
    if refused is not None:
        plan = Plan(plan.steps, refused)
    await announce(shell.world, observed, plan)
    status = metadata_status(observed, plan, corrected)
    await _write_status(shell, observed, status.model_dump(mode="json", by_alias=True, exclude_none=True))
    # What is still to be written after it was written is not hurried: a broker that takes no notice would be asked every second.
    return RESYNC_S if plan.steps or plan.wait is not None else METADATA_RESYNC_S


async def _tried(shell: Shell, observed: ObservedMetadata, step: Step) -> Wait | None:
    """Do one step, or say why not; only a deletion that waits for nobody any more goes on without a peer that is silent."""
    try:
        return (await _carry_out(shell, observed, step))[1]
    except UnavailableError as error:
        if not (observed.impatient and isinstance(step, DeleteMetadata | DeleteRoute)):
            raise
        return Wait("StepRefused", f"{step}: {error}")


_PASSES: Final[Mapping[str, Callable[[Shell, str, str], Awaitable[float | None]]]] = {
    CLUSTER_KIND.kind: _cluster_pass,
    GROUP_KIND.kind: _group_pass,
    REPORT_KIND.kind: _report_pass,
    TOPIC_KIND.kind: partial(_metadata_pass, TOPIC_KIND.kind),
    CONSUMER_GROUP_KIND.kind: partial(_metadata_pass, CONSUMER_GROUP_KIND.kind),
}


def _next_pass(plan: Plan) -> float:
    waits = plan.wait is not None and plan.wait.reason != "Paused"
    if plan.wait is not None and plan.wait.reason in _BY_OTHERS:
        return RESYNC_S
    return RECHECK_S if plan.steps or waits else RESYNC_S


async def _carry_out(shell: Shell, observed: Observed, step: Step) -> tuple[Json | None, Wait | None]:
    """Do one step; return a child as it was written, and why a peer would not have it, which a person must read in the status."""
    if not shell.may_act():
        raise NotLeadingError
    owner = observed.owner
    _LOG.info("%s %s/%s: %s", owner.kind, owner.namespace, owner.name, step)
    try:
        written = await _do(shell, observed, step)
    except RefusedError as error:
        _LOG.warning("%s %s/%s: %s: %s", owner.kind, owner.namespace, owner.name, step, error)
        return None, Wait("StepRefused", f"{step}: {error}")
    except NotYetError as error:
        if not isinstance(step, ChangeMembers):
            raise
        return None, Wait("ControllersBusy", f"{step}: {error}")
    shell.on_step(step)
    return written, None


async def _do(shell: Shell, observed: Observed, step: Step) -> Json | None:
    """Do one step; return a child as it is then, if one was written."""
    kube = shell.world.kube
    match step:
        case Apply(body=body):
            written = await kube.apply(body)
            return None if body["kind"] in _MOVES_MORE else written
        case ApplyStatus(body=body):
            await kube.apply_status(body)
        case Delete(key=key, uid=uid, by_force=by_force):
            await kube.delete(key.kind, observed.owner.namespace, key.name, uid, by_force=by_force)
        case Designate(broker_id=broker_id):
            await _designate(shell, observed, broker_id)
        case ChangeMembers(action=action, member=member):
            await _change_members(shell, observed, action, member)
        case WriteMetadata(kind=kind, address=address, config=config):
            await shell.world.brokers.write(address, kind, config)
        case DeleteMetadata(kind=kind, name=name, address=address):
            await shell.world.brokers.delete(address, kind, name)
        case DeleteRoute(cluster=cluster, topic=topic, address=address):
            await shell.world.brokers.delete_route(address, cluster, topic)
    return None


async def _designate(shell: Shell, observed: Observed, broker_id: int) -> None:
    if not isinstance(observed, ObservedGroup):
        raise TypeError(f"a {observed.owner.kind} has no master to designate")
    controllers = await controllers_for(shell.world, observed)
    await controllers.designate(observed.spec.cluster, observed.owner.name, broker_id)


async def _change_members(shell: Shell, observed: Observed, action: str, member: str) -> None:
    if not isinstance(observed, ObservedCluster):
        raise TypeError(f"a {observed.owner.kind} has no controllers to change")
    owner = observed.owner
    controllers = shell.world.controllers_of(owner.namespace, owner.name, observed.token)
    await controllers.change_members(action, member)


async def _write_status(shell: Shell, observed: Observed, status: Json) -> None:
    before = observed.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    if status != before:
        if not shell.may_act():
            raise NotLeadingError
        await _apply_status(
            shell.world.kube, observed.owner.kind, observed.owner.namespace, observed.owner.name, status
        )


async def _apply_status(kube: Kube, kind: str, namespace: str, name: str, status: Json) -> None:
    metadata = {"name": name, "namespace": namespace}
    await kube.apply_status({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status})


async def _write_invalid(shell: Shell, kind: str, namespace: str, name: str, error: InvalidSpecError) -> None:
    """Say in the status what is wrong with a spec; everything that runs is left as it is."""
    resource = await shell.world.kube.get(kind, namespace, name)
    if resource is None or not shell.may_act():
        return
    status = dict(resource.get("status") or {})
    before = tuple(Condition.model_validate(one) for one in status.get("conditions", []))
    finding = found("Ready", holds=False, reason=error.reason, message=str(error))
    generation = resource["metadata"].get("generation", 0)
    (ready,) = merge(before, [finding], generation=generation, now=shell.world.now())
    others = [one for one in status.get("conditions", []) if one["type"] != "Ready"]
    wanted = {"reason": error.reason, "conditions": [ready.model_dump(mode="json", by_alias=True), *others]}
    if any(status.get(key) != value for key, value in wanted.items()):
        await _apply_status(shell.world.kube, kind, namespace, name, status | wanted)
