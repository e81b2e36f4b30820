"""A cluster in memory with old brokers whose logs and offsets matter.

A migration runs there, is killed, and runs to the end.

It is as unkind as a cluster may be. A volume whose claim is gone is deleted with all that is on it, whatever
its policy. A claim without a volume gets a new, empty one. The broker that is ready last gets the first offer
to be master, and the broker that is master makes all others equal to itself. So a volume that is without a
name for a moment, and a slave that starts too early, lose messages here.
"""

import copy
import json
import shlex
from dataclasses import dataclass, field
from typing import Any

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.clients.api import KubeConflictError
from rocketmq_operator.plan.migration.observed import MigrationRequest, OldBrokerKind
from testkit.memory.kubernetes import MemoryKube
from testkit.worlds.old_sets import NAMESPACE, stateful_set

Json = dict[str, Any]
GROUP, CLUSTER = "orders", "main"
MESSAGES = 1_000
RECORD_BYTES = 100
TASKS = {"app.kubernetes.io/component": "migration"}


@dataclass
class VolumeContent:
    """The content of a volume: the store's path, its log as message names, and its broker's knowledge."""

    place: str = "store"
    log: list[str] = field(default_factory=list)
    topics: int = 12
    groups: int = 3
    offsets: int = 8
    consumed: int = 900
    unread: int = 0
    is_ours: bool = False
    damage: Json | None = None

    @property
    def max_offset(self) -> int:
        """Where the log ends."""
        return len(self.log) * RECORD_BYTES


class MigrationKube(MemoryKube):
    """The API with volumes, with pods that run to their end, and with old and new brokers.

    Attributes:
        stores: by volume.
        permissions: of running old brokers, by pod.
        lost: volumes that were deleted, in words.
        claims_with_empty_volumes: for which a new volume was made.
        dledger: whether the old brokers are DLedger's.
        silent: old brokers that do not answer.
        leader: the old broker that leads, in a DLedger group.
        changed: settings of old brokers that are not as usual, by pod.
        credentials: the Secret that each pod of the migration has for its requests, by its last words.
        trusted: the ConfigMap of authorities of each such pod, likewise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stores: dict[str, VolumeContent] = {}
        self.permissions: dict[str, int] = {}
        self.lost: list[str] = []
        self.claims_with_empty_volumes: list[str] = []
        self.dledger = False
        self.silent: set[str] = set()
        self.leader = "old-master-0"
        self.changed: dict[str, Json] = {}
        self.tasks: list[str] = []
        self.credentials: dict[str, str] = {}
        self.trusted: dict[str, str] = {}

    async def create(self, body: Json) -> Json:
        """Create an object; what a pod does is done when it is there."""
        key = (body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])
        if key in self.objects:
            raise KubeConflictError(f"{key[2]} exists")
        return await super().create(body)

    async def patch(self, kind: str, namespace: str, name: str, body: Json) -> Json:
        """Write these fields; None removes one."""
        live = self.objects[kind, namespace, name]
        _merge(live, body)
        self.settle()
        self.wrote(f"patch {kind} {name}")
        return copy.deepcopy(live)

    def settle(self) -> None:
        """Let pods end, volumes be bound or deleted, brokers come and go."""
        super().settle()
        self._bind()
        self._reclaim()
        self._run_tasks()
        self._brokers()
        super().settle()

    def claim(self, name: str) -> Json | None:
        """Return a claim."""
        return self.objects.get(("PersistentVolumeClaim", NAMESPACE, name))

    def store_of_claim(self, name: str) -> VolumeContent:
        """Return the content of a claim's volume."""
        claim = self.claim(name)
        assert claim is not None, name
        assert claim.get("status", {}).get("phase") == "Bound", f"{name} is not bound"
        return self.stores[claim["spec"]["volumeName"]]

    def volume(self, name: str, claim: Json, store: VolumeContent) -> None:
        """Make a volume that is a claim's."""
        self.objects["PersistentVolume", "", name] = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "namespace": "", "uid": f"uid-of-{name}"},
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "directory",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "2Gi"},
                "claimRef": {
                    "namespace": NAMESPACE,
                    "name": claim["metadata"]["name"],
                    "uid": claim["metadata"]["uid"],
                },
            },
        }
        self.stores[name] = store
        claim["spec"]["volumeName"] = name
        claim["status"] = {"phase": "Bound"}

    def _bind(self) -> None:
        for (kind, _, name), claim in sorted(self.objects.items()):
            if kind != "PersistentVolumeClaim" or claim.get("status", {}).get("phase") == "Bound":
                continue
            wanted = claim["spec"].get("volumeName")
            if wanted is None:
                if any(one in name for one in ("old-", "orders-")):
                    self.claims_with_empty_volumes.append(name)
                self.volume(f"new-{name}", claim, VolumeContent())
                continue
            volume = self.objects.get(("PersistentVolume", "", wanted))
            reference = (volume or {}).get("spec", {}).get("claimRef") or {}
            if reference.get("name") == name and reference.get("uid") in {None, claim["metadata"]["uid"]}:
                reference["uid"] = claim["metadata"]["uid"]
                claim["status"] = {"phase": "Bound"}
            else:
                claim["status"] = {"phase": "Pending"}

    def _reclaim(self) -> None:
        for (kind, _, name), volume in list(self.objects.items()):
            if kind != "PersistentVolume":
                continue
            reference = volume["spec"].get("claimRef") or {}
            claim = self.claim(reference.get("name", ""))
            if "uid" in reference and (claim is None or claim["metadata"]["uid"] != reference["uid"]):
                del self.objects[kind, "", name]
                self.lost.append(name)

    def _brokers(self) -> None:
        """Let old brokers start with their usual permission, elect a master, and make all equal to it."""
        pods = {name for (kind, _, name) in self.objects if kind == "Pod"}
        for pod in [pod for pod in self.permissions if pod not in pods]:
            del self.permissions[pod]
        for pod in pods:
            if pod.startswith("old-"):
                self.permissions.setdefault(pod, 6)
        group = self.objects.get(("BrokerGroup", NAMESPACE, GROUP))
        if group is not None:
            self._operate(group)

    def _operate(self, group: Json) -> None:
        replicas = group["spec"].get("replicas", 2)
        key = ("StatefulSet", NAMESPACE, GROUP)
        if key not in self.objects:
            self.objects[key] = stateful_set(GROUP, replicas, group["metadata"]["uid"])
            super().settle()
            self._bind()
        ready = []
        for ordinal in range(replicas):
            claim = self.claim(f"data-{GROUP}-{ordinal}")
            if claim and claim.get("status", {}).get("phase") == "Bound":
                ready.append(f"{GROUP}-{ordinal}")
        status = group.setdefault("status", {})
        if ready and not status.get("master", {}).get("name"):
            status["master"] = {"name": ready[-1], "brokerId": 1, "epoch": 1}
        if not ready:
            return
        master = self.store_of_claim(f"data-{status['master']['name']}")
        for pod in ready:
            store = self.store_of_claim(f"data-{pod}")
            assert store.place == "store", "a broker of ours starts on nothing where its store should be"
            store.log = list(master.log)
        since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "reason": "Told"}
        status["conditions"] = [{"type": "Ready", "status": str(len(ready) == replicas), **since}]

    def _run_tasks(self) -> None:
        for (kind, _, _), pod in list(self.objects.items()):
            labels = pod["metadata"].get("labels", {})
            if kind != "Pod" or pod.get("status") or not TASKS.items() <= labels.items():
                continue
            script = pod["spec"]["containers"][0]["command"][2]
            words = shlex.split(script.removeprefix("exec ").removesuffix(" >/dev/termination-log"))
            claim = next(
                (
                    one["persistentVolumeClaim"]["claimName"]
                    for one in pod["spec"]["volumes"]
                    if "persistentVolumeClaim" in one
                ),
                "",
            )
            self.tasks.append(" ".join(words[1:]))
            secrets = [one["secret"]["secretName"] for one in pod["spec"]["volumes"] if "secret" in one]
            self.credentials[self.tasks[-1]] = ",".join(secrets)
            trusted = [one["configMap"]["name"] for one in pod["spec"]["volumes"] if "configMap" in one]
            self.trusted[self.tasks[-1]] = ",".join(trusted)
            code, told = self._done(words, claim)
            ended = {"exitCode": code, "message": told if isinstance(told, str) else json.dumps(told)}
            pod["status"] = {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [{"state": {"terminated": ended}}],
            }

    def _done(self, words: list[str], claim: str) -> tuple[int, Json | str]:
        options = {one.partition("=")[0]: one.partition("=")[2] for one in words if one.startswith("--")}
        match words[1]:
            case "survey":
                asked = options["--brokers"].split(",")
                told: Json = {"brokers": [self._survey(address) for address in asked]}
                if "--unread" in words:
                    left = sum(self.store_of_claim(f"data-{pod}").unread for pod in self.permissions)
                    told["unread"] = (
                        [{"topic": "Payments", "group": "billing", "messages": left}] if left else []
                    )
                return 0, told
            case "permission":
                for pod in self.permissions:
                    self.permissions[pod] = 4 if words[2] == "read" else 6
                return 0, {"permission": 4 if words[2] == "read" else 6}
            case "verify":
                store = self.store_of_claim(claim)
                assert words[2] == f"/volume/{store.place}/commitlog"
                return (1 if store.damage else 0), {
                    "min_offset": 0,
                    "max_offset": store.max_offset,
                    "messages": len(store.log),
                    "message_bytes": store.max_offset,
                    "first_damage": store.damage,
                }
            case "adopt":
                store = self.store_of_claim(claim)
                assert options["--store"] == store.place or store.is_ours
                store.place, store.is_ours = "store", True
                if options["--keep"] != "keep":
                    store.log, store.offsets, store.consumed = [], 0, 0
                return 0, {"kept": options["--keep"]}
        return 2, f"what is {words[1]}?"

    def _survey(self, address: str) -> Json:
        host, _, _ = address.partition(":")
        pods = {
            pod["status"].get("podIP"): pod["metadata"]["name"] for pod in self.pods() if pod.get("status")
        }
        pod = host.partition(".")[0] if "." in host and host.endswith("svc") else pods.get(host, "")
        if not pod or pod in self.silent:
            return {"address": address, "problem": "nobody answers"}
        store = self.store_of_claim(f"data-{pod}")
        of_store = ("max_offset", "topics", "groups", "offsets", "consumed")
        return {
            "address": address,
            "name": GROUP,
            "broker_id": self._broker_id(pod),
            "permission": self.permissions.get(pod, 6),
            "controller_mode": False,
            "dledger": self.dledger,
            "store": f"/data/{store.place}",
            "commit_log": f"/data/{store.place}/commitlog",
            "kind": "default",
            "file_bytes": 64 << 20,
            "min_offset": 0,
            **{name: getattr(store, name) for name in of_store},
            **self.changed.get(pod, {}),
        }

    def _broker_id(self, pod: str) -> int:
        if self.dledger:
            return 0 if pod == self.leader else 2 + int(pod.rpartition("-")[2])
        return 0 if pod.startswith("old-master") else 1


def _merge(live: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            live.pop(key, None)
        elif isinstance(value, dict):
            _merge(live.setdefault(key, {}), value)
        else:
            live[key] = value


class MigrationWorld:
    """Old brokers, a RocketMQCluster, and what a person asks for."""

    def __init__(self, slaves: int = 1, course: OldBrokerKind = OldBrokerKind.MASTER_SLAVE) -> None:
        self.kube = MigrationKube()
        self.kube.dledger = course is OldBrokerKind.DLEDGER
        self.old_kind = course
        self.pods = ("old-master-0", *(f"old-slave-{number}" for number in range(slaves)))
        self.empty_slaves = False
        self.credentials = self.trust = ""
        self.spec: Json = {
            "cluster": CLUSTER,
            "replicas": 1 + slaves,
            "logReplicas": 1,
            "storage": {"size": "2Gi"},
            "logFileMebibytes": 64,
        }
        self.kube.objects["RocketMQCluster", NAMESPACE, CLUSTER] = {
            "kind": "RocketMQCluster",
            "metadata": {"name": CLUSTER, "namespace": NAMESPACE, "uid": "uid-of-main"},
            "spec": {},
        }
        for name, replicas in (("old-master", 1), ("old-slave", slaves)):
            if replicas:
                self.kube.objects["StatefulSet", NAMESPACE, name] = stateful_set(name, replicas)
        MemoryKube.settle(self.kube)
        for pod in self.pods:
            claim = self.kube.claim(f"data-{pod}")
            assert claim is not None
            log = [f"m{number}" for number in range(MESSAGES)]
            self.kube.volume(f"volume-of-{pod}", claim, VolumeContent(place="home/store", log=log))
        self.kube.settle()

    def fork(self) -> "MigrationWorld":
        """Return a copy that goes its own way."""
        return copy.deepcopy(self)

    def old_store(self, pod: str) -> VolumeContent:
        """Return the content of an old broker's volume."""
        return self.kube.stores[f"volume-of-{pod}"]

    def request(self) -> MigrationRequest:
        """Return what the person asks for."""
        manifest = {
            "apiVersion": "rocketmq-ha.dev/v1alpha1",
            "kind": "BrokerGroup",
            "metadata": {"name": GROUP, "namespace": NAMESPACE},
            "spec": self.spec,
        }
        return MigrationRequest(
            group=GROUP,
            namespace=NAMESPACE,
            old_kind=self.old_kind,
            manifest=manifest,
            spec=BrokerGroupSpec.model_validate(self.spec),
            broker_name=GROUP,
            pods=self.pods,
            name_servers=("names:9876",),
            empty_slaves=self.empty_slaves,
            credentials=self.credentials,
            trust=self.trust,
        )

    def picture(self) -> Json:
        """Return all that matters of how it ended."""
        volumes = {
            name: (
                value["spec"]["claimRef"]["name"],
                value["spec"]["persistentVolumeReclaimPolicy"],
                value["metadata"].get("annotations") or {},
            )
            for (kind, _, name), value in self.kube.objects.items()
            if kind == "PersistentVolume"
        }
        return {
            "volumes": volumes,
            "stores": {name: (one.place, one.log, one.offsets) for name, one in self.kube.stores.items()},
            "objects": sorted(
                key for key in self.kube.objects if not (key[0] == "Pod" and "migrate" in key[2])
            ),
            "lost": self.kube.lost,
            "permissions": self.kube.permissions,
            "annotations": {
                key[2]: value["metadata"].get("annotations") or {}
                for key, value in self.kube.objects.items()
                if key[0] in {"StatefulSet", "BrokerGroup"}
            },
        }
