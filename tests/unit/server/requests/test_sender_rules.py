"""Requests in another's name, and those of an administrator, over real connections from several hosts.

The addresses 127.0.0.x stand for hosts. As all of them are loopback, the tests of administrators give the
node another notion of loopback.
"""

import asyncio

import pytest

from controller_core.channel.connection import Connection
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.liveness import deliveries
from controller_core.groups.liveness.holders import MOVE_AFTER_MS
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.token import TOKEN_FIELD
from controller_core.server.requests import sender_rules
from controller_core.server.requests.forwarding import FORWARDED_BY_FIELD
from controller_core.server.requests.sender_rules import LATE_REMARK
from controller_core.server.settings.config import load
from testkit.products.one_controller import OneNode

WITHIN_S = 60.0
TOKEN = "let-me-in"  # noqa: S105 - a made-up token
B1 = ("c1", "b1")


async def _ask(connection: Connection, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
    return await connection.call(RemotingCommand.request(code, ext, body), WITHIN_S)


def _beat(broker_id: int, address: str = "evil:1") -> RemotingCommand:
    header = headers.BrokerHeartbeatRequestHeader("c1", address, "b1", broker_id, epoch=2**31 - 1)
    return RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, header.to_ext())


def _alter(one: OneNode, *members: int) -> tuple[dict[str, str], bytes]:
    group = one.group()
    header = headers.AlterSyncStateSetRequestHeader("b1", group.master_id or 0, group.master_epoch)
    return header.to_ext(), SyncStateSet.of(members, group.set_epoch).encode()


async def test_a_heartbeat_in_the_masters_name_and_a_close_move_no_master(one: OneNode) -> None:
    async with one.broker() as master, one.broker():
        await master.elect()
        async with one.dialled_from("127.0.0.9") as stranger:
            answer = await stranger.call(_beat(1), WITHIN_S)
            assert answer.code == ResponseCode.SUCCESS
        await master.replica_info()
        await asyncio.sleep(0.05)  # an election would have been held by now
        assert (one.group().master_id, one.group().master_epoch) == (1, 1)
        entry = one.heartbeats.table.get(ReplicaKey(*B1, 1))
        assert entry is not None
        assert entry.address == master.address


async def test_the_syncstateset_is_changed_over_the_masters_own_connection_only(one: OneNode) -> None:
    async with one.broker() as master, one.broker():
        await master.elect()
        master.epoch = 1
        for host in ("127.0.0.9", "127.0.0.1"):
            async with one.dialled_from(host) as stranger:
                await stranger.call(_beat(66), WITHIN_S)
                refused = await _ask(stranger, 1001, *_alter(one, 1, 2))
                assert refused.code == ResponseCode.NO_PERMISSION
                assert "it did not come from the master" in (refused.remark or "")
        assert one.group().sync_state_set == (1,)
        assert (await master.alter((1, 2), one.group().set_epoch)).code == ResponseCode.SUCCESS


async def test_a_broker_that_spells_the_leader_in_another_way_changes_its_set(one: OneNode) -> None:
    async with one.broker() as master, one.broker():
        await master.elect()
        async with one.dialled_from("127.0.0.1") as second_connection:
            answer = await _ask(second_connection, 1001, *_alter(one, 1, 2))
            assert answer.code == ResponseCode.SUCCESS


async def test_a_request_for_another_set_that_may_be_old_is_refused_until_it_comes_in_time(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "LATE_AFTER_MS", 200)
    monkeypatch.setattr(deliveries, "BURST_MS", 200)
    async with one.broker(beats=False) as master, one.broker():
        master.beat()
        await master.elect()
        await asyncio.sleep(0.25)  # the silence of a connection that delivers late
        late = await master.alter((1, 2), one.group().set_epoch)
        assert (late.code, late.remark) == (ResponseCode.SYSTEM_BUSY, LATE_REMARK)
        master.beat()
        in_burst = await master.alter((1, 2), one.group().set_epoch)
        assert in_burst.code == ResponseCode.SYSTEM_BUSY
        assert one.group().sync_state_set == (1,)
        for _interval in range(5):
            await asyncio.sleep(0.05)
            master.beat()
        assert (await master.alter((1, 2), one.group().set_epoch)).code == ResponseCode.SUCCESS


async def test_the_mark_of_a_forwarded_request_is_believed_only_from_a_controllers_host(one: OneNode) -> None:
    one.controller.set_controller_hosts(lambda: {"127.0.0.5"})
    async with one.broker() as master, one.broker():
        await master.elect()
        for host, code in (
            ("127.0.0.9", ResponseCode.NO_PERMISSION),
            ("127.0.0.5", ResponseCode.SUCCESS),
        ):
            async with one.dialled_from(host) as sender:
                ext, body = _alter(one, 1, 2)
                assert (await _ask(sender, 1001, ext | {FORWARDED_BY_FIELD: "n1"}, body)).code == code


ADMINISTRATOR: list[tuple[int, dict[str, str], bytes]] = [
    (1009, {}, b"enableElectUncleanMaster=true\n"),
    (1011, {"clusterName": "c1", "brokerName": "b1", "isCleanLivingBroker": "true"}, b""),
    (1002, {"clusterName": "c1", "brokerName": "b1", "brokerId": "2", "designateElect": "true"}, b""),
]


@pytest.mark.parametrize("given", [{"plainAdminRequests": "false", "httpToken": TOKEN}])
@pytest.mark.parametrize(("code", "ext", "body"), ADMINISTRATOR)
async def test_an_administrators_request_of_a_stranger_is_refused_and_names_the_way(
    one: OneNode, monkeypatch: pytest.MonkeyPatch, code: int, ext: dict[str, str], body: bytes
) -> None:
    monkeypatch.setattr(sender_rules, "_is_loopback", lambda host: host == "127.0.0.1")
    one.controller.set_controller_hosts(lambda: {"127.0.0.5"})
    async with one.broker() as master:
        await master.elect()
        async with one.dialled_from("127.0.0.9") as stranger:
            for wrong in ({}, {TOKEN_FIELD: "x"}, {TOKEN_FIELD: "é"}, {FORWARDED_BY_FIELD: "n1"}):
                refused = await _ask(stranger, code, ext | wrong, body)
                assert refused.code == ResponseCode.NO_PERMISSION
                assert "plainAdminRequests=true" in (refused.remark or "")
            assert one.group().master_id == 1
            assert not one.config.settings.elect_unclean_master
            taken = await _ask(stranger, code, ext | {TOKEN_FIELD: TOKEN}, body)
            assert taken.code != ResponseCode.NO_PERMISSION
        async with one.dialled_from("127.0.0.1") as loopback:
            assert (await _ask(loopback, code, ext, body)).code != ResponseCode.NO_PERMISSION


async def test_mqadmin_without_certificates_is_an_administrator_by_default(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_rules, "_is_loopback", lambda _host: False)
    async with one.dialled_from("127.0.0.9") as mqadmin:
        assert (await _ask(mqadmin, 1009, {}, b"enableElectUncleanMaster=true\n")).code == 0
    assert one.config.settings.elect_unclean_master


@pytest.mark.parametrize(
    ("keys", "taken"),
    [
        ({}, True),
        ({"tls.server.certPath": "c.pem"}, False),
        ({"tls.server.certPath": "c.pem", "tls.server.mode": "disabled"}, True),
        ({"tls.server.certPath": "c.pem", "plainAdminRequests": "true"}, True),
        ({"plainAdminRequests": "false"}, False),
    ],
)
def test_plain_administrators_end_with_the_first_certificate(keys: dict[str, str], taken: bool) -> None:
    base = {"controllerDLegerGroup": "g", "controllerDLegerPeers": "n0-127.0.0.1:9878"}
    assert sender_rules.takes_plain_admin(load(base | keys)[0]) is taken


async def test_a_broker_whose_old_connection_is_silent_goes_on_over_its_new_one(one: OneNode) -> None:
    async with one.broker(beats=False, timeout_ms=400) as broker, one.broker():
        await broker.elect()
        assert MOVE_AFTER_MS > 200  # half of its timeout counts
        old = broker.disconnect_without_closing()
        await broker.dial()
        for _ in range(10):
            await asyncio.sleep(0.05)
            broker.beat()
        await broker.replica_info()
        for connection in old:
            connection.abort()
        await asyncio.sleep(0.05)
        assert (one.group().master_id, one.group().master_epoch) == (1, 1)
