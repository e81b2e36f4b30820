"""Replace pods of an older revision: log replicas first, then slaves, the master last and only after a switchover.

Never two members at once. A member is restarted only while every other one is ready and in the SyncStateSet, so that
each acknowledged message stays on as many disks as `durability` says. A member that is itself what is broken may be
replaced, since that is how a bad change is taken back.

The master is not restarted: another member is made master by the controllers, and then it is a slave like any other.
"""

from rocketmq_operator.plan import names
from rocketmq_operator.plan.actions import NOTHING, Delete, Designate, Plan, Wait
from rocketmq_operator.plan.group_children import member_names
from rocketmq_operator.plan.objects import ObjectKey
from rocketmq_operator.plan.observed import ObservedGroup, PodSeen


def roll(observed: ObservedGroup) -> Plan:
    """Return the next restart, or why it must wait."""
    outdated = _outdated(observed)
    if not outdated:
        return NOTHING
    if not observed.controllers_heard:
        return Plan((), Wait("ControllersUnreachable", "who is in sync cannot be known: no pod is restarted"))
    master = observed.master
    candidates = [pod for pod in outdated if pod.name != master]
    pod = min(candidates or outdated, key=lambda one: _order(observed, one.name))
    blocked = _blocked(observed, pod.name)
    if blocked is not None:
        return Plan((), blocked)
    alone = observed.spec.replicas + observed.spec.log_replicas == 1
    if pod.name == master and not alone:
        return hand_over(observed, pod.name, f"{pod.name} is to be restarted")
    if not master and not alone:
        return Plan((), Wait("NoMaster", "there is no master: no pod is restarted"))
    left = Wait("RollingOut", f"{len(outdated)} pods are of an older revision")
    return Plan((Delete(ObjectKey("Pod", pod.name), pod.uid, "older revision"),), left)


def hand_over(observed: ObservedGroup, leaving: str, why: str) -> Plan:
    """Return the switchover to the best other member: in sync, alive, ready, its log the longest."""
    ranked = []
    for name in member_names(observed.owner.name, observed.spec):
        seen, pod = observed.member_seen(name), observed.pods.get(name)
        fit = seen is not None and seen.electable and seen.in_sync and seen.alive
        if (
            fit
            and seen is not None
            and name != leaving
            and pod is not None
            and pod.ready
            and not pod.deleting
        ):
            ranked.append((seen.max_offset or 0, name, seen.broker_id))
    if not ranked:
        return Plan((), Wait("NoCandidate", f"{leaving} is master and no other broker is in sync: {why}"))
    _, name, broker_id = max(ranked, key=lambda one: (one[0], -one[2]))
    return Plan(
        (Designate(name, broker_id, why),), Wait("SwitchingOver", f"{leaving} is still master: {why}")
    )


def _outdated(observed: ObservedGroup) -> list[PodSeen]:
    found = []
    for set_name in (names.log_set(observed.owner.name), observed.owner.name):
        live = observed.child("StatefulSet", set_name)
        status = live.get("status", {}) if live is not None else {}
        revision = status.get("updateRevision", "")
        # Why the generation: an older status may still name the former revision.
        if (
            live is None
            or status.get("observedGeneration") != live["metadata"].get("generation")
            or not revision
        ):
            continue
        found += [
            pod
            for name, pod in sorted(observed.pods.items())
            if names.is_member(name, set_name) and pod.revision != revision
        ]
    return found


def _order(observed: ObservedGroup, name: str) -> tuple[bool, bool, str]:
    """Return a sort key: what is broken first, log replicas before brokers, then by name."""
    pod = observed.pods[name]
    return pod.ready, not names.is_member(name, names.log_set(observed.owner.name)), name


def _blocked(observed: ObservedGroup, candidate: str) -> Wait | None:
    """Say which other member forbids that the candidate is away; a candidate that is going is waited for."""
    for name in member_names(observed.owner.name, observed.spec):
        pod = observed.pods.get(name)
        if pod is not None and pod.deleting:
            return Wait("MemberRestarting", f"{name} is being restarted")
        if name == candidate:
            continue
        if pod is None or not pod.ready:
            return Wait("MemberNotReady", f"{name} is not ready: {candidate} is not restarted")
        seen = observed.member_seen(name)
        if seen is None or not seen.in_sync:
            return Wait("MemberNotInSync", f"{name} is not in the SyncStateSet: {candidate} is not restarted")
    return None
