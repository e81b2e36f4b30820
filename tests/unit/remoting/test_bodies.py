"""Bodies against texts that RocketMQ 5.4.0 wrote, and against the forms that break Java readers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.remoting import lenient_json
from controller_core.remoting.bodies import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntryBody,
    EpochEntryCache,
    HARuntimeInfo,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
    decode_names,
    encode_names,
)
from controller_core.remoting.errors import BodyError, RemotingProtocolError
from controller_core.remoting.routes import BrokerData, ClusterInfo, KVTable, TopicRouteData

REPLICA = ReplicaIdentity(True, "a:1", 1, "b")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (SyncStateSet.of([2, 1, 2], 3), b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'),
        (SyncStateSet.of([], 0), b'{"syncStateSet":[],"syncStateSetEpoch":0}'),
        (ElectMasterResponseBody.of("c", "b", None, [2, 1]), b'{"syncStateSet":[1,2]}'),
        (
            BrokerReplicasInfo({"b": ReplicasInfo((REPLICA,), master_epoch=1, sync_state_set_epoch=2)}),
            b'{"replicasInfoTable":{"b":{"inSyncReplicas":[{"alive":true,"brokerAddress":"a:1","brokerId":1,'
            b'"brokerName":"b"}],"masterEpoch":1,"notInSyncReplicas":[],"syncStateSetEpoch":2}}}',
        ),
        (BrokerReplicasInfo({}), b'{"replicasInfoTable":{}}'),
        (
            EpochEntryCache(1, "b", "c", (EpochEntryBody(9, 1, 0),), 9),
            b'{"brokerId":1,"brokerName":"b","clusterName":"c",'
            b'"epochList":[{"endOffset":9,"epoch":1,"startOffset":0}],"maxOffset":9}',
        ),
    ],
)
def test_bodies_are_written_byte_for_byte_as_java_writes_them(body: SyncStateSet, text: bytes) -> None:
    assert body.encode() == text
    assert type(body).decode(text) == body


def test_an_elect_body_has_quoted_keys_and_members_at_the_top_for_mqadmin() -> None:
    body = json.loads(ElectMasterResponseBody.of("c", "b", {2: "y:2", 1: "x:1"}, [1]).encode())
    group = {"brokerAddrs": {"1": "x:1", "2": "y:2"}, "brokerName": "b", "cluster": "c"}
    assert body == {"brokerMemberGroup": group, "syncStateSet": [1], **group}


def test_javas_bare_keys_are_read() -> None:
    body = ElectMasterResponseBody.decode(
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"127.0.0.1:1",7:"127.0.0.1:7"},"brokerName":"b1","cluster":"c1"},'
        b'"syncStateSet":[1]}'
    )
    assert body.broker_member_group is not None
    assert body.broker_member_group.broker_addrs == {1: "127.0.0.1:1", 7: "127.0.0.1:7"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"syncStateSetEpoch":3,"syncStateSet":["1","2"]}', SyncStateSet((1, 2), 3)),
        (b'{"syncStateSet":[1]}', SyncStateSet((1,), 0)),
        (b'{"syncStateSet":[1],"syncStateSetEpoch":"4","extra":{"a":1}}', SyncStateSet((1,), 4)),
        (b'{"syncStateSet":[3,1,3],"syncStateSetEpoch":4}', SyncStateSet((1, 3), 4)),
    ],
)
def test_a_sync_state_set_is_read_as_loosely_as_java_reads_it(text: bytes, expected: SyncStateSet) -> None:
    assert SyncStateSet.decode(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"null",
        b'{"syncStateSet":null,"syncStateSetEpoch":3}',
        b'{"syncStateSet":["x"]}',
        b"not json",
        b"\xff",
    ],
)
def test_a_sync_state_set_without_its_list_is_refused(text: bytes) -> None:
    with pytest.raises(BodyError, match="SyncStateSet"):
        SyncStateSet.decode(text)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:1a\\ ', max_size=60).map(str.encode))
def test_any_body_is_read_or_refused(text: bytes) -> None:
    for kind in (SyncStateSet, ElectMasterResponseBody, BrokerReplicasInfo, HARuntimeInfo, TopicRouteData):
        try:
            kind.decode(text)
        except RemotingProtocolError:
            continue


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 99).map(str), inner, max_size=3)
    ),
    max_leaves=12,
)


def bare(value: object) -> str:
    """Write JSON the way Java does: keys that are numbers without quotes."""
    match value:
        case dict():
            return "{" + ",".join(f"{key}:{bare(member)}" for key, member in value.items()) + "}"
        case list():
            return "[" + ",".join(map(bare, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


@given(JSON)
def test_bare_keys_change_nothing_else(value: object) -> None:
    assert lenient_json.decode(bare(value).encode()) == value


def test_what_looks_like_a_bare_key_inside_a_text_stays() -> None:
    assert lenient_json.decode(b'{0:"{1:\\"x\\",2:3}"}') == {"0": '{1:"x",2:3}'}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", [b'"\\"', b'\\"', b'{"a":', b"{,", b"{a", b"{1", b"[" * 100, b"{1:[" * 50])
def test_hostile_texts_are_refused_in_linear_time(unit: bytes) -> None:
    with pytest.raises(RemotingProtocolError):
        lenient_json.decode(unit * (500_000 // len(unit)))


def test_names_are_a_list_and_nothing_is_an_empty_one() -> None:
    assert decode_names(encode_names(["b1", "b2"])) == ["b1", "b2"]
    assert encode_names(["b1", "b2"]) == b'["b1","b2"]'
    assert decode_names(b"") == decode_names(b"null") == decode_names(b"[]") == []
    with pytest.raises(BodyError):
        decode_names(b'{"a":1}')


def test_a_route_names_the_master_of_each_group() -> None:
    route = TopicRouteData.decode(
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",2:"10.0.0.2:10911"},"brokerName":"b","cluster":"c",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert [data.master_address for data in route.broker_datas] == ["10.0.0.1:10911"]
    assert route.queue_datas[0].perm == 6
    assert BrokerData("b", broker_addrs={1: "x"}).master_address is None


def test_cluster_info_and_runtime_figures_are_read() -> None:
    info = ClusterInfo.decode(
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"c"}},'
        b'"clusterAddrTable":{"c":["b"]}}'
    )
    assert info.broker_addr_table["b"].broker_addrs == {0: "a:1"}
    assert info.cluster_addr_table == {"c": ("b",)}
    assert KVTable.decode(b'{"table":{"brokerVersion":"493"}}').table == {"brokerVersion": "493"}


def test_the_ha_status_of_a_master_is_read() -> None:
    status = HARuntimeInfo.decode(
        b'{"haClientRuntimeInfo":{"activated":false,"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,'
        b'"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"127.0.0.1:5","diff":0,"inSync":true,'
        b'"slaveAckOffset":100,"transferFromWhere":100,"transferredByteInSecond":0}],"inSyncSlaveNums":1,'
        b'"master":true,"masterCommitLogMaxOffset":100}'
    )
    assert status.master
    assert status.ha_connection_info[0].in_sync
    assert status.ha_connection_info[0].slave_ack_offset == 100
