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
    shown = []
    for ordinal in range(names.CONTROLLERS_MAX):
        pod = names.controller(observed.owner.name, ordinal)
        live_pod, observed_controllers = observed.pods.get(pod), observed.controllers
        previous = next((one for one in observed.status.members if one.name == pod), None)
        is_member = (
            observed_controllers is not None
            and observed_controllers.has_leader
            and observed_controllers.at(ordinal).role is not ControllerRole.NONE
        )
        if (
            live_pod is None
            and not is_member
            and (previous is None or (observed_controllers is not None and observed_controllers.has_leader))
        ):
            continue
        previous_role = previous.role if previous is not None else ""
        has_leader = observed_controllers is not None and observed_controllers.has_leader
        shown.append(
            ControllerStatus(
                name=pod,
                role=_role(observed, observed_controllers, ordinal, previous_role)
                if observed_controllers is not None and has_leader
                else previous_role or "Unknown",
                ready=live_pod is not None and live_pod.ready and not live_pod.deleting,
                lag_entries=observed_controllers.at(ordinal).lag_entries
                if observed_controllers is not None and has_leader
                else None,
            )
        )
    return tuple(shown)


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
