"""A name server's answers with the addresses of a listener in place of those that brokers announce."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_RESPONSE, RemotingCommand
from controller_core.remoting.errors import BodyError
from controller_core.remoting.routes import ClusterInfo, TopicRouteData
from controller_core.route_front.addresses import ListenerAddresses
from controller_core.route_front.rewriting import UnreachableError, rewrite

REWRITTEN = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.GET_BROKER_MEMBER_GROUP,
)
ADDRESSES = ListenerAddresses(
    {
        "10.96.0.1:10911": "mq.example:30001",
        "10.96.0.2:10911": "mq.example:30002",
        "10.96.0.3:10911": "mq.example:30003",
    }
)
# As fastjson writes it: keys of maps of numbers stand without quotes, non-ASCII characters too.
ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{0:"10.96.0.1:10911",2:"10.96.0.2:10911"},"brokerName":"orders",'
    '"cluster":"главный","enableActingMaster":false},{"brokerAddrs":{0:"10.96.0.9:10911"},'
    '"brokerName":"coming","cluster":"главный"}],"filterServerTable":{"10.96.0.1:10911":["10.96.0.1:9999"]},'
    '"orderTopicConf":"orders:4","queueDatas":[{"brokerName":"orders","perm":6,"readQueueNums":4,'
    '"topicSysFlag":0,"writeQueueNums":4},{"brokerName":"coming","perm":6,"readQueueNums":4,'
    '"topicSysFlag":0,"writeQueueNums":4}],"topicQueueMappingByBroker":{"orders":{"bname":"orders",'
    '"currIdMap":{0:0},"epoch":9007199254740993}}}'
)
CLUSTERS = (
    '{"brokerAddrTable":{"orders":{"brokerAddrs":{0:"10.96.0.1:10911",2:"10.96.0.9:10911"},'
    '"brokerName":"orders","cluster":"main","enableActingMaster":false},"coming":{"brokerAddrs":'
    '{0:"10.96.0.9:10911"},"brokerName":"coming","cluster":"main"}},'
    '"clusterAddrTable":{"main":["orders","coming"]}}'
)


def _answer(body: str, code: int = ResponseCode.SUCCESS) -> RemotingCommand:
    return RemotingCommand(code, 7, FLAG_RESPONSE, "remark", {"a": "b"}, body.encode(), version=450)


def _rewritten(code: int, body: str) -> Any:
    return json.loads(rewrite(code, _answer(body), ADDRESSES).body)


def test_a_route_has_the_addresses_of_the_listener_and_the_rest_as_it_was() -> None:
    route = _rewritten(RequestCode.GET_ROUTEINFO_BY_TOPIC, ROUTE)
    assert route["brokerDatas"] == [
        {
            "brokerAddrs": {"0": "mq.example:30001", "2": "mq.example:30002"},
            "brokerName": "orders",
            "cluster": "главный",
            "enableActingMaster": False,
        }
    ]
    assert route["filterServerTable"] == {}
    assert route["orderTopicConf"] == "orders:4"
    assert route["topicQueueMappingByBroker"]["orders"]["epoch"] == 9007199254740993


def test_a_route_keeps_the_queues_of_a_group_without_an_address_so_that_consumers_divide_the_same_ones() -> (
    None
):
    route = TopicRouteData.decode(rewrite(RequestCode.GET_ROUTEINFO_BY_TOPIC, _answer(ROUTE), ADDRESSES).body)
    assert [data.broker_name for data in route.broker_datas] == ["orders"]
    assert [queue.broker_name for queue in route.queue_datas] == ["orders", "coming"]


def test_a_route_without_any_address_is_an_error_that_names_the_groups() -> None:
    with pytest.raises(
        UnreachableError, match="does not have an address of any broker of 'orders', 'coming'"
    ):
        rewrite(RequestCode.GET_ROUTEINFO_BY_TOPIC, _answer(ROUTE), ListenerAddresses({}))


def test_a_route_without_brokers_stays_one() -> None:
    assert _rewritten(RequestCode.GET_ROUTEINFO_BY_TOPIC, '{"brokerDatas":[],"queueDatas":[]}') == {
        "brokerDatas": [],
        "filterServerTable": {},
        "queueDatas": [],
    }


def test_the_list_of_clusters_has_only_brokers_with_an_address_of_the_listener() -> None:
    info = ClusterInfo.decode(rewrite(RequestCode.GET_BROKER_CLUSTER_INFO, _answer(CLUSTERS), ADDRESSES).body)
    assert {name: data.broker_addrs for name, data in info.broker_addr_table.items()} == {
        "orders": {0: "mq.example:30001"}
    }
    assert info.cluster_addr_table == {"main": ("orders",)}


def test_the_members_of_a_group_have_addresses_of_the_listener() -> None:
    body = (
        '{"brokerMemberGroup":{"brokerAddrs":{0:"10.96.0.1:10911",3:"10.96.0.9:10911"},"brokerName":"orders",'
        '"cluster":"main"}}'
    )
    group = _rewritten(RequestCode.GET_BROKER_MEMBER_GROUP, body)["brokerMemberGroup"]
    assert group == {"brokerAddrs": {"0": "mq.example:30001"}, "brokerName": "orders", "cluster": "main"}
    assert _rewritten(RequestCode.GET_BROKER_MEMBER_GROUP, "{}") == {}


def test_the_list_of_system_topics_names_no_address_inside() -> None:
    code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS
    body = '{"brokerAddr":"%s","topicList":["main","orders"]}'
    assert _rewritten(code, body % "10.96.0.2:10911")["brokerAddr"] == "mq.example:30002"
    assert _rewritten(code, body % "10.96.0.9:10911") == {"topicList": ["main", "orders"]}


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, _answer('{"topicList":["10.96.0.1:10911"]}')),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, _answer("", ResponseCode.TOPIC_NOT_EXIST)),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, _answer("no JSON", ResponseCode.SYSTEM_ERROR)),
    ],
)
def test_an_answer_that_names_no_broker_stays_as_it_is(code: int, answer: RemotingCommand) -> None:
    assert rewrite(code, answer, ADDRESSES) is answer


def test_only_the_body_of_an_answer_changes() -> None:
    before = _answer(ROUTE)
    after = rewrite(RequestCode.GET_ROUTEINFO_BY_TOPIC, before, ADDRESSES)
    assert (after.code, after.opaque, after.flag, after.remark, after.ext, after.version) == (
        before.code,
        before.opaque,
        before.flag,
        before.remark,
        before.ext,
        before.version,
    )


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, "["),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, "[]"),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, '{"brokerDatas":{}}'),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, '{"brokerDatas":[1]}'),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, '{"brokerDatas":[{"brokerAddrs":[]}]}'),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, '{"brokerDatas":[{"brokerAddrs":{0:1}}]}'),
        (RequestCode.GET_BROKER_CLUSTER_INFO, '{"brokerAddrTable":[]}'),
        (RequestCode.GET_BROKER_CLUSTER_INFO, '{"clusterAddrTable":{"main":"orders"}}'),
        (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, '{"brokerAddr":{}}'),
        (RequestCode.GET_BROKER_MEMBER_GROUP, '{"brokerMemberGroup":[]}'),
    ],
)
def test_a_body_of_another_form_is_an_error_and_never_passed(code: int, body: str) -> None:
    with pytest.raises(BodyError):
        rewrite(code, _answer(body), ADDRESSES)


@given(code=st.sampled_from(REWRITTEN), body=st.binary(max_size=200))
def test_any_bytes_are_rewritten_or_refused(code: int, body: bytes) -> None:
    with suppress(BodyError, UnreachableError):
        rewrite(code, RemotingCommand(ResponseCode.SUCCESS, body=body), ADDRESSES)


@pytest.mark.parametrize(
    ("code", "body"),
    [(RequestCode.GET_ROUTEINFO_BY_TOPIC, ROUTE), (RequestCode.GET_BROKER_CLUSTER_INFO, CLUSTERS)],
)
def test_no_address_inside_is_left_in_a_body_however_short_it_is_cut(code: int, body: str) -> None:
    for cut in range(1, len(body) + 1):
        answer = RemotingCommand(ResponseCode.SUCCESS, body=body[:cut].encode())
        with suppress(BodyError, UnreachableError):
            assert b"10.96.0." not in rewrite(code, answer, ADDRESSES).body
