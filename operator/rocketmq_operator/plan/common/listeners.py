"""The addresses of a listener: where its clients reach a broker or the route front.

| type | host | port |
|---|---|---|
| NodePort | `advertisedHost` | the port that Kubernetes opened on all nodes |
| LoadBalancer | `advertisedHost`, else what the load balancer gave the Service | the Service's |
| External | `advertisedHost` | `advertisedPort` |

An entry of the listener for this very broker, the route front or the proxies goes first. An address that is
not known yet is None: no client gets it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.listeners import (
    BrokerAddress,
    ListenerSpec,
    ListenerType,
    ProxyAddress,
    RouteFrontSpec,
)
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Json, Live


@dataclass(frozen=True, slots=True)
class ServicePort:
    """The one port of a listener's Service."""

    name: str
    number: int


REMOTING: ServicePort = ServicePort("remoting", names.BROKER_PORT)
ROUTES: ServicePort = ServicePort("remoting", names.ROUTE_FRONT_PORT)
GRPC: ServicePort = ServicePort("grpc", names.PROXY_GRPC_PORT)


def with_route_fronts(cluster: RocketMQClusterSpec) -> tuple[ListenerSpec, ...]:
    """Return the listeners whose clients speak remoting."""
    return tuple(listener for listener in cluster.listeners if listener.serves_remoting)


def with_services(cluster: RocketMQClusterSpec | None) -> Iterator[ListenerSpec]:
    """Yield the listeners that have a Service for each broker: with External a person provides them."""
    for listener in () if cluster is None else with_route_fronts(cluster):
        if listener.type is not ListenerType.EXTERNAL:
            yield listener


def service_spec(listener: ListenerSpec, port: ServicePort, node_port: int | None) -> Json:
    """Return the spec of a Service of a listener, without a selector.

    Why externalTrafficPolicy Cluster: after a takeover another node may have the broker that serves, and all
    nodes must lead there. Brokers therefore see the address of a node in place of the client's.
    """
    if listener.type is ListenerType.EXTERNAL:
        return {"type": "ClusterIP", "ports": [_port(port, None)]}
    spec: Json = {
        "type": listener.type.value,
        "externalTrafficPolicy": "Cluster",
        "ports": [_port(port, node_port)],
    }
    if listener.source_ranges:
        spec["loadBalancerSourceRanges"] = list(listener.source_ranges)
    if listener.load_balancer_class is not None:
        spec["loadBalancerClass"] = listener.load_balancer_class
    return spec


def _port(port: ServicePort, node_port: int | None) -> Json:
    body: Json = {"name": port.name, "port": port.number, "targetPort": port.number, "protocol": "TCP"}
    return body if node_port is None else body | {"nodePort": node_port}


def outside_address(
    listener: ListenerSpec,
    own: BrokerAddress | RouteFrontSpec | ProxyAddress,
    service: Live | None,
    port: ServicePort,
) -> str | None:
    """Return `host:port` for clients of a listener, None while it is unknown.

    Args:
        listener: the listener.
        own: its entry for this broker, for its route front or for the proxies.
        service: the live Service; None if it does not exist or is not needed.
        port: of the Service.
    """
    host = own.advertised_host or listener.advertised_host
    number = own.advertised_port
    match listener.type:
        case ListenerType.NODE_PORT:
            number = number or _node_port(service, port.name)
        case ListenerType.LOAD_BALANCER:
            host = host or _given_host(service)
            number = number or port.number
        case ListenerType.EXTERNAL:
            pass
    if not host or not number or (service is None and listener.type is not ListenerType.EXTERNAL):
        return None
    return join_host_port(host, number)


def _node_port(service: Live | None, name: str) -> int | None:
    ports = [] if service is None else service["spec"].get("ports") or []
    return next((one.get("nodePort") for one in ports if one.get("name") == name), None)


def _given_host(service: Live | None) -> str:
    """Return what the load balancer gave a Service, a name before an address; empty until it has."""
    status = {} if service is None else service.get("status") or {}
    given = (status.get("loadBalancer") or {}).get("ingress") or []
    return next((str(one.get("hostname") or one.get("ip") or "") for one in given), "")
