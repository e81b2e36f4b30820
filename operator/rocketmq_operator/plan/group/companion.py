"""The companion in a broker's pod.

This sidecar container reports what the broker does not, and hands its role over.

It is a sidecar as Kubernetes knows them, an init container that goes on running: it is there before the
broker and ends after it, so that the broker's preStop can still ask it how to leave its group. Its readiness
is part of the pod's: a broker that is not in the SyncStateSet is not ready.

Source: Kubernetes "Sidecar Containers", on by default since 1.29; docs/reference/companion.md.
"""

from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.plan.common import endpoints, names, parts
from rocketmq_operator.plan.common.objects import Json, Owner
from rocketmq_operator.plan.common.properties import plain_settings
from rocketmq_operator.plan.tls.clients import ClientsStage, sidecar_tls_keys

CONTAINER: Final = "companion"
RESOURCES: Final = Resources(cpu="250m", memory="128Mi")
"""It needs little CPU, but must run in the same millisecond in which its broker ends: it takes the port then,
before a client has tried three times. With a share of 100m the kernel scheduled it up to 77 ms late."""
HANDOVER_DEADLINE_S: Final = 20
"""Well within a pod's grace period: the broker still has to stop in good order."""
_STATE: Final = f"{names.STORE_PATH}/companion"
"""On the broker's volume, beside its store: the POP checkpoints that a companion owes outlive its pod."""
_POLL_INTERVAL_MS: Final = 500
_HOLD_MS: Final = 2_500
"""Below the 3 s after which a client's send times out; the broker's next process waits for its port during
this time."""
HELD_AFTER_S: Final = 0.3
"""By when the companion has taken a killed broker's port, if it takes it."""
_START_WAIT_S: Final = 0.2
_START_WAITS_MAX: Final = 25
_LEAVE: Final = (
    f"exec 3<>/dev/tcp/127.0.0.1/{names.COMPANION_HTTP_PORT} && "
    "printf 'POST /v1/leave HTTP/1.0\\r\\n\\r\\n' >&3 && answer=$(cat <&3) || exit 0\n"
    """case $answer in *'"how": "kill"'*) ;; *) exit 0 ;; esac
for process in /proc/[0-9]*; do
  if [ "$(cat "$process/comm" 2>/dev/null)" = java ]; then
    kill -STOP "${process#/proc/}"; sleep 0.05; kill -KILL "${process#/proc/}"
  fi
done"""
)
"""Asks how to end, and ends the broker where that is the answer; else Kubernetes' signal stops it in good
order.

Why it pauses first: a client that begins a send while its connection ends forgets its other requests on it,
and these wait for their own 3 s (docs/benchmarks.md). After the pause all threads that send synchronously
wait for answers. Requests to a paused process stay in the kernel's queue, and the broker has not acknowledged
them.
"""


_LEASE_MS_MIN: Final = 200
"""For controllers of an older release, which do not tell the lease: the guard's margin and a question."""


def has_lease(spec: BrokerGroupSpec) -> bool:
    """Say whether masters hold a write lease: where another broker may be elected, in every durability."""
    return spec.replicas > 1 and spec.mode is RoleMode.CONTROLLERS


def lease_binds(spec: BrokerGroupSpec) -> bool:
    """Say whether a master that is cut off may acknowledge writes while its lease lasts.

    With copies on all members it cannot, and the log replica parts from it before another is elected.
    """
    return spec.durability != Durability.ALL_IN_SYNC or spec.log_replicas == 0


def companion_conf(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> str:
    """Return what all companions of the group share."""
    values = {
        "cluster": spec.cluster,
        "group": owner.name,
        "broker": f"127.0.0.1:{names.BROKER_PORT}",
        "broker-ha": f"127.0.0.1:{names.BROKER_HA_PORT}",
        "broker-metrics": f"127.0.0.1:{names.BROKER_METRICS_PORT}",
        "controllers": endpoints.controller_addresses(spec.cluster, owner.namespace, cluster),
        "name-servers": endpoints.name_server_addresses(spec.cluster, owner.namespace, cluster),
        "http": f"0.0.0.0:{names.COMPANION_HTTP_PORT}",
        "namespace": owner.namespace,
        "poll-interval-ms": str(_POLL_INTERVAL_MS),
        "hold-ms": str(_HOLD_MS),
        "hold-port": str(names.BROKER_HOLD_PORT),
        "guest-port": str(names.BROKER_GUEST_PORT),
        "state": _STATE,
        "deadline-s": str(HANDOVER_DEADLINE_S),
    }
    if cluster.has_users:
        values |= {"credentials": names.CREDENTIALS_PATH, "keep-users": "true"}
    values |= sidecar_tls_keys(stage)
    if has_lease(spec):
        timing = spec.failover
        lease_ms = max(_LEASE_MS_MIN, timing.heartbeat_timeout_ms - timing.heartbeat_interval_ms)
        values |= {
            "lease-port": str(names.LEASE_PORT),
            "lease-ms": str(lease_ms),
            "lease-binds": str(lease_binds(spec)).lower(),
        }
    return plain_settings(values)


def companion(cluster: RocketMQClusterSpec, broker: Resources) -> Json:
    """Return the companion's container, beside a broker with these resources."""
    http = names.COMPANION_HTTP_PORT
    return parts.container(
        CONTAINER,
        cluster.images.replica,
        ["ha-sidecar", "companion", "-c", f"{names.CONFIG_PATH}/companion.conf"],
        {"companion": http, names.HOLD: names.BROKER_HOLD_PORT, names.GUESTS: names.BROKER_GUEST_PORT},
        restartPolicy="Always",
        resources=parts.resources(RESOURCES, broker),
        startupProbe=parts.http_probe("/livez", http, failures_max=60, period_s=1),
        livenessProbe=parts.http_probe("/livez", http, period_s=10, failures_max=6),
        readinessProbe=parts.http_probe("/readyz", http, period_s=1),
        volumeMounts=parts.mounts(data=True),
    )


def until_port_is_free(port: int) -> str:
    """Return a part of a start script that waits while the companion holds clients.

    It holds them at a broker's port, for 5 s at most.

    It wraps the broker's process. Kubernetes learns of a killed broker only after its clients have
    disconnected: the node's cleanup and the next process would take CPU from the successor in the same second
    in which the controllers elect it. With two CPUs the gap was twice as long. The next process could not
    have the port either.
    """
    return f"""waited=0
while grep -qs ':{port:04X} 00000000:0000 0A' /proc/net/tcp && [ "$waited" -lt {_START_WAITS_MAX} ]; do
  sleep {_START_WAIT_S}
  waited=$((waited + 1))
done
"""


def leave_before_stop(spec: BrokerGroupSpec) -> Json:
    """Return the broker's lifecycle: leave its group before it stops; a single broker has no successor.

    Why a program and not httpGet: Kubernetes' own request would come from the node, and the companion accepts
    commands from its own pod only. Where the image has no bash, the broker stops at once and the controllers
    elect.
    """
    if spec.replicas < 2:
        return {}
    return {"lifecycle": {"preStop": {"exec": {"command": ["bash", "-c", _LEAVE]}}}}
