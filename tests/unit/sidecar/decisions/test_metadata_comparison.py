"""After a grace period the companion names the metadata that a slave lacks, and sends it there."""

import pytest

from controller_core.remoting.client_headers import CreateTopicRequestHeader
from controller_core.remoting.codes import RequestCode
from ha_sidecar.decisions.metadata_comparison import (
    GRACE_MS,
    GROUPS,
    MetadataComparison,
    UpdateConsumerOffsetRequestHeader,
    is_of_topics,
    missing_names,
    names,
    put_back,
)
from ha_sidecar.decisions.metadata_tables import BY_CODE

TOPICS = BY_CODE[RequestCode.GET_ALL_TOPIC_CONFIG]
OFFSETS = BY_CODE[RequestCode.GET_ALL_CONSUMER_OFFSET]
MASTER = {
    TOPICS: b'{"topicConfigTable":{"A":{"perm":6},"B":{"perm":6}}}',
    OFFSETS: b'{"offsetTable":{"A@g":{0:5,1:-1},"B@g":{0:1}}}',
}
SAME = {TOPICS: MASTER[TOPICS], OFFSETS: b'{"offsetTable":{"B@g":{0:0},"A@g":{0:4}}}'}
EMPTIED = {TOPICS: b'{"topicConfigTable":{}}', OFFSETS: SAME[OFFSETS]}


def test_java_s_number_keys_are_read() -> None:
    assert names(OFFSETS, MASTER[OFFSETS]) == {"A@g", "B@g"}


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"offsetTable":3}', b'{"other":{}}'])
def test_a_text_that_cannot_be_read_says_nothing(text: bytes) -> None:
    assert names(OFFSETS, text) is None
    assert missing_names({OFFSETS: text}, MASTER) == frozenset()


def test_a_slave_with_all_names_lacks_nothing_whatever_the_figures() -> None:
    assert missing_names(SAME, MASTER) == frozenset()


def test_what_a_slave_has_besides_is_no_fault() -> None:
    assert missing_names(MASTER, EMPTIED) == frozenset()


def test_an_emptied_topic_table_is_told_after_the_grace_and_not_before() -> None:
    guard = MetadataComparison()
    assert guard.missing(0) is None
    guard.take_comparison(EMPTIED, MASTER, 0)
    assert guard.missing(GRACE_MS - 1) == {}
    assert guard.missing(GRACE_MS) == {"topics.json": ["A", "B"]}


def test_a_name_that_came_back_meanwhile_starts_anew() -> None:
    guard = MetadataComparison()
    guard.take_comparison(EMPTIED, MASTER, 0)
    guard.take_comparison(SAME, MASTER, 10)
    guard.take_comparison(EMPTIED, MASTER, 20)
    assert guard.missing(GRACE_MS) == {}


def test_another_master_is_another_comparison() -> None:
    guard = MetadataComparison()
    guard.take_comparison(EMPTIED, MASTER, 0)
    guard.forget()
    assert guard.missing(GRACE_MS) is None


def test_a_topic_is_put_back_with_all_that_it_was() -> None:
    good = {
        TOPICS: b'{"topicConfigTable":{"F":{"attributes":{"message.type":"FIFO"},"order":true,"perm":4,'
        b'"readQueueNums":3,"topicFilterType":"MULTI_TAG","topicName":"F","topicSysFlag":1,"writeQueueNums":2}}}'
    }
    (request,) = put_back({TOPICS: EMPTIED[TOPICS]}, good)
    assert isinstance(request.header, CreateTopicRequestHeader)
    assert (request.code, request.header.topic, request.header.attributes) == (17, "F", "+message.type=FIFO")
    assert (request.header.read_queue_nums, request.header.write_queue_nums, request.header.perm) == (3, 2, 4)
    assert (request.header.order, request.header.topic_filter_type) == (True, "MULTI_TAG")


def test_a_group_is_put_back_as_it_was_and_what_is_there_is_left_alone() -> None:
    good = {
        GROUPS: b'{"subscriptionGroupTable":{"a":{"groupName":"a","retryMaxTimes":3},"b":{"groupName":"b"}}}'
    }
    (request,) = put_back({GROUPS: b'{"subscriptionGroupTable":{"b":{"retryMaxTimes":9}}}'}, good)
    assert (request.code, request.name, request.body) == (200, "a", b'{"groupName": "a", "retryMaxTimes": 3}')


def test_offsets_are_put_back_queue_by_queue_where_the_group_has_none_for_the_topic() -> None:
    requests = put_back({OFFSETS: b'{"offsetTable":{"B@g":{0:0}}}'}, {OFFSETS: MASTER[OFFSETS]})
    (request,) = requests  # of B the broker has one; a queue at -1 is without one
    header = request.header
    assert isinstance(header, UpdateConsumerOffsetRequestHeader)
    assert (request.code, request.name) == (15, "A@g")
    assert (header.topic, header.consumer_group, header.queue_id, header.commit_offset) == ("A", "g", 0, 5)


def test_a_topic_and_its_group_are_put_back_before_the_offset_that_needs_them() -> None:
    good = {
        OFFSETS: b'{"offsetTable":{"A@g":{0:5}}}',
        GROUPS: b'{"subscriptionGroupTable":{"g":{"groupName":"g"}}}',
        TOPICS: b'{"topicConfigTable":{"A":{"perm":6}}}',
    }
    own = {OFFSETS: b'{"offsetTable":{}}', GROUPS: b'{"subscriptionGroupTable":{}}', TOPICS: EMPTIED[TOPICS]}
    assert [request.name for request in put_back(own, good)] == ["A", "g", "A@g"]


def test_an_emptied_master_does_not_spoil_what_is_put_back_from() -> None:
    guard = MetadataComparison()
    guard.take_comparison(SAME, MASTER, 0)
    guard.take_comparison(SAME, EMPTIED, 1)
    assert guard.good[TOPICS] == MASTER[TOPICS]


def test_what_a_new_master_refused_is_missing_at_once_and_not_again_once_it_came() -> None:
    guard = MetadataComparison()
    guard.take_comparison(EMPTIED, MASTER, 0)
    guard.put_back([each for each in put_back(EMPTIED, MASTER) if each.name == "B"], 1)
    assert guard.missing(1) == {"topics.json": ["B"]}
    guard.has(EMPTIED)
    assert guard.missing(2) == {"topics.json": ["B"]}
    guard.has(MASTER)
    assert guard.missing(3) == {}
    guard.has(EMPTIED)
    assert guard.missing(3 + GRACE_MS) == {}


def test_an_offset_belongs_to_its_topic_and_a_group_of_the_same_name_does_not() -> None:
    good = {
        TOPICS: MASTER[TOPICS],
        OFFSETS: MASTER[OFFSETS],
        GROUPS: b'{"subscriptionGroupTable":{"A":{"groupName":"A"}}}',
    }
    own = {OFFSETS: b'{"offsetTable":{}}', GROUPS: b'{"subscriptionGroupTable":{}}', TOPICS: EMPTIED[TOPICS]}
    found = {(each.file_name, each.name) for each in put_back(own, good) if is_of_topics(each, {"A"})}
    assert found == {("topics.json", "A"), ("consumerOffset.json", "A@g")}
