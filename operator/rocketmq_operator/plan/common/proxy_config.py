"""The configuration file of RocketMQ's proxies, in pods of their own or in each broker."""

import json
from collections.abc import Mapping
from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import endpoints, names

CONF_FILE: Final = "rmq-proxy.json"
LOCAL_PORTS: Final = {"grpc": names.PROXY_GRPC_PORT}
"""Of a proxy in a broker: for remoting there is the broker."""
_AUTH_PACKAGE: Final = "org.apache.rocketmq.proxy.auth"
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
        # The process ends when its proxy too has let its clients go, and the broker's handover comes before
        # that, all in a pod's grace period. RocketMQ's default is 30.
        "grpcShutdownTimeSeconds": "5",
    },
}
"""What `proxy.config` may change."""


def proxy_conf(
    cluster: str, namespace: str, spec: RocketMQClusterSpec, tls_keys: Mapping[str, str] | None = None
) -> str:
    """Return rmq-proxy.json of all proxies of a cluster; keys in order of their names.

    Values are texts: RocketMQ's reader makes of them what the field is.
    """
    owned = {
        "grpcServerPort": str(names.PROXY_GRPC_PORT),
        "namesrvAddr": endpoints.name_server_addresses(cluster, namespace, spec),
        "proxyMode": str(spec.proxy.mode).lower(),
        "remotingListenPort": str(names.PROXY_REMOTING_PORT),
        "rocketMQClusterName": cluster,
        **(tls_keys or {}),
    }
    owned |= _access_keys(spec)
    tuned = {"proxyClusterName": cluster, **_TUNED.get(spec.proxy.mode, {})}
    if spec.proxy.mode is ProxyMode.CLUSTER:
        # The address in remoting clients' routes instead of brokers: behind the Service another proxy answers
        # when one has gone.
        tuned["remotingAccessAddr"] = f"{names.proxies(cluster)}.{namespace}.svc"
    return json.dumps(tuned | spec.proxy.config | owned, indent=2, sort_keys=True) + "\n"


def _access_keys(spec: RocketMQClusterSpec) -> dict[str, str]:
    """Return the keys with which a proxy checks its clients; the result is empty for a cluster without users.

    A proxy asks brokers for users and rights, signed as the super user that its start script adds.

    Source: RocketMQ 5.5.0 ProxyAuthenticationMetadataProvider.java, ProxyAuthorizationMetadataProvider.java,
    DefaultMessagingProcessor.java.
    """
    if not spec.has_users:
        return {}
    return {
        "authenticationEnabled": "true",
        "authenticationMetadataProvider": f"{_AUTH_PACKAGE}.ProxyAuthenticationMetadataProvider",
        "authorizationEnabled": "true" if spec.has_rights else "false",
        "authorizationMetadataProvider": f"{_AUTH_PACKAGE}.ProxyAuthorizationMetadataProvider",
        "enableAclRpcHookForClusterMode": "true",
    }
