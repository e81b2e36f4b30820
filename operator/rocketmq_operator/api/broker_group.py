"""BrokerGroup: brokers with the same log, one of them the master, and log replicas beside them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel, StatusModel, kept_by, schema_extra
from rocketmq_operator.api.common import (
    CLUSTER_NAME_PATTERN,
    NAME_LENGTH_MAX,
    DeletionPolicy,
    LogLevel,
    LogTarget,
    LostMembers,
    Placement,
    Properties,
    Resources,
)
from rocketmq_operator.api.conditions import Conditions, ObservedGeneration
from rocketmq_operator.api.members.copies import (
    COPIES_IN_REACH,
    COPIES_OF_A_QUORUM,
    SET_FOR_COPIES,
    SET_FOR_WRITES,
    SET_OF_ELECTIONS,
)
from rocketmq_operator.api.members.failover_timing import FailoverTiming
from rocketmq_operator.api.members.learners import (
    LEARNERS_MAX,
    NO_LEARNERS_IN_A_QUORUM,
    LearnersSpec,
    LearnerStatus,
)
from rocketmq_operator.api.members.roles import NOTHING_BESIDE_STATIC_ROLES, SWITCH_WITH_ONE_BROKER, RoleMode
from rocketmq_operator.api.pods.jvm import Jvm
from rocketmq_operator.api.pods.settings import PodOverride, PodSettings
from rocketmq_operator.api.pods.storage import LEARNERS_WITHOUT_CLAIM, TIERED_PATH_OWNED, GroupStorage
from rocketmq_operator.api.rules import harmful_keys, owned_keys, plain_properties, refused_keys, unchangeable

REPLICAS_MAX: Final = 7
LOG_REPLICAS_MAX: Final = 3
MEMBERS_MAX: Final = REPLICAS_MAX + LOG_REPLICAS_MAX
LOG_FILE_MEBIBYTES_DEFAULT: Final = 1_024
"""Source: RocketMQ 5.4.0 MessageStoreConfig.java, mappedFileSizeCommitLog."""
LOG_FILE_MEBIBYTES_MAX: Final = 2_047
"""Java's int bounds the length of a mapped file."""

OWNED_KEYS: Final = (
    "allAckInSyncStateSet",
    "brokerClusterName",
    "brokerHeartbeatInterval",
    "brokerId",
    "brokerIP1",
    "brokerIP2",
    "brokerName",
    "brokerRole",
    "controllerAddr",
    "controllerHeartBeatTimeoutMills",
    "enableControllerMode",
    "haListenPort",
    "inSyncReplicas",
    "listenPort",
    "mappedFileSizeCommitLog",
    "minInSyncReplicas",
    "namesrvAddr",
    "storePathCommitLog",
    "storePathRootDir",
)
"""Keys of broker.conf that the operator writes itself."""

ACCESS_CONTROL_KEYS: Final = (
    "aclEnable",
    "authConfigPath",
    "authenticationEnabled",
    "authenticationMetadataProvider",
    "authenticationProvider",
    "authenticationStrategy",
    "authenticationWhitelist",
    "authorizationEnabled",
    "authorizationMetadataProvider",
    "authorizationProvider",
    "authorizationStrategy",
    "authorizationWhitelist",
    "initAuthenticationUser",
    "innerClientAuthenticationCredentials",
    "migrateAuthFromV1Enabled",
)
"""Keys of broker.conf that turn access control on or belong to it. Source: BrokerConfig.java 5.2.0 and
AuthConfig.java 5.3.3 to 5.5.0."""

HARMFUL_KEYS: Final = {
    "asyncLearner": "makes every broker a learner, which is never elected, in place of the field learners",
    "brokerElectionPriority": "has one value for the whole group, and the least one means: never elected",
    "dLegerGroup": "belongs to the log of DLedger, which the operator does not use",
    "dLegerPeers": "belongs to the log of DLedger, which the operator does not use",
    "dLegerSelfId": "belongs to the log of DLedger, which the operator does not use",
    "duplicationEnable": "switches the copies to other members off",
    "enableDLegerCommitLog": "replaces the log by one that controllers and log replicas do not know",
    "enableElectUncleanMaster": "is a setting of controllers: set it in controllers of the RocketMQCluster",
    "fetchControllerAddrByDnsLookup": "makes brokers take the list of controllers for one name",
    "fetchNameSrvAddrByDnsLookup": "makes brokers take the list of name servers for one name",
    "haMasterAddress": "names a master, and the controllers choose the master",
    "metricsPromExporterHost": "moves the metrics away from where companions and Prometheus ask for them",
    "metricsPromExporterPort": "moves the metrics away from where companions and Prometheus ask for them",
    "preferredLeader": "belongs to the log of DLedger, which the operator does not use",
    "storePathEpochFile": "moves the file of epochs away from where a seed writes it",
    "syncFromLastFile": "lets an empty slave skip old messages, and a seed already fills its volume; members "
    "that are never elected have the fields logSyncFromLastFile and learners.syncFromLastFile",
}
"""Keys of broker.conf that break what the operator promises, or change nothing, and why. Sources:
BrokerConfig.java, MessageStoreConfig.java, DefaultMessageStore.initializeHAService, CommitLog.asyncPutMessage
and BrokerController.updateNamesrvAddr 5.5.0."""


class Durability(StrEnum):
    """What an acknowledgement means."""

    ASYNC = "Async"
    """The master has the message. A failover may lose the messages acknowledged last."""
    QUORUM = "Quorum"
    """`inSyncReplicas` brokers have it. The end of one broker less loses none: before an election the
    controllers ask the living members for their log ends. A master that is cut off stops before that."""
    ALL_IN_SYNC = "AllInSync"
    """Every member of the SyncStateSet has it, at least two. The loss of any one member loses no acknowledged
    message."""


COPIES_MIN: Final = 2


_MEMBERS_FOR_TWO_COPIES = Rule(
    name="TooFewMembers",
    expression="self.durability == 'Async' || self.replicas + self.logReplicas >= 2",
    message="'durability is %s with replicas %d and logReplicas %d: two copies need two members; add one or "
    "take Async'.format([self.durability, self.replicas, self.logReplicas])",
    holds=lambda spec: spec.durability == Durability.ASYNC or spec.replicas + spec.log_replicas >= 2,
    problem=lambda spec: (
        f"durability is {spec.durability} with replicas {spec.replicas} and logReplicas {spec.log_replicas}: "
        "two copies need two members"
    ),
)

_QUORUM_OF_BROKERS = Rule(
    name="QuorumWithLogReplicas",
    expression="self.durability != 'Quorum' || self.logReplicas == 0",
    message="'durability is Quorum with logReplicas %d: a log replica may hold the only second copy and is "
    "never elected, so failovers would wait for the lost master; set logReplicas to 0 or take AllInSync'"
    ".format([self.logReplicas])",
    holds=lambda spec: spec.durability != Durability.QUORUM or spec.log_replicas == 0,
    problem=lambda spec: (
        f"durability is Quorum with logReplicas {spec.log_replicas}: a log replica may hold the only second "
        "copy and is never elected, so failovers would wait for the lost master; set logReplicas to 0 or "
        "take AllInSync"
    ),
)


class BrokerGroupSpec(SpecModel):
    """What a person asks of a group."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _MEMBERS_FOR_TWO_COPIES,
        _QUORUM_OF_BROKERS,
        COPIES_OF_A_QUORUM,
        COPIES_IN_REACH,
        SET_FOR_WRITES,
        SET_FOR_COPIES,
        SET_OF_ELECTIONS,
        NO_LEARNERS_IN_A_QUORUM,
        NOTHING_BESIDE_STATIC_ROLES,
        SWITCH_WITH_ONE_BROKER,
        plain_properties("config"),
        owned_keys("config", OWNED_KEYS),
        refused_keys(
            "config",
            ACCESS_CONTROL_KEYS,
            "AccessControl",
            "belongs to access control: set authentication and authorization of the RocketMQCluster",
        ),
        harmful_keys("config", HARMFUL_KEYS),
        TIERED_PATH_OWNED,
        LEARNERS_WITHOUT_CLAIM,
    )

    cluster: Annotated[
        str,
        Field(
            min_length=1,
            max_length=NAME_LENGTH_MAX,
            pattern=CLUSTER_NAME_PATTERN,
            json_schema_extra=schema_extra(unchangeable("cluster", "a store belongs to one cluster")),
        ),
    ]
    """Name of a RocketMQCluster of this namespace. Cannot change."""
    mode: RoleMode = RoleMode.CONTROLLERS
    """Controllers elect a master, and another one when it ends. Static: the first broker is the master for
    ever, and nothing fails over. Changes from Static to Controllers with one broker, and not back."""
    replicas: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 2
    """Brokers: those that can be master."""
    log_replicas: Annotated[int, Field(ge=0, le=LOG_REPLICAS_MAX)] = 0
    """Members that keep the log only, for tens of megabytes of memory each."""
    log_sync_from_last_file: bool = False
    """Whether a log replica with an empty volume begins with the newest file of its master's log, and never
    gets older messages. Such log replicas serve their log to no other member."""
    learners: LearnersSpec = LearnersSpec()
    """Members that copy and are never counted nor elected."""
    durability: Durability = Durability.ALL_IN_SYNC
    """Which members hold a message when it is acknowledged. Async: the master. Quorum: `inSyncReplicas`
    brokers; the end of one broker less loses nothing, because a failover elects the longest log. Not together
    with log replicas. AllInSync: every member of the SyncStateSet; the loss of any one loses nothing."""
    in_sync_replicas: Annotated[int, Field(ge=COPIES_MIN, le=REPLICAS_MAX)] | None = None
    """With Quorum: how many brokers have a message when it is acknowledged, the master included. From 2 to
    `replicas`; 2 if it is left out."""
    min_in_sync_replicas: Annotated[int, Field(ge=1, le=MEMBERS_MAX)] | None = None
    """How many members the SyncStateSet must have, or the master refuses writes. At most all members. With
    Quorum at least `inSyncReplicas`, with AllInSync at least 2: these are also what it is if it is left out,
    and 1 with Async. Not with mode Static."""
    storage: GroupStorage
    """Volumes of each member, log replicas and learners included."""
    resources: Resources = Resources(cpu="1", memory="4Gi")
    """Of each broker."""
    log_resources: Resources = Resources(cpu="100m", memory="256Mi")
    """Of each log replica."""
    log_file_mebibytes: Annotated[
        int,
        Field(
            ge=1,
            le=LOG_FILE_MEBIBYTES_MAX,
            json_schema_extra=schema_extra(
                unchangeable("logFileMebibytes", "the files of the log have the length they were made with")
            ),
        ),
    ] = LOG_FILE_MEBIBYTES_DEFAULT
    """Length of a file of the log in MiB, the same for brokers and log replicas. Cannot change."""
    config: Properties = Field(default={})
    """Further keys of broker.conf: a letter, then letters and digits. Keys that the operator writes,
    those of access control, and those that break failovers or change nothing are refused. Brokers read a
    value as it is written here, backslashes included. A change restarts brokers one at a time, unless they
    take all changed keys while they run."""
    placement: Placement = Placement()
    """Where members run."""
    jvm: Jvm | None = None
    """Of each broker."""
    pod: PodSettings | None = None
    """Of the pods of brokers."""
    pod_override: PodOverride | None = None
    """Laid over the pods of brokers."""
    log_pod: PodSettings | None = None
    """Of the pods of log replicas."""
    log_pod_override: PodOverride | None = None
    """Laid over the pods of log replicas."""
    lost_members: LostMembers = LostMembers()
    """What becomes of a member whose node is gone for good."""
    failover: FailoverTiming = FailoverTiming()
    """When the controllers declare a silent master dead."""
    log_to: LogTarget | None = None
    """Where brokers log: Stdout or Files. Absent: brokers of a new group to standard output, and those of a
    group from before this field to files unless there is a level. A change restarts the brokers."""
    log_level: LogLevel | None = None
    """Least level of the log lines of brokers, companions, log replicas and learners; Info when absent.
    Brokers take it when they start, and only if they log to standard output; the others while they run. In a
    group from before `logTo` the first level sends the log of brokers to standard output, which restarts them
    once."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """What becomes of the volumes when the group is deleted."""
    hibernated: bool = False
    """Whether the group has no pods. Its volumes, addresses and epochs stay; the master stops last, and is
    master again when this is false."""
    paused: bool = False
    """Whether the operator only looks and reports, and changes nothing."""

    @property
    def copies(self) -> int:
        """How many members have a message when it is acknowledged, at least."""
        if self.durability is Durability.ASYNC:
            return 1
        return self.in_sync_replicas or COPIES_MIN

    @property
    def members_for_writes(self) -> int:
        """How many members the SyncStateSet must have for the master to accept writes."""
        return self.min_in_sync_replicas or self.copies

    @property
    def log_file_bytes(self) -> int:
        """Length of a file of the log, the same for brokers and log replicas."""
        return self.log_file_mebibytes << 20


class MasterStatus(StatusModel):
    """The group's master as the controllers say."""

    name: Annotated[str, Field(max_length=253)] = ""
    """The pod's name."""
    broker_id: Annotated[int, Field(ge=0)] = 0
    """Its id in the controllers."""
    epoch: Annotated[int, Field(ge=0)] = 0
    """The master epoch, raised by each election."""
    since: datetime | None = None
    """When it was elected, if the controllers still know."""


class MemberStatus(StatusModel):
    """One member."""

    name: Annotated[str, Field(max_length=253)]
    """The pod's name."""
    role: Annotated[str, Field(max_length=16)]
    """Master, Slave, Log or Unknown."""
    broker_id: Annotated[int, Field(ge=0)] | None = None
    """Its id in the controllers."""
    in_sync: bool = False
    """Whether it is in the SyncStateSet."""
    ready: bool = False
    """Whether its pod is ready."""
    lag_bytes: Annotated[int, Field(ge=0)] | None = None
    """How far its log is behind the master's by the last heartbeats, in bytes; 0 up to 16 MiB, which is on
    its way between two of them."""
    takeover: Annotated[str, Field(max_length=253)] = ""
    """The member that serves its address, when it is another."""


class PlanStatus(StatusModel):
    """What the operator is about to do."""

    steps: Annotated[tuple[Annotated[str, Field(max_length=256)], ...], Field(max_length=64)] = ()
    """The steps that are left, the next one first."""
    waiting_for: Annotated[str, Field(max_length=256)] = ""
    """Why the next step is not taken yet."""


class BrokerGroupStatus(StatusModel):
    """What the operator says of a group."""

    observed_generation: ObservedGeneration = 0
    """The generation that was acted on."""
    conditions: Conditions = ()
    """Ready, MasterElected, InSync, Progressing, Reconciling, Stalled, MetadataInSync, UsersInSync (of a
    cluster with users), ConfigApplied (of a group with `config`), StorageDurable (of an ephemeral group),
    Hibernated (of one that is asked to),
    PodsAccepted and Paused."""
    replicas: Annotated[int, Field(ge=0)] = 0
    """Brokers that exist, for the scale subresource."""
    selector: Annotated[str, Field(max_length=256)] = ""
    """Selector of the brokers' pods, for the scale subresource."""
    version: Annotated[str, Field(max_length=32)] = ""
    """Version of RocketMQ that the spec of the cluster requests for the brokers."""
    master: MasterStatus = MasterStatus()
    """The group's master."""
    in_sync: Annotated[str, Field(max_length=16)] = ""
    """Members in the SyncStateSet of all, for instance 3/3."""
    members: Annotated[
        tuple[MemberStatus, ...],
        Field(
            max_length=MEMBERS_MAX,
            json_schema_extra=kept_by("name"),
        ),
    ] = ()
    """Every member."""
    learners: Annotated[
        tuple[LearnerStatus, ...], Field(max_length=LEARNERS_MAX, json_schema_extra=kept_by("name"))
    ] = ()
    """Every learner."""
    plan: PlanStatus = PlanStatus()
    """What the operator is about to do."""
    last_failover: Annotated[str, Field(max_length=253)] = ""
    """Name of the newest Failover of the group to another member; re-elections do not count."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """One word why the group is not ready, or for the trouble of one of its members; empty without
    trouble."""
