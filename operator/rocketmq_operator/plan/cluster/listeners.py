"""The route fronts of a RocketMQCluster: one Deployment, Service and ConfigMap for each listener.

A listener for gRPC has a Service before the proxies. A proxy in its own pod answers with the host and port
that its client used (`useEndpointPortFromRequest`), so nothing has to be rewritten.

The ConfigMap has the address of each broker for clients of the listener, by the address that the broker
announces. It is not in the digest of the pods' configuration: a route front reads it again when it changes
(`controller-core route-front`). A broker whose address is unknown is not in it.

What applications are told stands in the status, and in the ConfigMap `<cluster>-bootstrap`.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from controller_core.remoting.host_port import join_host_port
from controller_core.tls.files import TRUST_FILE
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Placement
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.api.listeners import INTERNAL, ListenerSpec, ListenerStatus, ListenerType
from rocketmq_operator.api.names import COMPONENT_LABEL, LISTENER_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.proxies import PROXY
from rocketmq_operator.plan.common import endpoints, names, parts
from rocketmq_operator.plan.common.listeners import (
    GRPC,
    REMOTING,
    ROUTES,
    outside_address,
    service_spec,
    with_route_fronts,
)
from rocketmq_operator.plan.common.objects import (
    BROKER,
    MANAGED_BY,
    Json,
    ObjectKey,
    Owner,
    belonging_labels,
    child,
    cluster_ip,
    selector_labels,
)
from rocketmq_operator.plan.common.parts import digest, pod_template
from rocketmq_operator.plan.common.shaping.shaped import PodShape, shaped
from rocketmq_operator.plan.pods.logs import level_file
from rocketmq_operator.plan.tls.clients import (
    ClientsStage,
    annotated,
    sidecar_tls_keys,
    with_certificate,
    without_dialling,
)

ROUTE_FRONT: Final = "route-front"
"""Component of the route fronts' objects."""
ADDRESSES_FILE: Final = "addresses.json"
_PORTS: Final = {"remoting": names.ROUTE_FRONT_PORT, "http": names.ROUTE_FRONT_HTTP_PORT}


def inside_addresses(observed: ObservedCluster) -> dict[str, str]:
    """Return the address that each broker of the cluster announces, by the broker's name."""
    found = {}
    for key, live in observed.group_services.items():
        labels = live["metadata"].get("labels") or {}
        address = cluster_ip(live)
        if (
            labels.get(COMPONENT_LABEL) == BROKER
            and LISTENER_LABEL not in labels
            and address not in {"", "None"}
        ):
            found[key.name] = join_host_port(address, REMOTING.number)
    return found


def outside_addresses(observed: ObservedCluster, listener: ListenerSpec) -> dict[str, str]:
    """Return where clients of a listener reach each broker, by the broker's name; without unknown ones."""
    found = {}
    for member in inside_addresses(observed):
        service = observed.group_services.get(
            ObjectKey("Service", names.listener_member(member, listener.name))
        )
        address = outside_address(listener, listener.broker(member), service, REMOTING)
        if address is not None:
            found[member] = address
    return found


def route_front_children(observed: ObservedCluster) -> Iterator[Json]:
    """Yield what the route fronts need, but for their Deployments."""
    owner = observed.owner
    inside = inside_addresses(observed)
    for listener in with_route_fronts(observed.spec):
        name, labels = names.route_front(owner.name, listener.name), _labels(owner, listener)
        outside = outside_addresses(observed, listener)
        addresses = {inside[member]: outside[member] for member in sorted(outside)}
        service = child(
            owner,
            "Service",
            name,
            labels=labels,
            spec=service_spec(listener, ROUTES, listener.route_front.node_port)
            | {"selector": _selector(owner, listener)},
        )
        if listener.annotations:
            service["metadata"]["annotations"] = dict(listener.annotations)
        yield service
        yield parts.disruption_budget(owner, name, labels, _selector(owner, listener))
        text = json.dumps(addresses, indent=1, sort_keys=True)
        files = {ADDRESSES_FILE: text} | level_file(observed.spec.log_level)
        yield child(owner, "ConfigMap", name, labels=labels, data=files)


def grpc_services(owner: Owner, spec: RocketMQClusterSpec) -> Iterator[Json]:
    """Yield the Services at which clients of listeners reach the proxies."""
    selector = selector_labels(PROXY, owner.name)
    for listener in spec.listeners:
        if not listener.serves_grpc:
            continue
        body = child(
            owner,
            "Service",
            names.listener_proxies(owner.name, listener.name),
            labels=selector | belonging_labels(owner.name) | {LISTENER_LABEL: listener.name},
            spec=service_spec(listener, GRPC, listener.proxy.node_port) | {"selector": selector},
        )
        if listener.annotations:
            body["metadata"]["annotations"] = dict(listener.annotations)
        yield body


def route_front_deployment(
    owner: Owner,
    spec: RocketMQClusterSpec,
    listener: ListenerSpec,
    hosts: Mapping[str, str],
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return the Deployment of a listener's route front.

    Args:
        owner: the RocketMQCluster.
        spec: its spec.
        listener: one of its listeners.
        hosts: ClusterIP by the DNS name of each name server.
        stage: how far TLS with clients is.
    """
    name, labels = names.route_front(owner.name, listener.name), _labels(owner, listener)
    selector = _selector(owner, listener)
    http = names.ROUTE_FRONT_HTTP_PORT
    command = [
        "controller-core",
        "route-front",
        "--name-servers",
        endpoints.name_server_addresses(owner.name, owner.namespace, spec),
        "--addresses",
        f"{names.CONFIG_PATH}/{ADDRESSES_FILE}",
        *(f"--{key}={value}" for key, value in sidecar_tls_keys(stage).items()),
    ]
    container = parts.container(
        "route-front",
        spec.images.controller,
        command,
        _PORTS,
        resources=parts.resources(listener.route_front.resources),
        livenessProbe=parts.http_probe("/livez", http, period_s=5),
        # A route front without a name server keeps its connections.
        readinessProbe=parts.http_probe("/readyz", http),
        volumeMounts=parts.mounts(data=False),
    )
    pod: Json = {
        "automountServiceAccountToken": False,
        "securityContext": parts.pod_security(parts.OUR_USER),
        "terminationGracePeriodSeconds": 30,
        "dnsConfig": parts.QUICK_DNS,
        "hostAliases": parts.host_aliases(hosts),
        "containers": [container],
        "volumes": parts.volumes(name),
    }
    pod = with_certificate(pod, owner.name, names.ROUTE_FRONT_ENTRY, stage)
    template = pod_template(labels, digest(*command), parts.with_placement(pod, Placement(), selector))
    template = annotated(template, without_dialling(stage))
    template = shaped(template, route_front_shape(spec))
    return parts.deployment(owner, name, labels, selector, listener.route_front.replicas, template)


def route_front_shape(spec: RocketMQClusterSpec) -> PodShape:
    """Return a person's wishes for the pods of all route fronts."""
    return PodShape("spec.routeFronts.pod", spec.route_fronts.pod, spec.route_fronts.pod_override)


def listener_statuses(observed: ObservedCluster) -> tuple[ListenerStatus, ...]:
    """Return what applications need to know, inside first."""
    owner, spec = observed.owner, observed.spec
    all_brokers = len(inside_addresses(observed))
    servers = endpoints.name_server_addresses(owner.name, owner.namespace, spec)
    inside = ListenerStatus(name=INTERNAL, type="ClusterIP", address=servers)
    return (inside, *(_status(observed, listener, all_brokers) for listener in spec.listeners))


def bootstrap(observed: ObservedCluster, authorities: str = "") -> Json:
    """Return the ConfigMap that application pods mount: a directory in the form of servicebinding.io.

    Unknown addresses are left out.

    Args:
        observed: the cluster.
        authorities: those that signed what brokers and name servers show, PEM; empty without TLS for clients.
    """
    owner = observed.owner
    inside, *outside = listener_statuses(observed)
    data = {"type": "rocketmq", "provider": MANAGED_BY, "namesrvAddr": inside.address}
    if observed.spec.proxy.mode is not ProxyMode.NONE:
        proxies = names.proxies(owner.name)
        data["grpcEndpoints"] = f"{proxies}.{owner.namespace}.svc:{names.PROXY_GRPC_PORT}"
    if authorities:
        data[TRUST_FILE] = authorities
    data |= {f"listener.{one.name}.namesrvAddr": one.address for one in outside if one.address}
    data |= {f"listener.{one.name}.grpcEndpoints": one.grpc_address for one in outside if one.grpc_address}
    labels = selector_labels("bootstrap", owner.name) | belonging_labels(owner.name)
    return child(owner, "ConfigMap", names.bootstrap(owner.name), labels=labels, data=data)


def _status(observed: ObservedCluster, listener: ListenerSpec, all_brokers: int) -> ListenerStatus:
    grpc = _grpc_address(observed, listener) or ""
    if not listener.serves_remoting:
        return ListenerStatus(name=listener.name, type=listener.type.value, grpc_address=grpc)
    name = names.route_front(observed.owner.name, listener.name)
    service = observed.children.get(ObjectKey("Service", name))
    deployment = observed.children.get(ObjectKey("Deployment", name)) or {}
    ready = int(deployment.get("status", {}).get("readyReplicas", 0))
    return ListenerStatus(
        name=listener.name,
        type=listener.type.value,
        address=outside_address(listener, listener.route_front, service, ROUTES) or "",
        grpc_address=grpc,
        brokers=f"{len(outside_addresses(observed, listener))}/{all_brokers}",
        route_fronts=f"{ready}/{listener.route_front.replicas}",
    )


def _grpc_address(observed: ObservedCluster, listener: ListenerSpec) -> str | None:
    if not listener.serves_grpc:
        return None
    key = ObjectKey("Service", names.listener_proxies(observed.owner.name, listener.name))
    return outside_address(listener, listener.proxy, observed.children.get(key), GRPC)


def addresses_column(statuses: tuple[ListenerStatus, ...]) -> str:
    """Return the addresses of the listeners for clients outside, in one line."""
    outside = [one for one in statuses if one.name != INTERNAL]
    return ", ".join(f"{one.name} {_addresses_of(one)}" for one in outside)


def _addresses_of(one: ListenerStatus) -> str:
    found = [one.address, f"gRPC {one.grpc_address}" if one.grpc_address else ""]
    return " ".join(filter(None, found)) or "-"


def listeners_finding(statuses: tuple[ListenerStatus, ...], grpc: Collection[str]) -> Finding:
    """Say whether clients of all listeners get the addresses of all brokers.

    Args:
        statuses: of all listeners.
        grpc: names of those whose clients speak gRPC.
    """
    outside = [one for one in statuses if one.name != INTERNAL]
    if not outside:
        return make_finding(
            "ListenersReady", holds=False, reason="NotAsked", message="spec.listeners is empty"
        )
    for one in outside:
        if one.name in grpc and not one.grpc_address:
            text = f"listener {one.name}: the address of its proxies is not known"
            return make_finding("ListenersReady", holds=False, reason="NoListenerAddress", message=text)
        if not one.route_fronts:
            continue
        if not one.address:
            text = f"listener {one.name}: the address of its route front is not known"
            return make_finding("ListenersReady", holds=False, reason="NoListenerAddress", message=text)
        known, _, all_brokers = one.brokers.partition("/")
        if known != all_brokers:
            text = f"listener {one.name}: {known} of {all_brokers} brokers have an address"
            if one.type == ListenerType.EXTERNAL:
                text = f"{text}; spec.listeners[{one.name}].brokers must name each of them"
            return make_finding("ListenersReady", holds=False, reason="NoListenerAddress", message=text)
        if one.route_fronts.startswith("0/"):
            text = f"listener {one.name}: {one.route_fronts} route fronts are ready"
            return make_finding("ListenersReady", holds=False, reason="NoRouteFront", message=text)
    text = ", ".join(f"{one.name} at {_addresses_of(one)}" for one in outside)
    return make_finding("ListenersReady", holds=True, reason="Serving", message=text)


def _selector(owner: Owner, listener: ListenerSpec) -> dict[str, str]:
    return selector_labels(ROUTE_FRONT, names.route_front(owner.name, listener.name))


def _labels(owner: Owner, listener: ListenerSpec) -> dict[str, str]:
    return _selector(owner, listener) | belonging_labels(owner.name) | {LISTENER_LABEL: listener.name}
