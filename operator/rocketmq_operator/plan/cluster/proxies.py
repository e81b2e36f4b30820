"""RocketMQ's proxies, who speak gRPC with the clients of RocketMQ 5: in pods of their own, or in each broker's process.

Mode `Cluster` is a Deployment: a proxy keeps nothing and none differs from another. It finds name servers by their DNS names, in its
own hosts file, as brokers do. When it starts it makes a topic, on which proxies tell each other of their clients, and ends if
no broker is there to make it on: so the Deployment is made when the first broker of the cluster is ready.

Mode `Local` is a broker started by `mqproxy` and not by `mqbroker`: the proxy is in its process, and clients meet it at the address
that the broker announces, so that an address which is taken over takes the gRPC port with it (`plan.takeover`).

In both modes clients find the first proxy by one Service, `<cluster>-proxy`, and are told the rest by its answer to their question
for routes. Never here: TLS with certificates of one's own; a proxy takes plain connections and TLS with one that it makes for itself.

Source: RocketMQ 5.5.0 ProxyStartup.java, ProxyConfig.java, RouteActivity.java, LocalTopicRouteService.java, AbstractSystemMessageSyncer.java.
"""

import json
from collections.abc import Mapping
from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Placement
from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster.children import BROKER, JAVA_RUN, digest, java_options, template
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common import parts as pods
from rocketmq_operator.plan.common.objects import Json, Owner, belonging_labels, child, selector_labels

PROXY: Final = "proxy"
"""Component of the proxies' objects."""
CONF_FILE: Final = "rmq-proxy.json"
LOCAL_PORTS: Final = {"grpc": names.PROXY_GRPC_PORT}
"""Of a proxy in a broker: for remoting there is the broker."""
_CLUSTER_PORTS: Final = LOCAL_PORTS | {"remoting": names.PROXY_REMOTING_PORT}
_START: Final = f"""#!/bin/sh
set -eu
program=mqproxy
set -- -pc {names.CONFIG_PATH}/{CONF_FILE}
{JAVA_RUN}exit "$code"
"""

_TUNED: Final[Mapping[ProxyMode, Mapping[str, str]]] = {
    ProxyMode.CLUSTER: {
        # Why the host: the exporter would listen at one address of the pod's.
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "0.0.0.0",  # noqa: S104 - inside the pod
        "metricsPromExporterPort": str(names.PROXY_METRICS_PORT),
        # A client that came through a load balancer or a forwarded port goes on by the port that it knows.
        "useEndpointPortFromRequest": "true",
    },
    ProxyMode.LOCAL: {
        # The process ends when its proxy too has let its clients go, and the broker's handover comes before that, all in a pod's grace
        # period. RocketMQ's default is 30.
        "grpcShutdownTimeSeconds": "5",
    },
}
"""What `proxy.config` may change."""


def proxy_conf(cluster: str, namespace: str, spec: RocketMQClusterSpec) -> str:
    """Return rmq-proxy.json of all proxies of a cluster; keys in order of their names.

    Values are texts: RocketMQ's reader makes of them what the field is.
    """
    owned = {
        "grpcServerPort": str(names.PROXY_GRPC_PORT),
        "namesrvAddr": names.name_server_addresses(cluster, namespace, spec.name_servers.replicas),
        "proxyMode": str(spec.proxy.mode).lower(),
        "remotingListenPort": str(names.PROXY_REMOTING_PORT),
        "rocketMQClusterName": cluster,
    }
    tuned = {"proxyClusterName": cluster, **_TUNED.get(spec.proxy.mode, {})}
    if spec.proxy.mode is ProxyMode.CLUSTER:
        # What clients that speak remoting are told instead of brokers: by the Service another proxy answers when one has gone.
        tuned["remotingAccessAddr"] = f"{names.proxies(cluster)}.{namespace}.svc"
    return json.dumps(tuned | spec.proxy.config | owned, indent=2, sort_keys=True) + "\n"


def proxy_children(owner: Owner, spec: RocketMQClusterSpec) -> tuple[Json, ...]:
    """Return the children that proxies need, but for their Deployment: none without proxies."""
    name, labels = names.proxies(owner.name), _labels(owner)
    match spec.proxy.mode:
        case ProxyMode.NONE:
            return ()
        case ProxyMode.LOCAL:
            selector = {COMPONENT_LABEL: BROKER} | belonging_labels(owner.name)
            return (pods.client_service(owner, name, labels, selector, LOCAL_PORTS),)
        case ProxyMode.CLUSTER:
            selector = selector_labels(PROXY, owner.name)
            files = {CONF_FILE: proxy_conf(owner.name, owner.namespace, spec), "start.sh": _START}
            return (
                pods.client_service(owner, name, labels, selector, _CLUSTER_PORTS),
                pods.budget(owner, name, labels, selector),
                child(owner, "ConfigMap", name, labels=labels, data=files),
            )


def hosts_needed(owner: Owner, spec: RocketMQClusterSpec) -> tuple[str, ...]:
    """Return the DNS names that proxies in pods of their own are configured with."""
    return names.name_server_hosts(owner.name, owner.namespace, spec.name_servers.replicas)


def proxy_deployment(owner: Owner, spec: RocketMQClusterSpec, hosts: Mapping[str, str]) -> Json:
    """Return the Deployment of proxies in pods of their own.

    Args:
        owner: the RocketMQCluster.
        spec: its spec, with mode Cluster.
        hosts: ClusterIP by DNS name, of `hosts_needed`.
    """
    name, labels = names.proxies(owner.name), _labels(owner)
    selector = selector_labels(PROXY, owner.name)
    conf = proxy_conf(owner.name, owner.namespace, spec)
    pod = pods.placed(_pod(spec, name, hosts), Placement(), selector)
    return child(
        owner,
        "Deployment",
        name,
        labels=labels,
        spec={
            "replicas": spec.proxy.replicas,
            # One that serves goes when another one does: a single proxy is replaced without a gap.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector},
            "template": template(labels, digest(conf, _START), pod),
        },
    )


def _pod(spec: RocketMQClusterSpec, name: str, hosts: Mapping[str, str]) -> Json:
    port = names.PROXY_GRPC_PORT
    container = pods.container(
        "proxy",
        spec.rocketmq_image,
        ["/bin/sh", f"{names.CONFIG_PATH}/start.sh"],
        _CLUSTER_PORTS | {"metrics": names.PROXY_METRICS_PORT},
        env=[{"name": "JAVA_OPT_EXT", "value": java_options(spec.proxy.resources)}],
        resources=pods.resources(spec.proxy.resources),
        startupProbe=pods.tcp_probe(port, failures_max=pods.STARTUP_FAILURES_MAX, period_s=1),
        livenessProbe=pods.tcp_probe(port, period_s=10),
        readinessProbe=pods.tcp_probe(port),
        volumeMounts=pods.mounts(data=False),
    )
    return {
        "automountServiceAccountToken": False,
        "securityContext": pods.pod_security(pods.ROCKETMQ_USER),
        "terminationGracePeriodSeconds": pods.GRACE_S,
        "dnsConfig": pods.QUICK_DNS,
        "hostAliases": pods.host_aliases(hosts),
        "containers": [container],
        "volumes": pods.volumes(name),
    }


def _labels(owner: Owner) -> dict[str, str]:
    return selector_labels(PROXY, owner.name) | belonging_labels(owner.name)
