"""The four requests of the canary, and what the answers to a send mean.

Pure. Producer and consumer group are those RocketMQ keeps for testing itself: brokers know them without being
told, also where subscription groups are not made by themselves.

Source: MixAll.java (SELF_TEST_*), PullMessageProcessor.java, SendMessageProcessor.java (5.2.0 to 5.5.0).
"""

from controller_core.broker_settings import MIN_IN_SYNC_REFUSAL, SENDS_FROM_REFUSAL
from controller_core.remoting.client_headers import (
    CreateTopicRequestHeader,
    GetRouteInfoRequestHeader,
    PullMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand

_PERM_READ_WRITE = 6
_REJECTED = "[REJECTREQUEST]"


def send_request(
    topic: str, group: str, queue_id: int, sequence: int, body: bytes, born_ms: int
) -> RemotingCommand:
    """Return SEND_MESSAGE_V2 for one canary message.

    Args:
        topic: the canary's topic.
        group: brokerName.
        queue_id: queue of the topic on that group.
        sequence: becomes the message's key, for a person who looks for it with mqadmin.
        body: the payload.
        born_ms: UTC milliseconds.
    """
    properties = {"KEYS": f"{group}-{sequence}", "WAIT": "true"}
    header = SendMessageRequestHeaderV2.of_message(topic, queue_id, properties, born_ms, group=group)
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.to_ext(), body)


def pull_request(topic: str, queue_id: int, offset: int) -> RemotingCommand:
    """Return PULL_MESSAGE from a queue offset on, answered at once whether there are messages or not."""
    header = PullMessageRequestHeader.of_queue(topic, queue_id, offset)
    return RemotingCommand.request(RequestCode.PULL_MESSAGE, header.to_ext())


def route_request(topic: str) -> RemotingCommand:
    """Return GET_ROUTEINFO_BY_TOPIC."""
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    return RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_ext())


def create_topic_request(topic: str, queues: int) -> RemotingCommand:
    """Return UPDATE_AND_CREATE_TOPIC for a broker."""
    header = CreateTopicRequestHeader(
        topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=_PERM_READ_WRITE
    )
    return RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext())


def send_result(code: int, remark: str | None) -> str:
    """Return the word of `probe_ops.result` for a broker's answer to a send.

    A slave answers code 2 with `[REJECTREQUEST]` (a master whose page cache is busy does too; the remark is
    stored beside the word), or 14 when its role changed while the message was on its way.
    IN_SYNC_REPLICAS_NOT_ENOUGH lacks a code of its own on the wire: it is code 1 and a remark. So is the
    refusal of a master whose writes are stopped, as before a switchover.
    """
    words = remark or ""
    match code:
        case ResponseCode.SUCCESS:
            return "ok"
        case ResponseCode.FLUSH_SLAVE_TIMEOUT:
            return "flush_slave_timeout"
        case ResponseCode.SERVICE_NOT_AVAILABLE:
            return "not_master"
        case ResponseCode.SYSTEM_BUSY if _REJECTED in words:
            return "not_master"
        case ResponseCode.SYSTEM_ERROR if MIN_IN_SYNC_REFUSAL in words:
            return "in_sync_replicas_not_enough"
        case ResponseCode.SYSTEM_ERROR if SENDS_FROM_REFUSAL in words:
            return "writes_stopped"
        case _:
            return "other"
