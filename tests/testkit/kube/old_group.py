"""Brokers as plain StatefulSets, without controllers: the start of a migration.

A master and a slave, or three members of DLedger.

The shape of their pods is that of `plain`. Their store lies where ours do not, so that it has to be moved;
their pods satisfy the restricted profile, because whatever a migration starts beside them has to.
"""

from typing import Final

from testkit.kube.kubectl import Cluster, Json, until
from testkit.kube.plain import java_set, start_script

GROUP: Final = "payments"
MASTER: Final = "old-master"
SLAVE: Final = "old-slave"
DLEDGER: Final = "dledger"
DLEDGER_MEMBERS: Final = 3
NAME_SERVER_PORT: Final = 9876
BROKER_PORT: Final = 10911
NAME_SERVERS: Final = f"names-0.names:{NAME_SERVER_PORT}"
STORE: Final = "/data/home/store"
LOG_FILE_BYTES: Final = 64 << 20
_READY_TIMEOUT_S: Final = 240.0
_CPU: Final = "100m"
_APART: Final = {"group": "old"}
_DLEDGER_PORT: Final = 40911


def _broker_settings() -> dict[str, str]:
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": GROUP,
        "namesrvAddr": NAME_SERVERS,
        "brokerIP1": "$POD_IP",
        "brokerIP2": "$POD_IP",
        "storePathRootDir": STORE,
        "storePathCommitLog": f"{STORE}/commitlog",
        "mappedFileSizeCommitLog": str(LOG_FILE_BYTES),
        "autoCreateTopicEnable": "true",
    }


def _name_server() -> list[Json]:
    return java_set("names", 1, start_script("mqnamesrv", {"listenPort": "9876"}), 256, _CPU)


def manifests() -> list[Json]:
    """Return a name server, a master and a slave."""
    broker = _broker_settings()
    master = {**broker, "brokerId": "0", "brokerRole": "ASYNC_MASTER"}
    slave = {**broker, "brokerId": "1", "brokerRole": "SLAVE"}
    found = [
        *_name_server(),
        *java_set(MASTER, 1, start_script("mqbroker", master), 512, _CPU),
        *java_set(SLAVE, 1, start_script("mqbroker", slave), 512, _CPU),
    ]
    return _completed(found)


def dledger_manifests() -> list[Json]:
    """Return a name server, and one StatefulSet with the members of a DLedger group."""
    peers = ";".join(
        f"n{number}-{DLEDGER}-{number}.{DLEDGER}:{_DLEDGER_PORT}" for number in range(DLEDGER_MEMBERS)
    )
    member = {
        **_broker_settings(),
        "enableDLegerCommitLog": "true",
        "dLegerGroup": GROUP,
        "dLegerPeers": peers,
        "dLegerSelfId": "n${POD_NAME##*-}",
    }
    members = java_set(DLEDGER, DLEDGER_MEMBERS, start_script("mqbroker", member), 512, _CPU)
    return _completed([*_name_server(), *members])


def _completed(found: list[Json]) -> list[Json]:
    for one in found:
        if one["kind"] == "StatefulSet":
            is_broker = one["metadata"]["name"] != "names"
            _restrict(one["spec"]["template"], apart=is_broker)
            _ready_with_port(one["spec"]["template"], BROKER_PORT if is_broker else NAME_SERVER_PORT)
    return found


def _restrict(template: Json, *, apart: bool) -> None:
    """Make a pod satisfy the restricted profile, and keep brokers on nodes of their own."""
    pod = template["spec"]
    pod["securityContext"] |= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    if apart:
        template["metadata"]["labels"] |= _APART
        term = {"labelSelector": {"matchLabels": _APART}, "topologyKey": "kubernetes.io/hostname"}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        pod["affinity"] = {"podAntiAffinity": rule}


def _ready_with_port(template: Json, port: int) -> None:
    """Make a pod ready when its port is open."""
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    template["spec"]["containers"][0]["readinessProbe"] = probe


class KubeOldGroup:
    """The old brokers in a namespace."""

    def __init__(self, cluster: Cluster) -> None:
        """Take the cluster, with the namespace for the group."""
        self.cluster: Final = cluster

    async def install(self) -> None:
        """Apply them; the slave asks the name server for its master, so that comes last."""
        names, master, slave = (manifests()[at : at + 2] for at in (0, 2, 4))
        for part in (names, master, slave):
            await self.cluster.apply(*part)
            await self.until_runs(part[1]["metadata"]["name"])

    async def install_dledger(self) -> None:
        """Apply the members of DLedger, and wait until all run."""
        found = dledger_manifests()
        for part in (found[:2], found[2:]):
            await self.cluster.apply(*part)
            await self.until_runs(part[1]["metadata"]["name"])

    async def until_runs(self, name: str) -> None:
        """Wait until all pods of a StatefulSet run and their ports are open."""

        async def runs() -> bool:
            live = await self.cluster.get("statefulset", name)
            return bool(live.get("status", {}).get("readyReplicas", 0) == live["spec"]["replicas"])

        await until(f"{name} runs", runs, _READY_TIMEOUT_S, poll_s=1.0)

    async def replicas(self) -> dict[str, int]:
        """Return the replicas of each of their StatefulSets."""
        ours = ("names", MASTER, SLAVE, DLEDGER)
        found = await self.cluster.find("statefulsets")
        asked = {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}
        return {name: asked[name] for name in ours if name in asked}

    async def volume(self, claim: str) -> str:
        """Return the volume that a claim is bound to."""
        found = await self.cluster.get("pvc", claim)
        assert found["status"]["phase"] == "Bound", found
        return str(found["spec"]["volumeName"])
