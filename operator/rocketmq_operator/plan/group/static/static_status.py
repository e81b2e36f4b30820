"""The status of a group whose brokers have static roles: it says that nothing fails over."""

from collections.abc import Sequence

from rocketmq_operator.api.broker_group import MasterStatus, MemberStatus
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.plan.common.actions import ResourcePlan
from rocketmq_operator.plan.common.shaping.shaped import REFUSED
from rocketmq_operator.plan.group.children import member_names
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.static.static_steps import master_name
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble
from rocketmq_operator.plan.pods.progress import with_causes

STATIC_ROLES = "StaticRoles"


def static_members(observed: ObservedGroup) -> tuple[MemberStatus, ...]:
    """Return the members: roles follow from names, and no controller tells of logs."""
    return tuple(
        MemberStatus(
            name=name,
            role="Master" if name == master_name(observed.owner.name) else "Slave",
            ready=_is_ready(observed, name),
        )
        for name in member_names(observed.owner.name, observed.spec)
    )


def static_master(observed: ObservedGroup) -> MasterStatus:
    """Return the master, which lacks an epoch."""
    return MasterStatus(name=master_name(observed.owner.name))


def static_ready(observed: ObservedGroup, plan: ResourcePlan, troubles: Sequence[MemberTrouble]) -> Finding:
    """Return whether clients can send: whether the master's pod serves."""
    wait, master = plan.wait, master_name(observed.owner.name)
    if wait is not None and (
        wait.reason in {"NoCluster", "NameTaken"} or (wait.reason == REFUSED and not observed.pods)
    ):
        return make_finding("Ready", holds=False, reason=wait.reason, message=wait.message)
    if not _is_ready(observed, master):
        text = f"the pod of {master} is not ready, and with static roles no other broker takes over"
        causes = with_causes(text, troubles, [master])
        return make_finding("Ready", holds=False, reason="MasterNotServing", message=causes)
    text = f"{master} serves; roles are static: nothing fails over"
    return make_finding("Ready", holds=True, reason="Serving", message=text)


def static_findings() -> tuple[Finding, Finding]:
    """Return the conditions that need controllers."""
    elected = "mode is Static: the name of a broker gives its role, and nothing fails over"
    in_sync = "mode is Static: there is no SyncStateSet"
    return (
        make_finding("MasterElected", holds=False, reason=STATIC_ROLES, message=elected),
        make_finding("InSync", holds=None, reason=STATIC_ROLES, message=in_sync),
    )


def _is_ready(observed: ObservedGroup, name: str) -> bool:
    pod = observed.pods.get(name)
    return pod is not None and pod.ready and not pod.deleting
