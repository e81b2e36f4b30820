"""The brokers of a group for clients outside: a Service for each broker and listener, and its EndpointSlice.

The slice is the one of the broker's own Service under another name. So each takeover moves all addresses of a
broker at once, and a client outside fails over as one inside does.
"""

from collections.abc import Iterator

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.names import LISTENER_LABEL
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.listeners import REMOTING, service_spec, with_services
from rocketmq_operator.plan.common.objects import (
    BROKER,
    Json,
    Owner,
    belonging_labels,
    child,
    selector_labels,
)
from rocketmq_operator.plan.group.takeover import SERVICE_NAME_LABEL


def listener_services(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec | None
) -> Iterator[Json]:
    """Yield the Services of all brokers that the spec asks for, listener by listener."""
    labels = selector_labels(BROKER, owner.name) | belonging_labels(spec.cluster, owner.name)
    for listener in with_services(cluster):
        for ordinal in range(spec.replicas):
            member = names.member(owner.name, ordinal)
            node_port = listener.broker(member).node_port
            body = child(
                owner,
                "Service",
                names.listener_member(member, listener.name),
                labels=labels | {LISTENER_LABEL: listener.name},
                spec=service_spec(listener, REMOTING, node_port),
            )
            if listener.annotations:
                body["metadata"]["annotations"] = dict(listener.annotations)
            yield parts.in_families(body, cluster)


def listener_slices(body: Json, member: str, cluster: RocketMQClusterSpec | None) -> Iterator[Json]:
    """Yield what `body`, the slice of a broker's own Service, is behind the Services of its listeners."""
    metadata = body["metadata"]
    for listener in with_services(cluster):
        name = names.listener_member(member, listener.name)
        labels = metadata["labels"] | {SERVICE_NAME_LABEL: name, LISTENER_LABEL: listener.name}
        yield body | {"metadata": metadata | {"name": name, "labels": labels}}
