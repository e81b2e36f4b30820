"""The names of all objects that the operator creates for a resource, by kind.

They serve lookups, and find conflicts between two resources.

Two resources of one namespace can claim a name: the log replicas of group `orders` and the brokers of group
`orders-log` are both the StatefulSet `orders-log`; group `main-controller` and the controllers of cluster
`main` share several. Kinds are apart: a CronJob takes no name from a Service. The resource that owns the
object keeps it; without an owner, the older resource gets it.
"""

from collections.abc import Iterable, Mapping

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.tls import ClientsTls
from rocketmq_operator.api.members.learners import LearnerKind
from rocketmq_operator.api.names import CERTIFICATE_KIND, CLUSTER_LABEL, GROUP_LABEL, REPORT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.listeners import with_route_fronts
from rocketmq_operator.plan.common.objects import INSTANCE_LABEL, ObjectKey
from rocketmq_operator.plan.common.ownership import ClaimedNames

Spec = RocketMQClusterSpec | BrokerGroupSpec


def names_of_group(name: str, spec: BrokerGroupSpec, listeners: Iterable[str] = ()) -> ClaimedNames:
    """Return what a BrokerGroup claims for as many members as it asks for.

    Args:
        name: of the group.
        spec: its spec.
        listeners: of its cluster, those with a Service for each broker.
    """
    brokers = [names.member(name, ordinal) for ordinal in range(spec.replicas)]
    sets = [_learner_set(name, spec.learners.kind)] if spec.learners.count else []
    logs = [names.log_member(name, ordinal) for ordinal in range(spec.log_replicas)]
    learners = [f"{learner_set}-{ordinal}" for learner_set in sets for ordinal in range(spec.learners.count)]
    outside = [names.listener_member(broker, listener) for listener in listeners for broker in brokers]
    keys = {
        *_keys(("Service", "EndpointSlice"), outside),
        *_keys(("Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet"), [name]),
        *_keys(("Service", "Pod"), brokers + logs + learners),
        *_keys(("EndpointSlice",), brokers),
        *_keys(("PersistentVolumeClaim",), map(names.claim, brokers + logs + learners)),
        *_keys(("StatefulSet",), sets),
        *(_keys(("StatefulSet",), [names.log_set(name)]) if logs else ()),
    }
    return ClaimedNames(frozenset(keys), {CLUSTER_LABEL: spec.cluster, GROUP_LABEL: name})


def _learner_set(group: str, kind: LearnerKind) -> str:
    return names.learner_set(group) if kind is LearnerKind.BROKER else names.log_learner_set(group)


def names_of_cluster(name: str, spec: RocketMQClusterSpec) -> ClaimedNames:
    """Return what a RocketMQCluster claims."""
    controllers, name_servers, proxies = (
        names.controllers(name),
        names.name_servers(name),
        names.proxies(name),
    )
    around = ("Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet")
    own_controllers, own_name_servers = spec.controllers.ref is None, not spec.name_servers.external
    possible = [names.controller(name, ordinal) for ordinal in range(names.CONTROLLERS_MAX)]
    running = possible[: spec.controllers.replicas] if own_controllers else []
    replicas = spec.name_servers.replicas if own_name_servers else 0
    servers = [names.member(name_servers, ordinal) for ordinal in range(replicas)]
    sets = [*([controllers] if own_controllers else []), *([name_servers] if own_name_servers else [])]
    has_tls = spec.tls.clients is not ClientsTls.DISABLED
    issued = names.issued_certificates(name) if spec.tls.issuer_ref is not None else ()
    of_controllers = {
        ObjectKey("Secret", names.token_secret(name)),
        ObjectKey("Secret", names.authority_secret(name)),
        ObjectKey("Secret", names.controller_certificates(name)),
        *_keys(("Secret",), [names.member_certificates(name)] if has_tls else []),
        *_keys((CERTIFICATE_KIND,), issued),
        ObjectKey("ConfigMap", names.trust(name)),
        *_keys(("Service",), possible),
    }
    of_proxies: Mapping[ProxyMode, tuple[str, ...]] = {
        ProxyMode.LOCAL: ("Service",),
        ProxyMode.CLUSTER: ("Service", "PodDisruptionBudget", "ConfigMap", "Deployment"),
    }
    keys = {
        *(of_controllers if own_controllers else ()),
        *(_keys(("Secret",), [names.credentials_secret(name)]) if spec.has_users else ()),
        ObjectKey("ConfigMap", names.bootstrap(name)),
        *_keys(around, sets),
        *_keys(("Service",), servers),
        *_keys(("Pod",), running + servers),
        *_keys(("PersistentVolumeClaim",), map(names.claim, running)),
        *_keys(of_proxies.get(spec.proxy.mode, ()), [proxies]),
        *_keys(
            ("Service", "PodDisruptionBudget", "ConfigMap", "Deployment"),
            [names.route_front(name, listener.name) for listener in with_route_fronts(spec)],
        ),
        *_keys(
            ("Service",),
            [
                names.listener_proxies(name, listener.name)
                for listener in spec.listeners
                if listener.serves_grpc
            ],
        ),
    }
    return ClaimedNames(frozenset(keys), {CLUSTER_LABEL: name, GROUP_LABEL: None})


def names_of_report(name: str) -> ClaimedNames:
    """Return what an SLOReport claims."""
    keys = {ObjectKey("CronJob", name), ObjectKey("ConfigMap", names.report_objectives(name))}
    return ClaimedNames(frozenset(keys), {INSTANCE_LABEL: name, REPORT_LABEL: name})


def _keys(kinds: Iterable[str], found: Iterable[str]) -> set[ObjectKey]:
    every = list(found)
    return {ObjectKey(kind, name) for kind in kinds for name in every}
