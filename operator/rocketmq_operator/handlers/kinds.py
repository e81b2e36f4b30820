"""Each kind of resource that the operator works on, as one record: how it is observed, planned, reported and timed.

A pass (`reconcile`) and the check that saves one (`quiet`) read the same record, so that they cannot disagree.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from rocketmq_operator.api.names import (
    CLUSTER_KIND,
    CONSUMER_GROUP_KIND,
    GROUP_KIND,
    REPORT_KIND,
    TOPIC_KIND,
)
from rocketmq_operator.handlers.causes import cluster_with_causes, group_with_causes
from rocketmq_operator.handlers.events import announce_run, announce_trouble
from rocketmq_operator.handlers.measuring import steps_of_measuring
from rocketmq_operator.handlers.observe import World, observe_cluster, observe_group
from rocketmq_operator.handlers.observe_metadata import observe_metadata
from rocketmq_operator.handlers.observe_report import observe_report
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.status import cluster_status
from rocketmq_operator.plan.cluster.steps import cluster_plan
from rocketmq_operator.plan.cluster.trouble import cluster_troubles
from rocketmq_operator.plan.common.actions import Apply, ApplyStatus, ChangeMembers, Delete, Plan, Step
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

RECHECK_S: Final = 1.0
"""Delay after a pass that waits for something."""
RESYNC_S: Final = 10.0
"""Delay after a pass that left nothing to do. The next pass finds what a watch missed."""
REPORT_RESYNC_S: Final = 60.0
"""The same for a report: its Jobs are watched, and clients do not depend on it."""
METADATA_RESYNC_S: Final = 60.0
"""The same for a Topic or a ConsumerGroup: how long drift may last. There may be a thousand of them."""
_ENDED_BY_PEOPLE: Final = frozenset({"FieldRewritten", "NameTaken", "StepRefused"})
"""Reasons of a wait that ends when a person acts. Each look costs dozens of calls, so these are rechecked less often."""
_DELETED_SLOWLY: Final = frozenset({"Pod", "PersistentVolumeClaim"})
"""Kinds that exist for a while after their deletion."""
Observed = ObservedCluster | ObservedGroup | ObservedReport | ObservedMetadata
Looked = TypeVar("Looked", ObservedCluster, ObservedGroup, ObservedReport, ObservedMetadata)


async def _unchanged(_: World, observed: Looked) -> Looked:
    return observed


async def _silent(_world: World, _observed: Looked, _plan: Plan, _status: BaseModel) -> None:
    return


async def _no_steps(_: World, __: Looked) -> tuple[ApplyStatus, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[Looked]):
    """How one kind of resource is worked on.

    Attributes:
        observe: looks at a resource by namespace and name; None if it is gone.
        plan: the remaining work.
        status: the status to write, as far as one look and its plan tell.
        next_pass_s: seconds until the next pass, by the plan of the last look.
        can_be_quiet: whether the reflections suffice to decide that a pass has no work; None if they never do.
        with_causes: adds to a look why pods are missing or not ready; only the status depends on it.
        announce: writes the Events that this kind has beside those of its plan.
        measure: steps that follow the status, because they may wait for a canary.
        takes_time: whether a look right after a step would see only the beginning of its effect.
    """

    observe: Callable[[World, str, str], Awaitable[Looked | None]]
    plan: Callable[[Looked], Plan]
    status: Callable[[Looked, Plan], BaseModel]
    next_pass_s: Callable[[Plan], float]
    can_be_quiet: Callable[[Looked], bool] | None
    with_causes: Callable[[World, Looked], Awaitable[Looked]] = _unchanged
    announce: Callable[[World, Looked, Plan, Any], Awaitable[None]] = _silent
    measure: Callable[[World, Looked], Awaitable[tuple[ApplyStatus, ...]]] = _no_steps
    takes_time: Callable[[Step], bool] = lambda _: False


def _soon_or_later(plan: Plan) -> float:
    """Return the delay for what clients depend on: short while there is work or a wait that ends by itself."""
    if plan.wait is not None and plan.wait.reason in _ENDED_BY_PEOPLE:
        return RESYNC_S
    waits = plan.wait is not None and plan.wait.reason != "Paused"
    return RECHECK_S if plan.steps or waits else RESYNC_S


def _later(settled_s: float, plan: Plan) -> float:
    """Return the delay for what clients do not depend on: never short, so that a peer that refuses is not asked every second."""
    return RESYNC_S if plan.steps or plan.wait is not None else settled_s


async def _announce_cluster(world: World, observed: ObservedCluster, plan: Plan, _: object) -> None:
    await announce_trouble(world, observed, plan, cluster_troubles(observed))


async def _announce_group(world: World, observed: ObservedGroup, plan: Plan, _: object) -> None:
    await announce_trouble(world, observed, plan, group_troubles(observed))


async def _announce_report(world: World, observed: ObservedReport, plan: Plan, status: Any) -> None:  # noqa: ANN401 - its own status
    await announce_run(world, observed, status)
    await announce_trouble(world, observed, plan, observed.troubles)


def _cluster_step_takes_time(step: Step) -> bool:
    return isinstance(step, ChangeMembers) or (isinstance(step, Delete) and step.key.kind in _DELETED_SLOWLY)


def _group_step_takes_time(step: Step) -> bool:
    return not isinstance(step, Apply | ApplyStatus)


def _metadata(kind: str) -> Kind[ObservedMetadata]:
    return Kind(
        observe=lambda world, namespace, name: observe_metadata(world, kind, namespace, name),
        plan=metadata_plan,
        status=lambda observed, plan: metadata_status(observed, plan, ()),
        next_pass_s=partial(_later, METADATA_RESYNC_S),
        can_be_quiet=lambda observed: observed.deleting_since is None,
    )


CLUSTERS: Final = Kind(
    observe=observe_cluster,
    plan=cluster_plan,
    status=cluster_status,
    next_pass_s=_soon_or_later,
    can_be_quiet=lambda _: True,
    with_causes=cluster_with_causes,
    announce=_announce_cluster,
    takes_time=_cluster_step_takes_time,
)
GROUPS: Final = Kind(
    observe=observe_group,
    plan=group_plan,
    status=group_status,
    next_pass_s=_soon_or_later,
    can_be_quiet=lambda _: True,
    with_causes=group_with_causes,
    announce=_announce_group,
    measure=steps_of_measuring,
    takes_time=_group_step_takes_time,
)
REPORTS: Final = Kind(
    observe=observe_report,
    plan=report_plan,
    status=report_status,
    next_pass_s=partial(_later, REPORT_RESYNC_S),
    can_be_quiet=None,
    announce=_announce_report,
)
METADATA_KINDS: Final[Mapping[str, Kind[ObservedMetadata]]] = {
    kind: _metadata(kind) for kind in (TOPIC_KIND.kind, CONSUMER_GROUP_KIND.kind)
}
"""Worked on by `metadata_pass`: a broker group that refuses must not stop the others."""
KINDS: Final[Mapping[str, Kind[Any]]] = {
    CLUSTER_KIND.kind: CLUSTERS,
    GROUP_KIND.kind: GROUPS,
    REPORT_KIND.kind: REPORTS,
    **METADATA_KINDS,
}
