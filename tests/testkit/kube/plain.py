"""The yardstick: RocketMQ as its own documents deploy it on Kubernetes, without any of ours.

A name server, three of RocketMQ's own controllers (DLedger, their default), two brokers in controller mode
whose address is their pod's. Timers are RocketMQ's defaults. All together request as much CPU as ours do,
operator, companions and log replica included.
`allAckInSyncStateSet` is on, since a comparison with brokers that may lose messages would be none;
`minInSyncReplicas` is one, because with two brokers two would mean no writes after a failover.
"""

import re
from dataclasses import dataclass
from typing import Final

from testkit.kube.group import JAVA_PIDS, kill_java
from testkit.kube.kubectl import Cluster, Json, KubeError, until

GROUP: Final = "plain"
NAMESPACE: Final = "plain-rocketmq"
NAME_SERVER: Final = "nameserver-0.nameserver:9876"
BROKER_CONTAINER: Final = "main"
_CONTROLLERS: Final = 3
_BROKERS: Final = 2
_CONTROLLER_PORT: Final = 9878
_READY_TIMEOUT_S: Final = 240.0
_MQADMIN_TIMEOUT_S: Final = 60.0
BROKER_CPU: Final = "550m"
"""As much as our broker (250m), its companion (250m) and half of the log replica (100m) request together."""
CONTROLLER_CPU: Final = "317m"
"""As our controller (250m), and a third of two operators (100m each)."""
NAME_SERVER_CPU: Final = "200m"
"""As our two name servers (100m each)."""
_MEMORY: Final = "-Xms192m -Xmx{heap}m -XX:MaxDirectMemorySize=192m -Duser.home=/tmp"


@dataclass(frozen=True, slots=True)
class PlainView:
    """What mqadmin getSyncStateSet says: the master's pod, its epoch, and how many are in the set."""

    master: str
    epoch: int
    in_sync: int


def _controllers() -> list[str]:
    return [f"controller-{number}.controller:{_CONTROLLER_PORT}" for number in range(_CONTROLLERS)]


def java_set(name: str, replicas: int, script: str, heap_mebibytes: int, cpu: str) -> list[Json]:
    """Return a headless Service and a StatefulSet whose pods run one of RocketMQ's start scripts.

    They request CPU: a pod without a request gets only its node's spare CPU, and a broker
    took two minutes to start there.
    """
    labels = {"app": name}
    pod: Json = {
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsUser": 3000, "runAsGroup": 3000, "fsGroup": 3000},
        "containers": [
            {
                "name": BROKER_CONTAINER,
                "image": "docker.io/apache/rocketmq:5.5.0",
                "command": ["sh", "-c", script],
                "resources": {"requests": {"cpu": cpu}},
                "env": [
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "JAVA_OPT_EXT", "value": _MEMORY.format(heap=heap_mebibytes)},
                ],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        },
    }
    service: Json = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels},
    }
    stateful_set: Json = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "2Gi"}},
                    },
                }
            ],
        },
    }
    return [service, stateful_set]


def start_script(program: str, settings: dict[str, str]) -> str:
    """Return the script that writes a configuration and runs a program of RocketMQ's until SIGTERM."""
    lines = "\\n".join(f"{key}={value}" for key, value in settings.items())
    return "\n".join(
        (
            f'printf "{lines}\\n" >/tmp/own.conf',
            # Process 1 cannot be killed from inside, and passes no signal on by itself.
            f"stop() {{ kill -TERM $({JAVA_PIDS}); }}; trap stop TERM",
            f'sh "$ROCKETMQ_HOME/bin/{program}" -c /tmp/own.conf &',
            "while kill -0 $! 2>/dev/null; do wait $! || true; done",
        )
    )


def manifests() -> list[Json]:
    """Return everything that is applied."""
    controller = {
        "controllerDLegerGroup": "plain",
        "controllerDLegerPeers": ";".join(
            f"n{number}-{address}" for number, address in enumerate(_controllers())
        ),
        "controllerDLegerSelfId": "n${POD_NAME##*-}",
        "controllerStorePath": "/data/controller",
    }
    broker = {
        "brokerClusterName": "plain",
        "brokerName": GROUP,
        "brokerId": "-1",
        "brokerRole": "SYNC_MASTER",
        "allAckInSyncStateSet": "true",
        "enableControllerMode": "true",
        "controllerAddr": ";".join(_controllers()),
        "namesrvAddr": NAME_SERVER,
        "brokerIP1": "$POD_IP",
        "storePathRootDir": "/data/store",
        "storePathCommitLog": "/data/store/commitlog",
        "mappedFileSizeCommitLog": "67108864",
    }
    return [
        *java_set("nameserver", 1, start_script("mqnamesrv", {"listenPort": "9876"}), 256, NAME_SERVER_CPU),
        *java_set("controller", _CONTROLLERS, start_script("mqcontroller", controller), 256, CONTROLLER_CPU),
        *java_set("broker", _BROKERS, start_script("mqbroker", broker), 512, BROKER_CPU),
    ]


class PlainGroup:
    """The one broker group of a plain deployment."""

    def __init__(self, cluster: Cluster) -> None:
        """Take the cluster, with the namespace in which it lies."""
        self.cluster: Final = cluster

    async def install(self) -> None:
        """Apply everything and wait until both brokers are in the SyncStateSet."""
        await self.cluster.kubectl("create", "namespace", self.cluster.namespace)
        await self.cluster.apply(*manifests())
        await self.until_whole()

    async def remove(self) -> None:
        """Remove the namespace with all that is in it."""
        await self.cluster.kubectl("delete", "namespace", self.cluster.namespace, "--wait=false")

    async def view(self) -> PlainView:
        """Ask the controllers.

        Raises:
            KubeError: no name server answers, or the group is without a master.
        """
        controller = f"controller-0.controller:{_CONTROLLER_PORT}"
        script = f'sh "$ROCKETMQ_HOME/bin/mqadmin" getSyncStateSet -a {controller} -b {GROUP}'
        printed = await self.cluster.shell(
            "nameserver-0", BROKER_CONTAINER, script, timeout_s=_MQADMIN_TIMEOUT_S
        )
        found = dict(re.findall(r"^#(\w+)\s+(\S+)", printed.decode(), re.MULTILINE))
        pods = await self.cluster.find("pods", "app=broker")
        names = {pod["status"].get("podIP", ""): pod["metadata"]["name"] for pod in pods}
        try:
            master = names[found["MasterAddr"].partition(":")[0]]
            return PlainView(master, int(found["MasterEpoch"]), int(found["SyncStateSetNums"]))
        except (KeyError, ValueError) as error:
            raise KubeError(f"no master in: {printed.decode()[-500:]}") from error

    async def until_whole(self, timeout_s: float = _READY_TIMEOUT_S) -> PlainView:
        """Wait until there is a master and both are in the set."""
        seen: list[PlainView] = []

        async def holds() -> bool:
            seen.append(await self.view())
            return seen[-1].in_sync == _BROKERS

        await until("plain RocketMQ is whole", holds, timeout_s, poll_s=2.0)
        return seen[-1]

    async def kill_java(self, pod: str) -> int:
        """Kill a broker's Java process with SIGKILL; return the time of the kill, UTC nanoseconds."""
        return await kill_java(self.cluster, pod, BROKER_CONTAINER)
