"""The headers that a client of brokers and name servers needs: send, pull, offsets, routes, topics.

Not the whole client protocol: only what the canary, the log replica and the tests speak. Declared as in
`headers.py`.

Source: org.apache.rocketmq.remoting.protocol.header.* of 5.2.0 to 5.5.0.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from controller_core.remoting.header import Header, JavaInt, JavaLong

PRODUCER_GROUP: Final = "SELF_TEST_P_GROUP"
CONSUMER_GROUP: Final = "SELF_TEST_C_GROUP"
"""Groups that RocketMQ has for its self-test: every broker knows them (MixAll.java)."""
PULL_MESSAGES_MAX: Final = 32
"""Brokers return no more from memory (maxTransferCountOnMessageInMemory)."""

_FLAG_SUBSCRIPTION: Final = 1 << 2


class SendMessageRequestHeaderV2(
    Header,
    frozen=True,
    rename={
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "broker_name": "n",
    },
):
    r"""310 SEND_MESSAGE_V2: one-letter names on the wire. `born_timestamp` is in ms of the client's clock.

    `properties` is `key\x01value\x02` repeated.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: JavaInt
    queue_id: JavaInt
    sys_flag: JavaInt
    born_timestamp: JavaLong
    flag: JavaInt
    properties: str | None = None
    reconsume_times: JavaInt | None = None
    unit_mode: bool | None = None
    max_reconsume_times: JavaInt | None = None
    batch: bool | None = None
    broker_name: str | None = None

    @classmethod
    def of_message(
        cls, topic: str, queue_id: int, properties: Mapping[str, str], born_ms: int, *, group: str
    ) -> Self:
        """Return the header that sends one message as the self-test producer.

        Args:
            topic: its topic.
            queue_id: queue of the topic on that group.
            properties: of the message, written in this order.
            born_ms: UTC milliseconds.
            group: brokerName.
        """
        return cls(
            producer_group=PRODUCER_GROUP,
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=born_ms,
            flag=0,
            properties="".join(f"{key}\x01{value}\x02" for key, value in properties.items()),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=group,
        )


class SendMessageResponseHeader(Header, frozen=True):
    """Answer to 310 and 10 when the message was stored, with any of the codes 0, 10, 11, 12."""

    msg_id: str
    queue_id: JavaInt
    queue_offset: JavaLong
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


class PullMessageRequestHeader(Header, frozen=True):
    """11 PULL_MESSAGE; `sys_flag` bit 1 lets the broker hold the request `suspend_timeout_millis`."""

    consumer_group: str
    topic: str
    queue_id: JavaInt
    queue_offset: JavaLong
    max_msg_nums: JavaInt
    sys_flag: JavaInt
    commit_offset: JavaLong
    suspend_timeout_millis: JavaLong
    subscription: str | None = None
    sub_version: JavaLong = 0
    expression_type: str | None = None
    max_msg_bytes: JavaInt | None = None
    request_source: JavaInt | None = None

    @classmethod
    def of_queue(cls, topic: str, queue_id: int, offset: int) -> Self:
        """Return the header of a pull by the self-test consumer from an offset on, without a long poll."""
        return cls(
            consumer_group=CONSUMER_GROUP,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=PULL_MESSAGES_MAX,
            sys_flag=_FLAG_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            expression_type="TAG",
        )


class GetOffsetRequestHeader(Header, frozen=True):
    """30 GET_MAX_OFFSET and 31 GET_MIN_OFFSET of one queue."""

    topic: str
    queue_id: JavaInt
    committed: bool | None = None


class QueryConsumerOffsetRequestHeader(Header, frozen=True):
    """14 QUERY_CONSUMER_OFFSET of one queue."""

    consumer_group: str
    topic: str
    queue_id: JavaInt
    set_zero_if_not_found: bool | None = None


class GetOffsetResponseHeader(Header, frozen=True):
    """Answer to 14, 30 and 31, a queue offset counted in messages."""

    offset: JavaLong


class GetRouteInfoRequestHeader(Header, frozen=True):
    """105 GET_ROUTEINFO_BY_TOPIC; asked for standard JSON, a name server quotes its map keys."""

    topic: str
    accept_standard_json_only: bool | None = None


class CreateTopicRequestHeader(Header, frozen=True):
    """17 UPDATE_AND_CREATE_TOPIC; `perm` bits: 4 read, 2 write."""

    topic: str
    read_queue_nums: JavaInt
    write_queue_nums: JavaInt
    perm: JavaInt
    default_topic: str = "TBW102"
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: JavaInt = 0
    order: bool = False
    attributes: str | None = None

    @classmethod
    def of_config(cls, topic: str, config: Mapping[str, Any], attributes: Mapping[str, Any]) -> Self:
        """Return the header that makes a topic as a broker's TopicConfig has it.

        Args:
            topic: its name.
            config: the JSON of Java's TopicConfig; its `attributes` are not looked at.
            attributes: what changes, with `+` or `-` before each key.
        """
        return cls(
            topic=topic,
            read_queue_nums=int(config.get("readQueueNums", 8)),
            write_queue_nums=int(config.get("writeQueueNums", 8)),
            perm=int(config.get("perm", 6)),
            topic_filter_type=str(config.get("topicFilterType", "SINGLE_TAG")),
            topic_sys_flag=int(config.get("topicSysFlag", 0)),
            order=bool(config.get("order", False)),
            attributes=",".join(f"{key}={value}" for key, value in attributes.items()) or None,
        )


class GetTopicConfigRequestHeader(Header, frozen=True):
    """351 GET_TOPIC_CONFIG of one topic; code 17 answers for one that is not there."""

    topic: str


class DeleteTopicRequestHeader(Header, frozen=True):
    """215 DELETE_TOPIC_IN_BROKER; one that is not there is a success."""

    topic: str


class DeleteTopicFromNamesrvRequestHeader(Header, frozen=True):
    """216 DELETE_TOPIC_IN_NAMESRV; with a cluster, only the routes to its brokers go."""

    topic: str
    cluster_name: str | None = None


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True):
    """207 DELETE_SUBSCRIPTIONGROUP; `clean_offset` also forgets how far the group has read."""

    group_name: str
    clean_offset: bool = False


class WritePermOfBrokerRequestHeader(Header, frozen=True):
    """205 WIPE_WRITE_PERM_OF_BROKER and 327 ADD_WRITE_PERM_OF_BROKER at a name server.

    Of all topics of one group.
    """

    broker_name: str


class GetConsumerListByGroupRequestHeader(Header, frozen=True):
    """38 GET_CONSUMER_LIST_BY_GROUP; code 1 if the broker knows no consumer of the group."""

    consumer_group: str


class UnregisterClientRequestHeader(Header, frozen=True):
    """35 UNREGISTER_CLIENT: what this connection registered as a producer or as a consumer."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None
