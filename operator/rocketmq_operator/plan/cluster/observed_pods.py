"""The addresses that pods of an observed cluster know, and the refusal of its pods."""

from collections.abc import Iterable, Mapping

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
from rocketmq_operator.plan.tls.controllers import TlsMode, tls_mode


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
