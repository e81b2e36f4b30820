"""The plan of a RocketMQCluster: make its children what the spec says, and remove Services of pods that it no longer asks for."""

from collections.abc import Mapping, Sequence
from typing import Final

from rocketmq_operator.plan import names
from rocketmq_operator.plan.actions import Delete, Plan, Wait, child_steps, first_of
from rocketmq_operator.plan.cluster_children import cluster_children, controller_set
from rocketmq_operator.plan.objects import Json, Live, ObjectKey, belongs_to, key_of
from rocketmq_operator.plan.observed import ObservedCluster, cluster_ip

_CLAIM_KEYS: Final = ("accessModes", "resources", "storageClassName")
PAUSED = Wait("Paused", "spec.paused is true: nothing is changed")


def cluster_plan(observed: ObservedCluster) -> Plan:
    """Return what is to be done for a cluster."""
    if observed.spec.paused:
        return Plan((), PAUSED)
    wanted = cluster_children(observed.owner, observed.spec, observed.token)
    plan = child_steps(observed.owner, wanted, observed.children)
    return first_of((plan, _controller_set(observed), _leftovers(observed, wanted)))


def _controller_set(observed: ObservedCluster) -> Plan:
    """Make the controllers' StatefulSet once all addresses are known: pods made without them would be replaced at once."""
    owner, count = observed.owner, observed.spec.controllers.replicas
    hosts = {
        host: _address(observed, names.pod_of(host))
        for host in names.controller_hosts(owner.name, owner.namespace, count)
    }
    if (wait := unknown_address(hosts)) is not None:
        return Plan((), wait)
    body = controller_set(owner, observed.spec, hosts)
    return child_steps(owner, [keeping_claims(body, observed.children.get(key_of(body)))], observed.children)


def unknown_address(hosts: Mapping[str, str]) -> Wait | None:
    """Say which Service is waited for, None if the address of every host is known.

    Args:
        hosts: address by DNS name of a pod; empty where it is not known.
    """
    unknown = [names.pod_of(host) for host, address in hosts.items() if not address]
    return no_address(unknown[0]) if unknown else None


def no_address(service: str) -> Wait:
    """Say that a Service is waited for."""
    return Wait("NoAddress", f"Service {service} has no ClusterIP yet")


def _address(observed: ObservedCluster, service: str) -> str:
    live = observed.children.get(ObjectKey("Service", service))
    return "" if live is None else cluster_ip(live)


def _leftovers(observed: ObservedCluster, wanted: Sequence[Json]) -> Plan:
    kept = set(map(key_of, wanted))
    gone = tuple(
        Delete(key, live["metadata"].get("uid", ""), "member is gone")
        for key, live in sorted(observed.children.items())
        if key.kind == "Service" and key not in kept and belongs_to(live, observed.owner)
    )
    return Plan(gone)


def keeping_claims(body: Json, live: Live | None) -> Json:
    """Return a StatefulSet with the claims that it was made with, which Kubernetes does not let change.

    Volumes grow by their own claims; only claims of later members follow the first template.
    """
    if live is None or "volumeClaimTemplates" not in body.get("spec", {}):
        return body
    templates = [
        {
            "metadata": _picked(claim["metadata"], "name", "labels"),
            "spec": _picked(claim["spec"], *_CLAIM_KEYS),
        }
        for claim in live["spec"]["volumeClaimTemplates"]
    ]
    return body | {"spec": body["spec"] | {"volumeClaimTemplates": templates}}


def _picked(value: Live, *keys: str) -> Json:
    """Return these keys only, without what the API server added."""
    return {key: value[key] for key in keys if key in value}
