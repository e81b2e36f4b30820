"""How many controllers there are: from what the spec asks for to who votes, one change of membership at a time.

The problem. A StatefulSet creates and deletes pods by a number; the controllers' own log records the voters. A pod removed
while it votes costs a majority, a pod that votes after losing its store costs committed decisions. So the number in the StatefulSet follows the
membership when controllers go, and comes before it when they come. The controllers check each of these requests again.

Theory of operation. Each look finds the first line that holds and does that; nothing is remembered, so an operator that ends anywhere is
continued by the next. `wanted` are the ordinals that the spec asks for.

    observed                                                  action                                  pods
    no leader answers                                         wait: the voters are unknown            stay
    a member says that its store is another one, and empty    remove it, if a majority lives          stay
    fewer pods than wanted                                    wait for those that are still going     as wanted
    a wanted one is not a member and does not answer          wait                                    stay
    a wanted one is not a member, has a log, the last of all  take the pod and its volume away        down to the last member
    a wanted one is not a member, has a log, among others     wait for a person                       stay
    a wanted one is not a member and has an empty store       add it as a learner                     stay
    a wanted one learns                                       promote it once it has caught up        stay
    all wanted vote, and there are more members               remove a silent one, else the last      stay
    more pods than wanted                                     take them and their volumes away        as wanted

Why the lost one first: until it is removed it counts in the size of the majority. Why removal last: the members that will
stay must be able to decide alone. A controller whose node is down is none of these: it keeps its vote and its volume, and comes back.

Controllers never readmit a removed store (they refuse its name with it), so a new member needs an empty store: the volume goes
with the pod, and no pod is made again before its old volume has gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.cluster.children import peer
from rocketmq_operator.plan.cluster.controllers_observed import ControllerSeen, ControllersSeen, Role
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NOTHING, ChangeMembers, Plan, Wait
from rocketmq_operator.plan.common.objects import Live, ObjectKey

LAG_MAX_ENTRIES: Final = 1_000
"""How far behind a learner may be when it is promoted; the controllers themselves hold the same bound."""
CHANGES: Final = frozenset(
    {
        "ControllerHasLog",
        "ControllerJoining",
        "ControllerLeaving",
        "ControllerNotReady",
        "ControllerReplaced",
        "ControllerRestarting",
        "ControllersBusy",
        "TooFewVoters",
    }
)
"""Reasons of waits during which the controllers go on electing masters."""


@dataclass(frozen=True, slots=True)
class Course:
    """The next change to the set of controllers.

    Attributes:
        replicas: of their StatefulSet.
        plan: the pending change of membership, and the reason to wait.
    """

    replicas: int
    plan: Plan = NOTHING


def course(observed: ObservedCluster) -> Course:
    """Return the first line of the table that holds."""
    wanted = observed.spec.controllers.replicas
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    if live is None:
        return Course(wanted)
    now, seen = int(live["spec"]["replicas"]), observed.controllers
    if seen is None or not seen.led:
        return Course(now, Plan((), _unknown(now, wanted)))
    return next(_lines(observed, seen, now, wanted), Course(wanted))


def why_needed(observed: ObservedCluster, pod: str) -> str:
    """Return why a controller's volume must stay; empty if the others can decide without it and hold all decisions."""
    seen = observed.controllers
    if seen is None or not seen.led:
        return "no controller leads: its log may be needed"
    one = seen.at(int(pod.rpartition("-")[2]))
    few = _too_few(observed, seen, one) if one.role is not Role.NONE else None
    return few.message if few else ""


def peers_listed(observed: ObservedCluster, replicas: int) -> int:
    """Return the number of peers listed for a controller without a log: never fewer than the pods.

    Why: one that names none but itself founds a cluster of its own.
    """
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    return replicas if live is None else max(replicas, int(live["spec"]["replicas"]))


def _unknown(now: int, wanted: int) -> Wait | None:
    if now == wanted:
        return None
    return Wait(
        "NoQuorum", f"no controller leads: the number of controllers stays {now}, the spec requests {wanted}"
    )


def _lines(observed: ObservedCluster, seen: ControllersSeen, now: int, wanted: int) -> Iterator[Course]:
    """Yield the lines that hold, in the order of the table."""
    lost = [one for one in seen.members if one.lost_its_store]
    yield from (Course(now, _remove_lost(observed, seen, one)) for one in lost)
    if now < wanted:
        going = _still_going(observed, now, wanted)
        yield Course(now, Plan((), going)) if going else Course(wanted)
    for one in map(seen.at, range(wanted)):
        if one.role is Role.NONE:
            yield _come(observed, seen, one, now)
        elif one.role is Role.LEARNER:
            yield Course(now, _promote(observed, one))
    if surplus := [one for one in seen.members if one.ordinal >= wanted]:
        # Why a silent one first: without it fewer of those that live are needed.
        yield Course(
            now, _remove_surplus(observed, seen, min(surplus, key=lambda one: (one.active, -one.ordinal)))
        )
    if leaving := _pod_beyond(observed, wanted):
        yield Course(wanted, Plan((), Wait("ControllerLeaving", f"{leaving} has not gone yet")))


def _remove_lost(observed: ObservedCluster, seen: ControllersSeen, one: ControllerSeen) -> Plan:
    pod, node = _pod(observed, one), names.controller_id(one.ordinal)
    if few := _too_few(observed, seen, one):
        return Plan((), few)
    text = f"{pod} came back with an empty store: the operator removes, adds and promotes it again"
    step = ChangeMembers("remove", node, pod, "its store was lost", "ControllerReplaced")
    return Plan((step,), Wait("ControllerReplaced", text))


def _remove_surplus(observed: ObservedCluster, seen: ControllersSeen, one: ControllerSeen) -> Plan:
    pod, node = _pod(observed, one), names.controller_id(one.ordinal)
    if few := _too_few(observed, seen, one):
        return Plan((), few)
    text = f"{pod} leaves: the spec requests {observed.spec.controllers.replicas} controllers"
    step = ChangeMembers("remove", node, pod, "fewer are asked for", "ControllerRemoved")
    return Plan((step,), Wait("ControllerLeaving", text))


def _too_few(observed: ObservedCluster, seen: ControllersSeen, leaving: ControllerSeen) -> Wait | None:
    """Say that no majority is certain to live, among the voters of now or among those that are left."""
    after = [one for one in seen.voters if one.ordinal != leaving.ordinal]
    for voters in (seen.voters, after):
        living = [one for one in voters if one.active and not one.lost_its_store]
        if 2 * len(living) <= len(voters):
            dead = ", ".join(_pod(observed, one) for one in voters if one not in living) or "nobody"
            text = f"{_pod(observed, leaving)} stays a member: of {len(voters)} voters {dead} is not heard"
            return Wait("TooFewVoters", text)
    return None


def _come(observed: ObservedCluster, seen: ControllersSeen, one: ControllerSeen, now: int) -> Course:
    """Return the course for a wanted controller that is not a member."""
    pod = _pod(observed, one)
    if one.has_log is None:
        return Course(now, Plan((), Wait("ControllerJoining", f"{pod} does not answer yet")))
    if one.has_log:
        last = max((member.ordinal for member in seen.members), default=-1)
        if one.ordinal > last:
            text = f"{pod} has a log of a previous member: the operator recreates it with an empty volume"
            return Course(last + 1, Plan((), Wait("ControllerLeaving", text)))
        text = f"{pod} is not a member and has a log: delete its PersistentVolumeClaim and its pod"
        return Course(now, Plan((), Wait("ControllerHasLog", text)))
    host = names.controller_hosts(observed.owner.name, observed.owner.namespace)[one.ordinal]
    step = ChangeMembers("add", peer(one.ordinal, host), pod, "it is no member", "ControllerAdded")
    return Course(now, Plan((step,), Wait("ControllerJoining", f"{pod} becomes a learner")))


def _promote(observed: ObservedCluster, one: ControllerSeen) -> Plan:
    pod = _pod(observed, one)
    if not one.active or one.lag_entries is None:
        return Plan((), Wait("ControllerJoining", f"{pod} learns: the leader has not heard from it yet"))
    if one.lag_entries > LAG_MAX_ENTRIES:
        text = f"{pod} learns: it is {one.lag_entries} entries behind, {LAG_MAX_ENTRIES} may be missing"
        return Plan((), Wait("ControllerJoining", text))
    node = names.controller_id(one.ordinal)
    step = ChangeMembers("promote", node, pod, "it has caught up", "ControllerPromoted")
    return Plan((step,), Wait("ControllerJoining", f"{pod} becomes a voter"))


def _still_going(observed: ObservedCluster, now: int, wanted: int) -> Wait | None:
    """Return which previous pod or volume still exists: a pod created too soon gets the old volume."""
    for ordinal in range(now, wanted):
        pod = names.controller(observed.owner.name, ordinal)
        if pod in observed.pods:
            return Wait("ControllerLeaving", f"{pod} has not gone yet")
        claim = observed.claims.get(names.claim(pod))
        if claim is not None and _is_going(claim):
            return Wait("ControllerLeaving", f"the volume of {pod} has not gone yet")
    return None


def _is_going(claim: Live) -> bool:
    metadata = claim["metadata"]
    return "deletionTimestamp" in metadata or bool(metadata.get("ownerReferences"))


def _pod_beyond(observed: ObservedCluster, wanted: int) -> str:
    """Return a pod beyond the requested number, empty if none exists."""
    for ordinal in range(wanted, names.CONTROLLERS_MAX):
        if (pod := names.controller(observed.owner.name, ordinal)) in observed.pods:
            return pod
    return ""


def _pod(observed: ObservedCluster, one: ControllerSeen) -> str:
    return names.controller(observed.owner.name, one.ordinal)
