"""What a cluster's status says of its controllers: its voters, learners and leaving members, and whether they match the spec.

While no controller leads, roles are shown as they were last known.
"""

from collections.abc import Sequence
from typing import Final

from rocketmq_operator.api.cluster import ControllerStatus
from rocketmq_operator.api.conditions import Finding, found
from rocketmq_operator.plan.cluster.controller_members import CHANGES
from rocketmq_operator.plan.cluster.controllers_observed import ControllersSeen, Role
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import Plan
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble
from rocketmq_operator.plan.pods.progress import because

_JOINING: Final = "Joining"
_REPLACING: Final = "Replacing"


def controllers(observed: ObservedCluster) -> tuple[ControllerStatus, ...]:
    """Return every controller that is a member or has a pod, by ordinal."""
    shown = []
    for ordinal in range(names.CONTROLLERS_MAX):
        pod = names.controller(observed.owner.name, ordinal)
        there, seen = observed.pods.get(pod), observed.controllers
        before = next((one for one in observed.status.members if one.name == pod), None)
        is_member = seen is not None and seen.led and seen.at(ordinal).role is not Role.NONE
        if there is None and not is_member and (before is None or (seen is not None and seen.led)):
            continue
        was = before.role if before is not None else ""
        led = seen is not None and seen.led
        shown.append(
            ControllerStatus(
                name=pod,
                role=_role(observed, seen, ordinal, was) if seen is not None and led else was or "Unknown",
                ready=there is not None and there.ready and not there.deleting,
                lag_entries=seen.at(ordinal).lag_entries if seen is not None and led else None,
            )
        )
    return tuple(shown)


def _role(observed: ObservedCluster, seen: ControllersSeen, ordinal: int, was: str) -> str:
    one, pod = seen.at(ordinal), names.controller(observed.owner.name, ordinal)
    if one.lost_its_store:
        return _REPLACING
    if ordinal >= observed.spec.controllers.replicas:
        return "Leaving"
    if one.role is Role.VOTER:
        return "Leader" if pod == seen.leader else "Voter"
    if was == _REPLACING:
        return was
    return "Learner" if one.role is Role.LEARNER else _JOINING


def quorum(observed: ObservedCluster, plan: Plan, ready: int, troubles: Sequence[MemberTrouble]) -> Finding:
    """Return whether the requested number of controllers is ready and votes."""
    seen, wanted = observed.controllers, observed.spec.controllers.replicas
    members = [names.controller(observed.owner.name, ordinal) for ordinal in range(wanted)]
    if seen is None:
        text = because("no controller answers", troubles, members)
        return found("QuorumHealthy", holds=False, reason="ControllersUnreachable", message=text)
    if not seen.leader:
        text = because("the controllers have no leader", troubles, members)
        return found("QuorumHealthy", holds=False, reason="NoLeader", message=text)
    if plan.wait is not None and plan.wait.reason in CHANGES:
        return found("QuorumHealthy", holds=False, reason=plan.wait.reason, message=plan.wait.message)
    if ready < wanted:
        text = because(f"{ready} of {wanted} controllers are ready", troubles, members)
        return found("QuorumHealthy", holds=False, reason="ControllerDown", message=text)
    text = f"all {wanted} controllers are ready"
    return found("QuorumHealthy", holds=True, reason="AllReady", message=text)
