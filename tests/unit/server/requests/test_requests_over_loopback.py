"""One node, real sockets: every request of the protocol, its answers, and requests without an answer."""

import asyncio
from collections.abc import Callable

import pytest

from controller_core.channel.endpoints import connect
from controller_core.groups.commands import DEFAULT_HEARTBEAT_TIMEOUT_MS
from controller_core.groups.keys import ReplicaKey
from controller_core.remoting import headers
from controller_core.remoting.bodies import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    SyncStateSet,
    encode_names,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from controller_core.server.notices import notice_order, notifier
from controller_core.server.requests import older_protocol
from controller_core.server.requests.forwarding import FORWARDED_BY_FIELD
from controller_core.server.settings.properties import parse
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

WITHIN_S = 60.0


async def _ask(
    one: OneNode, code: int, ext: dict[str, str] | None = None, body: bytes = b""
) -> RemotingCommand:
    host, _, port = one.remoting.rpartition(":")
    connection = await connect(host, int(port), WITHIN_S)
    try:
        return await connection.call(RemotingCommand.request(code, ext, body), WITHIN_S)
    finally:
        connection.close()


@pytest.mark.parametrize("code", [9999, 1014, 1018, 1008])
async def test_an_unknown_request_is_answered_in_javas_words(one: OneNode, code: int) -> None:
    answer = await _ask(one, code)
    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


async def test_metadata_name_the_leader_by_its_remoting_address(one: OneNode) -> None:
    answer = await _ask(one, RequestCode.CONTROLLER_GET_METADATA_INFO)
    header = headers.GetMetaDataResponseHeader.from_ext(answer.ext)
    assert header == headers.GetMetaDataResponseHeader(
        "unit", "n0", one.remoting, True, f"n0:{one.remoting};"
    )


async def test_metadata_tell_a_member_for_how_much_longer_it_may_be_silent(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
        named = {"clusterName": "c1", "brokerName": "b1", "brokerId": str(broker.broker_id)}

        async def lease_ms(ext: dict[str, str]) -> int | None:
            answer = await _ask(one, RequestCode.CONTROLLER_GET_METADATA_INFO, ext)
            return headers.GetMetaDataResponseHeader.from_ext(answer.ext).lease_ms

        told = await lease_ms(named)
        key = ReplicaKey("c1", "b1", broker.broker_id)
        assert told is not None
        assert 0 < told <= one.heartbeats.table._members[key].timeout_ms
        unheard = await lease_ms(named | {"brokerId": "77"})
        assert unheard is not None
        assert 0 < unheard <= DEFAULT_HEARTBEAT_TIMEOUT_MS, "it has just started, and judges nobody's silence"
        one.heartbeats.listening_since_ms -= DEFAULT_HEARTBEAT_TIMEOUT_MS
        assert await lease_ms(named | {"brokerId": "77"}) == 0
        one.heartbeats.listening_since_ms += DEFAULT_HEARTBEAT_TIMEOUT_MS
        entry = one.heartbeats.table._members[key]
        assert entry.lease_until_ms > 0, "this controller is bound by what it told"
        assert await lease_ms({}) is None
        assert await lease_ms(named | {"brokerId": "x"}) is None
        lost = named | {"brokerName": "unknown"}
        assert await lease_ms(lost) is None, "its store was lost, and it names no other master"
    async with asyncio.timeout(WITHIN_S):
        while one.heartbeats.table.is_alive(key):  # noqa: ASYNC110 - a closed connection is not told here
            await asyncio.sleep(0.01)
    assert await lease_ms(named) == 0, "it saw the member's connection close"


async def test_a_lease_binds_unless_a_log_replica_is_in_the_set(one: OneNode) -> None:
    replica = FakeBroker([one.remoting], "b1", log_replica=True)
    async with one.broker() as broker:
        await broker.elect()
        broker.epoch = 1
        await replica.start()
        ext = {"clusterName": "c1", "brokerName": "b1", "brokerId": str(broker.broker_id)}
        entry = one.heartbeats.table._members[ReplicaKey("c1", "b1", broker.broker_id)]

        async def binds(ext: dict[str, str]) -> bool:
            entry.lease_until_ms = 0
            await _ask(one, RequestCode.CONTROLLER_GET_METADATA_INFO, ext)
            return entry.lease_until_ms > 0

        loose = ext | {"leaseBinds": "false"}
        assert await binds(ext)
        assert await binds(loose)
        members = (broker.broker_id, replica.broker_id)
        assert (await broker.alter(members, set_epoch=1)).code == ResponseCode.SUCCESS
        assert await binds(ext)
        assert not await binds(loose)
    await replica.die()


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (1003, {"clusterName": "c1", "brokerName": "b1", "brokerAddress": "h:1"}),
        (1001, {"brokerName": "b1", "masterAddress": "h:1", "masterEpoch": "1"}),
    ],
)
async def test_a_broker_of_a_release_without_broker_ids_is_told_so(
    one: OneNode, code: int, ext: dict[str, str]
) -> None:
    answer = await _ask(one, code, ext)
    assert (answer.code, answer.remark) == (2005, older_protocol.REMARK)
    assert "expected 5.1.1 or later" in older_protocol.REMARK
    without_address = {key: value for key, value in ext.items() if "ddress" not in key}
    assert (await _ask(one, code, without_address)).code == ResponseCode.SYSTEM_ERROR


async def test_a_heartbeat_is_answered_only_when_an_answer_is_wanted(one: OneNode) -> None:
    async with one.broker() as broker:
        beat = headers.BrokerHeartbeatRequestHeader("c1", broker.address, "b1", 1)
        answer = await broker.must(RequestCode.BROKER_HEARTBEAT, beat)
        assert answer.remark == "Heart beat success"
        nameless = await broker.call(
            RequestCode.BROKER_HEARTBEAT, headers.BrokerHeartbeatRequestHeader("c1", broker.address, "b1")
        )
        assert (nameless.code, nameless.remark) == (2005, "Heart beat with empty brokerId")


async def test_oneway_requests_are_never_answered(one: OneNode) -> None:
    host, _, port = one.remoting.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for code in (904, 1001, 1002, 1004, 1005, 9999):
        writer.write(encode(RemotingCommand.request(code, {}, oneway=True)))
    writer.write(encode(RemotingCommand.request(1005).with_opaque(77)))
    commands: list[RemotingCommand] = []
    decoder = FrameDecoder()
    while not commands:
        commands += decoder.feed(await reader.read(65_536))
    await asyncio.sleep(0.05)  # an answer to the others, if one came, would have had time
    assert [command.opaque for command in commands] == [77]
    writer.close()
    await writer.wait_closed()


async def test_a_group_comes_to_life_as_brokers_ask_for_it(one: OneNode) -> None:
    async with one.broker() as first, one.broker() as second:
        assert (first.broker_id, second.broker_id) == (1, 2)
        elected = await first.elect()
        header = headers.ElectMasterResponseHeader.from_ext(elected.ext)
        assert header == headers.ElectMasterResponseHeader(1, first.address, 1, 1)
        body = ElectMasterResponseBody.decode(elected.body)
        assert body.broker_addrs == {1: first.address, 2: second.address}
        assert body.sync_state_set == (1,)
        first.epoch = 1
        altered = await first.alter((1, 2), set_epoch=1)
        assert SyncStateSet.decode(altered.body) == SyncStateSet((1, 2), 2)
        kept = await second.elect()
        assert kept.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        assert headers.ElectMasterResponseHeader.from_ext(kept.ext).master_broker_id == 1


async def test_sync_state_data_tell_who_is_alive(one: OneNode) -> None:
    async with one.broker() as first, one.broker(beats=False) as second:
        await first.elect()
        await second.die()
        await _until(lambda: not one.heartbeats.table.is_alive(ReplicaKey("c1", "b1", 2)))
        answer = await first.call(
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names(["b1", "nobody"])
        )
        info = BrokerReplicasInfo.decode(answer.body).replicas_info_table["b1"]
        assert [(member.broker_id, member.alive) for member in info.in_sync_replicas] == [(1, True)]
        assert [(member.broker_id, member.alive) for member in info.not_in_sync_replicas] == [(2, False)]


async def test_sync_state_data_tell_who_is_a_log_replica(one: OneNode) -> None:
    log_replica = FakeBroker([one.remoting], "b1", log_replica=True)
    async with one.broker() as first, log_replica:
        await first.elect()
        answer = await first.call(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names(["b1"]))
        info = BrokerReplicasInfo.decode(answer.body).replicas_info_table["b1"]
        assert [member.broker_name for member in info.in_sync_replicas] == ["b1"]
        assert [
            (member.broker_name, member.broker_id, member.broker_address)
            for member in info.not_in_sync_replicas
        ] == [("b1 (log replica)", 2, log_replica.address)]


async def test_a_request_without_what_it_needs_is_answered_with_code_1(one: OneNode) -> None:
    for code, ext, body in (
        (1013, {"clusterName": "c1", "brokerName": "b1", "appliedBrokerId": "1"}, b""),
        (1003, {"clusterName": "c1", "brokerName": "b1", "brokerId": "one", "brokerAddress": "a"}, b""),
        (1001, {"brokerName": "b1", "masterBrokerId": "1", "masterEpoch": "1"}, b""),
        (1006, None, b"{"),
    ):
        answer = await _ask(one, code, ext, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR, answer
        assert answer.remark


async def test_config_is_listed_changed_and_guarded(one: OneNode) -> None:
    assert (await _ask(one, 1009, None, b"enableElectUncleanMaster=true\n")).code == 0
    listed = parse((await _ask(one, 1010)).body.decode())
    assert listed["enableElectUncleanMaster"] == "true"
    assert listed["listenPort"] == one.remoting.rpartition(":")[2]
    refused = await _ask(one, 1009, None, b"configStorePath=/tmp/x\n")
    assert (refused.code, refused.remark) == (16, "Can not update config in black list.")
    assert (await _ask(one, 1009)).code == 0


async def test_a_dead_master_is_replaced_and_the_slave_told(one: OneNode) -> None:
    async with one.broker() as slave:
        master = one.broker()
        await slave.elect()
        slave.epoch = 1
        await master.start()
        await slave.alter((1, 2), set_epoch=1)
        begin_s = asyncio.get_running_loop().time()
        await slave.die()
        notice = await master.wait_notice(2)
        assert notice.header.master_broker_id == 2
        assert notice.at_s - begin_s < 2.0  # and not the 10 s that silence takes
        await master.die()


async def test_a_guarded_switchover_tells_the_new_master_and_ends_when_the_old_one_has_stepped_down(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notice_order, "DEMOTED_WITHIN_S", WITHIN_S)
    async with one.broker() as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.clings_to_its_role = True
        ext = {"clusterName": old.cluster, "brokerName": old.group, "brokerId": "2", "designateElect": "true"}
        electing = asyncio.create_task(_ask(one, RequestCode.CONTROLLER_ELECT_MASTER, ext))
        await old.wait_notice(2)
        asking = asyncio.create_task(new.replica_info())
        done, _ = await asyncio.wait({electing, asking}, timeout=0.1)
        assert done == set()
        assert (await new.wait_notice(2)).header.master_broker_id == 2
        old.clings_to_its_role = False
        assert (await electing).code == ResponseCode.SUCCESS
        assert (await asking)[0].master_broker_id == 2


async def test_a_group_whose_last_member_returns_has_a_master_again_without_being_asked(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
    await _until(lambda: one.group().master_epoch == 2)  # Its death is known.
    async with one.broker() as other:
        assert other.broker_id == 2
        assert (await other.replica_info())[0].master_broker_id is None
        back = one.broker()
        back.broker_id = 1
        await back.start()
        notice = await back.wait_notice(3)
        assert notice.header.master_broker_id == 1
        await back.die()


async def test_notices_stop_once_the_broker_shows_the_epoch(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "PERSIST_S", 3600.0)
    deliveries = one.controller._submitter.notifier._deliveries
    async with one.broker(beats=False) as broker:
        await broker.elect()
        await _until(lambda: len(broker.notices) > 1)
        assert deliveries
        broker.beat()
        await _until(lambda: not deliveries)


async def test_a_broker_that_does_not_take_the_notice_is_told_again(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "PERSIST_S", 3600.0)
    async with one.broker(beats=False) as broker:
        await broker.elect()
        async with asyncio.timeout(WITHIN_S):
            while len(broker.notices) < 2:
                await broker.wait_notice(1)
                await asyncio.sleep(0.05)
        assert {notice.header.master_epoch for notice in broker.notices} == {1}


@pytest.mark.parametrize("given", [{"notifyBrokerRoleChanged": "false"}])
async def test_without_notices_nobody_is_told(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
        await asyncio.sleep(0.1)
        assert broker.notices == []


async def test_the_late_close_of_an_old_connection_kills_nobody(one: OneNode) -> None:
    async with one.broker(beats=False) as broker:
        await broker.elect()
        old = broker.disconnect_without_closing()
        await broker.dial()
        broker.beat()
        await broker.replica_info()  # the beat was read before this was answered
        old[0].abort()
        await asyncio.sleep(0.05)
        info, _ = await broker.replica_info()
        assert (info.master_broker_id, info.master_epoch) == (1, 1)


async def test_a_request_that_another_node_sent_on_is_a_sign_of_life_but_not_a_lifeline(one: OneNode) -> None:
    async with one.broker(beats=False) as broker:
        assert (await broker.elect()).code == ResponseCode.SUCCESS
        await broker.fall_silent()
        for connection in broker.disconnect_without_closing():
            connection.abort()
        member = ReplicaKey("c1", "b1", 1)
        await _until(lambda: not one.heartbeats.table.is_alive(member))
        ext = headers.ElectMasterRequestHeader("b1", "c1", 1).to_ext() | {FORWARDED_BY_FIELD: "n1"}
        assert (await _ask(one, 1002, ext)).code == ResponseCode.SUCCESS
        await asyncio.sleep(0.05)  # the connection of `_ask` is closed by now
        assert one.heartbeats.table.is_alive(member)


async def test_a_registration_that_moves_a_broker_is_heard_after_it_is_applied(one: OneNode) -> None:
    """Else the election that the revival starts would name the address that the broker has left."""
    async with one.broker() as broker:
        await broker.elect()
    await _until(lambda: one.group().master_epoch == 2)  # Its death is known.
    back = one.broker(beats=False)
    back.broker_id = 1
    await back.start(register=False)
    await back.register()
    notice = await back.wait_notice(3)
    assert notice.header.master_address == back.address
    await back.die()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - a table emits no event
            await asyncio.sleep(0.005)
