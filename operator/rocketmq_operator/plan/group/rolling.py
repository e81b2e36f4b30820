"""Replace pods of an older revision: log replicas first, then slaves, the master last.

The state of a pod of an older revision decides how it is replaced:

    the pod participates: ready, or in the SyncStateSet and not known to be down   `roll`: one at a time
    it does not participate                                                        `replace_broken`: at once

`roll` never restarts two members at once. It restarts a member only while every other one is ready and in the
SyncStateSet, so that each acknowledged message stays on as many disks as `durability` says. A member that is
not ready, of an older revision and still alive in the SyncStateSet does not hold others back: the change may
correct the very cause.

`replace_broken` is how a corrected spec reaches members that an earlier spec broke, however many they are and
with or without a master. Such a member serves no client, so its restart does no harm. It keeps its volume:
the operator deletes only the pod.

The operator deletes the master's pod like any other, once another broker is ready and in sync. The pod's
preStop then asks the companion how the broker should end (`ha_sidecar.companion.leaving`):

    another broker has all that was acknowledged (AllInSync)   SIGKILL at once, without a switchover
    another broker may lack some of it (Async, Quorum)         the companion hands over, then SIGKILL
    broker or controllers do not answer, or nobody can follow  SIGTERM: then the controllers elect

The companion holds the clients of a killed master until the controllers name its successor. A switchover
before the deletion costs clients more, because they keep connections to a living broker that refuses them: 8
s and 1,542 failed sends at 200 per second, against one failed send. The only broker of a group has no
successor, even with log replicas: clients wait until it is back.
"""

from collections.abc import Collection, Iterable
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NO_STEPS, Delete, Designate, ResourcePlan, Wait
from rocketmq_operator.plan.common.objects import ObjectKey
from rocketmq_operator.plan.group.children import member_names
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.pods.observed import ObservedPod, of_older_revision

_WHY: Final = "older revision"


def replace_broken(observed: ObservedGroup) -> ResourcePlan:
    """Return the replacement of all pods of an older revision that do not participate."""
    return ResourcePlan(tuple(map(_delete, _broken(observed, _outdated(observed)))))


def roll(observed: ObservedGroup) -> ResourcePlan:
    """Return the next restart, or why it must wait."""
    outdated = _outdated(observed)
    if not outdated:
        return NO_STEPS
    left = Wait("RollingOut", f"{len(outdated)} pods are of an older revision")
    if _broken(observed, outdated):
        return ResourcePlan((), left)
    if not observed.controllers_answered:
        return ResourcePlan(
            (),
            Wait("ControllersUnreachable", "the members in sync are unknown: the operator restarts no pod"),
        )
    master = observed.master
    candidates = [pod for pod in outdated if pod.name != master]
    pod = min(candidates or outdated, key=lambda one: _order(observed, one.name))
    blocked = _blocked(observed, pod.name, {one.name for one in outdated})
    if blocked is not None:
        return ResourcePlan((), blocked)
    is_only_broker = observed.spec.replicas == 1 and names.is_member(pod.name, observed.owner.name)
    if pod.name == master and not is_only_broker:
        return restart_master(observed, pod, _WHY)
    if not master and not is_only_broker:
        return ResourcePlan((), Wait("NoMaster", "the group lacks a master: the operator restarts no pod"))
    return ResourcePlan((_delete(pod),), left)


def restart_master(observed: ObservedGroup, pod: ObservedPod, why: str) -> ResourcePlan:
    """Return the deletion of the master's pod, or why it must wait.

    The companion then decides how the broker ends.
    """
    if not successors(observed):
        return _no_successor(pod.name, why)
    wait = Wait("SwitchingOver", f"{pod.name} is still master: {why}")
    steps = (
        () if pod.deleting else (Delete(ObjectKey("Pod", pod.name), pod.uid, f"{why}; it hands over first"),)
    )
    return ResourcePlan(steps, wait)


def successors(observed: ObservedGroup, to: str = "") -> list[tuple[str, int]]:
    """Return name and id of the brokers that may follow the master, the best first.

    They are in sync, alive and ready; the longest log comes first.

    Args:
        observed: the group.
        to: the only one that will do; any when empty.
    """
    ranked = []
    for name in member_names(observed.owner.name, observed.spec):
        reported, pod = observed.reported_member(name), observed.pods.get(name)
        if reported is None or pod is None or name == observed.master or (to and name != to):
            continue
        if reported.electable and reported.in_sync and reported.alive and pod.ready and not pod.deleting:
            ranked.append((-(reported.max_offset or 0), reported.broker_id, name))
    return [(name, broker_id) for _, broker_id, name in sorted(ranked)]


def hand_over(observed: ObservedGroup, why: str, *, to: str = "") -> ResourcePlan:
    """Return the switchover from the master to the best other member; the old master goes on running.

    Args:
        observed: the group, which has a master.
        why: for the plan's reader.
        to: the only member that will do; any when empty.
    """
    leaving, ranked = observed.master, successors(observed, to)
    if not ranked:
        return _no_successor(leaving, why, to)
    name, broker_id = ranked[0]
    return ResourcePlan(
        (Designate(name, broker_id, why),), Wait("SwitchingOver", f"{leaving} is still master: {why}")
    )


def _no_successor(master: str, why: str, to: str = "") -> ResourcePlan:
    problem = f"{to} is not a broker that is ready and in sync" if to else "no other broker is in sync"
    return ResourcePlan((), Wait("NoCandidate", f"{master} is master and {problem}: {why}"))


def _outdated(observed: ObservedGroup) -> list[ObservedPod]:
    found = []
    for set_name in (names.log_set(observed.owner.name), observed.owner.name):
        pods = [pod for name, pod in sorted(observed.pods.items()) if names.is_member(name, set_name)]
        found += of_older_revision(observed.child("StatefulSet", set_name), pods)
    return found


def _broken(observed: ObservedGroup, outdated: Iterable[ObservedPod]) -> list[ObservedPod]:
    """Return the pods that do not participate.

    Pods that are being deleted are not among them: Kubernetes replaces these anyway.
    """
    return [pod for pod in outdated if not pod.deleting and not _participates(observed, pod)]


def _participates(observed: ObservedGroup, pod: ObservedPod) -> bool:
    """Tell whether a member's restart could take something away.

    The SyncStateSet alone does not tell: only a master removes a dead member from it. Heartbeats alone do not
    tell either: a newly elected leader of the controllers has received none yet. So the kubelet must agree
    that the broker's port is closed.
    """
    if pod.ready:
        return True
    if not pod.runs:
        return False
    if not observed.controllers_answered:
        return True
    reported = observed.reported_member(pod.name)
    if reported is None or not reported.in_sync:
        return False
    # A log replica's own probe says whether it is in sync, and not whether it is there.
    return reported.alive or pod.answers or not reported.electable


def _order(observed: ObservedGroup, name: str) -> tuple[bool, bool, str]:
    """Return a sort key: unready pods first, log replicas before brokers, then by name."""
    pod = observed.pods[name]
    return pod.ready, not names.is_member(name, names.log_set(observed.owner.name)), name


def _blocked(observed: ObservedGroup, candidate: str, outdated: Collection[str]) -> Wait | None:
    """Say which other member forbids that the candidate is away; a candidate that is going is waited for."""
    for name in member_names(observed.owner.name, observed.spec):
        pod, reported = observed.pods.get(name), observed.reported_member(name)
        if pod is not None and pod.deleting:
            return Wait("MemberRestarting", f"{name} is being restarted")
        if name == candidate:
            continue
        if pod is None:
            return Wait("MemberNotReady", f"{name} lacks its pod: the operator does not restart {candidate}")
        is_in_sync = reported is not None and reported.in_sync
        if not pod.ready and not (
            name in outdated and is_in_sync and reported is not None and reported.alive
        ):
            cause = f" ({pod.trouble})" if pod.trouble is not None else ""
            return Wait("MemberNotReady", f"{name} is not ready{cause}: {candidate} is not restarted")
        if not is_in_sync:
            return Wait("MemberNotInSync", f"{name} is not in the SyncStateSet: {candidate} is not restarted")
    return None


def _delete(pod: ObservedPod) -> Delete:
    return Delete(ObjectKey("Pod", pod.name), pod.uid, _WHY)
