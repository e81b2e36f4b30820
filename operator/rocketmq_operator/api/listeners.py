"""Listeners of a RocketMQCluster: how clients outside the network of its pods reach its brokers.

Clients inside need no listener: they use name servers and brokers directly. Each listener for remoting has a
route front, which its clients use as their name server, and an address of its own for each broker. One for
gRPC leads to the proxies.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE, Rule, SpecModel, StatusModel, kept_by
from rocketmq_operator.api.common import LABEL_KEY_PATTERN, Resources
from rocketmq_operator.api.names import GROUP
from rocketmq_operator.api.pods.settings import PodOverride, PodSettings

LISTENERS_MAX: Final = 4
BROKERS_MAX: Final = 64
INTERNAL: Final = "internal"
"""In the status, the name of what clients inside use; no listener may have it."""
ListenerName = Annotated[str, Field(max_length=16, pattern=r"^[a-z][a-z0-9]*$")]
Host = Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9:]([-A-Za-z0-9.:]*[A-Za-z0-9:])?$")]
Port = Annotated[int, Field(ge=1, le=65_535)]


class ListenerType(StrEnum):
    """Who makes the addresses of a listener."""

    NODE_PORT = "NodePort"
    """Kubernetes opens a port on all nodes for each broker and the route front."""
    LOAD_BALANCER = "LoadBalancer"
    """The platform's load balancer gives an address to each broker and the route front."""
    EXTERNAL = "External"
    """A person provides all addresses, and leads them to the brokers' Services."""


class ListenerProtocol(StrEnum):
    """What clients of a listener speak."""

    REMOTING = "Remoting"
    """The protocol of brokers and name servers."""
    GRPC = "GRPC"
    """The protocol of proxies, which RocketMQ 5's clients speak."""


class ProxyAddress(SpecModel):
    """Where clients of a listener reach the proxies."""

    advertised_host: Host | None = None
    """Host that clients connect to; the listener's when absent."""
    advertised_port: Port | None = None
    """Port that clients connect to; the one of the Service when absent."""
    node_port: Port | None = None
    """With type NodePort: the port on each node; Kubernetes chooses one when absent."""


class BrokerAddress(SpecModel):
    """One broker's address for clients of a listener."""

    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    """The broker's pod, for instance orders-0."""
    advertised_host: Host | None = None
    """Host that clients connect to; the listener's when absent."""
    advertised_port: Port | None = None
    """Port that clients connect to; the one of the broker's Service when absent."""
    node_port: Port | None = None
    """With type NodePort: the port on each node; Kubernetes chooses one when absent."""


class RouteFrontSpec(SpecModel):
    """The route front of a listener: what its clients use as their name server."""

    replicas: Annotated[int, Field(ge=1, le=8)] = 2
    """How many pods. One more than may fail."""
    resources: Resources = Resources(cpu="50m", memory="128Mi")
    """Of each pod."""
    advertised_host: Host | None = None
    """Host that clients connect to; the listener's when absent."""
    advertised_port: Port | None = None
    """Port that clients connect to; the one of the Service when absent."""
    node_port: Port | None = None
    """With type NodePort: the port on each node; Kubernetes chooses one when absent."""


def _has_node_ports(listener: "ListenerSpec") -> bool:
    given = [listener.route_front.node_port, listener.proxy.node_port]
    given += [broker.node_port for broker in listener.brokers]
    return any(number is not None for number in given)


def _has_ports(listener: "ListenerSpec") -> bool:
    """Say whether an external listener has the ports that its protocols need."""
    needed = [listener.proxy.advertised_port] if listener.serves_grpc else []
    if listener.serves_remoting:
        needed += [listener.route_front.advertised_port]
        needed += [broker.advertised_port for broker in listener.brokers]
    return all(number is not None for number in needed)


_REMOTING_IN_CEL = "(!has(self.protocols) || 'Remoting' in self.protocols)"
_GRPC_IN_CEL = "has(self.protocols) && 'GRPC' in self.protocols"


class ListenerSpec(SpecModel):
    """One way for clients outside to reach all brokers of a cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="ReservedName",
            expression=f"self.name != '{INTERNAL}'",
            message="'listeners.name is %s: clients inside have that name, choose another one'"
            ".format([self.name])",
            holds=lambda listener: listener.name != INTERNAL,
            problem=lambda _: f"listeners.name is {INTERNAL}: clients inside have that name",
        ),
        Rule(
            name="HostMissing",
            expression="self.type == 'LoadBalancer' || has(self.advertisedHost)",
            message="'listeners[%s].advertisedHost is absent: type %s needs the host that clients connect to'"
            ".format([self.name, self.type])",
            holds=lambda listener: (
                listener.type is ListenerType.LOAD_BALANCER or listener.advertised_host is not None
            ),
            problem=lambda listener: (
                f"listeners[{listener.name}].advertisedHost is absent: type {listener.type} needs the host "
                "that clients connect to"
            ),
        ),
        Rule(
            name="PortMissing",
            expression="self.type != 'External' || ("
            f"(!{_REMOTING_IN_CEL} || (has(self.routeFront) && has(self.routeFront.advertisedPort) && "
            "(!has(self.brokers) || self.brokers.all(broker, has(broker.advertisedPort))))) && "
            f"(!({_GRPC_IN_CEL}) || (has(self.proxy) && has(self.proxy.advertisedPort))))",
            message="'listeners[%s]: type External needs advertisedPort in routeFront and in each of brokers "
            "for Remoting, in proxy for GRPC'.format([self.name])",
            holds=lambda listener: listener.type is not ListenerType.EXTERNAL or _has_ports(listener),
            problem=lambda listener: (
                f"listeners[{listener.name}]: type External needs advertisedPort in routeFront and in each "
                "of brokers for Remoting, in proxy for GRPC"
            ),
        ),
        Rule(
            name="NodePortUnused",
            expression="self.type == 'NodePort' || ((!has(self.routeFront) || "
            "!has(self.routeFront.nodePort)) && (!has(self.proxy) || !has(self.proxy.nodePort)) && "
            "(!has(self.brokers) || "
            "self.brokers.all(broker, !has(broker.nodePort))))",
            message="'listeners[%s]: nodePort is for type NodePort, not for %s: remove it'"
            ".format([self.name, self.type])",
            holds=lambda listener: listener.type is ListenerType.NODE_PORT or not _has_node_ports(listener),
            problem=lambda listener: (
                f"listeners[{listener.name}]: nodePort is for type NodePort, not for {listener.type}: "
                "remove it"
            ),
        ),
        Rule(
            name="LoadBalancerUnused",
            expression="self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && "
            "(!has(self.sourceRanges) || size(self.sourceRanges) == 0))",
            message="'listeners[%s]: sourceRanges and loadBalancerClass are for type LoadBalancer, not for "
            "%s: remove them'.format([self.name, self.type])",
            holds=lambda listener: (
                listener.type is ListenerType.LOAD_BALANCER
                or (listener.load_balancer_class is None and not listener.source_ranges)
            ),
            problem=lambda listener: (
                f"listeners[{listener.name}]: sourceRanges and loadBalancerClass are for type LoadBalancer, "
                f"not for {listener.type}: remove them"
            ),
        ),
        Rule(
            name="OwnedAnnotation",
            expression=f"!has(self.annotations) || self.annotations.all(key, !key.startsWith('{GROUP}/'))",
            message=f"'listeners[%s].annotations: the operator writes those of {GROUP}, remove them'"
            ".format([self.name])",
            holds=lambda listener: not any(key.startswith(f"{GROUP}/") for key in listener.annotations),
            problem=lambda listener: (
                f"listeners[{listener.name}].annotations: the operator writes those of {GROUP}, remove them"
            ),
        ),
        Rule(
            name="Unchangeable",
            expression="self.type != oldSelf.type || "
            "(has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && "
            "(!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",
            message="'listeners[%s].loadBalancerClass cannot change: Kubernetes keeps the first one of a "
            "Service; add another listener'.format([self.name])",
            reason="FieldValueForbidden",
        ),
    )

    name: ListenerName
    """Lower-case letters and digits, beginning with a letter; Services carry it."""
    type: ListenerType
    """NodePort, LoadBalancer or External."""
    advertised_host: Host | None = None
    """Host that clients connect to: with NodePort a name or address that leads to the nodes. With
    LoadBalancer the addresses of the load balancer when absent."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=1_024)]], Field(max_length=16)] = Field(
        default={}
    )
    """Annotations of the listener's Services, for instance for the platform's load balancer."""
    source_ranges: Annotated[
        tuple[Annotated[str, Field(max_length=64, pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")], ...],
        Field(max_length=32, json_schema_extra=KEPT_WHOLE),
    ] = ()
    """With LoadBalancer: networks that may connect, for instance 192.0.2.0/24; all when empty."""
    load_balancer_class: (
        Annotated[str, Field(min_length=1, max_length=253, pattern=LABEL_KEY_PATTERN)] | None
    ) = None
    """With LoadBalancer: the class of the load balancer; the platform's default when absent."""
    protocols: Annotated[
        tuple[ListenerProtocol, ...], Field(min_length=1, max_length=2, json_schema_extra=KEPT_WHOLE)
    ] = (ListenerProtocol.REMOTING,)
    """What its clients speak: Remoting, GRPC or both. GRPC needs `proxy.mode` Cluster of the cluster."""
    proxy: ProxyAddress = ProxyAddress()
    """With GRPC: where clients reach the proxies."""
    route_front: RouteFrontSpec = RouteFrontSpec()
    """What clients use as their name server."""
    brokers: Annotated[
        tuple[BrokerAddress, ...], Field(max_length=BROKERS_MAX, json_schema_extra=kept_by("name"))
    ] = ()
    """Addresses of single brokers. With External, clients reach only the brokers of this list."""

    @property
    def serves_remoting(self) -> bool:
        """Whether clients reach brokers by remoting."""
        return ListenerProtocol.REMOTING in self.protocols

    @property
    def serves_grpc(self) -> bool:
        """Whether clients reach proxies by gRPC."""
        return ListenerProtocol.GRPC in self.protocols

    def broker(self, name: str) -> BrokerAddress:
        """Return what the listener says of a broker; nothing but its name without an entry."""
        return next((one for one in self.brokers if one.name == name), BrokerAddress(name=name))


class RouteFronts(SpecModel):
    """The pods of the route fronts of all listeners."""

    pod: PodSettings | None = None
    """Of these pods."""
    pod_override: PodOverride | None = None
    """Laid over these pods."""


Listeners = Annotated[
    tuple[ListenerSpec, ...], Field(max_length=LISTENERS_MAX, json_schema_extra=kept_by("name"))
]


class ListenerStatus(StatusModel):
    """What applications need to know of a listener."""

    name: Annotated[str, Field(max_length=16)]
    """Of the listener; internal for clients inside."""
    type: Annotated[str, Field(max_length=16)] = ""
    """ClusterIP for clients inside, else the listener's type."""
    address: Annotated[str, Field(max_length=2_048)] = ""
    """What applications use as their name server address; empty while it is unknown, and without Remoting."""
    grpc_address: Annotated[str, Field(max_length=320)] = ""
    """What applications use as the endpoint of gRPC clients; empty while it is unknown, and without GRPC."""
    brokers: Annotated[str, Field(max_length=16)] = ""
    """Brokers with a known address, and all brokers, for instance 3/3; empty for clients inside, and without
    Remoting."""
    route_fronts: Annotated[str, Field(max_length=16)] = ""
    """Ready and requested route fronts; empty for clients inside, and without Remoting."""


ListenerStatuses = Annotated[
    tuple[ListenerStatus, ...], Field(max_length=LISTENERS_MAX + 1, json_schema_extra=kept_by("name"))
]
