"""What the operator plans for a spec: the pods of all components, and the settings of brokers."""

from typing import Any, Final

from controller_core.access.signing import Credentials
from controller_core.server.settings.properties import parse
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.names import API_VERSION
from rocketmq_operator.plan.cluster import children as cluster_children
from rocketmq_operator.plan.cluster import proxies
from rocketmq_operator.plan.cluster.listeners import route_front_deployment
from rocketmq_operator.plan.cluster.observed import ClusterSecrets
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.credentials.inner_users import InnerUsers
from rocketmq_operator.plan.group import children as group_children
from testkit.worlds.crd_cases import GROUP_SPEC, merged

Json = dict[str, Any]
NAMESPACE: Final = "demo"
IMAGES: Final = {"images": {"rocketmq": "rocketmq:1", "controller": "controller:1", "replica": "replica:1"}}
LISTENERS: Final = [{"name": "outside", "type": "NodePort", "advertisedHost": "mq.example.org"}]
PATHS: Final = {
    "broker": ("BrokerGroup", ("pod",)),
    "log-replica": ("BrokerGroup", ("logPod",)),
    "controller": ("RocketMQCluster", ("controllers", "pod")),
    "nameserver": ("RocketMQCluster", ("nameServers", "pod")),
    "proxy": ("RocketMQCluster", ("proxy", "pod")),
    "route-front": ("RocketMQCluster", ("routeFronts", "pod")),
}
"""By main container: the kind whose spec has the settings of its pod, and the path to them."""


def workloads(cluster: Json | None = None, group: Json | None = None) -> dict[str, Json]:
    """Return the StatefulSets and the Deployments of a cluster and a group, by their pods' main container."""
    cluster_spec = RocketMQClusterSpec.model_validate(
        merged({"proxy": {"mode": "Cluster"}, "listeners": LISTENERS, **IMAGES}, cluster or {})
    )
    group_spec = BrokerGroupSpec.model_validate(merged(GROUP_SPEC, group or {}))
    main, orders = _owner("RocketMQCluster", "main"), _owner("BrokerGroup", "orders")
    hosts = _addresses(group_children.hosts_needed(orders, group_spec, cluster_spec))
    bodies = (
        group_children.broker_set(orders, group_spec, cluster_spec, 2, hosts),
        group_children.log_replica_set(orders, group_spec, cluster_spec, 1, hosts),
        cluster_children.controller_set(main, cluster_spec, 3, hosts),
        *(
            body
            for body in cluster_children.cluster_children(
                main,
                cluster_spec,
                ClusterSecrets("token", InnerUsers(Credentials("rocketmq-ha", "password"))),
                3,
            )
            if body["kind"] == "StatefulSet"
        ),
        proxies.proxy_deployment(main, cluster_spec, _addresses(proxies.hosts_needed(main, cluster_spec))),
        *(
            route_front_deployment(
                main, cluster_spec, listener, _addresses(proxies.hosts_needed(main, cluster_spec))
            )
            for listener in cluster_spec.listeners
        ),
    )
    return {template(body)["spec"]["containers"][0]["name"]: body for body in bodies}


def template(body: Json) -> Json:
    """Return the pod template of a StatefulSet or a Deployment."""
    found: Json = body["spec"]["template"]
    return found


def broker_settings(spec: Json, name: str = "orders") -> dict[str, str]:
    """Return what the operator writes into the `broker.conf` of a group with this spec and name."""
    group_spec = BrokerGroupSpec.model_validate(spec)
    return dict(
        parse(group_children.broker_conf(_owner("BrokerGroup", name), group_spec, RocketMQClusterSpec()))
    )


def _owner(kind: str, name: str) -> Owner:
    return Owner(API_VERSION, kind, name, NAMESPACE, f"uid-{name}")


def _addresses(hosts: tuple[str, ...]) -> dict[str, str]:
    return {host: f"10.0.0.{number}" for number, host in enumerate(sorted(hosts), 1)}
