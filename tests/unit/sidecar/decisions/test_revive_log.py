"""What a revive log says: counters of refusals, stored messages, and the unacknowledged checkpoints."""

import json
from typing import Any

import pytest

from ha_sidecar.decisions.revive_log import (
    ACK,
    BATCH_ACK,
    CHECKPOINT,
    ReviveLogEntry,
    ReviveLogError,
    entries,
    owed,
    refusals,
)
from testkit.ha.messages import message

CONSUMERS = frozenset({("T", "G")})
COUNTER = (
    'rocketmq_pop_revive_retry_messages_total{cluster="c",consumer_group="%s",node_id="g",node_type="broker",'
    'put_status="%s",topic="%s"} %s'
)


def checkpoint(offset: int, first: int, count: int, **more: Any) -> ReviveLogEntry:
    value = {
        "bm": 0,
        "bn": "g",
        "c": "G",
        "it": 9,
        "n": count,
        "pt": 5,
        "q": 0,
        "so": first,
        "t": "T",
        **more,
    }
    return ReviveLogEntry(offset, CHECKPOINT, json.dumps(value).encode(), "13")


def ack(offset: int, first: int, *acknowledged: int, **more: Any) -> ReviveLogEntry:
    value = {"bn": "g", "c": "G", "pt": 5, "q": 0, "so": first, "t": "T", **more}
    if len(acknowledged) == 1:
        return ReviveLogEntry(offset, ACK, json.dumps({**value, "ao": acknowledged[0]}).encode(), "14")
    return ReviveLogEntry(offset, BATCH_ACK, json.dumps({**value, "aol": acknowledged}).encode(), "14")


def bits(found: list[ReviveLogEntry], through: int = 99) -> dict[int, int]:
    """Return the map of done messages of each owed checkpoint, by its offset."""
    return {each.offset: json.loads(each.body)["bm"] for each in owed(found, through, CONSUMERS, group="g")}


def test_only_refusals_that_pass_are_counted_by_topic_and_group() -> None:
    page = [
        "# TYPE rocketmq_pop_revive_retry_messages_total counter",
        COUNTER % ("G", "PUT_OK", "T", "7.0"),
        COUNTER % ("G", "IN_SYNC_REPLICAS_NOT_ENOUGH", "T", "40.0 1700000000000"),
        COUNTER % ("G", "OS_PAGE_CACHE_BUSY", "T", "2"),
        COUNTER % ("H", "SERVICE_NOT_AVAILABLE", "%RETRY%H_T", "1.0"),
        COUNTER % ("G", "MESSAGE_ILLEGAL", "T", "5"),
        COUNTER % ("G", "IN_SYNC_REPLICAS_NOT_ENOUGH", "T", "NaN"),
        COUNTER % ("G", "IN_SYNC_REPLICAS_NOT_ENOUGH", "T", ""),
    ]
    assert refusals(page) == {("T", "G"): 42, ("%RETRY%H_T", "H"): 1}


def test_a_checkpoint_is_owed_without_the_messages_that_were_acknowledged_before_or_after_its_time() -> None:
    found = [ack(1, 10, 10), checkpoint(2, 10, 3), ack(3, 10, 12)]
    assert bits(found) == {2: 0b101}


def test_a_checkpoint_whose_messages_are_all_acknowledged_is_not_owed() -> None:
    assert bits([checkpoint(1, 10, 3), ack(2, 10, 10, 11, 12)]) == {}


def test_a_checkpoint_of_messages_with_gaps_is_read_by_the_distances_of_their_offsets() -> None:
    found = [checkpoint(1, 10, 3, d=[0, 4, 9]), ack(2, 10, 14), ack(3, 10, 11)]
    assert bits(found) == {1: 0b010}


def test_messages_that_were_done_before_stay_done_and_the_map_stays_a_java_int() -> None:
    assert bits([checkpoint(1, 0, 32, bm=-2)]) == {1: -2}
    assert bits([checkpoint(1, 0, 32, bm=-2), ack(2, 0, 0)]) == {}
    assert bits([checkpoint(1, 0, 32), ack(2, 0, 31)]) == {1: -(1 << 31)}


def test_acknowledgements_of_another_pop_queue_or_group_of_brokers_do_not_count() -> None:
    others = [ack(2, 10, 10, pt=6), ack(3, 10, 10, q=1), ack(4, 10, 10, bn="h"), ack(5, 9, 10)]
    assert bits([checkpoint(1, 10, 1), *others]) == {1: 0}
    assert bits([checkpoint(1, 10, 1), ack(2, 10, 10, bn=None)]) == {}, "without a name it is this one's"


def test_checkpoints_beyond_the_last_one_and_of_consumers_without_refusals_are_left_alone() -> None:
    found = [checkpoint(1, 10, 1), checkpoint(2, 11, 1, c="H"), checkpoint(3, 12, 1)]
    assert bits(found, through=2) == {1: 0}


def test_all_else_of_an_owed_checkpoint_stays_as_it_was() -> None:
    found = checkpoint(1, 10, 2, rp="3", ro=7)
    (again,) = owed([found, ack(2, 10, 11)], 1, CONSUMERS, group="g")
    assert json.loads(again.body) == {**json.loads(found.body), "bm": 0b10}
    assert (again.offset, again.tag, again.deliver_ms) == (1, CHECKPOINT, "13")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b"\xff",
        b'{"t":["T"],"c":{},"so":0,"n":1}',
        b'{"t":"T","c":"G","so":"0","n":1}',
        b'{"t":"T","c":"G","so":0,"n":-1}',
        b'{"t":"T","c":"G","so":0,"n":33}',
        b'{"t":"T","c":"G","so":0,"n":1,"bm":null}',
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_passed_over(body: bytes) -> None:
    assert bits(
        [ReviveLogEntry(1, CHECKPOINT, body), ReviveLogEntry(2, ACK, body), checkpoint(3, 10, 1)]
    ) == {3: 0}


@pytest.mark.parametrize(("v6", "v2"), [(False, False), (True, True)])
def test_stored_messages_are_read_with_tag_time_and_body(v6: bool, v2: bool) -> None:
    properties = b"TAGS\x01ck\x02TIMER_DELIVER_MS\x0117\x02WAIT\x01true\x02"
    data = b"".join(
        message(at, b'{"n":1}', b"R", v6=v6, v2=v2, properties=properties, queue_offset=at) for at in (4, 5)
    )
    assert entries(data) == [ReviveLogEntry(at, CHECKPOINT, b'{"n":1}', "17") for at in (4, 5)]


def test_an_answer_that_is_cut_anywhere_is_refused() -> None:
    data = message(4, b"{}", properties=b"TAGS\x01ck\x02")
    for length in range(1, len(data)):
        with pytest.raises(ReviveLogError):
            entries(data[:length])
    with pytest.raises(ReviveLogError):
        entries(b"\0\0\0\0" + data[4:])
