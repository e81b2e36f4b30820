"""The steps of a group whose brokers have static roles: size and rollout, without controllers.

The first broker is master for ever. Another one never takes over, so a restart of the master stops writes
until it is back: slaves are replaced first, one at a time, and the master last.

A group that changes to controllers keeps its static form until one broker is left (`is_static`). Then that
broker's store becomes one for controllers before its next start (`seed_container.seed_start`).
"""

from dataclasses import replace
from typing import Final

from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NO_STEPS, Delete, ResourcePlan, Wait
from rocketmq_operator.plan.common.objects import ObjectKey
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.pod_sets.mode_label import MODE_LABEL
from rocketmq_operator.plan.pods.observed import ObservedPod, of_older_revision

MASTER_ORDINAL: Final = 0


def effective(observed: ObservedGroup) -> ObservedGroup:
    """Return the group with the mode that it has now: static until one static broker is left."""
    if observed.spec.mode is RoleMode.STATIC or not _has_static_slaves(observed):
        return observed
    return replace(observed, spec=observed.spec.model_copy(update={"mode": RoleMode.STATIC}))


def is_static(observed: ObservedGroup) -> bool:
    """Say whether the brokers have static roles."""
    return observed.spec.mode is RoleMode.STATIC


def master_name(group: str) -> str:
    """Return the name of the broker that is master in a group with static roles."""
    return names.member(group, MASTER_ORDINAL)


def static_size(observed: ObservedGroup) -> tuple[int, Wait | None]:
    """Return the size that the brokers' StatefulSet may have now, and why it differs from the wanted one."""
    live, wanted = observed.child("StatefulSet", observed.owner.name), observed.spec.replicas
    now = wanted if live is None else int(live["spec"]["replicas"])
    if now <= wanted:
        return wanted, None
    last = names.member(observed.owner.name, now - 1)
    if extra := [name for name in _pods(observed) if name > last]:
        return now, Wait("ScalingIn", f"{extra[0]} has not gone yet")
    return now - 1, Wait("ScalingIn", f"{now - wanted} members remain to be removed")


def static_roll(observed: ObservedGroup) -> ResourcePlan:
    """Return the next restart of a pod of an older revision, or why it must wait."""
    pods = _pods(observed)
    outdated = of_older_revision(observed.child("StatefulSet", observed.owner.name), pods.values())
    if not outdated:
        return NO_STEPS
    wait = Wait("RollingOut", f"{len(outdated)} pods are of an older revision")
    pod = min(outdated, key=lambda one: (one.name == master_name(observed.owner.name), one.name))
    for name in (names.member(observed.owner.name, ordinal) for ordinal in range(observed.spec.replicas)):
        other = pods.get(name)
        if other is not None and other.deleting:
            return ResourcePlan((), Wait("MemberRestarting", f"{name} is being restarted"))
        if name != pod.name and (other is None or (not other.ready and other not in outdated)):
            text = f"{name} is not ready: {pod.name} is not restarted"
            return ResourcePlan((), Wait("MemberNotReady", text))
    return ResourcePlan((Delete(ObjectKey("Pod", pod.name), pod.uid, "older revision"),), wait)


def _pods(observed: ObservedGroup) -> dict[str, ObservedPod]:
    group = observed.owner.name
    return {name: pod for name, pod in sorted(observed.pods.items()) if names.is_member(name, group)}


def _has_static_slaves(observed: ObservedGroup) -> bool:
    live = observed.child("StatefulSet", observed.owner.name)
    if live is None or MODE_LABEL not in (live["metadata"].get("labels") or {}):
        return False
    return int(live["spec"]["replicas"]) > 1 or len(_pods(observed)) > 1
