"""Each kind of resource that the operator works on, as one record.

A record says how the kind is observed, planned, reported and timed.

A pass (`reconcile`) and the check that saves one (`quiet_delay_s`) read the same record, so that they cannot
disagree.
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
    USER_KIND,
)
from rocketmq_operator.handlers.events import announce_run, announce_trouble
from rocketmq_operator.handlers.measuring import measurement_steps
from rocketmq_operator.handlers.observing.causes import cluster_with_causes, group_with_causes
from rocketmq_operator.handlers.observing.clusters_and_groups import (
    Environment,
    observe_cluster,
    observe_group,
)
from rocketmq_operator.handlers.observing.metadata import observe_metadata
from rocketmq_operator.handlers.observing.reports import observe_report
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.shared_controllers import IN_USE, REFUSED
from rocketmq_operator.plan.cluster.status import cluster_status
from rocketmq_operator.plan.cluster.steps import cluster_plan
from rocketmq_operator.plan.cluster.trouble import cluster_troubles
from rocketmq_operator.plan.common.actions import (
    Apply,
    ApplyStatus,
    ChangeMembers,
    Delete,
    ResourcePlan,
    RotateCredentials,
    Step,
)
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
from rocketmq_operator.plan.tls.issuing import OWN_REASONS

RECHECK_S: Final = 1.0
"""Delay after a pass that waits for something."""
RESYNC_S: Final = 10.0
"""Delay after a pass that left nothing to do. The next pass finds what a watch missed."""
REPORT_RESYNC_S: Final = 60.0
"""The same for a report: its Jobs are watched, and clients do not depend on it."""
METADATA_RESYNC_S: Final = 60.0
"""The same for a Topic or a ConsumerGroup: how long drift may last. There may be a thousand of them."""
USER_RESYNC_S: Final = 30.0
"""The same for a User: no watch tells of its Secret, and a new password should not take minutes."""
_ENDED_BY_PEOPLE: Final = OWN_REASONS | {
    *(IN_USE, REFUSED, "CertificateNotIssued", "FieldRewritten", "NameTaken", "StepRefused")
}
"""Reasons of a wait that ends when a person acts. Each look costs dozens of calls, so these are rechecked
less often."""
_DELETED_SLOWLY: Final = frozenset({"Pod", "PersistentVolumeClaim"})
"""Kinds that exist for a while after their deletion."""
ObservedResource = ObservedCluster | ObservedGroup | ObservedReport | ObservedMetadata
ObservedType = TypeVar("ObservedType", ObservedCluster, ObservedGroup, ObservedReport, ObservedMetadata)


async def _unchanged(_: Environment, observed: ObservedType) -> ObservedType:
    return observed


async def _no_events(
    _world: Environment, _observed: ObservedType, _plan: ResourcePlan, _status: BaseModel
) -> None:
    return


async def _no_steps(_: Environment, __: ObservedType) -> tuple[ApplyStatus, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KindHandling(Generic[ObservedType]):
    """How one kind of resource is worked on.

    Attributes:
        observe: looks at a resource by namespace and name; None if it is gone.
        plan: the remaining work.
        status: the status to write, as far as one look and its plan tell.
        next_pass_s: seconds until the next pass, by the plan of the last look.
        can_be_quiet: whether the reflections suffice to decide that a pass has no work; None if they never
            do.
        with_causes: adds to a look why pods are missing or not ready; only the status depends on it.
        announce: writes the Events that this kind has beside those of its plan.
        measure: steps that follow the status, because they may wait for a canary.
        takes_time: whether a look right after a step would see only the beginning of its effect.
    """

    observe: Callable[[Environment, str, str], Awaitable[ObservedType | None]]
    plan: Callable[[ObservedType], ResourcePlan]
    status: Callable[[ObservedType, ResourcePlan], BaseModel]
    next_pass_s: Callable[[ResourcePlan], float]
    can_be_quiet: Callable[[ObservedType], bool] | None
    with_causes: Callable[[Environment, ObservedType], Awaitable[ObservedType]] = _unchanged
    announce: Callable[[Environment, ObservedType, ResourcePlan, Any], Awaitable[None]] = _no_events
    measure: Callable[[Environment, ObservedType], Awaitable[tuple[ApplyStatus, ...]]] = _no_steps
    takes_time: Callable[[Step], bool] = lambda _: False


def _short_while_unfinished(plan: ResourcePlan) -> float:
    """Return the delay for what clients depend on.

    It is short while there is work or a wait that ends by itself.
    """
    if plan.wait is not None and plan.wait.reason in _ENDED_BY_PEOPLE:
        return RESYNC_S
    waits = plan.wait is not None and plan.wait.reason != "Paused"
    return RECHECK_S if plan.steps or waits else RESYNC_S


def _never_short(settled_s: float, plan: ResourcePlan) -> float:
    """Return the delay for what clients do not depend on.

    It is never short, so that a peer that refuses is not asked every second.
    """
    return RESYNC_S if plan.steps or plan.wait is not None else settled_s


async def _announce_cluster(
    environment: Environment, observed: ObservedCluster, plan: ResourcePlan, _: object
) -> None:
    await announce_trouble(environment, observed, plan, cluster_troubles(observed))


async def _announce_group(
    environment: Environment, observed: ObservedGroup, plan: ResourcePlan, _: object
) -> None:
    await announce_trouble(environment, observed, plan, group_troubles(observed))


async def _announce_report(
    environment: Environment,
    observed: ObservedReport,
    plan: ResourcePlan,
    status: Any,  # noqa: ANN401 - its own status
) -> None:
    await announce_run(environment, observed, status)
    await announce_trouble(environment, observed, plan, observed.troubles)


def _cluster_step_takes_time(step: Step) -> bool:
    # The Event of a rotation tells of its step, which must be the last one of its pass.
    if isinstance(step, ChangeMembers | RotateCredentials):
        return True
    return isinstance(step, Delete) and step.key.kind in _DELETED_SLOWLY


def _group_step_takes_time(step: Step) -> bool:
    return not isinstance(step, Apply | ApplyStatus)


def _metadata(kind: str, resync_s: float) -> KindHandling[ObservedMetadata]:
    return KindHandling(
        observe=lambda environment, namespace, name: observe_metadata(environment, kind, namespace, name),
        plan=metadata_plan,
        status=lambda observed, plan: metadata_status(observed, plan, ()),
        next_pass_s=partial(_never_short, resync_s),
        can_be_quiet=lambda observed: observed.deleting_since is None,
    )


CLUSTERS: Final = KindHandling(
    observe=observe_cluster,
    plan=cluster_plan,
    status=cluster_status,
    next_pass_s=_short_while_unfinished,
    can_be_quiet=lambda _: True,
    with_causes=cluster_with_causes,
    announce=_announce_cluster,
    takes_time=_cluster_step_takes_time,
)
GROUPS: Final = KindHandling(
    observe=observe_group,
    plan=group_plan,
    status=group_status,
    next_pass_s=_short_while_unfinished,
    can_be_quiet=lambda _: True,
    with_causes=group_with_causes,
    announce=_announce_group,
    measure=measurement_steps,
    takes_time=_group_step_takes_time,
)
REPORTS: Final = KindHandling(
    observe=observe_report,
    plan=report_plan,
    status=report_status,
    next_pass_s=partial(_never_short, REPORT_RESYNC_S),
    can_be_quiet=None,
    announce=_announce_report,
)
METADATA_KINDS: Final[Mapping[str, KindHandling[ObservedMetadata]]] = {
    TOPIC_KIND.kind: _metadata(TOPIC_KIND.kind, METADATA_RESYNC_S),
    CONSUMER_GROUP_KIND.kind: _metadata(CONSUMER_GROUP_KIND.kind, METADATA_RESYNC_S),
    USER_KIND.kind: _metadata(USER_KIND.kind, USER_RESYNC_S),
}
"""Worked on by `metadata_pass`: a broker group that refuses must not stop the others."""
KINDS: Final[Mapping[str, KindHandling[Any]]] = {
    CLUSTER_KIND.kind: CLUSTERS,
    GROUP_KIND.kind: GROUPS,
    REPORT_KIND.kind: REPORTS,
    **METADATA_KINDS,
}
