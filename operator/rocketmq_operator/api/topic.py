"""Topic: queues of messages under one name, in the broker groups of a cluster.

Source: RocketMQ 5.3.3 TopicConfig.java, TopicValidator.java, TopicAttributes.java; 5.5.0 knows the same and
more.
"""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel
from rocketmq_operator.api.common import DeletionPolicy
from rocketmq_operator.api.metadata import ClusterName, DriftPolicy, GroupNames, name_rules

TOPIC_LENGTH_MAX: Final = 127
QUEUES_MAX: Final = 1_024
ATTRIBUTES_MAX: Final = 8
SYSTEM_TOPICS: Final = (
    "BenchmarkTest",
    "CHECKPOINT_TOPIC",
    "OFFSET_MOVED_EVENT",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "SELF_TEST_TOPIC",
    "TBW102",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
SYSTEM_PREFIX: Final = "rmq_sys_"
_KEY: Final = "^[a-z][a-z0-9.]*$"
_VALUE: Final = "^[^,=+ ]+$"
"""Values stand in one text that is split at commas and equal signs. Source: RocketMQ 5.3.3
AttributeParser.java."""


class Permission(StrEnum):
    """What clients may do."""

    READ_WRITE = "RW"
    READ = "R"
    WRITE = "W"


class TopicMessageType(StrEnum):
    """What kind of messages a topic takes; a proxy refuses others."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"


_UNREAD_QUEUES = Rule(
    name="UnreadQueues",
    expression="self.writeQueues <= self.readQueues",
    message="'writeQueues is %d and readQueues is %d: no consumer would read messages in the last queues'"
    ".format([self.writeQueues, self.readQueues])",
    holds=lambda spec: spec.write_queues <= spec.read_queues,
    problem=lambda spec: (
        f"writeQueues is {spec.write_queues} and readQueues is {spec.read_queues}: "
        "no consumer would read messages in the last queues"
    ),
)
_OWNED_ATTRIBUTE = Rule(
    name="OwnedAttribute",
    expression="!('message.type' in self.attributes)",
    message="'attributes has message.type ' + self.attributes['message.type'] + ': write messageType'",
    holds=lambda spec: "message.type" not in spec.attributes,
    problem=lambda spec: f"attributes has message.type {spec.attributes['message.type']}: write messageType",
    reason="FieldValueForbidden",
)
_GOOD = f"key.matches('{_KEY}') && self.attributes[key].matches('{_VALUE}')"
_BAD_ATTRIBUTE = Rule(
    name="BadAttribute",
    expression=f"self.attributes.all(key, {_GOOD})",
    message=f"'attributes has ' + self.attributes.filter(key, !({_GOOD}))[0] + "
    f"' = \"' + self.attributes[self.attributes.filter(key, !({_GOOD}))[0]] + "
    "'\": a key is small letters, digits and dots, a value has no comma, =, + or space'",
    holds=lambda spec: not _bad_attributes(spec),
    problem=lambda spec: (
        f'attributes has {_bad_attributes(spec)[0]} = "{spec.attributes[_bad_attributes(spec)[0]]}": '
        "a key is small letters, digits and dots, a value has no comma, =, + or space"
    ),
)


def _bad_attributes(spec: "TopicSpec") -> list[str]:
    return [
        key
        for key, value in spec.attributes.items()
        if not (re.fullmatch(_KEY, key) and re.fullmatch(_VALUE, value))
    ]


class TopicSpec(SpecModel):
    """What a person asks of a topic."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *name_rules("topicName", "topic_name", SYSTEM_TOPICS, SYSTEM_PREFIX),
        _UNREAD_QUEUES,
        _OWNED_ATTRIBUTE,
        _BAD_ATTRIBUTE,
    )

    cluster: ClusterName
    """Name of a RocketMQCluster of this namespace. Cannot change."""
    topic_name: Annotated[str, Field(min_length=1, max_length=TOPIC_LENGTH_MAX)] | None = None
    """Its name in RocketMQ; metadata.name when absent. Cannot change."""
    broker_groups: GroupNames = ()
    """BrokerGroups of the cluster that have it; all, later ones too, when empty. One that is taken out of the
    list keeps it."""
    read_queues: Annotated[int, Field(ge=1, le=QUEUES_MAX)] = 8
    """Queues in each broker group that consumers read."""
    write_queues: Annotated[int, Field(ge=1, le=QUEUES_MAX)] = 8
    """Queues in each broker group that producers write. To shrink: these first, readQueues when the others
    are read empty."""
    permission: Permission = Permission.READ_WRITE
    """What clients may do: RW, R or W."""
    message_type: TopicMessageType = TopicMessageType.NORMAL
    """What kind of messages it takes: NORMAL, FIFO, DELAY or TRANSACTION."""
    ordered: bool = False
    """Whether clients keep to its queues also while one of the broker groups is away (RocketMQ's `order`)."""
    attributes: Annotated[
        dict[str, Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=ATTRIBUTES_MAX)
    ] = Field(default={})
    """More attributes, such as cleanup.policy or reserve.time. Those that are not named here are left as they
    are."""
    drift_policy: DriftPolicy = DriftPolicy.CORRECT
    """The operator's reaction when another client changes it in a broker: Correct or Report. If a broker
    lacks it, the operator creates it in either case."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether brokers keep the topic and its messages when this object is deleted: Retain or Delete."""

    def name_in_brokers(self, object_name: str) -> str:
        """Return the topic's name."""
        return self.topic_name or object_name
