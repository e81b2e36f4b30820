"""The children of a BrokerGroup: brokers, log replicas, an address for each, one configuration.

Brokers are one StatefulSet whose pods only the operator restarts (`OnDelete`): Kubernetes does not know which
of them is the master. Each broker announces the ClusterIP of a Service of its own (`brokerIP1`), which has no
selector: the operator writes its EndpointSlice, and so can let another broker answer there. HA traffic goes
to the pod's own address (`brokerIP2`), which the start script adds.

Log replicas are a second StatefulSet. Their Services have selectors, because no other member takes them over.

Members are configured with the DNS names of controllers and name servers, and find them in their own hosts
file: a failover must not wait for a DNS server that may run on the very node that failed.

Source: RocketMQ 5.4.0 BrokerConfig.java, MessageStoreConfig.java for the keys.
"""

from collections.abc import Mapping
from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import DeletionPolicy
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import endpoints, names, parts
from rocketmq_operator.plan.common.java import java_options
from rocketmq_operator.plan.common.objects import (
    BROKER,
    Json,
    Owner,
    belonging_labels,
    child,
    selector_labels,
)
from rocketmq_operator.plan.common.parts import digest, pod_template
from rocketmq_operator.plan.common.properties import plain_settings, properties
from rocketmq_operator.plan.common.proxy_config import CONF_FILE, LOCAL_PORTS, proxy_conf
from rocketmq_operator.plan.common.shaping.shaped import PodShape, shaped
from rocketmq_operator.plan.group.companion import (
    companion,
    companion_conf,
    leave_before_stop,
)
from rocketmq_operator.plan.group.scripts.start_scripts import FIND_ADDRESS, REPLICA_START, broker_start
from rocketmq_operator.plan.group.seed_container import seed, seed_conf, seed_start

REMOTING: Final = "remoting"
BROKER_PORTS: Final = {REMOTING: names.BROKER_PORT, "fast": names.BROKER_FAST_PORT}
_REPLICA_PORTS: Final = {REMOTING: names.REPLICA_PORT, "http": names.REPLICA_HTTP_PORT}

CONNECT_TIMEOUT_MS: Final = 500
"""How long a broker tries to reach somebody.

Why not its own 3 s: heartbeats to all controllers share four threads, and each one to a controller that is
cut off holds a thread for that long. Heartbeats to the others came so late that the controllers declared a
new master dead. Source: BrokerOuterAPI.sendHeartbeatToController, NettySystemConfig.java 5.5.0.
"""
_CONNECT_OPTION: Final = f"-Dcom.rocketmq.remoting.client.connect.timeout={CONNECT_TIMEOUT_MS}"

_TUNED: Final[dict[str, str]] = {
    # A replica that is gone must leave the SyncStateSet before a client gives up, else AllInSync stops writes
    # longer than a failover would; RocketMQ's defaults are 15 s and 5 s.
    "checkSyncStateSetPeriod": "1000",
    "haMaxTimeSlaveNotCatchup": "3000",
    "haSendHeartbeatInterval": "1000",
    # A name server that was cut off with the old master forgets it when that comes back as a slave, and hears
    # of the new one by its next registration only. RocketMQ's defaults are every 30 s, and 24 s in which one
    # that does not answer delays all: new clients got no route to a master for up to two minutes. 10 s is the
    # minimum that the broker accepts.
    "registerBrokerTimeoutMills": "3000",
    "registerNameServerPeriod": "10000",
    "syncBrokerMetadataPeriod": "1000",
    "syncControllerMetadataPeriod": "1000",
}
"""What `config` may change."""

_AUTH_PACKAGE: Final = "org.apache.rocketmq.auth"


def broker_selector(group: str) -> dict[str, str]:
    """Return the labels by which brokers of a group are found."""
    return selector_labels(BROKER, group)


def broker_ports(cluster: RocketMQClusterSpec | None) -> dict[str, int]:
    """Return the ports at which a broker's address serves clients.

    The proxy's are among them if the cluster has a proxy in each broker.
    """
    has_proxy = cluster is not None and cluster.proxy.mode is ProxyMode.LOCAL
    return BROKER_PORTS | (LOCAL_PORTS if has_proxy else {})


def _proxy_file(owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec) -> dict[str, str]:
    """Return the configuration file of the proxy in each broker by its name.

    The result is empty if the brokers have no proxy.
    """
    if cluster.proxy.mode is not ProxyMode.LOCAL:
        return {}
    return {CONF_FILE: proxy_conf(spec.cluster, owner.namespace, cluster)}


def durability_keys(spec: BrokerGroupSpec) -> dict[str, str]:
    """Return the keys that say which members have a message when a broker acknowledges it."""
    return {
        "allAckInSyncStateSet": "true" if spec.durability is Durability.ALL_IN_SYNC else "false",
        "inSyncReplicas": str(spec.copies),
        "minInSyncReplicas": str(spec.members_for_writes),
    }


def broker_conf(owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec) -> str:
    """Return what all brokers of the group share.

    The changeable keys come first, then those that the operator owns, each in order of their names.

    The owned keys come last, because of equal keys Java takes the last.
    """
    role = "ASYNC_MASTER" if spec.durability is Durability.ASYNC else "SYNC_MASTER"
    owned = {
        "brokerClusterName": spec.cluster,
        "brokerName": owner.name,
        "brokerId": "0",
        "brokerRole": role,
        **durability_keys(spec),
        "enableControllerMode": "true",
        "controllerAddr": endpoints.controller_addresses(spec.cluster, owner.namespace, cluster),
        "namesrvAddr": endpoints.name_server_addresses(spec.cluster, owner.namespace, cluster),
        "listenPort": str(names.BROKER_PORT),
        "haListenPort": str(names.BROKER_HA_PORT),
        "mappedFileSizeCommitLog": str(spec.log_file_bytes),
        "storePathRootDir": f"{names.STORE_PATH}/store",
        "storePathCommitLog": f"{names.STORE_PATH}/store/commitlog",
        "brokerHeartbeatInterval": str(spec.failover.heartbeat_interval_ms),
        "controllerHeartBeatTimeoutMills": str(spec.failover.heartbeat_timeout_ms),
        **_access_keys(cluster),
    }
    # Why the host: the exporter would listen at brokerIP1, which is not an address of the pod.
    metrics = {
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "0.0.0.0",  # noqa: S104 - inside the pod
        "metricsPromExporterPort": str(names.BROKER_METRICS_PORT),
    }
    changeable = {key: value for key, value in (_TUNED | metrics | spec.config).items() if key not in owned}
    return properties(dict(sorted(changeable.items())) | dict(sorted(owned.items())))


def _access_keys(cluster: RocketMQClusterSpec) -> dict[str, str]:
    """Return the keys that switch users and rights on; the result is empty for a cluster without users.

    Both metadata providers are always named, because a broker without one cannot list or delete rights. The
    start script adds the credentials that a broker signs with.

    Source: RocketMQ 5.5.0 AuthConfig.java, AuthenticationFactory.java, AuthorizationFactory.java.
    """
    if not cluster.has_users:
        return {}
    return {
        "authenticationEnabled": "true",
        "authenticationMetadataProvider": (
            f"{_AUTH_PACKAGE}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "authorizationEnabled": "true" if cluster.has_rights else "false",
        "authorizationMetadataProvider": (
            f"{_AUTH_PACKAGE}.authorization.provider.LocalAuthorizationMetadataProvider"
        ),
    }


def replica_conf(owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec) -> str:
    """Return what all log replicas of the group share."""
    values = {
        "cluster": spec.cluster,
        "group": owner.name,
        "controllers": endpoints.controller_addresses(spec.cluster, owner.namespace, cluster),
        "listen": f"0.0.0.0:{names.REPLICA_PORT}",
        "ha-listen": f"0.0.0.0:{names.REPLICA_HA_PORT}",
        "store": f"{names.STORE_PATH}/store",
        "http": f"0.0.0.0:{names.REPLICA_HTTP_PORT}",
        "namespace": owner.namespace,
        "mapped-file-bytes": str(spec.log_file_bytes),
        "heartbeat-interval-ms": str(spec.failover.heartbeat_interval_ms),
        "heartbeat-timeout-ms": str(spec.failover.heartbeat_timeout_ms),
    }
    if cluster.has_users:
        values["credentials"] = names.CREDENTIALS_PATH
    if cluster.controllers.enable_elect_unclean_master:
        values["unclean-election"] = "true"
    return plain_settings(values)


def member_names(group: str, spec: BrokerGroupSpec) -> tuple[str, ...]:
    """Return the names of all members that the spec asks for, brokers first."""
    brokers = tuple(names.member(group, ordinal) for ordinal in range(spec.replicas))
    return brokers + tuple(names.log_member(group, ordinal) for ordinal in range(spec.log_replicas))


def member_service(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec | None, name: str
) -> Json:
    """Return the Service whose ClusterIP is a member's address for as long as the group lives."""
    labels = _labels(owner, spec, "log-replica" if _is_log(owner, name) else BROKER)
    if _is_log(owner, name):
        return parts.pod_service(owner, name, labels, _REPLICA_PORTS)
    ports = parts.service_ports(broker_ports(cluster))
    return child(owner, "Service", name, labels=labels, spec={"ports": ports})


def fixed_children(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec, addresses: Mapping[str, str]
) -> tuple[Json, ...]:
    """Return the children before the StatefulSets: Services' addresses are known by then.

    Args:
        owner: the BrokerGroup.
        spec: its spec.
        cluster: the spec of its cluster.
        addresses: ClusterIP by member.
    """
    labels = _labels(owner, spec, BROKER)
    data = {
        "broker.conf": broker_conf(owner, spec, cluster),
        "companion.conf": companion_conf(owner, spec, cluster),
        "replica.conf": replica_conf(owner, spec, cluster),
        "seed.conf": seed_conf(owner, spec, cluster),
        "start-broker.sh": broker_start(spec, has_users=cluster.has_users),
        "start-replica.sh": REPLICA_START,
        "start-seed.sh": seed_start(FIND_ADDRESS),
        "addresses": "".join(f"{name}={address}\n" for name, address in sorted(addresses.items())),
        **_proxy_file(owner, spec, cluster),
    }
    return (
        parts.headless_service(owner, owner.name, labels, broker_selector(owner.name), broker_ports(cluster)),
        # Why one budget over brokers and log replicas: two copies are two members, whatever they are.
        parts.disruption_budget(owner, owner.name, labels, belonging_labels(spec.cluster, owner.name)),
        child(owner, "ConfigMap", owner.name, labels=labels, data=data),
    )


def hosts_needed(owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec) -> tuple[str, ...]:
    """Return the DNS names that members are configured with.

    These are all controllers that there can be, and the cluster's own name servers.
    """
    return (
        *endpoints.controller_hosts(spec.cluster, owner.namespace, cluster),
        *endpoints.name_server_hosts(spec.cluster, owner.namespace, cluster),
    )


def broker_set(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    replicas: int,
    hosts: Mapping[str, str],
) -> Json:
    """Return the brokers' StatefulSet with so many replicas: fewer at a time than the spec may ask to lose.

    Args:
        owner: the BrokerGroup.
        spec: its spec.
        cluster: the spec of its cluster.
        replicas: how many.
        hosts: ClusterIP by DNS name, of `hosts_needed`.
    """
    container = parts.container(
        "broker",
        cluster.rocketmq_image,
        ["/bin/sh", f"{names.CONFIG_PATH}/start-broker.sh"],
        broker_ports(cluster) | {"ha": names.BROKER_HA_PORT, "metrics": names.BROKER_METRICS_PORT},
        env=[
            *parts.pod_name_environment(),
            {"name": "JAVA_OPT_EXT", "value": f"{java_options(spec.resources, spec.jvm)} {_CONNECT_OPTION}"},
        ],
        resources=parts.resources(spec.resources),
        startupProbe=parts.tcp_probe(names.BROKER_PORT, failures_max=parts.STARTUP_FAILURES_MAX, period_s=5),
        livenessProbe=parts.tcp_probe(names.BROKER_PORT, period_s=10, failures_max=6),
        readinessProbe=parts.tcp_probe(names.BROKER_PORT, period_s=1),
        volumeMounts=parts.mounts(data=True),
        **leave_before_stop(spec),
    )
    configuration = digest(
        broker_conf(owner, spec, cluster),
        broker_start(spec, has_users=cluster.has_users),
        companion_conf(owner, spec, cluster),
        seed_conf(owner, spec, cluster),
        *_proxy_file(owner, spec, cluster).values(),
    )
    pod = _pod(owner, container, parts.ROCKETMQ_USER, hosts) | {
        "initContainers": [companion(cluster, spec.resources), seed(cluster, spec.resources)]
    }
    pod = parts.with_credentials(pod, spec.cluster) if cluster.has_users else pod
    return _stateful_set(owner, spec, owner.name, BROKER, replicas, (pod, configuration))


def log_replica_set(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    replicas: int,
    hosts: Mapping[str, str],
) -> Json:
    """Return the log replicas' StatefulSet; arguments as of `broker_set`."""
    http = names.REPLICA_HTTP_PORT
    container = parts.container(
        "log-replica",
        cluster.images.replica,
        ["/bin/sh", f"{names.CONFIG_PATH}/start-replica.sh"],
        _REPLICA_PORTS | {"ha": names.REPLICA_HA_PORT},
        env=parts.pod_name_environment(),
        resources=parts.resources(spec.log_resources),
        startupProbe=parts.http_probe("/livez", http, failures_max=parts.STARTUP_FAILURES_MAX, period_s=5),
        livenessProbe=parts.http_probe("/livez", http, period_s=10, failures_max=6),
        readinessProbe=parts.http_probe("/readyz", http, period_s=1),
        volumeMounts=parts.mounts(data=True),
    )
    configuration = digest(replica_conf(owner, spec, cluster), REPLICA_START)
    name = names.log_set(owner.name)
    pod = _pod(owner, container, parts.OUR_USER, hosts)
    pod = parts.with_credentials(pod, spec.cluster) if cluster.has_users else pod
    return _stateful_set(owner, spec, name, "log-replica", replicas, (pod, configuration))


def _pod(owner: Owner, container: Json, user: int, hosts: Mapping[str, str]) -> Json:
    return {
        "automountServiceAccountToken": False,
        "securityContext": parts.pod_security(user),
        "terminationGracePeriodSeconds": parts.GRACE_S,
        "dnsConfig": parts.QUICK_DNS,
        "hostAliases": parts.host_aliases(hosts),
        "containers": [container],
        "volumes": parts.volumes(owner.name),
    }


def _stateful_set(
    owner: Owner,
    spec: BrokerGroupSpec,
    name: str,
    component: str,
    replicas: int,
    content: tuple[Json, str],
) -> Json:
    pod, configuration = content
    selector = selector_labels(component, owner.name)
    labels = _labels(owner, spec, component)
    apart_from = belonging_labels(spec.cluster, owner.name)
    shape = broker_shape(spec) if component == BROKER else log_shape(spec)
    template = pod_template(labels, configuration, parts.with_placement(pod, spec.placement, apart_from))
    when_deleted = "Delete" if spec.deletion_policy is DeletionPolicy.DELETE else "Retain"
    return child(
        owner,
        "StatefulSet",
        name,
        labels=labels,
        spec={
            "serviceName": owner.name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": "Retain"},
            "selector": {"matchLabels": selector},
            "template": shaped(template, shape),
            "volumeClaimTemplates": [
                parts.claim_template(spec.storage.size, spec.storage.storage_class_name, apart_from)
            ],
        },
    )


def broker_shape(spec: BrokerGroupSpec) -> PodShape:
    """Return a person's wishes for the brokers' pods."""
    return PodShape("spec.pod", spec.pod, spec.pod_override, spec.jvm)


def log_shape(spec: BrokerGroupSpec) -> PodShape:
    """Return a person's wishes for the log replicas' pods."""
    return PodShape("spec.logPod", spec.log_pod, spec.log_pod_override)


def _labels(owner: Owner, spec: BrokerGroupSpec, component: str) -> dict[str, str]:
    return selector_labels(component, owner.name) | belonging_labels(spec.cluster, owner.name)


def _is_log(owner: Owner, name: str) -> bool:
    return names.is_member(name, names.log_set(owner.name))
