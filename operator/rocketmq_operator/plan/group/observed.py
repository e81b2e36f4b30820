"""Observations: typed, frozen, taken at one time. Plans are functions of these values only.

This module parses JSON, once. A value that a controller or the API server omits is None or empty, never a
guess; a value of an unexpected shape raises `ObservationError`, which is an error of the peer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller_core.remoting.host_port import host_of
from rocketmq_operator.api.broker_group import BrokerGroupSpec, BrokerGroupStatus
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.plan.common.objects import Children, Json, Live, ObjectKey, Owner, cluster_ip
from rocketmq_operator.plan.common.observation import ObservationError, time_of_ns
from rocketmq_operator.plan.common.ownership import NO_LOOKUP, NameLookup
from rocketmq_operator.plan.common.report_servers import ReportServer
from rocketmq_operator.plan.group.pod_sets.live_settings import ToldSettings
from rocketmq_operator.plan.pods.events import ObservedEvent
from rocketmq_operator.plan.pods.observed import ObservedPod
from rocketmq_operator.plan.tls.clients import ClientsStage

MissingMetadata = Mapping[str, tuple[str, ...]]
"""Names by file."""


@dataclass(frozen=True, slots=True)
class ReportedMember:
    """One member as the controllers know it. `address` is the one it announced, host:port."""

    broker_id: int
    address: str
    electable: bool
    in_sync: bool
    alive: bool
    max_offset: int | None


@dataclass(frozen=True, slots=True)
class ReportedGroup:
    """One group as the controllers know it; `master_id` is None without a master."""

    master_id: int | None
    master_address: str
    master_epoch: int
    failure_reason: str
    members: tuple[ReportedMember, ...]

    def by_host(self, host: str) -> ReportedMember | None:
        """Return the member that announced this host; of several, the newest."""
        found = [member for member in self.members if host_of(member.address) == host]
        return max(found, key=lambda member: member.broker_id, default=None)

    @property
    def in_sync_count(self) -> int:
        """Members in the SyncStateSet."""
        return sum(member.in_sync for member in self.members)


@dataclass(frozen=True, slots=True)
class ReportedFailover:
    """One change of master as the controllers recorded it; times are UTC, None until observed."""

    cluster: str
    group: str
    cause: str
    old_master_address: str
    new_master_address: str
    had_master: bool
    old_epoch: int
    new_epoch: int
    sync_state_set_before: tuple[int, ...]
    sync_state_set_after: tuple[int, ...]
    unclean: bool
    times: Mapping[str, datetime]
    old_master_id: int | None = None
    new_master_id: int | None = None

    @property
    def is_reelection(self) -> bool:
        """Whether the master that was lost was elected again.

        Its broker id is the same, wherever it listens now.
        """
        return self.old_master_id is not None and self.old_master_id == self.new_master_id

    @property
    def proposed(self) -> datetime:
        """When the election was proposed."""
        return self.times["proposed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A BrokerGroup and all that belongs to it.

    Attributes:
        cluster: the spec of its cluster, None if that cluster does not exist.
        annotations: of the BrokerGroup.
        cluster_addresses: ClusterIP by the name of each of the cluster's own Services.
        children: what carries the group's label, by kind and name; PersistentVolumeClaims included.
        controllers_answered: whether a controller answered; `group` None then means that it knows no such
            group.
        failovers: of this group, newest first.
        records: the Failover objects that exist, by name.
        report_servers: who shows reports in its namespace.
        missing_metadata: what slaves lack of their master's topics, groups and offsets, by broker and file;
            empty for nothing. A broker whose companion has not compared, as the master's never does, or was
            not asked, is not in it.
        users_in_sync: whether slaves have all users of their master, by broker; as of `missing_metadata`.
        told_settings: what a broker lacks of its settings, by broker; as of `missing_metadata`.
        refusals: the error with which a broker refuses its companion's requests, by broker.
        name_lookup: existing objects with the names of its future children.
        clients_stage: how far TLS with clients is in the cluster.
        signer_mark: what pods that read the credentials when they start carry; empty for nothing.
        certified: whether the cluster had a certificate for the group when the stage was read.
        events: about StatefulSets and claims that lack a pod or a volume, as `member_trouble.event_queries`
            asks.
    """

    now: datetime
    owner: Owner
    generation: int
    spec: BrokerGroupSpec
    status: BrokerGroupStatus
    cluster: RocketMQClusterSpec | None
    cluster_addresses: Mapping[str, str]
    children: Children
    pods: Mapping[str, ObservedPod]
    controllers_answered: bool = False
    group: ReportedGroup | None = None
    failovers: tuple[ReportedFailover, ...] = ()
    records: Mapping[str, Live] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    report_servers: tuple[ReportServer, ...] = ()
    missing_metadata: Mapping[str, MissingMetadata] = field(default_factory=dict)
    users_in_sync: Mapping[str, bool] = field(default_factory=dict)
    told_settings: Mapping[str, ToldSettings] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    name_lookup: NameLookup = NO_LOOKUP
    clients_stage: ClientsStage = ClientsStage.DISABLED
    certified: bool = False
    signer_mark: str = ""
    events: Mapping[ObjectKey, tuple[ObservedEvent, ...]] = field(default_factory=dict)

    def child(self, kind: str, name: str) -> Live | None:
        """Return a child that exists."""
        return self.children.get(ObjectKey(kind, name))

    def service_address(self, member: str) -> str:
        """Return the ClusterIP of a member's Service, empty until one exists."""
        service = self.child("Service", member)
        return "" if service is None else cluster_ip(service)

    def reported_member(self, member: str) -> ReportedMember | None:
        """Return what the controllers know of a member, by the address it announced."""
        host = self.service_address(member)
        return self.group.by_host(host) if self.group is not None and host else None

    def member_at(self, address: str) -> str:
        """Return the member that announces this host:port, empty for a stranger."""
        host = host_of(address)
        for kind, name in self.children:
            if kind == "Service" and host and self.service_address(name) == host:
                return name
        return ""

    @property
    def master(self) -> str:
        """The master's name, empty while the group has no master or no member has its address."""
        if self.group is None or self.group.master_id is None:
            return ""
        return self.member_at(self.group.master_address)


def parse_missing_metadata(value: Json) -> MissingMetadata | None:
    """Parse the missing items of a broker from its companion's `GET /v1/status`; None if it does not know."""
    try:
        missing = value["metadata_missing"]
        return None if missing is None else {file: tuple(map(str, found)) for file, found in missing.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ObservationError(f"not a status of a companion: {error!r}") from error


def parse_refusal(value: Json) -> str:
    """Read with which words a broker refuses its companion's requests.

    The source is the companion's `GET /v1/status`; the result is empty if the broker answers.
    """
    return str(value.get("refusal") or "")


def parse_users_in_sync(value: Json) -> bool | None:
    """Read whether a slave has the users of its master; None if its companion does not know."""
    holds = value.get("users_in_sync")
    return holds if isinstance(holds, bool) else None


def parse_group(value: Json) -> ReportedGroup:
    """Read a group of `GET /v1/groups/{cluster}/{name}`."""
    try:
        return ReportedGroup(
            master_id=value["master_id"],
            master_address=value["master_address"] or "",
            master_epoch=value["master_epoch"],
            failure_reason=value["failure_reason"] or "",
            members=tuple(_parse_member(member) for member in value["replicas"]),
        )
    except (KeyError, TypeError) as error:
        raise ObservationError(f"not a group of a controller: {error!r}") from error


def _parse_member(value: Json) -> ReportedMember:
    return ReportedMember(
        broker_id=value["broker_id"],
        address=value["address"],
        electable=value["electable"],
        in_sync=value["in_sync"],
        alive=value["alive"],
        max_offset=value["max_offset"],
    )


_TIMES = ("last_heartbeat", "suspected", "proposed", "committed", "noticed", "role_taken", "first_beat")


def parse_failover(value: Json) -> ReportedFailover:
    """Read one change of master of `GET /v1/failovers`."""
    try:
        return ReportedFailover(
            cluster=value["cluster"],
            group=value["group"],
            cause=value["cause"],
            old_master_address=value["old_master_address"] or "",
            new_master_address=value["new_master_address"],
            had_master=value["old_master_id"] is not None,
            old_epoch=max(0, value["old_epoch"]),
            new_epoch=value["new_epoch"],
            sync_state_set_before=tuple(value["sync_state_set_before"]),
            sync_state_set_after=tuple(value["sync_state_set_after"]),
            unclean=value["unclean"],
            times={
                name: time_of_ns(value[f"{name}_ns"]) for name in _TIMES if value[f"{name}_ns"] is not None
            },
            old_master_id=value["old_master_id"],
            new_master_id=value["new_master_id"],
        )
    except (KeyError, TypeError) as error:
        raise ObservationError(f"not a change of master of a controller: {error!r}") from error
