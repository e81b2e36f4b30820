"""ConsumerGroup: how a group of consumers may read, in the broker groups of a cluster.

The defaults are RocketMQ's own. Source: RocketMQ 5.3.3 SubscriptionGroupConfig.java, MixAll.java; the same in
5.5.0.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel
from rocketmq_operator.api.common import DeletionPolicy
from rocketmq_operator.api.metadata import ClusterName, DriftPolicy, GroupNames, name_rules

GROUP_LENGTH_MAX: Final = 120
"""A group's name is part of the names of its topics for retries. Source: RocketMQ 5.3.3
TopicValidator.java."""
SYSTEM_GROUPS: Final = (
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_PULL",
    "DEFAULT_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "TOOLS_CONSUMER",
)
SYSTEM_PREFIX: Final = "CID_RMQ_SYS_"
RETRY_QUEUES_MAX: Final = 64


class ConsumerGroupSpec(SpecModel):
    """What a person asks of a consumer group."""

    RULES: ClassVar[tuple[Rule, ...]] = name_rules("groupName", "group_name", SYSTEM_GROUPS, SYSTEM_PREFIX)

    cluster: ClusterName
    """Name of a RocketMQCluster of this namespace. Cannot change."""
    group_name: Annotated[str, Field(min_length=1, max_length=GROUP_LENGTH_MAX)] | None = None
    """Its name in RocketMQ; metadata.name when absent. Cannot change."""
    broker_groups: GroupNames = ()
    """BrokerGroups of the cluster that have it; all, later ones too, when empty. One that is taken out of the
    list keeps it."""
    consume_enable: bool = True
    """Whether it may read at all."""
    consume_broadcast_enable: bool = True
    """Whether each of its consumers may read every message."""
    consume_from_min_enable: bool = True
    """Whether it may begin at the oldest message."""
    ordered: bool = False
    """Whether it reads each queue in order (RocketMQ's `consumeMessageOrderly`)."""
    retry_max_times: Annotated[int, Field(ge=0, le=1_000)] = 16
    """How often a message that failed comes again before it goes to the dead letters."""
    retry_queue_nums: Annotated[int, Field(ge=0, le=RETRY_QUEUES_MAX)] = 1
    """Queues of its topic for retries in each broker group; 0: none, a message that failed is not sent
    again."""
    consume_timeout_minute: Annotated[int, Field(ge=1, le=1_440)] = 15
    """Minutes after which the broker considers a message that a consumer holds as failed."""
    notify_consumer_ids_changed_enable: bool = True
    """Whether the broker notifies its consumers at once when one of them joins or leaves."""
    drift_policy: DriftPolicy = DriftPolicy.CORRECT
    """The operator's reaction when another client changes it in a broker: Correct or Report. If a broker
    lacks it, the operator creates it in either case."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether brokers keep the group and its offsets when this object is deleted: Retain or Delete."""

    def name_in_brokers(self, object_name: str) -> str:
        """Return the group's name."""
        return self.group_name or object_name
