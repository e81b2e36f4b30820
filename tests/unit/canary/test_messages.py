"""What the canary puts on the wire, and what it makes of answers."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller_core.remoting.codes import ResponseCode
from slo_pipeline.canary import payload
from slo_pipeline.canary.requests import pull_request, send_request, send_result
from slo_pipeline.canary.route import Route, group_route, topic_route
from slo_pipeline.canary.stored import StoredMessage, StoredMessageError, decode_messages
from slo_pipeline.schemas.segments import RESULTS

NOT_ENOUGH = "in-sync replicas not enough"
STOPPED = "broker unable to service, until 2026-11-28 23:02:57,102"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"


def stored(queue_id: int, offset: int, body: bytes, *, system_flag: int = 0) -> bytes:
    """Lay out a stored message as MessageExtEncoder does, with a topic and properties behind the body."""
    born = 20 if system_flag & 16 else 8
    store = 20 if system_flag & 32 else 8
    rest = struct.pack(">i", len(body)) + body + bytes([6]) + b"Canary" + struct.pack(">h", 3) + b"k\x01v"
    fixed = struct.pack(">IIiiqqi", 0xDAA320A7, 0, queue_id, 0, offset, 4096, system_flag)
    hosts = bytes(8 + born + 8 + store) + bytes(12)
    size = 4 + len(fixed) + len(hosts) + len(rest)
    return struct.pack(">i", size) + fixed + hosts + rest


@given(st.text(max_size=20), st.integers(0, 2**63 - 1))
def test_a_message_is_known_again(group: str, sequence: int) -> None:
    assert payload.decode(group, payload.encode(group, sequence)) == sequence


@given(st.integers(0, 2**40), st.integers(0, 15), st.integers(1, 255))
def test_a_message_with_one_byte_changed_is_not_ours(sequence: int, place: int, change: int) -> None:
    body = bytearray(payload.encode("orders", sequence))
    body[place] ^= change
    assert payload.decode("orders", bytes(body)) is None


def test_a_message_of_another_group_in_the_same_topic_is_not_ours() -> None:
    assert payload.decode("orders", payload.encode("payments", 7)) is None


@pytest.mark.parametrize("system_flag", [0, 16, 32, 48])
def test_messages_are_found_whatever_addresses_they_carry(system_flag: int) -> None:
    data = stored(3, 70, b"one", system_flag=system_flag) + stored(3, 71, b"")
    assert decode_messages(data) == [StoredMessage(3, 70, b"one"), StoredMessage(3, 71, b"")]


@given(st.binary(max_size=200))
@example(stored(0, 1, b"x")[:-1])
@example(struct.pack(">i", 0) + bytes(100))
@example(struct.pack(">i", -1) + bytes(100))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    try:
        messages = decode_messages(data)
    except StoredMessageError:
        return
    assert sum(len(message.body) for message in messages) <= len(data)


@given(st.integers(0, 120), st.binary(min_size=1, max_size=8))
def test_a_damaged_message_never_yields_bytes_of_outside(place: int, damage: bytes) -> None:
    data = bytearray(stored(0, 1, b"body"))
    data[place : place + len(damage)] = damage
    try:
        assert all(len(message.body) <= len(data) for message in decode_messages(bytes(data)))
    except StoredMessageError:
        return


@pytest.mark.parametrize(
    ("code", "remark", "result"),
    [
        (ResponseCode.SUCCESS, None, "ok"),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, None, "flush_slave_timeout"),
        (ResponseCode.SYSTEM_ERROR, NOT_ENOUGH, "in_sync_replicas_not_enough"),
        (ResponseCode.SYSTEM_ERROR, STOPPED, "writes_stopped"),
        (ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken.", "other"),
        (ResponseCode.SYSTEM_BUSY, REJECTED, "not_master"),
        (ResponseCode.SYSTEM_BUSY, "[PC_SYNCHRONIZED]broker busy, start flow control for a while", "other"),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now.", "not_master"),
        (ResponseCode.TOPIC_NOT_EXIST, "topic[Canary] not exist", "other"),
        (ResponseCode.FLUSH_DISK_TIMEOUT, None, "other"),
        (9999, None, "other"),
    ],
)
def test_an_answer_to_a_send_is_one_of_the_agreed_words(code: int, remark: str | None, result: str) -> None:
    assert send_result(code, remark) == result
    assert result in RESULTS


def test_a_send_goes_to_the_group_and_queue_it_names() -> None:
    request = send_request("Canary", "orders", 1, 42, b"body", 1_763_710_000_123)
    ext = request.ext or {}
    assert (request.code, request.body, ext["b"], ext["e"], ext["n"]) == (
        310,
        b"body",
        "Canary",
        "1",
        "orders",
    )
    assert ext["i"].startswith("KEYS\x01orders-42\x02")


def test_a_pull_does_not_wait_at_the_broker_for_new_messages() -> None:
    ext = pull_request("Canary", 1, 70).ext or {}
    assert (ext["queueOffset"], ext["suspendTimeoutMillis"]) == ("70", "0")
    assert int(ext["sysFlag"]) & 2 == 0


ROUTE = b"""{"brokerDatas":[
{"brokerAddrs":{0:"10.0.0.1:10911",2:"10.0.0.2:10911"},"brokerName":"orders","cluster":"main"},
{"brokerAddrs":{0:"10.0.0.9:10911"},"brokerName":"payments","cluster":"main"}],"filterServerTable":{},
"queueDatas":[{"brokerName":"orders","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2},
{"brokerName":"payments","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"""


def test_a_route_is_that_of_the_group_alone() -> None:
    assert topic_route(ROUTE, "orders") == Route("10.0.0.1:10911", "main", 2)
    assert topic_route(ROUTE, "nobody") == Route()


def test_a_group_without_a_master_has_no_address_though_its_slaves_are_listed() -> None:
    assert topic_route(ROUTE.replace(b'0:"10.0.0.1:10911",', b""), "orders") == Route("", "main", 2)


def test_queues_that_may_not_be_written_do_not_count() -> None:
    assert topic_route(ROUTE.replace(b'"perm":6', b'"perm":4'), "orders").queues == 0


def test_a_group_is_found_before_its_topic_is() -> None:
    body = b"""{"brokerAddrTable":{
    "orders":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"orders","cluster":"main"}},
    "clusterAddrTable":{"main":["orders"]}}"""
    assert group_route(body, "orders") == Route("10.0.0.1:10911", "main", 0)
