"""Replace controllers' pods of an older revision.

It replaces one at a time, the leader last, and never one that the others need to decide.

    observed state of the pods                       action
    some of an older revision run no process         all of them are replaced, also while others are missing
    one of an older revision does not participate    it is replaced, also while others are missing
    one is going                                     wait
    another than the next is not ready, or no voter  wait: the others may need the next to decide
    all are ready and vote                           the next is replaced: unready pods first, the leader last

By the first two lines a corrected spec reaches controllers that an earlier one broke. A pod that does not run
does not participate in decisions, and its volume stays. In the fourth line one of an older revision that
votes need not be ready. The leader hands over as it ends.
"""

from typing import Final

from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.observed_controllers import ControllerRole
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NO_STEPS, Delete, ResourcePlan, Wait
from rocketmq_operator.plan.common.objects import ObjectKey
from rocketmq_operator.plan.pods.observed import OVERDUE, ObservedPod, of_older_revision

_WHY: Final = "older revision"


def replace_broken(observed: ObservedCluster) -> ResourcePlan:
    """Replace pods of an older revision that do not participate.

    Such pods are not ready, and no leader hears them.

    Those whose process does not run are replaced all at once. One that runs may have lost its leader a moment
    ago, so one at a time.
    """
    idle = [
        pod
        for pod in _outdated(observed)
        if not pod.ready and not pod.deleting and not (pod.runs and _is_active(observed, pod))
    ]
    if ended := [pod for pod in idle if not pod.runs]:
        return ResourcePlan(tuple(map(_delete, ended)))
    if any(_is_ending(observed, pod) for pod in observed.pods.values()):
        return NO_STEPS
    return ResourcePlan(tuple(map(_delete, idle[:1])))


def roll(observed: ObservedCluster) -> ResourcePlan:
    """Return the next restart, or why it must wait."""
    outdated = _outdated(observed)
    if not outdated:
        return NO_STEPS
    going = next((pod.name for pod in observed.pods.values() if pod.deleting), "")
    if going:
        return ResourcePlan((), Wait("ControllerRestarting", f"{going} is being restarted"))
    controllers = observed.controllers
    if controllers is None or not controllers.has_leader:
        return ResourcePlan((), Wait("NoQuorum", f"no controller leads: {outdated[0].name} is not restarted"))
    pod = min(outdated, key=lambda one: (one.ready, one.name == controllers.leader, _reversed(one.name)))
    for ordinal in range(observed.spec.controllers.replicas):
        name, controller = names.controller(observed.owner.name, ordinal), controllers.at(ordinal)
        if name == pod.name:
            continue
        other_pod = observed.pods.get(name)
        is_able = other_pod is not None and (other_pod.ready or other_pod in outdated)
        if not is_able or controller.role is not ControllerRole.VOTER or not controller.active:
            cause = (
                f" ({other_pod.trouble})" if other_pod is not None and other_pod.trouble is not None else ""
            )
            text = f"{name} is not ready, or does not vote{cause}: {pod.name} is not restarted"
            return ResourcePlan((), Wait("ControllerNotReady", text))
    left = Wait("ControllerRestarting", f"{len(outdated)} controllers are of an older revision")
    return ResourcePlan((_delete(pod),), left)


def _outdated(observed: ObservedCluster) -> list[ObservedPod]:
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    return of_older_revision(live, observed.pods.values())


def _is_active(observed: ObservedCluster, pod: ObservedPod) -> bool:
    controllers = observed.controllers
    ordinal = int(pod.name.rpartition("-")[2])
    return controllers is not None and controllers.has_leader and controllers.at(ordinal).active


def _is_ending(observed: ObservedCluster, pod: ObservedPod) -> bool:
    """Tell whether a pod is being deleted by a node that answers: one that is silent confirms nothing."""
    return pod.deleting and (pod.gone_by is None or observed.now - pod.gone_by <= OVERDUE)


def _reversed(name: str) -> int:
    return -int(name.rpartition("-")[2])


def _delete(pod: ObservedPod) -> Delete:
    return Delete(ObjectKey("Pod", pod.name), pod.uid, _WHY)
