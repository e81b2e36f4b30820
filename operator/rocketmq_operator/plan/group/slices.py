"""The steps that write the EndpointSlices of a group: which member serves clients at each address.

`takeover` has the rules. A slice behind a listener's Service shows the same member as the broker's own.
"""

from collections.abc import Iterator
from typing import Final

from rocketmq_operator.api.broker_group import Durability
from rocketmq_operator.api.clusters.ip_families import IpFamily
from rocketmq_operator.api.names import LISTENER_LABEL
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import (
    NO_STEPS,
    Apply,
    Delete,
    ResourcePlan,
    field_rewritten,
    first_until_wait,
    with_digest,
)
from rocketmq_operator.plan.common.claimed_names import names_of_group
from rocketmq_operator.plan.common.listeners import with_services
from rocketmq_operator.plan.common.objects import Json, Live, ObjectKey, belongs_to, families_of, key_of
from rocketmq_operator.plan.common.ownership import is_ours
from rocketmq_operator.plan.common.rewritten_fields import describe_rewritten_field
from rocketmq_operator.plan.group import takeover
from rocketmq_operator.plan.group.children import broker_ports, member_names
from rocketmq_operator.plan.group.learners.learner_children import is_learner, learner_names
from rocketmq_operator.plan.group.listeners import listener_slices
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.pod_sets.containers import REMOTING
from rocketmq_operator.plan.group.rolling import successors
from rocketmq_operator.plan.group.takeover import MemberEndpoint

FAMILIES: Final = tuple(family.value for family in IpFamily)


def member_endpoints(observed: ObservedGroup) -> dict[str, MemberEndpoint]:
    """Return all members as far as their addresses matter."""
    found = {}
    for name in all_members(observed):
        pod, reported = observed.pods.get(name), observed.reported_member(name)
        found[name] = MemberEndpoint(
            name=name,
            ip=pod.ip if pod else "",
            ready=pod is not None and pod.ready,
            deleting=pod is not None and pod.deleting,
            alive=reported.alive if reported else None,
            more_ips=pod.more_ips if pod else (),
        )
    return found


def all_members(observed: ObservedGroup) -> tuple[str, ...]:
    """Return the members that the spec asks for, and those that are still there."""
    wanted = member_names(observed.owner.name, observed.spec)
    return (*wanted, *sorted(name for name in observed.pods if name not in wanted))


def endpoint_slice_moves(observed: ObservedGroup) -> Iterator[Apply]:
    """Yield what changes the group's EndpointSlices.

    It creates none: for that the name must be looked up first.
    """
    for step in endpoint_slices(observed).steps:
        if isinstance(step, Apply) and key_of(step.body) in observed.children:
            yield step


def endpoint_slices(observed: ObservedGroup) -> ResourcePlan:
    """Return the EndpointSlices that send clients to the members that serve them.

    While no controller answers the master is unknown: each address keeps its current server.
    """
    brokers = takeover.brokers_only(member_endpoints(observed), observed.owner.name)
    by_name = {endpoint.name: endpoint for endpoint in brokers}
    replaced = {
        observed.member_at(address)
        for address in takeover.recently_replaced(observed.failovers, observed.now)
    }
    servers = takeover.served_by(brokers, observed.master, replaced)
    unknown = observed.group is None and not observed.controllers_answered
    epoch_now = observed.group.master_epoch if observed.group is not None else 0
    ports = broker_ports(observed.cluster)
    plans: list[ResourcePlan] = []
    for member, server in servers.items():
        live, epoch = observed.child("EndpointSlice", member), epoch_now
        if unknown and live is not None and takeover.server_of(live) in by_name:
            server, epoch = takeover.server_of(live), takeover.deciding_epoch(live)
        endpoint = by_name[server]
        companion_port = (
            _hold_port(observed, endpoint) if server == member else guest_port(observed, endpoint.name)
        )
        led_to = ports if companion_port is None else ports | {REMOTING: companion_port}
        for family in FAMILIES:
            body = takeover.endpoint_slice(
                observed.owner, observed.spec.cluster, member, endpoint, epoch, ports=led_to, family=family
            )
            plans += [
                _slice_step(observed, with_digest(one), server)
                for service in (body, *listener_slices(body, member, observed.cluster))
                if (one := _named_slice(observed, service, family)) is not None
            ]
    return first_until_wait(plans)


def _named_slice(observed: ObservedGroup, body: Json, family: str) -> Json | None:
    """Return a slice under its own name; None if the Service of that name has no addresses of the family.

    The slice of a Service's first family has the Service's name. The other one adds its family after a dot,
    which no Service has in its name.
    """
    service = observed.child("Service", key_of(body).name)
    families = () if service is None else families_of(service)
    if family not in families:
        return None
    name = second_slice(key_of(body).name, family) if family in families[1:] else key_of(body).name
    return body | {"metadata": body["metadata"] | {"name": name}}


def second_slice(service: str, family: str) -> str:
    """Return the name of the slice with the addresses of a Service's second family."""
    return f"{service}.{family.lower()}"


def _service_of(slice_name: str) -> str:
    return slice_name.partition(".")[0]


def _slice_step(observed: ObservedGroup, body: Json, server: str) -> ResourcePlan:
    """Return the step that writes a slice behind a Service of ours, unless it is as wanted."""
    name = key_of(body).name
    live = observed.child("EndpointSlice", name)
    if not _has_own(observed, "Service", _service_of(name)):
        return NO_STEPS
    if live is not None and not _has_own(observed, "EndpointSlice", name):
        return NO_STEPS
    if live is not None and belongs_to(live, observed.owner) and takeover.is_as_wanted(live, body):
        return NO_STEPS
    if live is not None and (problem := describe_rewritten_field(live, body)):
        return ResourcePlan((), None, (field_rewritten(problem),))
    return ResourcePlan((Apply(body, f"served by {server}"),))


def _hold_port(observed: ObservedGroup, endpoint: MemberEndpoint) -> int | None:
    """Return the companion's hold port while the master is being deleted and will be killed.

    Return None if clients should still reach the broker.

    The port holds clients of the master while its pod is being deleted and its preStop will kill it at once,
    because others have all acknowledged messages. A master that must hand over first continues for seconds.
    """
    is_leaving = endpoint.deleting and endpoint.name == observed.master
    if is_leaving and observed.spec.durability is Durability.ALL_IN_SYNC and successors(observed):
        return observed.pods[endpoint.name].hold_port
    return None


def guest_port(observed: ObservedGroup, master: str) -> int | None:
    """Return where clients of another member come in at a master's pod.

    Return None without a pod of this name, or if its companion is of a version without this port.

    The broker's own port would not do: a consumer that is connected to one broker by two addresses loses half
    of its queues (`ha_sidecar.companion.guests.request_filter`).
    """
    pod = observed.pods.get(master)
    return None if pod is None else pod.guest_port


def _has_own(observed: ObservedGroup, kind: str, name: str) -> bool:
    """Tell whether there is such an object, and it is the group's."""
    live = observed.child(kind, name)
    identity = names_of_group(observed.owner.name, observed.spec).identity
    return live is not None and is_ours(live, observed.owner, identity)


def leftovers(observed: ObservedGroup) -> ResourcePlan:
    """Remove Services and slices of members, and of listeners, that are neither asked for nor there."""
    members = (*all_members(observed), *learner_names(observed.owner.name, observed.spec))
    outside = {
        names.listener_member(member, listener.name)
        for listener in with_services(observed.cluster)
        for member in members
    }
    kept = {*members, observed.owner.name, *outside}
    gone = [
        (key, live)
        for key, live in sorted(observed.children.items())
        if key.kind in {"Service", "EndpointSlice"}
        and not _is_kept(observed, key, kept)
        and _is_member_object(observed, key, live)
    ]
    return ResourcePlan(
        tuple(Delete(key, live["metadata"].get("uid", ""), "member is gone") for key, live in gone)
    )


def _is_kept(observed: ObservedGroup, key: ObjectKey, kept: set[str]) -> bool:
    """Tell whether an object is wanted; a slice of a second family while its Service has that family."""
    service, _, family = key.name.partition(".")
    if not family:
        return key.name in kept
    live = observed.child("Service", service)
    if live is None or service not in kept:
        return False
    return key.name in {second_slice(service, one) for one in families_of(live)[1:]}


def _is_member_object(observed: ObservedGroup, key: ObjectKey, live: Live) -> bool:
    group, name = observed.owner.name, _service_of(key.name)
    is_ours = (
        names.is_member(name, group) or names.is_member(name, names.log_set(group)) or is_learner(name, group)
    )
    is_listeners = LISTENER_LABEL in (live["metadata"].get("labels") or {})
    return (is_ours or is_listeners) and belongs_to(live, observed.owner)
