"""Replace controllers' pods of an older revision: one at a time, the leader last, never one that the others need to decide.

    what is seen of the pods                         what is done
    one of an older revision that takes no part      it is replaced, also while others are missing
    one is going                                     wait
    another than the next is not ready, or no voter  wait: the next may be one of those that are left to decide
    all are ready and vote                           the next is replaced: what is not ready first, the leader last

The first line is how a bad change is taken back: a pod that never started keeps nobody from deciding. The leader hands over as it ends.
"""

from rocketmq_operator.plan import names
from rocketmq_operator.plan.actions import NOTHING, Delete, Plan, Wait
from rocketmq_operator.plan.controllers_seen import Role
from rocketmq_operator.plan.objects import ObjectKey
from rocketmq_operator.plan.observed import ObservedCluster, PodSeen
from rocketmq_operator.plan.rolling import of_older_revision

_WHY = "older revision"


def mend(observed: ObservedCluster) -> Plan:
    """Replace a pod of an older revision that takes no part: it is not ready, and the leader, if there is one, does not hear it."""
    if any(pod.deleting for pod in observed.pods.values()):
        return NOTHING
    idle = [pod for pod in _outdated(observed) if not pod.ready and not _is_heard(observed, pod)]
    return Plan(tuple(_delete(pod) for pod in idle[:1]))


def roll(observed: ObservedCluster) -> Plan:
    """Return the next restart, or why it must wait."""
    outdated = _outdated(observed)
    if not outdated:
        return NOTHING
    going = next((pod.name for pod in observed.pods.values() if pod.deleting), "")
    if going:
        return Plan((), Wait("ControllerRestarting", f"{going} is being restarted"))
    seen = observed.controllers
    if seen is None or not seen.led:
        return Plan((), Wait("NoQuorum", f"no controller leads: {outdated[0].name} is not restarted"))
    pod = min(outdated, key=lambda one: (one.ready, one.name == seen.leader, _reversed(one.name)))
    for ordinal in range(observed.spec.controllers.replicas):
        name, other = names.controller(observed.owner.name, ordinal), seen.at(ordinal)
        if name == pod.name:
            continue
        there = observed.pods.get(name)
        if there is None or not there.ready or other.role is not Role.VOTER or not other.active:
            text = f"{name} is not ready, or does not vote: {pod.name} is not restarted"
            return Plan((), Wait("ControllerNotReady", text))
    left = Wait("ControllerRestarting", f"{len(outdated)} controllers are of an older revision")
    return Plan((_delete(pod),), left)


def _outdated(observed: ObservedCluster) -> list[PodSeen]:
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    return of_older_revision(live, observed.pods.values())


def _is_heard(observed: ObservedCluster, pod: PodSeen) -> bool:
    seen = observed.controllers
    ordinal = int(pod.name.rpartition("-")[2])
    return seen is not None and seen.led and seen.at(ordinal).active


def _reversed(name: str) -> int:
    return -int(name.rpartition("-")[2])


def _delete(pod: PodSeen) -> Delete:
    return Delete(ObjectKey("Pod", pod.name), pod.uid, _WHY)
