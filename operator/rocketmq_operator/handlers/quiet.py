"""A pass that costs the API server nothing: is there anything to do, by what is kept of it?

Most passes come because it is time again, and find nothing. Those look at reflections (`clients.reflection`). Where that shows nothing
to write, neither a step nor a status, and no canary can tell what a failover's record lacks, the pass is over. In every other case, what
is kept being old or not known among them, the answer is None: a pass that looks at the API server itself decides what is done. So nothing
is ever written, restarted or deleted by what is kept.
"""

from typing import Final

from pydantic import BaseModel

from rocketmq_operator.api.names import CLUSTER_KIND, CONSUMER_GROUP_KIND, GROUP_KIND, TOPIC_KIND
from rocketmq_operator.clients.api import Json, UnavailableError
from rocketmq_operator.handlers.causes import cluster_with_causes, group_with_causes
from rocketmq_operator.handlers.measuring import steps_of_measuring
from rocketmq_operator.handlers.observe import InvalidSpecError, World, observe_cluster, observe_group
from rocketmq_operator.handlers.observe_metadata import observe_metadata
from rocketmq_operator.plan.cluster.status import cluster_status
from rocketmq_operator.plan.cluster.steps import cluster_plan
from rocketmq_operator.plan.common.actions import Plan
from rocketmq_operator.plan.group.status import group_status
from rocketmq_operator.plan.group.steps import group_plan
from rocketmq_operator.plan.metadata.status import metadata_status
from rocketmq_operator.plan.metadata.steps import metadata_plan

_METADATA: Final = frozenset({TOPIC_KIND.kind, CONSUMER_GROUP_KIND.kind})


async def nothing_to_do(kept: World, kind: str, namespace: str, name: str) -> Plan | None:
    """Return the plan that has nothing to do, perhaps but wait; None if there may be something, or nobody knows."""
    try:
        if kind == GROUP_KIND.kind:
            return await _group(kept, namespace, name)
        if kind == CLUSTER_KIND.kind:
            return await _cluster(kept, namespace, name)
        return await _metadata(kept, kind, namespace, name) if kind in _METADATA else None
    except (UnavailableError, InvalidSpecError):
        return None


async def _group(kept: World, namespace: str, name: str) -> Plan | None:
    observed = await observe_group(kept, namespace, name)
    if observed is None:
        return None
    plan = group_plan(observed)
    if plan.steps or await steps_of_measuring(kept, observed):
        return None
    observed = await group_with_causes(kept, observed)
    return plan if _same(group_status(observed, plan), observed.status) else None


async def _cluster(kept: World, namespace: str, name: str) -> Plan | None:
    observed = await observe_cluster(kept, namespace, name)
    if observed is None:
        return None
    plan = cluster_plan(observed)
    if plan.steps:
        return None
    observed = await cluster_with_causes(kept, observed)
    return plan if _same(cluster_status(observed, plan), observed.status) else None


async def _metadata(kept: World, kind: str, namespace: str, name: str) -> Plan | None:
    observed = await observe_metadata(kept, kind, namespace, name)
    if observed is None or observed.deleting_since is not None:
        return None
    plan = metadata_plan(observed)
    return plan if not plan.steps and _same(metadata_status(observed, plan, ()), observed.status) else None


def _same(new: BaseModel, before: BaseModel) -> bool:
    return _written(new) == _written(before)


def _written(status: BaseModel) -> Json:
    """Return a status as it is written."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
