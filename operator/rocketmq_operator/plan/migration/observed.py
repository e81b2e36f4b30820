"""The observation of a migration.

It has the request, the old brokers, their volumes, and the existing objects of the new group.

Kubernetes' objects are as the API server has them; brokers are as `ha-sidecar survey` reports. The migration
records facts that it cannot observe after the old brokers have stopped: on their StatefulSets their
identities and the paths of their stores, on their volumes the contents of a store and the kept part. This
module makes no decisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from controller_core import bounded_json
from rocketmq_operator.api.broker_group import BrokerGroupSpec, BrokerGroupStatus
from rocketmq_operator.api.names import GROUP
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Json, Live

NOTE_ANNOTATION: Final = f"{GROUP}/migration"
"""On an old StatefulSet: who its pods were, where their stores lie, how many there were."""
POLICY_ANNOTATION: Final = f"{GROUP}/reclaim-policy"
"""On a volume: the reclaim policy that it gets back."""
LOG_ANNOTATION: Final = f"{GROUP}/migration-log"
"""On a volume: what its log holds, as `ha-sidecar verify` found it after the stop."""
STORE_ANNOTATION: Final = f"{GROUP}/migration-store"
"""On a volume: the kept part of its store, as `ha-sidecar adopt` reported it."""
MIGRATED_ANNOTATION: Final = f"{GROUP}/migrated"
"""On a BrokerGroup: what it had when it was found to have all that the old brokers had."""
WRITE_PERMISSION: Final = 2


class OldBrokerKind(StrEnum):
    """The kind of the old brokers: with a log in our format, or with DLedger's."""

    MASTER_SLAVE = "master-slave"
    DLEDGER = "dledger"


class VolumeHolder(StrEnum):
    """Whose a volume is, by the claim that it names."""

    OLD = "old"
    HELD = "held"
    NEW = "new"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRequest:
    """What a person asks for.

    Attributes:
        group: name of the BrokerGroup.
        manifest: the BrokerGroup as it will be applied.
        spec: its spec.
        broker_name: brokerName of the old brokers.
        pods: the old brokers' pods; the master first.
        name_servers: of the old brokers, host:port each.
        port: at which the old brokers listen.
        ignored: topics and groups whose unread messages the user gives up.
        empty_slaves: whether to empty slaves without an inspection.
        credentials: Secret with a super user of the old brokers; empty if they need no signed requests.
        trust: ConfigMap with the authorities (`ca.crt`) of the old brokers and name servers; empty for plain
            TCP.
    """

    group: str
    namespace: str
    old_kind: OldBrokerKind
    manifest: Json
    spec: BrokerGroupSpec
    broker_name: str
    pods: tuple[str, ...]
    name_servers: tuple[str, ...] = ()
    port: int = names.BROKER_PORT
    ignored: tuple[str, ...] = ()
    empty_slaves: bool = False
    credentials: str = ""
    trust: str = ""


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What a broker says of itself; offsets of the log in bytes."""

    name: str
    broker_id: int
    permission: int
    controller_mode: bool
    dledger: bool
    store: str
    commit_log: str
    kind: str
    file_bytes: int
    min_offset: int
    max_offset: int
    topics: int
    groups: int
    offsets: int
    consumed: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read one broker of a survey."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__})

    @property
    def takes_writes(self) -> bool:
        """Whether it announces that it takes messages."""
        return bool(self.permission & WRITE_PERMISSION)


@dataclass(frozen=True, slots=True)
class StoreInClaim:
    """Where a store lies: the claim of its volume, and two paths in that."""

    claim: str
    store: str
    commit_log: str


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """The state of an old broker before its stop; offsets of the log in bytes."""

    claim: str
    volume: str
    store: str
    commit_log: str
    file_bytes: int
    min_offset: int
    max_offset: int
    topics: int
    groups: int
    offsets: int
    consumed: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read one of an annotation."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__})

    def json(self) -> Json:
        """Return it as it stands in an annotation."""
        return {name: getattr(self, name) for name in type(self).__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMember:
    """One old broker, and what will be its successor.

    Attributes:
        pod: its pod's name.
        member: the pod that gets its volume.
        stateful_set: of its pod; None if missing.
        live: its pod; None if it does not exist.
        report: its own report; None without a query or an answer.
        no_report_reason: why it does not.
        store_location: where its store lies, or in words why that is not known.
        old_claim: of its volume; None if it is gone.
        new_claim: of its successor; None if it does not exist.
        volume: the PersistentVolume; None if unknown.
    """

    pod: str
    member: str
    namespace: str
    stateful_set: Live | None = None
    live: Live | None = None
    report: BrokerReport | None = None
    no_report_reason: str = ""
    store_location: StoreInClaim | str = ""
    old_claim: Live | None = None
    new_claim: Live | None = None
    volume: Live | None = None

    @property
    def record(self) -> BrokerRecord | None:
        """The note written before its stop."""
        value = recorded_pods(self.stateful_set).get("pods", {}).get(self.pod)
        return None if value is None else BrokerRecord.of(value)

    @property
    def is_wanted(self) -> bool:
        """Whether its StatefulSet should have its pod."""
        ordinal = int(self.pod.rpartition("-")[2])
        return int((self.stateful_set or {}).get("spec", {}).get("replicas", 0)) > ordinal

    @property
    def runs(self) -> bool:
        """Whether its pod is there to stay."""
        return self.live is not None and self.is_wanted and not self.live["metadata"].get("deletionTimestamp")

    @property
    def address(self) -> str:
        """Where its pod is reached; empty if it does not run."""
        return str((self.live or {}).get("status", {}).get("podIP") or "") if self.runs else ""

    @property
    def holder(self) -> VolumeHolder:
        """Whose its volume is."""
        reference = (self.volume or {}).get("spec", {}).get("claimRef") or {}
        record = self.record
        by_name = {
            names.claim(self.member): VolumeHolder.NEW,
            unbindable_claim(self.member): VolumeHolder.HELD,
        }
        if record is not None:
            by_name[record.claim] = VolumeHolder.OLD
        if reference.get("namespace") != self.namespace:
            return VolumeHolder.OTHER
        return by_name.get(reference.get("name", ""), VolumeHolder.OTHER)

    @property
    def log(self) -> Json | None:
        """What its log was found to hold after the stop."""
        return annotation_json(self.volume, LOG_ANNOTATION)

    @property
    def store(self) -> Json | None:
        """The kept part of its store."""
        return annotation_json(self.volume, STORE_ANNOTATION)

    @property
    def has_joined(self) -> bool:
        """Whether its volume is its successor's, and as it was before."""
        bound = (self.new_claim or {}).get("status", {}).get("phase") == "Bound"
        return self.holder is VolumeHolder.NEW and bound and not annotation(self.volume, POLICY_ANNOTATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMigration:
    """All of it, as it is now.

    Attributes:
        cluster: the RocketMQCluster that the manifest names.
        group: the BrokerGroup.
        colliding_objects: objects of the group's name that are not the group's, `kind name` each.
        members: the old brokers; the master first.
        unread: messages that consumers have not read, in words; None without a query.
        unchanged_s: for how long every log has ended where it ends.
        new_master_report: what the new master says of itself, None if it was not asked or did not answer.
    """

    request: MigrationRequest
    cluster: Live | None
    group: Live | None
    colliding_objects: tuple[str, ...] = ()
    members: tuple[OldMember, ...] = ()
    unread: tuple[str, ...] | None = None
    unchanged_s: float = 0.0
    new_master_report: BrokerReport | None = None

    @property
    def first(self) -> OldMember:
        """The old master, or the member that stands for the others."""
        return self.members[0]

    @property
    def others(self) -> tuple[OldMember, ...]:
        """The old slaves."""
        return self.members[1:]

    @property
    def status(self) -> BrokerGroupStatus:
        """What the operator says of the group."""
        return BrokerGroupStatus.model_validate((self.group or {}).get("status") or {})

    @property
    def is_migrated(self) -> bool:
        """Whether the group was found to have everything."""
        return bool(annotation(self.group, MIGRATED_ANNOTATION))

    @property
    def surveyed(self) -> tuple[OldMember, ...]:
        """The old brokers that have to answer."""
        return self.members[:1] if self.request.empty_slaves else self.members


def unbindable_claim(member: str) -> str:
    """Return the name of a claim that is never created.

    A volume that names it stays unbound and cannot bind to another claim.
    """
    return f"{names.claim(member)}-held"


def annotation(live: Live | None, key: str) -> str:
    """Return an annotation's text, empty if none exists."""
    return str(((live or {}).get("metadata", {}).get("annotations") or {}).get(key, ""))


def annotation_json(live: Live | None, key: str) -> Json | None:
    """Return the JSON value of an annotation, None if it does not exist."""
    text = annotation(live, key)
    return bounded_json.decode_object(text) if text else None


def recorded_pods(stateful_set: Live | None) -> Json:
    """Return the note on an old StatefulSet."""
    return annotation_json(stateful_set, NOTE_ANNOTATION) or {}


def stateful_set_of(pod: str) -> str:
    """Return the name of the StatefulSet that a pod of that name belongs to."""
    return pod.rpartition("-")[0]


def locate_store(stateful_set: Live, pod: str, store: str, commit_log: str) -> StoreInClaim | str:
    """Return where a pod's store lies, or why that is not known.

    Args:
        stateful_set: of the pod.
        pod: its name.
        store: the store's path in its container.
        commit_log: the log's path in its container.
    """
    spec = stateful_set["spec"]["template"]["spec"]
    claims = {
        one["name"]: one["persistentVolumeClaim"]["claimName"]
        for one in spec.get("volumes") or []
        if "persistentVolumeClaim" in one
    }
    templates = stateful_set["spec"].get("volumeClaimTemplates") or []
    claims |= {
        one["metadata"]["name"]: f"{one['metadata']['name']}-{pod}" for one in templates
    }  # Kubernetes names them so.
    mounts = [mount for one in spec["containers"] for mount in one.get("volumeMounts") or []]
    found: list[tuple[str, str]] = []
    for path in (store, commit_log):
        inside = [one for one in mounts if one["name"] in claims and _is_below(path, one["mountPath"])]
        if not inside:
            return f"{path} of {pod} lies on no volume of a claim: what is there goes with the pod"
        mount = max(inside, key=lambda one: len(one["mountPath"]))
        if mount.get("subPathExpr"):
            return f"{path} of {pod} is mounted by subPathExpr, which is not followed"
        rest = path[len(mount["mountPath"].rstrip("/")) :].strip("/")
        parts = [one for one in (mount.get("subPath", "").strip("/"), rest) if one]
        found.append((claims[mount["name"]], "/".join(parts)))
    (claim, root), (log_claim, log) = found
    if claim != log_claim:
        return f"{pod} has its log on another volume than its store: {log_claim}, {claim}"
    return StoreInClaim(claim, root, log)


def _is_below(path: str, mount_path: str) -> bool:
    root = mount_path.rstrip("/")
    return path == root or path.startswith(f"{root}/")
