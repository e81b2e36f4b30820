"""What a cluster's status says of its controllers.

It names voters, learners and leaving members, and says whether they match the spec.

While no controller leads, roles are shown as they were last known.
"""

from collections.abc import Sequence
from typing import Final

from rocketmq_operator.api.cluster import ControllerStatus
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.plan.cluster.controller_members import CHANGES
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.observed_controllers import ControllerRole, ObservedControllers
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import ResourcePlan
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble
from rocketmq_operator.plan.pods.progress import with_causes

_JOINING: Final = "Joining"
_REPLACING: Final = "Replacing"
_LEARNER: Final = "Learner"
_LEAVING: Final = "Leaving"
_REASON_BY_ROLE: Final = {
    _JOINING: "ControllerJoining",
    _LEARNER: "ControllerJoining",
    _LEAVING: "ControllerLeaving",
    _REPLACING: "ControllerReplaced",
}
"""Reasons of `QuorumHealthy` while a controller has one of these roles."""


def controller_statuses(observed: ObservedCluster) -> tuple[ControllerStatus, ...]:
    """Return every controller that is a member or has a pod, by ordinal."""
    shown = (_shown(observed, ordinal) for ordinal in range(names.CONTROLLERS_MAX))
    return tuple(one for one in shown if one is not None)


def _shown(observed: ObservedCluster, ordinal: int) -> ControllerStatus | None:
    """Return one controller as people see it; None if it is neither a member nor has a pod.

    Without a leader, a controller that was shown before is a member still.
    """
    name = names.controller(observed.owner.name, ordinal)
    pod = observed.pods.get(name)
    previous = next((one for one in observed.status.members if one.name == name), None)
    known = observed.controllers
    if known is not None and known.has_leader:
        is_member = known.at(ordinal).role is not ControllerRole.NONE
        role = _role(observed, known, ordinal, previous.role if previous is not None else "")
        lag_entries = known.at(ordinal).lag_entries
    else:
        is_member = previous is not None
        role = (previous.role if previous is not None else "") or "Unknown"
        lag_entries = None
    if pod is None and not is_member:
        return None
    is_ready = pod is not None and pod.ready and not pod.deleting
    return ControllerStatus(name=name, role=role, ready=is_ready, lag_entries=lag_entries)


def _role(
    observed: ObservedCluster, observed_controllers: ObservedControllers, ordinal: int, previous_role: str
) -> str:
    one, pod = observed_controllers.at(ordinal), names.controller(observed.owner.name, ordinal)
    if one.lost_its_store:
        return _REPLACING
    if ordinal >= observed.spec.controllers.replicas:
        return _LEAVING
    if one.role is ControllerRole.VOTER:
        return "Leader" if pod == observed_controllers.leader else "Voter"
    if previous_role == _REPLACING:
        return previous_role
    return _LEARNER if one.role is ControllerRole.LEARNER else _JOINING


def quorum_finding(
    observed: ObservedCluster, plan: ResourcePlan, ready: int, troubles: Sequence[MemberTrouble]
) -> Finding:
    """Return whether the requested number of controllers is ready and votes."""
    observed_controllers, wanted = observed.controllers, observed.spec.controllers.replicas
    has_own = observed.spec.controllers.ref is None
    members = [names.controller(observed.owner.name, ordinal) for ordinal in range(wanted)] if has_own else []
    if observed_controllers is None:
        text = with_causes("no controller answers", troubles, members)
        return make_finding("QuorumHealthy", holds=False, reason="ControllersUnreachable", message=text)
    if not observed_controllers.leader:
        text = with_causes("the controllers have no leader", troubles, members)
        return make_finding("QuorumHealthy", holds=False, reason="NoLeader", message=text)
    if observed.spec.controllers.ref is not None:
        text = f"the controllers of {observed.sharing.home} have a leader"
        return make_finding("QuorumHealthy", holds=True, reason="OfAnotherCluster", message=text)
    if plan.wait is not None and plan.wait.reason in CHANGES:
        return make_finding("QuorumHealthy", holds=False, reason=plan.wait.reason, message=plan.wait.message)
    if ready < wanted:
        text = with_causes(f"{ready} of {wanted} controllers are ready", troubles, members)
        return make_finding("QuorumHealthy", holds=False, reason="ControllerDown", message=text)
    if (changing := _change_last_known(observed, observed_controllers)) is not None:
        return changing
    text = f"all {wanted} controllers are ready"
    return make_finding("QuorumHealthy", holds=True, reason="AllReady", message=text)


def _change_last_known(
    observed: ObservedCluster, observed_controllers: ObservedControllers
) -> Finding | None:
    """Return a finding if a controller joins, leaves or is replaced by its last known role.

    Why the last known one: a leader that does not answer once tells no roles, and the plan does not wait.
    """
    for one in controller_statuses(observed):
        if (reason := _REASON_BY_ROLE.get(one.role)) is not None:
            text = f"{one.name} is changing: its last known role is {one.role}"
            text += "" if observed_controllers.has_leader else ", and the leader does not answer"
            return make_finding("QuorumHealthy", holds=False, reason=reason, message=text)
    return None
