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

from controller_core.remoting.host_port import bracketed
from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import endpoints, names, parts
from rocketmq_operator.plan.common.objects import (
    BROKER,
    INSTANCE_LABEL,
    Json,
    Owner,
    belonging_labels,
    child,
    selector_labels,
)
from rocketmq_operator.plan.common.parts import digest
from rocketmq_operator.plan.common.properties import plain_settings, properties
from rocketmq_operator.plan.common.proxy_config import CONF_FILE, LOCAL_PORTS, proxy_conf
from rocketmq_operator.plan.common.shaping.shaped import PodShape
from rocketmq_operator.plan.group.companion import (
    companion,
    companion_conf,
    leave_before_stop,
)
from rocketmq_operator.plan.group.pod_sets.containers import (
    LOG_REPLICA,
    REMOTING,
    REPLICA_PORTS,
    broker_container,
    log_replica_container,
)
from rocketmq_operator.plan.group.pod_sets.live_settings import restarting_settings
from rocketmq_operator.plan.group.pod_sets.member_sets import PodSet, member_pod, stateful_set
from rocketmq_operator.plan.group.pod_sets.mode_label import mode_labels
from rocketmq_operator.plan.group.scripts.start_scripts import FIND_ADDRESS, REPLICA_START, broker_start
from rocketmq_operator.plan.group.scripts.static_start import static_keys, static_start
from rocketmq_operator.plan.group.seed_container import seed, seed_conf, seed_start
from rocketmq_operator.plan.pods.logs import level_file, logback_file, with_log_target
from rocketmq_operator.plan.pods.volumes import tiered_keys
from rocketmq_operator.plan.tls.clients import ClientsStage, proxy_tls_keys, sidecar_tls_keys

BROKER_PORTS: Final = {REMOTING: names.BROKER_PORT, "fast": names.BROKER_FAST_PORT}

_TUNED: Final[dict[str, str]] = {
    # A replica that is gone must leave the SyncStateSet before a client gives up, else AllInSync stops writes
    # longer than a failover would; RocketMQ's defaults are 15 s and 5 s.
    "checkSyncStateSetPeriod": "1000",
    "haMaxTimeSlaveNotCatchup": "3000",
    "haSendHeartbeatInterval": "1000",
    # A name server that was cut off with the old master forgets it when that comes back as a slave, and hears
    # of the new one by its next registration only. RocketMQ's default is every 30 s: new clients waited for
    # up to two minutes for a route to a master. 10 s is the minimum that the broker accepts.
    # A broker waits for the answers of all name servers, 24 s by default. It holds a lock for so long, and a
    # new master needs it before it acknowledges (docs/adr/040-name-servers-hold-up-no-role.md). A name server
    # that answers later has registered it all the same.
    "registerBrokerTimeoutMills": "500",
    "registerNameServerPeriod": "10000",
    "syncBrokerMetadataPeriod": "1000",
    "syncControllerMetadataPeriod": "1000",
    # TransactionMetricsFlushService spins until its first interval is over, 3 s by default, while a broker
    # starts (apache/rocketmq#10515, in 5.5.0).
    "transactionMetricFlushInterval": "1000",
    # RocketMQ collects the ends of transactions and writes them each 3 s. 3 s after the last one of a queue,
    # the thread that does it spins on a core for ever (apache/rocketmq#10966, in 5.5.0). With these settings
    # it writes each end at once and sleeps until the next. A new master does not ask for them again either.
    "transactionOpBatchInterval": "2147483647",
    "transactionOpMsgMaxSize": "1",
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


def start_script(spec: BrokerGroupSpec, *, has_users: bool) -> str:
    """Return the start script of the group's brokers."""
    return (static_start if spec.mode is RoleMode.STATIC else broker_start)(spec, has_users=has_users)


def _proxy_file(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec, stage: ClientsStage
) -> dict[str, str]:
    """Return the configuration file of the proxy in each broker by its name.

    The result is empty if the brokers have no proxy.
    """
    if cluster.proxy.mode is not ProxyMode.LOCAL:
        return {}
    return {CONF_FILE: proxy_conf(spec.cluster, owner.namespace, cluster, proxy_tls_keys(stage))}


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
        **tiered_keys(spec),
    }
    if spec.mode is RoleMode.STATIC:
        owned = static_keys(spec, owned)
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


def replica_conf(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> str:
    """Return what all log replicas of the group share."""
    values = replica_settings(owner, spec, cluster, stage)
    return plain_settings(from_last_file(values) if spec.log_sync_from_last_file else values)


def from_last_file(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a log replica that begins with the newest file of its master's log.

    It serves no slave and no seed: a broker that is filled from it would lack the older messages, and may be
    elected later.
    """
    kept = {key: value for key, value in values.items() if key != "ha-listen"}
    return kept | {"sync-from-last-file": "true"}


def replica_settings(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec, stage: ClientsStage
) -> dict[str, str]:
    """Return the settings of a log replica that keeps the whole log."""
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
    return values | sidecar_tls_keys(stage)


def member_names(group: str, spec: BrokerGroupSpec) -> tuple[str, ...]:
    """Return the names of all members that the spec asks for, brokers first."""
    brokers = tuple(names.member(group, ordinal) for ordinal in range(spec.replicas))
    return brokers + tuple(names.log_member(group, ordinal) for ordinal in range(spec.log_replicas))


def member_service(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec | None, name: str
) -> Json:
    """Return the Service whose ClusterIP is a member's address for as long as the group lives."""
    labels = _labels(owner, spec, LOG_REPLICA if _is_log(owner, name) else BROKER)
    if _is_log(owner, name):
        return parts.in_families(parts.pod_service(owner, name, labels, REPLICA_PORTS), cluster)
    ports = parts.service_ports(broker_ports(cluster))
    return parts.in_families(child(owner, "Service", name, labels=labels, spec={"ports": ports}), cluster)


def fixed_children(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    addresses: Mapping[str, str],
    files: Mapping[str, str],
    stage: ClientsStage = ClientsStage.DISABLED,
) -> tuple[Json, ...]:
    """Return the children before the StatefulSets: Services' addresses are known by then.

    Args:
        owner: the BrokerGroup.
        spec: its spec.
        cluster: the spec of its cluster.
        addresses: ClusterIP by member and learner.
        files: further files of the ConfigMap.
        stage: how far TLS with clients is.
    """
    labels = _labels(owner, spec, BROKER)
    data = {
        "broker.conf": broker_conf(owner, spec, cluster),
        "companion.conf": companion_conf(owner, spec, cluster, stage),
        "replica.conf": replica_conf(owner, spec, cluster, stage),
        "seed.conf": seed_conf(owner, spec, cluster, stage),
        "start-broker.sh": start_script(spec, has_users=cluster.has_users),
        "start-replica.sh": REPLICA_START,
        "start-seed.sh": seed_start(FIND_ADDRESS, spec),
        "addresses": "".join(f"{name}={bracketed(at)}\n" for name, at in sorted(addresses.items())),
        **_proxy_file(owner, spec, cluster, stage),
        **level_file(spec.log_level),
        **logback_file(spec),
        **files,
    }
    # Learners are not among them: one that is away must not hold a drain back.
    members = belonging_labels(spec.cluster, owner.name) | {INSTANCE_LABEL: owner.name}
    selector, ports = broker_selector(owner.name), broker_ports(cluster)
    return (
        parts.in_families(parts.headless_service(owner, owner.name, labels, selector, ports), cluster),
        # Why one budget over brokers and log replicas: two copies are two members, whatever they are.
        parts.disruption_budget(owner, owner.name, labels, members),
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
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return the brokers' StatefulSet with so many replicas: fewer at a time than the spec may ask to lose.

    Args:
        owner: the BrokerGroup.
        spec: its spec.
        cluster: the spec of its cluster.
        replicas: how many.
        hosts: ClusterIP by DNS name, of `hosts_needed`.
        stage: how far TLS with clients is.
    """
    is_static = spec.mode is RoleMode.STATIC
    rest = {} if is_static else leave_before_stop(spec)
    container = broker_container(
        spec, cluster, spec.resources, "start-broker.sh", broker_ports(cluster), stage, **rest
    )
    configuration = broker_digest(owner, restarting_settings(spec), cluster, stage)
    pod = member_pod(owner, container, parts.ROCKETMQ_USER, hosts)
    if not is_static:
        pod["initContainers"] = [companion(cluster, spec.resources), seed(cluster, spec.resources)]
    pod = parts.with_credentials(pod, spec.cluster) if cluster.has_users else pod
    brokers = PodSet(owner.name, BROKER, owner.name, spec.storage, spec.placement, broker_shape(spec))
    made = stateful_set(owner, spec, brokers, replicas, pod, configuration, stage)
    made["metadata"]["labels"] |= mode_labels(spec)
    return with_log_target(made, spec)


def broker_digest(
    owner: Owner, spec: BrokerGroupSpec, cluster: RocketMQClusterSpec, stage: ClientsStage
) -> str:
    """Return a digest of all that brokers and their companions read when they start."""
    return digest(
        broker_conf(owner, spec, cluster),
        start_script(spec, has_users=cluster.has_users),
        companion_conf(owner, spec, cluster, stage),
        seed_conf(owner, spec, cluster, stage),
        *_proxy_file(owner, spec, cluster, stage).values(),
    )


def log_replica_set(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    replicas: int,
    hosts: Mapping[str, str],
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return the log replicas' StatefulSet; arguments as of `broker_set`."""
    container = log_replica_container(cluster, spec.log_resources, "start-replica.sh")
    configuration = digest(replica_conf(owner, spec, cluster, stage), REPLICA_START)
    name = names.log_set(owner.name)
    pod = member_pod(owner, container, parts.OUR_USER, hosts)
    pod = parts.with_credentials(pod, spec.cluster) if cluster.has_users else pod
    logs = PodSet(name, LOG_REPLICA, owner.name, spec.storage, spec.placement, log_shape(spec))
    return stateful_set(owner, spec, logs, replicas, pod, configuration, stage)


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
