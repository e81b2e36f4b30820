"""The plan of a BrokerGroup, concern by concern, the most urgent first.

0. names: where one is somebody else's, only the addresses that the group has already are served (`ownership`);
1. addresses: each member's Service, and who answers there (`takeover`);
2. configuration: shared ConfigMap, headless Service, disruption budget; the addresses of controllers and name servers
   must be known, because each pod is given them;
3. members that an earlier spec broke: the StatefulSets that exist get the pods of the spec, and broken pods are replaced at once
   (`rolling.mend`), whatever the concerns below wait for;
4. a switchover that a person asks for (`switchover`);
5. members whose node is gone for good (`lost_members`);
6. size: the StatefulSets, grown at once, shrunk by one with the mastership handed over first;
7. rolling change: pods of an older revision are replaced one at a time (`rolling`);
8. leftovers: Services of deleted members;
9. the record of failovers (`failovers`);
10. volumes: the operator expands claims smaller than the spec, last because a storage class may refuse for ever.

A concern that waits stops those after it. Records are an exception: they come even while something waits, because they
change nothing. Nothing is remembered between two looks.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from rocketmq_operator.api.broker_group import Durability
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import (
    NOTHING,
    Apply,
    Delete,
    Plan,
    Step,
    Wait,
    child_steps,
    field_rewritten,
    first_of,
    marked,
)
from rocketmq_operator.plan.common.claimed_names import group_claim
from rocketmq_operator.plan.common.objects import Live, ObjectKey, belongs_to, key_of, quantity
from rocketmq_operator.plan.common.ownership import is_ours, taken
from rocketmq_operator.plan.common.parts import keeping_claims
from rocketmq_operator.plan.common.rewritten import rewritten
from rocketmq_operator.plan.common.waits import PAUSED, no_address, unknown_address
from rocketmq_operator.plan.group import takeover
from rocketmq_operator.plan.group.children import (
    REMOTING,
    broker_ports,
    broker_set,
    fixed_children,
    hosts_needed,
    log_replica_set,
    member_names,
    member_service,
)
from rocketmq_operator.plan.group.failovers import record_steps
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.rolling import hand_over, mend, roll, successors
from rocketmq_operator.plan.group.switchover import switchover
from rocketmq_operator.plan.group.takeover import Place
from rocketmq_operator.plan.pods.lost_members import free_lost

_CLAIM: Final = "PersistentVolumeClaim"


def group_plan(observed: ObservedGroup) -> Plan:
    """Return the plan for a group."""
    if observed.spec.paused:
        return Plan((), PAUSED)
    if observed.cluster is None:
        return Plan(
            (), Wait("NoCluster", f"RocketMQCluster {observed.spec.cluster} does not exist in this namespace")
        )
    plan = first_of(_concerns(observed))
    growth = _volumes(observed) if plan.wait is None else NOTHING
    records = record_steps(observed)
    return Plan((*plan.steps, *records.steps, *growth.steps), plan.wait or records.wait, plan.notes)


def _concerns(observed: ObservedGroup) -> Iterator[Plan]:
    yield _names(observed)
    yield _services(observed)
    yield slices(observed)
    yield _configuration(observed)
    yield _templates(observed)
    yield mend(observed)
    yield switchover(observed)
    yield _hosts(observed)
    yield _lost(observed)
    yield _size(observed)
    yield roll(observed)
    yield _leftovers(observed)


def places(observed: ObservedGroup) -> dict[str, Place]:
    """Return all members as far as their addresses matter."""
    found = {}
    for name in _all_members(observed):
        pod, seen = observed.pods.get(name), observed.member_seen(name)
        found[name] = Place(
            name=name,
            ip=pod.ip if pod else "",
            ready=pod is not None and pod.ready,
            deleting=pod is not None and pod.deleting,
            alive=seen.alive if seen else None,
        )
    return found


def _all_members(observed: ObservedGroup) -> tuple[str, ...]:
    """Return the members that the spec asks for, and those that are still there."""
    wanted = member_names(observed.owner.name, observed.spec)
    return (*wanted, *sorted(name for name in observed.pods if name not in wanted))


def _names(observed: ObservedGroup) -> Plan:
    claim = group_claim(observed.owner.name, observed.spec)
    wait = taken(observed.owner, claim, observed.children, observed.looked_up)
    return NOTHING if wait is None else Plan(tuple(moves(observed)), wait)


def moves(observed: ObservedGroup) -> Iterator[Apply]:
    """Yield what changes EndpointSlices that the group has; it makes none, for which the name must be looked up first."""
    for step in slices(observed).steps:
        if isinstance(step, Apply) and key_of(step.body) in observed.children:
            yield step


def _services(observed: ObservedGroup) -> Plan:
    wanted = [
        member_service(observed.owner, observed.spec, observed.cluster, name)
        for name in member_names(observed.owner.name, observed.spec)
    ]
    plan = child_steps(observed.owner, wanted, observed.children)
    if plan.wait is not None:
        return plan
    missing = [
        body["metadata"]["name"] for body in wanted if not observed.service_address(body["metadata"]["name"])
    ]
    return Plan(plan.steps, no_address(missing[0]) if missing else None, plan.notes)


def slices(observed: ObservedGroup) -> Plan:
    """Return the EndpointSlices that send clients to the members that serve them.

    While no controller answers the master is unknown: each address keeps its current server.
    """
    brokers = takeover.brokers_only(places(observed), observed.owner.name)
    by_name = {place.name: place for place in brokers}
    replaced = {
        observed.member_at(address) for address in takeover.replaced_lately(observed.failovers, observed.now)
    }
    servers = takeover.served_by(brokers, observed.master, replaced)
    unknown = observed.group is None and not observed.controllers_heard
    epoch_now = observed.group.master_epoch if observed.group is not None else 0
    ports = broker_ports(observed.cluster)
    steps: list[Step] = []
    notes: list[Wait] = []
    for member, server in servers.items():
        if not _has(observed, "Service", member):
            continue
        if observed.child("EndpointSlice", member) is not None and not _has(
            observed, "EndpointSlice", member
        ):
            continue
        live, epoch = observed.child("EndpointSlice", member), epoch_now
        if unknown and live is not None and takeover.server_of(live) in by_name:
            server, epoch = takeover.server_of(live), takeover.decided_by(live)
        place = by_name[server]
        hold_port = _hold_port(observed, place) if server == member else None
        led_to = ports if hold_port is None else ports | {REMOTING: hold_port}
        body = marked(
            takeover.endpoint_slice(observed.owner, observed.spec.cluster, member, place, epoch, ports=led_to)
        )
        if live is not None and belongs_to(live, observed.owner) and takeover.is_as_wanted(live, body):
            continue
        problem = "" if live is None else rewritten(live, body)
        if problem:
            notes.append(field_rewritten(problem))
        else:
            steps.append(Apply(body, f"served by {server}"))
    return Plan(tuple(steps), None, tuple(notes))


def _hold_port(observed: ObservedGroup, place: Place) -> int | None:
    """Return the companion's hold port while the master is being deleted and will be killed; None if clients should still reach the broker.

    The port holds clients of the master while its pod is being deleted and its preStop will kill it at once, because others have all acknowledged messages. A master
    that must hand over first continues for seconds.
    """
    is_leaving = place.deleting and place.name == observed.master
    if is_leaving and observed.spec.durability is Durability.ALL_IN_SYNC and successors(observed):
        return observed.pods[place.name].hold_port
    return None


def _configuration(observed: ObservedGroup) -> Plan:
    if observed.cluster is None:
        return NOTHING
    members = member_names(observed.owner.name, observed.spec)
    addresses = {name: observed.service_address(name) for name in members}
    wanted = fixed_children(observed.owner, observed.spec, observed.cluster, addresses)
    return child_steps(observed.owner, wanted, observed.children)


def _hosts(observed: ObservedGroup) -> Plan:
    """Wait for addresses that are not known yet: a pod made without them would be replaced at once."""
    return Plan((), unknown_address(_known_hosts(observed)))


def _known_hosts(observed: ObservedGroup) -> dict[str, str]:
    """Return ClusterIP by DNS name of all that members are configured with; empty until one exists."""
    if observed.cluster is None:
        return {}
    hosts = hosts_needed(observed.owner, observed.spec, observed.cluster)
    return {host: observed.cluster_addresses.get(names.pod_of(host), "") for host in hosts}


def _lost(observed: ObservedGroup) -> Plan:
    """Free members from nodes that are gone for good."""

    def needed(name: str) -> str:
        master, seen = observed.member_seen(observed.master), observed.member_seen(name)
        if not observed.controllers_heard:
            return "whether others have what its volume has cannot be known: no controller answers"
        if master is None or name == observed.master or not (master.alive and master.in_sync):
            return "no living master has all acknowledged messages"
        return "it is in the SyncStateSet" if seen is not None and seen.in_sync else ""

    claims = {key.name: live for key, live in observed.children.items() if key.kind == _CLAIM}
    return free_lost(observed.pods, claims, observed.spec.lost_members, observed.now, needed)


def _templates(observed: ObservedGroup) -> Plan:
    """Give the StatefulSets that exist the pods of the spec, at the size that they have."""
    known = unknown_address(_known_hosts(observed)) is None
    return _sets(observed, _sizes(observed)) if known else NOTHING


def _size(observed: ObservedGroup) -> Plan:
    """Grow at once; shrink by one member, the last, and never the master."""
    name, now = observed.owner.name, _sizes(observed)
    brokers, wait, steps = _next_size(observed, name, observed.spec.replicas)
    logs, log_wait, _ = _next_size(observed, names.log_set(name), observed.spec.log_replicas)
    sizes = {name: brokers, names.log_set(name): logs}
    plan = _sets(
        observed, {set_name: size for set_name, size in sizes.items() if size != now.get(set_name, 0)}
    )
    return Plan((*steps, *plan.steps), plan.wait or wait or log_wait, plan.notes)


def _sizes(observed: ObservedGroup) -> dict[str, int]:
    """Return how many replicas each StatefulSet that exists has."""
    set_names = (observed.owner.name, names.log_set(observed.owner.name))
    found = {name: observed.child("StatefulSet", name) for name in set_names}
    return {name: int(live["spec"]["replicas"]) for name, live in found.items() if live is not None}


def _sets(observed: ObservedGroup, sizes: Mapping[str, int]) -> Plan:
    """Bring these StatefulSets to these sizes, and to the pods of the spec."""
    if observed.cluster is None:
        return NOTHING
    hosts, kept = _known_hosts(observed), []
    for set_name, size in sizes.items():
        made = broker_set if set_name == observed.owner.name else log_replica_set
        body = made(observed.owner, observed.spec, observed.cluster, size, hosts)
        kept.append(keeping_claims(body, observed.child("StatefulSet", set_name)))
    return child_steps(observed.owner, kept, observed.children)


def _next_size(
    observed: ObservedGroup, set_name: str, wanted: int
) -> tuple[int, Wait | None, tuple[Step, ...]]:
    """Return the size that a set may have now, why it differs from the wanted one, and the steps required first."""
    live = observed.child("StatefulSet", set_name)
    now = wanted if live is None else int(live["spec"]["replicas"])
    if now <= wanted:
        return wanted, None, ()
    leaving = f"{set_name}-{now - 1}"
    if extra := [pod for pod in observed.pods if names.is_member(pod, set_name) and pod > leaving]:
        return now, Wait("ScalingIn", f"{extra[0]} has not gone yet"), ()
    if not observed.controllers_heard:
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
    copies = 1 if observed.spec.durability is Durability.ASYNC else 2
    seen = [observed.member_seen(name) for name in _all_members(observed) if name != leaving]
    in_sync = sum(member is not None and member.in_sync for member in seen)
    if in_sync >= copies:
        return None
    text = f"without {leaving} {in_sync} members are in the SyncStateSet, {observed.spec.durability} needs {copies}"
    return Wait("ScaleInRefused", text)


def _volumes(observed: ObservedGroup) -> Plan:
    asked = quantity(observed.spec.storage.size)
    steps: list[Step] = []
    for key, live in sorted(observed.children.items()):
        if key.kind != _CLAIM or asked is None:
            continue
        given = quantity(live["spec"]["resources"]["requests"]["storage"])
        if given is not None and given < asked:
            body = {
                "apiVersion": "v1",
                "kind": key.kind,
                "metadata": {"name": key.name, "namespace": observed.owner.namespace},
                "spec": {"resources": {"requests": {"storage": observed.spec.storage.size}}},
            }
            steps.append(Apply(body, "to grow"))
    return Plan(tuple(steps))


def _leftovers(observed: ObservedGroup) -> Plan:
    """Remove Services and slices of members that are neither asked for nor there."""
    kept = {*_all_members(observed), observed.owner.name}
    gone = [
        (key, live)
        for key, live in sorted(observed.children.items())
        if key.kind in {"Service", "EndpointSlice"} and key.name not in kept and _own(observed, key, live)
    ]
    return Plan(tuple(Delete(key, live["metadata"].get("uid", ""), "member is gone") for key, live in gone))


def _has(observed: ObservedGroup, kind: str, name: str) -> bool:
    """Tell whether there is such an object, and it is the group's."""
    live = observed.child(kind, name)
    identity = group_claim(observed.owner.name, observed.spec).identity
    return live is not None and is_ours(live, observed.owner, identity)


def _own(observed: ObservedGroup, key: ObjectKey, live: Live) -> bool:
    is_ours = names.is_member(key.name, observed.owner.name) or names.is_member(
        key.name, names.log_set(observed.owner.name)
    )
    return is_ours and belongs_to(live, observed.owner)
