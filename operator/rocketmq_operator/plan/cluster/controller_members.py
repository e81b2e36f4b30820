"""How many controllers there are.

This module leads from the number in the spec to the voters, one change of membership at a time.

The problem. A StatefulSet creates and deletes pods by a number; the controllers' own log records the voters.
A pod removed while it votes costs a majority, a pod that votes after losing its store costs committed
decisions. So the number in the StatefulSet follows the membership when controllers go, and comes before it
when they come. The controllers check each of these requests again.

Theory of operation. Each look finds the first line that holds and does that; nothing is remembered, so an
operator that ends anywhere is continued by the next. `wanted` are the ordinals that the spec asks for.

    observed                                                action                               pods
    no leader answers                                       wait: the voters are unknown         stay
    a member says that its store is another one, and empty  remove it, if a majority lives       stay
    fewer pods than wanted                                  wait for those being deleted         as wanted
    a wanted one is not a member and does not answer        wait                                 stay
    a wanted one is not a member, has a log, is the last    take the pod and its volume away     to the last
    a wanted one is not a member, has a log, among others   wait for a person                    stay
    a wanted one is not a member and has an empty store     add it as a learner                  stay
    a wanted one learns                                     promote it once it has caught up     stay
    all wanted vote, and there are more members             remove a silent one, else the last   stay
    more pods than wanted                                   take them and their volumes away     as wanted

Why the lost one first: until it is removed it counts in the size of the majority. Why removal last: the
members that will stay must be able to decide alone. A controller whose node is down is none of these: it
keeps its vote and its volume, and comes back.

Controllers never readmit a removed store (they refuse its name with it), so a new member needs an empty
store: the volume goes with the pod, and no pod is made again before its old volume has gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.cluster.children import peer
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.observed_controllers import (
    ControllerRole,
    ObservedController,
    ObservedControllers,
)
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NO_STEPS, ChangeMembers, ResourcePlan, Wait
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
class ControllerSetChange:
    """The next change to the set of controllers.

    Attributes:
        replicas: of their StatefulSet.
        plan: the pending change of membership, and the reason to wait.
    """

    replicas: int
    plan: ResourcePlan = NO_STEPS


NO_CONTROLLERS: Final = ControllerSetChange(0)
"""Of a cluster that uses another one's controllers."""


def next_change(observed: ObservedCluster) -> ControllerSetChange:
    """Return the first line of the table that holds."""
    wanted = observed.spec.controllers.replicas
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    if live is None:
        return ControllerSetChange(wanted)
    now, controllers = int(live["spec"]["replicas"]), observed.controllers
    if controllers is None or not controllers.has_leader:
        return ControllerSetChange(now, ResourcePlan((), _unknown_voters(now, wanted)))
    return next(_applicable_changes(observed, controllers, now, wanted), ControllerSetChange(wanted))


def why_volume_is_needed(observed: ObservedCluster, pod: str) -> str:
    """Return why a controller's volume must stay.

    The result is empty if the others can decide without it and hold all decisions.
    """
    controllers = observed.controllers
    if controllers is None or not controllers.has_leader:
        return "no controller leads: its log may be needed"
    controller = controllers.at(int(pod.rpartition("-")[2]))
    few = _too_few(observed, controllers, controller) if controller.role is not ControllerRole.NONE else None
    return few.message if few else ""


def listed_peer_count(observed: ObservedCluster, replicas: int) -> int:
    """Return the number of peers listed for a controller without a log: never fewer than the pods.

    Why: one that names none but itself founds a cluster of its own.
    """
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    return replicas if live is None else max(replicas, int(live["spec"]["replicas"]))


def _unknown_voters(now: int, wanted: int) -> Wait | None:
    if now == wanted:
        return None
    return Wait(
        "NoQuorum", f"no controller leads: the number of controllers stays {now}, the spec requests {wanted}"
    )


def _applicable_changes(
    observed: ObservedCluster, controllers: ObservedControllers, now: int, wanted: int
) -> Iterator[ControllerSetChange]:
    """Yield the lines that hold, in the order of the table."""
    lost = [controller for controller in controllers.members if controller.lost_its_store]
    yield from (
        ControllerSetChange(now, _remove_lost(observed, controllers, controller)) for controller in lost
    )
    if now < wanted:
        going = _previous_pod_or_volume(observed, now, wanted)
        yield ControllerSetChange(now, ResourcePlan((), going)) if going else ControllerSetChange(wanted)
    for controller in map(controllers.at, range(wanted)):
        if controller.role is ControllerRole.NONE:
            yield _join(observed, controllers, controller, now)
        elif controller.role is ControllerRole.LEARNER:
            yield ControllerSetChange(now, _promote(observed, controller))
    if surplus := [controller for controller in controllers.members if controller.ordinal >= wanted]:
        # Why a silent one first: without it fewer of those that live are needed.
        yield ControllerSetChange(
            now,
            _remove_surplus(
                observed,
                controllers,
                min(surplus, key=lambda controller: (controller.active, -controller.ordinal)),
            ),
        )
    if leaving := _surplus_pod(observed, wanted):
        yield ControllerSetChange(
            wanted, ResourcePlan((), Wait("ControllerLeaving", f"{leaving} has not gone yet"))
        )


def _remove_lost(
    observed: ObservedCluster, controllers: ObservedControllers, controller: ObservedController
) -> ResourcePlan:
    pod, node = _pod(observed, controller), names.controller_id(controller.ordinal)
    if few := _too_few(observed, controllers, controller):
        return ResourcePlan((), few)
    text = f"{pod} came back with an empty store: the operator removes, adds and promotes it again"
    step = ChangeMembers("remove", node, pod, "its store was lost", "ControllerReplaced")
    return ResourcePlan((step,), Wait("ControllerReplaced", text))


def _remove_surplus(
    observed: ObservedCluster, controllers: ObservedControllers, controller: ObservedController
) -> ResourcePlan:
    pod, node = _pod(observed, controller), names.controller_id(controller.ordinal)
    if few := _too_few(observed, controllers, controller):
        return ResourcePlan((), few)
    text = f"{pod} leaves: the spec requests {observed.spec.controllers.replicas} controllers"
    step = ChangeMembers("remove", node, pod, "fewer are asked for", "ControllerRemoved")
    return ResourcePlan((step,), Wait("ControllerLeaving", text))


def _too_few(
    observed: ObservedCluster, controllers: ObservedControllers, leaving: ObservedController
) -> Wait | None:
    """Say that no majority is certain to live, among the voters of now or among those that are left."""
    after = [controller for controller in controllers.voters if controller.ordinal != leaving.ordinal]
    for voters in (controllers.voters, after):
        living = [controller for controller in voters if controller.active and not controller.lost_its_store]
        if 2 * len(living) <= len(voters):
            dead = (
                ", ".join(_pod(observed, controller) for controller in voters if controller not in living)
                or "nobody"
            )
            text = f"{_pod(observed, leaving)} stays a member: of {len(voters)} voters {dead} is not heard"
            return Wait("TooFewVoters", text)
    return None


def _join(
    observed: ObservedCluster, controllers: ObservedControllers, controller: ObservedController, now: int
) -> ControllerSetChange:
    """Return the course for a wanted controller that is not a member."""
    pod = _pod(observed, controller)
    if controller.has_log is None:
        return ControllerSetChange(
            now, ResourcePlan((), Wait("ControllerJoining", f"{pod} does not answer yet"))
        )
    if controller.has_log:
        last = max((member.ordinal for member in controllers.members), default=-1)
        if controller.ordinal > last:
            text = f"{pod} has a log of a previous member: the operator recreates it with an empty volume"
            return ControllerSetChange(last + 1, ResourcePlan((), Wait("ControllerLeaving", text)))
        text = f"{pod} is not a member and has a log: delete its PersistentVolumeClaim and its pod"
        return ControllerSetChange(now, ResourcePlan((), Wait("ControllerHasLog", text)))
    host = names.controller_hosts(observed.owner.name, observed.owner.namespace)[controller.ordinal]
    step = ChangeMembers("add", peer(controller.ordinal, host), pod, "it is no member", "ControllerAdded")
    return ControllerSetChange(
        now, ResourcePlan((step,), Wait("ControllerJoining", f"{pod} becomes a learner"))
    )


def _promote(observed: ObservedCluster, controller: ObservedController) -> ResourcePlan:
    pod = _pod(observed, controller)
    if not controller.active or controller.lag_entries is None:
        return ResourcePlan(
            (), Wait("ControllerJoining", f"{pod} learns: the leader has not heard from it yet")
        )
    if controller.lag_entries > LAG_MAX_ENTRIES:
        text = (
            f"{pod} learns: it is {controller.lag_entries} entries behind, {LAG_MAX_ENTRIES} may be missing"
        )
        return ResourcePlan((), Wait("ControllerJoining", text))
    node = names.controller_id(controller.ordinal)
    step = ChangeMembers("promote", node, pod, "it has caught up", "ControllerPromoted")
    return ResourcePlan((step,), Wait("ControllerJoining", f"{pod} becomes a voter"))


def _previous_pod_or_volume(observed: ObservedCluster, now: int, wanted: int) -> Wait | None:
    """Return which previous pod or volume still exists: a pod created too soon gets the old volume."""
    for ordinal in range(now, wanted):
        pod = names.controller(observed.owner.name, ordinal)
        if pod in observed.pods:
            return Wait("ControllerLeaving", f"{pod} has not gone yet")
        claim = observed.claims.get(names.claim(pod))
        if claim is not None and _is_being_deleted(claim):
            return Wait("ControllerLeaving", f"the volume of {pod} has not gone yet")
    return None


def _is_being_deleted(claim: Live) -> bool:
    metadata = claim["metadata"]
    return "deletionTimestamp" in metadata or bool(metadata.get("ownerReferences"))


def _surplus_pod(observed: ObservedCluster, wanted: int) -> str:
    """Return a pod beyond the requested number, empty if none exists."""
    for ordinal in range(wanted, names.CONTROLLERS_MAX):
        if (pod := names.controller(observed.owner.name, ordinal)) in observed.pods:
            return pod
    return ""


def _pod(observed: ObservedCluster, controller: ObservedController) -> str:
    return names.controller(observed.owner.name, controller.ordinal)
