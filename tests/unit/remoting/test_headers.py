"""Headers against the field names of RocketMQ 5.4.0, and the rules for absent or unreadable fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.remoting import client_headers, headers
from controller_core.remoting.errors import HeaderError, RemotingProtocolError
from controller_core.remoting.header import Header
from controller_core.remoting.headers import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    BrokerHeartbeatRequestHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
)

ALL_HEADERS = [
    kind
    for module in (headers, client_headers)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
]


@pytest.mark.parametrize(
    ("header", "ext"),
    [
        pytest.param(
            ElectMasterRequestHeader("b", "c", 1, designate_elect=True, invoke_time=1795236221679),
            {
                "brokerId": "1",
                "invokeTime": "1795236221679",
                "clusterName": "c",
                "designateElect": "true",
                "brokerName": "b",
            },
            id="elect by an admin",
        ),
        pytest.param(
            ElectMasterRequestHeader("b", "", -1, invoke_time=1795236221679),
            {
                "brokerId": "-1",
                "invokeTime": "1795236221679",
                "clusterName": "",
                "designateElect": "false",
                "brokerName": "b",
            },
            id="elect by the controller",
        ),
        pytest.param(
            CleanControllerBrokerDataRequestHeader(
                "b", "c", "1;2", is_clean_living_broker=True, invoke_time=5
            ),
            {
                "brokerControllerIdsToClean": "1;2",
                "isCleanLivingBroker": "true",
                "invokeTime": "5",
                "clusterName": "c",
                "brokerName": "b",
            },
            id="clean",
        ),
        pytest.param(
            GetMetaDataResponseHeader(
                "g", "n0", "127.0.0.1:9878", is_leader=True, peers="n0:127.0.0.1:9878;"
            ),
            {
                "controllerLeaderId": "n0",
                "controllerLeaderAddress": "127.0.0.1:9878",
                "isLeader": "true",
                "peers": "n0:127.0.0.1:9878;",
                "group": "g",
            },
            id="metadata",
        ),
        pytest.param(
            NotifyBrokerRoleChangedRequestHeader("a:1", 2, 3, 1),
            {"masterAddress": "a:1", "masterBrokerId": "1", "syncStateSetEpoch": "3", "masterEpoch": "2"},
            id="role notice",
        ),
        pytest.param(
            BrokerHeartbeatRequestHeader("c", "a:1", "b", 1, 2, 3, 4, 5, 6),
            {
                "clusterName": "c",
                "brokerAddr": "a:1",
                "brokerName": "b",
                "brokerId": "1",
                "epoch": "2",
                "maxOffset": "3",
                "confirmOffset": "4",
                "heartbeatTimeoutMills": "5",
                "electionPriority": "6",
            },
            id="heartbeat",
        ),
        pytest.param(ElectMasterResponseHeader(), {}, id="nothing set"),
    ],
)
def test_fields_are_named_and_written_as_java_does(header: Header, ext: dict[str, str]) -> None:
    assert header.to_ext() == ext
    assert type(header).from_ext(ext) == header


@pytest.mark.parametrize("kind", ALL_HEADERS)
@given(data=st.data())
def test_a_header_reads_back_what_it_wrote(kind: type[Header], data: st.DataObject) -> None:
    texts = st.sampled_from(["0", "7", "2147483647"])
    header = kind.from_ext({name: data.draw(texts) for name in kind.__struct_encode_fields__})
    assert kind.from_ext(header.to_ext()) == header


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("True", True), ("TRUE", True), ("1", False), ("yes", False), ("", False)],
)
def test_only_the_word_true_is_true(text: str, value: bool) -> None:
    assert GetMetaDataResponseHeader.from_ext({"isLeader": text}).is_leader is value


@pytest.mark.parametrize("ext", [None, {}, {"brokername": "b"}])
def test_a_missing_required_field_is_named(ext: dict[str, str] | None) -> None:
    with pytest.raises(HeaderError, match="missing") as caught:
        ElectMasterRequestHeader.from_ext(ext)
    assert (caught.value.header, caught.value.field, caught.value.value) == (
        "ElectMasterRequestHeader",
        "brokerName",
        None,
    )


@pytest.mark.parametrize("value", ["", "x", "1.5", " 1", "9223372036854775808", "0x10"])
def test_a_number_that_does_not_parse_is_named_with_its_value(value: str) -> None:
    with pytest.raises(HeaderError) as caught:
        ApplyBrokerIdRequestHeader.from_ext(
            {"clusterName": "c", "brokerName": "b", "appliedBrokerId": value, "registerCheckCode": "a;1"}
        )
    assert (caught.value.field, caught.value.value) == ("appliedBrokerId", value)


def test_an_int_beyond_32_bits_is_refused_where_java_has_an_int() -> None:
    ext = {"brokerName": "b", "masterBrokerId": "2147483648", "masterEpoch": "2147483648"}
    with pytest.raises(HeaderError) as caught:
        AlterSyncStateSetRequestHeader.from_ext(ext)
    assert caught.value.field == "masterEpoch"


def test_a_hostile_value_is_cut_in_the_message() -> None:
    with pytest.raises(HeaderError) as caught:
        ElectMasterRequestHeader.from_ext({"brokerName": "b", "brokerId": "x" * 10_000})
    assert len(str(caught.value)) < 200


def test_unknown_fields_are_ignored() -> None:
    ext = {"brokerName": "b", "AccessKey": "k", "Signature": "s"}
    assert ElectMasterRequestHeader.from_ext(ext) == ElectMasterRequestHeader("b")


def test_a_broker_may_be_called_null() -> None:
    assert ElectMasterRequestHeader.from_ext({"brokerName": "null"}).broker_name == "null"


def test_the_mark_of_a_log_replica_is_read() -> None:
    ext = {"clusterName": "c", "brokerName": "b", "appliedBrokerId": "3", "registerCheckCode": "a;1"}
    assert ApplyBrokerIdRequestHeader.from_ext(ext).replica_kind is None
    marked = ApplyBrokerIdRequestHeader.from_ext({**ext, "replicaKind": "log"})
    assert marked.replica_kind == headers.REPLICA_KIND_LOG


@given(st.sampled_from(ALL_HEADERS), st.dictionaries(st.text(max_size=10), st.text(max_size=10)))
def test_any_fields_are_read_or_refused(kind: type[Header], ext: dict[str, str]) -> None:
    for name in kind.__struct_encode_fields__:
        ext.setdefault(name, next(iter(ext.values()), "x"))
    try:
        header = kind.from_ext(ext)
    except RemotingProtocolError:
        return
    assert kind.from_ext(header.to_ext()) == header
