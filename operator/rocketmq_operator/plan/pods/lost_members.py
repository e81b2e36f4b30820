"""Members whose node is gone for good.

The operator frees them from it and gives them an empty volume elsewhere, if the spec asks for that.

The problem. Kubernetes can request the deletion of a pod on a silent node, but the node will not confirm it;
its StatefulSet creates no other pod until then. If its volume is a disk of the lost node, the new pod waits
for ever. Both waits are right as long as the node may come back, and only people know how long that is.

Theory of operation. Each look finds the first line that holds; nothing is remembered.

    observed state of a member's pod                                    action
    the spec says Keep                                                  nothing
    it should have ended `afterSeconds` ago                             it is deleted by force
    no node can take it for its volume's sake for `afterSeconds`,
      and the others hold all data of this volume                       delete its claim, then the pod
    the same, and the others may not                                    wait, and report the missing data

One volume is given up at a time, so that the others copy the log to its successor before the next one goes.

What a forced deletion rests on.
- A master on a node that is cut off has stood still since its write lease ran out, before another one was
  elected (`plan.group.scripts.lease_guard`). The deletion follows at least 30 s later. When the node is
  back, the guard ends the broker.
- A group of one broker has no lease. Its broker may acknowledge writes on its side of the cut.
- An attachable volume is detached from the lost node by Kubernetes and its storage driver; the operator does
  not check that the node is off. A driver that lets two nodes write to one volume makes the deletion unsafe.

This module never reads nodes: that permission covers all nodes, and the operator needs only the effect of
their loss on pods.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from rocketmq_operator.api.common import LostMembers, LostPolicy
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NO_STEPS, Delete, ResourcePlan, Step, Wait
from rocketmq_operator.plan.common.objects import Live, ObjectKey
from rocketmq_operator.plan.pods.observed import ObservedPod

Needed = Callable[[str], str]
"""Says of a member's name why its volume is needed; empty where the others have all of it."""


def free_lost(
    pods: Mapping[str, ObservedPod],
    claims: Mapping[str, Live],
    asked: LostMembers,
    now: datetime,
    needed: Needed,
) -> ResourcePlan:
    """Return what frees members from a lost node.

    Args:
        pods: the members' pods by name.
        claims: PersistentVolumeClaims by name.
        asked: the policy, and how long is too long.
        now: the time of the look.
        needed: says why a member's volume must stay.
    """
    if asked.policy is LostPolicy.KEEP:
        return NO_STEPS
    too_long = timedelta(seconds=asked.after_seconds)
    stuck = [pod for pod in pods.values() if pod.gone_by is not None and now - pod.gone_by > too_long]
    steps: list[Step] = [
        Delete(ObjectKey("Pod", pod.name), pod.uid, "its node is lost", by_force=True) for pod in stuck
    ]
    stranded = [
        pod
        for name, pod in sorted(pods.items())
        if pod not in stuck and pod.stranded_since is not None and now - pod.stranded_since > too_long
    ]
    if not stranded:
        return ResourcePlan(tuple(steps))
    pod = stranded[0]
    if why := needed(pod.name):
        return ResourcePlan(tuple(steps), Wait("VolumeKept", f"{pod.name} has lost its node, and {why}"))
    steps += _recreate(pod, claims.get(names.claim(pod.name)))
    return ResourcePlan(
        tuple(steps), Wait("MemberReplaced", f"{pod.name} has lost its node: it restarts elsewhere")
    )


def _recreate(pod: ObservedPod, claim: Live | None) -> list[Step]:
    """Return the steps that make Kubernetes recreate a pod and its volume."""
    steps: list[Step] = []
    if claim is not None and "deletionTimestamp" not in claim["metadata"]:
        key = ObjectKey("PersistentVolumeClaim", names.claim(pod.name))
        steps.append(Delete(key, claim["metadata"].get("uid", ""), "it is on a lost node"))
    return [*steps, Delete(ObjectKey("Pod", pod.name), pod.uid, "its volume is given up")]
