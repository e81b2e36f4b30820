"""The main containers of a group's pods."""

from collections.abc import Mapping
from typing import Any, Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.java import java_options
from rocketmq_operator.plan.common.objects import Json
from rocketmq_operator.plan.tls.clients import ClientsStage, with_tls_options

REMOTING: Final = "remoting"
LOG_REPLICA: Final = "log-replica"
"""Component label of the pods of log replicas."""
REPLICA_PORTS: Final = {REMOTING: names.REPLICA_PORT, "http": names.REPLICA_HTTP_PORT}

CONNECT_TIMEOUT_MS: Final = 500
"""How long a broker tries to reach somebody.

Why not its own 3 s: heartbeats to all controllers share four threads, and each one to a controller that is
cut off holds a thread for that long. Heartbeats to the others came so late that the controllers declared a
new master dead. Source: BrokerOuterAPI.sendHeartbeatToController, NettySystemConfig.java 5.5.0.
"""
_CONNECT_OPTION: Final = f"-Dcom.rocketmq.remoting.client.connect.timeout={CONNECT_TIMEOUT_MS}"


def broker_container(
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    resources: Resources,
    script: str,
    ports: Mapping[str, int],
    stage: ClientsStage = ClientsStage.DISABLED,
    **rest: Any,  # noqa: ANN401 - JSON
) -> Json:
    """Return the container of a broker that a script of the ConfigMap starts."""
    options = with_tls_options(
        f"{java_options(resources, spec.jvm)} {_CONNECT_OPTION}",
        stage,
        serves_grpc=cluster.proxy.mode is ProxyMode.LOCAL,
    )
    return parts.container(
        "broker",
        cluster.rocketmq_image,
        ["/bin/sh", f"{names.CONFIG_PATH}/{script}"],
        {**ports, "ha": names.BROKER_HA_PORT, "metrics": names.BROKER_METRICS_PORT},
        env=[
            *parts.pod_name_environment(),
            {"name": "JAVA_OPT_EXT", "value": options},
        ],
        resources=parts.resources(resources),
        startupProbe=parts.tcp_probe(names.BROKER_PORT, failures_max=parts.STARTUP_FAILURES_MAX, period_s=5),
        livenessProbe=parts.tcp_probe(names.BROKER_PORT, period_s=10, failures_max=6),
        readinessProbe=parts.tcp_probe(names.BROKER_PORT, period_s=1),
        volumeMounts=parts.mounts(data=True),
        **rest,
    )


def log_replica_container(cluster: RocketMQClusterSpec, resources: Resources, script: str) -> Json:
    """Return the container of a log replica that a script of the ConfigMap starts."""
    http = names.REPLICA_HTTP_PORT
    return parts.container(
        LOG_REPLICA,
        cluster.images.replica,
        ["/bin/sh", f"{names.CONFIG_PATH}/{script}"],
        REPLICA_PORTS | {"ha": names.REPLICA_HA_PORT},
        env=parts.pod_name_environment(),
        resources=parts.resources(resources),
        startupProbe=parts.http_probe("/livez", http, failures_max=parts.STARTUP_FAILURES_MAX, period_s=5),
        livenessProbe=parts.http_probe("/livez", http, period_s=10, failures_max=6),
        readinessProbe=parts.http_probe("/readyz", http, period_s=1),
        volumeMounts=parts.mounts(data=True),
    )
