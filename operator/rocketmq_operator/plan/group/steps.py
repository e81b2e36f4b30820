"""The plan of a BrokerGroup, concern by concern, the most urgent first.

0. names: where one is somebody else's, only the addresses that the group has already are served
   (`ownership`);
1. addresses: each member's Service, and who answers there (`takeover`); a group of a cluster that speaks TLS
   with clients then waits for its certificate;
2. configuration: shared ConfigMap, headless Service, disruption budget; the addresses of controllers and name
   servers must be known, because each pod is given them;
3. members that an earlier spec broke: the StatefulSets that exist get the pods of the spec, and broken pods
   are replaced at once (`rolling.replace_broken`), whatever the concerns below wait for;
4. a switchover that a person asks for (`switchover`);
5. members whose node is gone for good (`lost_members`);
6. size: the StatefulSets, grown at once, shrunk by one with the mastership handed over first; a group that
   hibernates runs without pods, and nothing below concerns it but records and Services of listeners;
7. rolling change: pods of an older revision are replaced one at a time (`rolling`);
8. leftovers: Services of deleted members;
9. learners (`learner_steps`), on which no promise depends;
10. the record of failovers (`failovers`);
11. Services of listeners, even while something waits: the API server may refuse a port that is taken;
12. volumes: the operator expands claims smaller than the spec, and writes their labels and class (`volumes`),
    last because a storage class may refuse for ever.

If the operator refuses the pods of the spec (`observed_pods`), it serves the addresses that exist and skips
2 and 6 to 9: it applies no part of a spec without the others.

With static roles (`static`) there are neither 4, 5 nor 9, and size and rollout ask no controller.

A concern that waits stops those after it. Records are an exception: they come even while something waits,
because they change nothing. Nothing is remembered between two looks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rocketmq_operator.api.clusters.ip_families import IpFamily, fails_at_v6, why_not_v6
from rocketmq_operator.api.pods.storage import GroupStorage
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import (
    NO_STEPS,
    ResourcePlan,
    Step,
    Wait,
    child_steps,
    first_until_wait,
)
from rocketmq_operator.plan.common.claimed_names import names_of_group
from rocketmq_operator.plan.common.listeners import with_services
from rocketmq_operator.plan.common.objects import family_of
from rocketmq_operator.plan.common.ownership import why_name_is_taken
from rocketmq_operator.plan.common.parts import with_live_claim_templates
from rocketmq_operator.plan.common.waits import PAUSED, no_address, unknown_address
from rocketmq_operator.plan.credentials.inner_users import marked
from rocketmq_operator.plan.group.children import (
    broker_digest,
    broker_set,
    fixed_children,
    log_replica_set,
    member_names,
    member_service,
)
from rocketmq_operator.plan.group.failovers import record_steps
from rocketmq_operator.plan.group.learners.learner_children import (
    is_learner,
    learner_files,
    learner_names,
    learner_service,
    learner_storage,
)
from rocketmq_operator.plan.group.learners.learner_steps import learner_plan
from rocketmq_operator.plan.group.listeners import listener_services
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.observed_pods import known_hosts, pod_refusal
from rocketmq_operator.plan.group.pod_sets.live_settings import with_kept_digest
from rocketmq_operator.plan.group.rolling import hand_over, replace_broken, roll
from rocketmq_operator.plan.group.slices import (
    all_members,
    endpoint_slice_moves,
    endpoint_slices,
    leftovers,
)
from rocketmq_operator.plan.group.static.static_steps import (
    effective,
    is_static,
    static_roll,
    static_size,
)
from rocketmq_operator.plan.group.switchover import switchover
from rocketmq_operator.plan.pods.logs import log_target
from rocketmq_operator.plan.pods.lost_members import free_lost
from rocketmq_operator.plan.pods.volumes import claim_steps

_CLAIM: Final = "PersistentVolumeClaim"


def group_plan(observed: ObservedGroup) -> ResourcePlan:
    """Return the plan for a group."""
    if observed.spec.paused:
        return ResourcePlan((), PAUSED)
    if observed.cluster is None:
        return ResourcePlan(
            (), Wait("NoCluster", f"RocketMQCluster {observed.spec.cluster} does not exist in this namespace")
        )
    observed = _with_log_target(effective(observed))
    plan = first_until_wait(_concerns(observed))
    growth = _volumes(observed) if plan.wait is None else NO_STEPS
    records, listeners = record_steps(observed), _listener_services(observed)
    return ResourcePlan(
        (*plan.steps, *records.steps, *listeners.steps, *growth.steps),
        plan.wait or records.wait or listeners.wait,
        (*plan.notes, *listeners.notes),
    )


def _with_log_target(observed: ObservedGroup) -> ObservedGroup:
    target = log_target(observed.spec, observed.child("StatefulSet", observed.owner.name))
    return replace(observed, spec=observed.spec.model_copy(update={"log_to": target}))


def _concerns(observed: ObservedGroup) -> Iterator[ResourcePlan]:
    yield _names(observed)
    if (refused := pod_refusal(observed)) is not None:
        yield endpoint_slices(observed)
        yield replace_broken(observed)
        yield switchover(observed)
        yield _free_lost_members(observed)
        yield ResourcePlan((), refused)
        return
    yield _services(observed)
    yield endpoint_slices(observed)
    yield _certificate(observed)
    yield _configuration(observed)
    yield _pod_templates(observed)
    yield replace_broken(observed)
    if observed.spec.hibernated:
        yield _wait_for_addresses(observed)
        yield learner_plan(observed)
        yield _hibernation(observed)
        return
    if is_static(observed):
        yield from _static_concerns(observed)
        return
    yield switchover(observed)
    yield _wait_for_addresses(observed)
    yield _free_lost_members(observed)
    yield _size(observed)
    yield roll(observed)
    yield leftovers(observed)
    yield learner_plan(observed)


def _static_concerns(observed: ObservedGroup) -> Iterator[ResourcePlan]:
    yield _wait_for_addresses(observed)
    size, wait = static_size(observed)
    sized = _sizes(observed).get(observed.owner.name) == size
    plan = NO_STEPS if sized else _sets(observed, {observed.owner.name: size})
    yield ResourcePlan(plan.steps, plan.wait or wait, plan.notes)
    yield static_roll(observed)
    yield leftovers(observed)


def _names(observed: ObservedGroup) -> ResourcePlan:
    listeners = [listener.name for listener in with_services(observed.cluster)]
    claim = names_of_group(observed.owner.name, observed.spec, listeners)
    wait = why_name_is_taken(observed.owner, claim, observed.children, observed.name_lookup)
    return NO_STEPS if wait is None else ResourcePlan(tuple(endpoint_slice_moves(observed)), wait)


def _services(observed: ObservedGroup) -> ResourcePlan:
    wanted = [
        member_service(observed.owner, observed.spec, observed.cluster, name)
        for name in member_names(observed.owner.name, observed.spec)
    ] + [
        learner_service(observed.owner, observed.spec, observed.cluster, name)
        for name in learner_names(observed.owner.name, observed.spec)
    ]
    plan = child_steps(observed.owner, wanted, observed.children)
    if plan.wait is not None:
        return plan
    missing = [
        body["metadata"]["name"] for body in wanted if not observed.service_address(body["metadata"]["name"])
    ]
    return ResourcePlan(
        plan.steps, no_address(missing[0]) if missing else _unusable_addresses(observed), plan.notes
    )


def _unusable_addresses(observed: ObservedGroup) -> Wait | None:
    """Say why the brokers cannot announce the addresses that their Services have; None if they can."""
    version = "" if observed.cluster is None else observed.cluster.version
    members = member_names(observed.owner.name, observed.spec)
    if not fails_at_v6(version) or family_of(observed.service_address(members[0])) == IpFamily.V4:
        return None
    return Wait("VersionWithoutIPv6", why_not_v6(version))


def _listener_services(observed: ObservedGroup) -> ResourcePlan:
    """Make the Services of the cluster's listeners; their slices come with the next look."""
    if _names(observed).wait is not None:
        return NO_STEPS
    return child_steps(
        observed.owner,
        listener_services(observed.owner, observed.spec, observed.cluster),
        observed.children,
    )


def _configuration(observed: ObservedGroup) -> ResourcePlan:
    if observed.cluster is None:
        return NO_STEPS
    owner, spec = observed.owner, observed.spec
    members = (*member_names(owner.name, spec), *learner_names(owner.name, spec))
    addresses = {name: observed.service_address(name) for name in members}
    stage = observed.clients_stage
    files = learner_files(owner, spec, observed.cluster, stage)
    wanted = fixed_children(owner, spec, observed.cluster, addresses, files, stage)
    return child_steps(observed.owner, wanted, observed.children)


def _certificate(observed: ObservedGroup) -> ResourcePlan:
    """Wait for the certificate of a new group: its pods would not start without."""
    if not observed.clients_stage.has_certificates or observed.certified:
        return NO_STEPS
    text = f"the cluster {observed.spec.cluster} makes a certificate for the group"
    return ResourcePlan((), Wait("CertificatesPending", text))


def _wait_for_addresses(observed: ObservedGroup) -> ResourcePlan:
    """Wait for addresses that are not known yet: a pod made without them would be replaced at once."""
    return ResourcePlan((), unknown_address(known_hosts(observed)))


def _free_lost_members(observed: ObservedGroup) -> ResourcePlan:
    """Free members from nodes that are gone for good."""

    def needed(name: str) -> str:
        master, reported = observed.reported_member(observed.master), observed.reported_member(name)
        if not observed.controllers_answered:
            return "whether others have what its volume has cannot be known: no controller answers"
        if master is None or name == observed.master or not (master.alive and master.in_sync):
            return "no living master has all acknowledged messages"
        return "it is in the SyncStateSet" if reported is not None and reported.in_sync else ""

    claims = {key.name: live for key, live in observed.children.items() if key.kind == _CLAIM}
    return free_lost(observed.pods, claims, observed.spec.lost_members, observed.now, needed)


def _pod_templates(observed: ObservedGroup) -> ResourcePlan:
    """Give the StatefulSets that exist the pods of the spec, at the size that they have."""
    known = unknown_address(known_hosts(observed)) is None
    return _sets(observed, _sizes(observed)) if known else NO_STEPS


def _size(observed: ObservedGroup) -> ResourcePlan:
    """Grow at once; shrink by one member, the last, and never the master."""
    name, now = observed.owner.name, _sizes(observed)
    brokers, wait, steps = _next_size(observed, name, observed.spec.replicas)
    logs, log_wait, _ = _next_size(observed, names.log_set(name), observed.spec.log_replicas)
    sizes = {name: brokers, names.log_set(name): logs}
    plan = _sets(
        observed, {set_name: size for set_name, size in sizes.items() if size != now.get(set_name, 0)}
    )
    return ResourcePlan((*steps, *plan.steps), plan.wait or wait or log_wait, plan.notes)


def _hibernation(observed: ObservedGroup) -> ResourcePlan:
    """Stop all pods, the master last; StatefulSets, volumes and addresses stay.

    A StatefulSet stops its last members first, so the first broker takes the mastership over. It stops when
    it is alone in the SyncStateSet: then no other broker can be elected when the group wakes up. With static
    roles it is master anyway, without controllers.
    """
    group, sizes = observed.owner.name, _sizes(observed)
    first, running = names.member(group, 0), sizes.get(group, 0)
    wait = None
    if running:
        if not is_static(observed) and not observed.controllers_answered:
            return ResourcePlan((), Wait("ControllersUnreachable", "which broker is master cannot be known"))
        if not is_static(observed) and observed.master and observed.master != first:
            return hand_over(observed, "the group hibernates", to=first)
        wait = _still_needed(observed, first)
    size = 1 if running and (running > 1 or wait is not None) else 0
    smaller = {name: min(now, size if name == group else 0) for name, now in sizes.items()}
    plan = _sets(observed, {name: wanted for name, wanted in smaller.items() if wanted != sizes[name]})
    if not observed.pods:
        return plan
    left = Wait("Hibernating", f"{len(observed.pods)} pods remain to be stopped")
    return ResourcePlan(plan.steps, plan.wait or wait or left, plan.notes)


def _still_needed(observed: ObservedGroup, first: str) -> Wait | None:
    """Say which other member the last broker waits for: one that has a pod, or that could be elected."""
    if others := sorted(name for name in observed.pods if name != first):
        return Wait("Hibernating", f"{others[0]} has not gone yet")
    if is_static(observed):
        return None
    members = [name for name in member_names(observed.owner.name, observed.spec) if name != first]
    reported = {name: observed.reported_member(name) for name in members}
    in_set = [name for name, member in reported.items() if member is not None and member.in_sync]
    if observed.master and in_set:
        return Wait("Hibernating", f"{in_set[0]} is in the SyncStateSet still")
    return None


def _sizes(observed: ObservedGroup) -> dict[str, int]:
    """Return how many replicas each StatefulSet that exists has."""
    set_names = (observed.owner.name, names.log_set(observed.owner.name))
    found = {name: observed.child("StatefulSet", name) for name in set_names}
    return {name: int(live["spec"]["replicas"]) for name, live in found.items() if live is not None}


def _sets(observed: ObservedGroup, sizes: Mapping[str, int]) -> ResourcePlan:
    """Bring these StatefulSets to these sizes, and to the pods of the spec."""
    if observed.cluster is None:
        return NO_STEPS
    owner, stage = observed.owner, observed.clients_stage
    hosts, kept = known_hosts(observed), []
    for set_name, size in sizes.items():
        made = broker_set if set_name == owner.name else log_replica_set
        body = made(owner, observed.spec, observed.cluster, size, hosts, stage)
        live = observed.child("StatefulSet", set_name)
        if made is broker_set:
            whole = broker_digest(owner, observed.spec, observed.cluster, stage)
            body = marked(with_kept_digest(body, whole, live), observed.signer_mark)
        kept.append(with_live_claim_templates(body, live))
    return child_steps(owner, kept, observed.children)


def _next_size(
    observed: ObservedGroup, set_name: str, wanted: int
) -> tuple[int, Wait | None, tuple[Step, ...]]:
    """Return the size that a set may have now.

    Also return why it differs from the wanted one, and the steps required first.
    """
    live = observed.child("StatefulSet", set_name)
    now = wanted if live is None else int(live["spec"]["replicas"])
    if now <= wanted:
        return wanted, None, ()
    leaving = f"{set_name}-{now - 1}"
    if extra := [pod for pod in observed.pods if names.is_member(pod, set_name) and pod > leaving]:
        return now, Wait("ScalingIn", f"{extra[0]} has not gone yet"), ()
    if not observed.controllers_answered:
        return now, Wait("ControllersUnreachable", f"whether {leaving} is master cannot be known"), ()
    if observed.master == leaving:
        handing = hand_over(observed, f"the operator will remove {leaving}")
        return now, handing.wait or Wait("SwitchingOver", f"{leaving} is still master"), handing.steps
    if few := _too_few_left(observed, leaving):
        return now, few, ()
    if not observed.master and names.is_member(leaving, observed.owner.name):
        return (
            now,
            Wait(
                "ScaleInRefused", "the group lacks a master: the leaving member may be the last with the log"
            ),
            (),
        )
    return now - 1, Wait("ScalingIn", f"{now - wanted} members remain to be removed"), ()


def _too_few_left(observed: ObservedGroup, leaving: str) -> Wait | None:
    """Return why the removal of a member would remove a needed copy of acknowledged messages."""
    needed = observed.spec.members_for_writes
    others = [observed.reported_member(name) for name in all_members(observed) if name != leaving]
    in_sync = sum(member is not None and member.in_sync for member in others)
    if in_sync >= needed:
        return None
    text = (
        f"without {leaving} {in_sync} members are in the SyncStateSet, {observed.spec.durability} needs "
        f"{needed}"
    )
    return Wait("ScaleInRefused", text)


def _volumes(observed: ObservedGroup) -> ResourcePlan:
    group, spec = observed.owner.name, observed.spec

    def storage_of(pod: str) -> GroupStorage:
        return learner_storage(spec) if is_learner(pod, group) else spec.storage

    return claim_steps(observed.children, storage_of, observed.owner.namespace)
