"""The addresses that pods of an observed cluster know, the user as which they sign, and their refusal."""

from collections.abc import Iterable, Mapping
from typing import Final

from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster import listeners, proxies
from rocketmq_operator.plan.cluster.children import (
    cluster_children,
    controller_set,
    controller_shape,
    name_server_shape,
)
from rocketmq_operator.plan.cluster.client_tls import live_stage
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.common.listeners import with_route_fronts
from rocketmq_operator.plan.common.objects import ObjectKey, cluster_ip
from rocketmq_operator.plan.common.shaping.shaped import refusal
from rocketmq_operator.plan.credentials.rotation import RotationPlan, rotation_plan
from rocketmq_operator.plan.tls.controllers import TlsMode, tls_mode

_FOLLOW_FILES: Final = frozenset({"log-replica"})
"""Components of groups whose pods read changed credentials while they run."""


def known_addresses(observed: ObservedCluster, hosts: Iterable[str]) -> dict[str, str]:
    """Return ClusterIP by DNS name of a pod; empty until one exists."""
    services = {host: observed.children.get(ObjectKey("Service", names.pod_of(host))) for host in hosts}
    return {host: "" if live is None else cluster_ip(live) for host, live in services.items()}


def _present(addresses: Mapping[str, str]) -> dict[str, str]:
    return {host: address for host, address in addresses.items() if address}


def observed_mode(observed: ObservedCluster) -> TlsMode:
    """Return the mode of TLS that the controllers should have now."""
    if observed.spec.controllers.ref is not None:
        return TlsMode.DISABLED
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    is_needed = live_stage(observed).has_certificates
    return tls_mode(observed.spec.tls, live, observed.pods.values(), is_needed=is_needed)


def rotation(observed: ObservedCluster) -> RotationPlan:
    """Return the next steps of the rotation of the super user; of a cluster with users only."""
    sets = [
        live
        for live in observed.group_sets.values()
        if (live["metadata"].get("labels") or {}).get(COMPONENT_LABEL) not in _FOLLOW_FILES
    ]
    key = ObjectKey("Deployment", names.proxies(observed.owner.name))
    if observed.spec.proxy.mode is ProxyMode.CLUSTER and key in observed.children:
        sets.append(observed.children[key])
    return rotation_plan(
        observed.owner,
        observed.spec.authentication,
        observed.rotation,
        sets,
        observed.now,
        shares=observed.spec.controllers.ref is not None or bool(observed.users),
    )


def pod_refusal(observed: ObservedCluster) -> Wait | None:
    """Return why the operator refuses to make the pods of the spec; None if it does not."""
    owner, spec = observed.owner, observed.spec

    def rendered() -> None:
        count = spec.controllers.replicas
        hosts = _present(known_addresses(observed, names.controller_hosts(owner.name, owner.namespace)))
        mode, stage = observed_mode(observed), live_stage(observed)
        controller_set(owner, spec, count, hosts, mode, stage)
        cluster_children(owner, spec, observed.secrets, count, mode, stage)
        if spec.proxy.mode is ProxyMode.CLUSTER:
            needed = _present(known_addresses(observed, proxies.hosts_needed(owner, spec)))
            proxies.proxy_deployment(owner, spec, needed, stage)
        for listener in with_route_fronts(spec):
            needed = _present(known_addresses(observed, proxies.hosts_needed(owner, spec)))
            listeners.route_front_deployment(owner, spec, listener, needed, stage)

    shapes = (
        controller_shape(spec),
        name_server_shape(spec),
        proxies.proxy_shape(spec),
        listeners.route_front_shape(spec),
    )
    return refusal(shapes, rendered)
