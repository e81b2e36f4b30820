"""RocketMQ's proxies, which speak gRPC with the clients of RocketMQ 5.

They run in pods of their own, or in each broker's process.

Mode `Cluster` is a Deployment: a proxy keeps nothing and none differs from another. It finds name servers by
their DNS names, in its own hosts file, as brokers do. When it starts it makes a topic, on which proxies tell
each other of their clients, and ends if no broker is there to make it on: so the Deployment is made when the
first broker of the cluster is ready.

Mode `Local` is a broker started by `mqproxy` and not by `mqbroker`: the proxy is in its process, and clients
meet it at the address that the broker announces, so that an address which is taken over takes the gRPC port
with it (`plan.group.takeover`).

In both modes clients find the first proxy by one Service, `<cluster>-proxy`, and learn the others from its
answer to their request for routes. Without `spec.tls.clients` a proxy takes plain connections, and TLS with a
certificate that it makes for itself.

Source: RocketMQ 5.5.0 ProxyStartup.java, ProxyConfig.java, RouteActivity.java, LocalTopicRouteService.java,
AbstractSystemMessageSyncer.java.
"""

from collections.abc import Mapping
from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Placement
from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import endpoints, names, parts
from rocketmq_operator.plan.common.java import JAVA_RUN, java_options
from rocketmq_operator.plan.common.objects import (
    BROKER,
    Json,
    Owner,
    belonging_labels,
    child,
    selector_labels,
)
from rocketmq_operator.plan.common.parts import digest, pod_template
from rocketmq_operator.plan.common.proxy_config import CONF_FILE, LOCAL_PORTS, proxy_conf
from rocketmq_operator.plan.common.shaping.shaped import PodShape, shaped
from rocketmq_operator.plan.pods.logs import java_logs, logback_file, with_log_target
from rocketmq_operator.plan.tls.clients import (
    ClientsStage,
    annotated,
    proxy_tls_keys,
    with_certificate,
    with_tls_options,
)

PROXY: Final = "proxy"
"""Component of the proxies' objects."""
_CLUSTER_PORTS: Final = LOCAL_PORTS | {"remoting": names.PROXY_REMOTING_PORT}


_ADD_CREDENTIALS: Final = f"""# It gets a password, which no ConfigMap holds: only this user may read it.
config={names.SCRATCH_PATH}/{CONF_FILE}
rm -f "$config" && (umask 077 && : >"$config")
sed '$d' {names.CONFIG_PATH}/{CONF_FILE} >"$config"
printf '  ,"innerClientAuthenticationCredentials": "{{\\\\"accessKey\\\\":\\\\"%s\\\\",' \\
  "$(cat {names.CREDENTIALS_PATH}/{names.USERNAME_KEY})" >>"$config"
printf '\\\\"secretKey\\\\":\\\\"%s\\\\"}}"\\n}}\\n' \\
  "$(cat {names.CREDENTIALS_PATH}/{names.PASSWORD_KEY})" >>"$config"
"""


def proxy_start(spec: RocketMQClusterSpec) -> str:
    """Return the start script of proxies in pods of their own.

    With users the script adds the credentials with which a proxy asks brokers.
    """
    add = _ADD_CREDENTIALS if spec.has_users else ""
    config = '"$config"' if spec.has_users else f"{names.CONFIG_PATH}/{CONF_FILE}"
    return f"""#!/bin/sh
set -eu
{java_logs(spec)}{add}program=mqproxy
set -- -pc {config}
{JAVA_RUN}exit "$code"
"""


def proxy_children(
    owner: Owner, spec: RocketMQClusterSpec, stage: ClientsStage = ClientsStage.DISABLED
) -> tuple[Json, ...]:
    """Return the children that proxies need, but for their Deployment: none without proxies."""
    name, labels = names.proxies(owner.name), _labels(owner)
    match spec.proxy.mode:
        case ProxyMode.NONE:
            return ()
        case ProxyMode.LOCAL:
            selector = {COMPONENT_LABEL: BROKER} | belonging_labels(owner.name)
            return (parts.client_service(owner, name, labels, selector, LOCAL_PORTS),)
        case ProxyMode.CLUSTER:
            selector = selector_labels(PROXY, owner.name)
            files = {
                CONF_FILE: _conf(owner, spec, stage),
                "start.sh": proxy_start(spec),
            } | logback_file(spec)
            return (
                parts.client_service(owner, name, labels, selector, _CLUSTER_PORTS),
                parts.disruption_budget(owner, name, labels, selector),
                child(owner, "ConfigMap", name, labels=labels, data=files),
            )


def hosts_needed(owner: Owner, spec: RocketMQClusterSpec) -> tuple[str, ...]:
    """Return the DNS names that proxies in pods of their own are configured with."""
    return endpoints.name_server_hosts(owner.name, owner.namespace, spec)


def proxy_deployment(
    owner: Owner,
    spec: RocketMQClusterSpec,
    hosts: Mapping[str, str],
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return the Deployment of proxies in pods of their own.

    Args:
        owner: the RocketMQCluster.
        spec: its spec, with mode Cluster.
        hosts: ClusterIP by DNS name, of `hosts_needed`.
        stage: how far TLS with clients is.
    """
    name, labels = names.proxies(owner.name), _labels(owner)
    selector = selector_labels(PROXY, owner.name)
    conf = _conf(owner, spec, stage)
    pod = with_certificate(_pod(spec, name, hosts, stage), owner.name, names.PROXY_ENTRY, stage)
    pod = parts.with_placement(pod, Placement(), selector)
    pod = parts.with_credentials(pod, owner.name) if spec.has_users else pod
    template = annotated(pod_template(labels, digest(conf, proxy_start(spec)), pod), stage)
    template = shaped(template, proxy_shape(spec))
    made = parts.deployment(owner, name, labels, selector, spec.proxy.replicas, template)
    return with_log_target(made, spec)


def proxy_shape(spec: RocketMQClusterSpec) -> PodShape:
    """Return a person's wishes for the proxies' pods."""
    return PodShape("spec.proxy.pod", spec.proxy.pod, spec.proxy.pod_override, spec.proxy.jvm)


def _conf(owner: Owner, spec: RocketMQClusterSpec, stage: ClientsStage) -> str:
    return proxy_conf(owner.name, owner.namespace, spec, proxy_tls_keys(stage))


def _pod(spec: RocketMQClusterSpec, name: str, hosts: Mapping[str, str], stage: ClientsStage) -> Json:
    port = names.PROXY_GRPC_PORT
    options = java_options(spec.proxy.resources, spec.proxy.jvm, "spec.proxy.jvm")
    container = parts.container(
        "proxy",
        spec.rocketmq_image,
        ["/bin/sh", f"{names.CONFIG_PATH}/start.sh"],
        _CLUSTER_PORTS | {"metrics": names.PROXY_METRICS_PORT},
        env=[{"name": "JAVA_OPT_EXT", "value": with_tls_options(options, stage, serves_grpc=True)}],
        resources=parts.resources(spec.proxy.resources),
        startupProbe=parts.tcp_probe(port, failures_max=parts.STARTUP_FAILURES_MAX, period_s=1),
        livenessProbe=parts.tcp_probe(port, period_s=10),
        readinessProbe=parts.tcp_probe(port),
        volumeMounts=parts.mounts(data=False),
    )
    return {
        "automountServiceAccountToken": False,
        "securityContext": parts.pod_security(parts.ROCKETMQ_USER),
        "terminationGracePeriodSeconds": parts.GRACE_S,
        "dnsConfig": parts.QUICK_DNS,
        "hostAliases": parts.host_aliases(hosts),
        "containers": [container],
        "volumes": parts.volumes(name),
    }


def proxy_selector(owner: Owner) -> str:
    """Return the selector of the proxies' pods, as text."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector_labels(PROXY, owner.name).items()))


def _labels(owner: Owner) -> dict[str, str]:
    return selector_labels(PROXY, owner.name) | belonging_labels(owner.name)
