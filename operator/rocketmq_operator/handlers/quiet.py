"""Check without the API server whether a pass would do anything.

Most passes come because their time has come, and find nothing. This check looks at the reflections
(`clients.reflection`) instead. If they show no step, no new status and no failover record that a canary could
complete, the pass is skipped. In every other case, also when reflections are stale or unknown, a pass looks
at the API server itself. So the operator never writes, restarts or deletes on
the basis of cached data.
"""

from pydantic import BaseModel

from rocketmq_operator.clients.api import Json, PeerUnavailableError
from rocketmq_operator.handlers.kinds import KINDS
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment, InvalidSpecError
from rocketmq_operator.plan.common.actions import ResourcePlan


async def quiet_delay_s(cached: Environment, kind: str, namespace: str, name: str) -> float | None:
    """Return the delay in seconds until the next pass if a pass would not change anything now, else None."""
    plan = await plan_without_work(cached, kind, namespace, name)
    return None if plan is None else KINDS[kind].next_pass_s(plan)


async def plan_without_work(cached: Environment, kind: str, namespace: str, name: str) -> ResourcePlan | None:
    """Return the plan if it has no steps (it may wait).

    Return None if there may be steps, or reflections are stale.
    """
    record = KINDS[kind]
    if record.can_be_quiet is None:
        return None
    try:
        observed = await record.observe(cached, namespace, name)
        if observed is None or not record.can_be_quiet(observed):
            return None
        plan: ResourcePlan = record.plan(observed)
        if plan.steps or await record.measure(cached, observed):
            return None
        observed = await record.with_causes(cached, observed)
        return plan if _written(record.status(observed, plan)) == _written(observed.status) else None
    except (PeerUnavailableError, InvalidSpecError):
        return None


def _written(status: BaseModel) -> Json:
    """Return a status as it is written."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
