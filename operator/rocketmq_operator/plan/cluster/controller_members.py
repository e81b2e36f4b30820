"""How many controllers there are: from what the spec asks for to who votes, one change of membership at a time.

The problem. Pods come and go by a number in a StatefulSet; who votes is kept in the controllers' own log. A pod that is taken away
while it votes costs a majority, a pod that votes with a store it lost costs what was decided. So the number in the StatefulSet follows the
membership when controllers go, and comes before it when they come. Everything that is asked for here the controllers check again.

Theory of operation. Each look finds the first line that holds and does that; nothing is remembered, so an operator that ends anywhere is
continued by the next. `wanted` are the ordinals that the spec asks for.

    what is seen                                              what is done                            pods
    no leader is heard                                        wait: nobody knows who votes            stay
    a member says that its store is another one, and empty    remove it, if a majority lives          stay
    fewer pods than wanted                                    wait for those that are still going     as wanted
    a wanted one is no member and does not answer             wait                                    stay
    a wanted one is no member and has a log, the last of all  take the pod and its volume away        down to the last member
    a wanted one is no member and has a log, among others     wait for a person                       stay
    a wanted one is no member and has an empty store          add it as a learner                     stay
    a wanted one learns                                       promote it once it has caught up        stay
    all wanted vote, and there are more members               remove a silent one, else the last      stay
    more pods than wanted                                     take them and their volumes away        as wanted

Why the lost one first: until it is removed it counts among those of whom a majority is needed. Why removal last: the members that are to
stay must be able to decide alone. A controller whose node is down is none of these: it keeps its vote and its volume, and comes back.

A store that was removed is never a member again (its name is refused with it), so what comes must come with an empty one: the volume goes
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
    """What is to be done about who the controllers are.

    Attributes:
        replicas: of their StatefulSet.
        plan: the change of membership that is due, and what is waited for.
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
    """Say why a controller's volume must stay; empty where the others decide without it, and hold what was decided."""
    seen = observed.controllers
    if seen is None or not seen.led:
        return "no controller leads: its log may be needed"
    one = seen.at(int(pod.rpartition("-")[2]))
    few = _too_few(observed, seen, one) if one.role is not Role.NONE else None
    return few.message if few else ""


def peers_listed(observed: ObservedCluster, replicas: int) -> int:
    """Return how many controllers are named to one that has no log: never fewer than there are pods.

    Why: one that names none but itself founds a cluster of its own.
    """
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    return replicas if live is None else max(replicas, int(live["spec"]["replicas"]))


def _unknown(now: int, wanted: int) -> Wait | None:
    if now == wanted:
        return None
    return Wait("NoQuorum", f"no controller leads: there stay {now} controllers, {wanted} are asked for")


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
    text = f"{pod} came back with an empty store: it is removed, added anew and promoted"
    step = ChangeMembers("remove", node, pod, "its store was lost", "ControllerReplaced")
    return Plan((step,), Wait("ControllerReplaced", text))


def _remove_surplus(observed: ObservedCluster, seen: ControllersSeen, one: ControllerSeen) -> Plan:
    pod, node = _pod(observed, one), names.controller_id(one.ordinal)
    if few := _too_few(observed, seen, one):
        return Plan((), few)
    text = f"{pod} leaves: {observed.spec.controllers.replicas} controllers are asked for"
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
    """Return what is due for one that is to be a member and is none."""
    pod = _pod(observed, one)
    if one.has_log is None:
        return Course(now, Plan((), Wait("ControllerJoining", f"{pod} does not answer yet")))
    if one.has_log:
        last = max((member.ordinal for member in seen.members), default=-1)
        if one.ordinal > last:
            text = f"{pod} has a log of before: it is made anew with an empty volume"
            return Course(last + 1, Plan((), Wait("ControllerLeaving", text)))
        text = f"{pod} is no member and has a log: delete its PersistentVolumeClaim and its pod"
        return Course(now, Plan((), Wait("ControllerHasLog", text)))
    host = names.controller_hosts(observed.owner.name, observed.owner.namespace)[one.ordinal]
    step = ChangeMembers("add", peer(one.ordinal, host), pod, "it is no member", "ControllerAdded")
    return Course(now, Plan((step,), Wait("ControllerJoining", f"{pod} becomes a learner")))


def _promote(observed: ObservedCluster, one: ControllerSeen) -> Plan:
    pod = _pod(observed, one)
    if not one.active or one.lag_entries is None:
        return Plan((), Wait("ControllerJoining", f"{pod} learns: nothing was heard of it yet"))
    if one.lag_entries > LAG_MAX_ENTRIES:
        text = f"{pod} learns: it is {one.lag_entries} entries behind, {LAG_MAX_ENTRIES} may be missing"
        return Plan((), Wait("ControllerJoining", text))
    node = names.controller_id(one.ordinal)
    step = ChangeMembers("promote", node, pod, "it has caught up", "ControllerPromoted")
    return Plan((step,), Wait("ControllerJoining", f"{pod} becomes a voter"))


def _still_going(observed: ObservedCluster, now: int, wanted: int) -> Wait | None:
    """Say which pod or volume of before has not gone yet: a pod that is made too soon gets the old volume."""
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
    """Return a pod that is more than is asked for, empty if there is none."""
    for ordinal in range(wanted, names.CONTROLLERS_MAX):
        if (pod := names.controller(observed.owner.name, ordinal)) in observed.pods:
            return pod
    return ""


def _pod(observed: ObservedCluster, one: ControllerSeen) -> str:
    return names.controller(observed.owner.name, one.ordinal)
