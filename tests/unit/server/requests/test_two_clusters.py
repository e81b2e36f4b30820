"""Two clusters with groups of one name under one controller: each request means the group of its cluster."""

import asyncio

from controller_core.channel.connection import Connection
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.remoting import headers
from controller_core.remoting.bodies import BrokerReplicasInfo, SyncStateSet, encode_names
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import NamedMember, NodeHeartbeat
from testkit.products.one_controller import OneNode

WITHIN_S = 60.0
C1, C2 = GroupKey("c1", "b1"), GroupKey("c2", "b1")
REMARK = (
    "Broker-set: b1 exists in the clusters c1, c2, and the request does not tell which one is meant: "
    "name it in clusterName"
)


async def _ask(connection: Connection, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
    return await connection.call(RemotingCommand.request(code, ext, body), WITHIN_S)


async def _sync_state(connection: Connection, ext: dict[str, str]) -> RemotingCommand:
    return await _ask(connection, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, ext, encode_names(["b1"]))


def _beat(cluster: str, broker_id: int, address: str) -> RemotingCommand:
    header = headers.BrokerHeartbeatRequestHeader(
        cluster, address, "b1", broker_id, epoch=1, heartbeat_timeout_mills=60_000
    )
    return RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, header.to_ext())


async def test_1006_means_the_group_of_the_named_cluster_and_is_refused_without_one(one: OneNode) -> None:
    async with one.broker() as first, one.dialled_from("127.0.0.1") as mqadmin:
        await first.elect()
        plain = BrokerReplicasInfo.decode((await _sync_state(mqadmin, {})).body)
        assert plain.replicas_info_table["b1"].master_address == first.address, "one cluster has the name"
        async with one.broker(cluster="c2") as second:
            await second.elect()
            refused = await _sync_state(mqadmin, {})
            assert (refused.code, refused.remark) == (ResponseCode.CONTROLLER_INVALID_REQUEST, REMARK)
            for cluster, broker in (("c1", first), ("c2", second)):
                answer = await _sync_state(mqadmin, {"clusterName": cluster})
                table = BrokerReplicasInfo.decode(answer.body).replicas_info_table
                assert table["b1"].master_address == broker.address
            nowhere = await _sync_state(mqadmin, {"clusterName": "c3"})
            assert BrokerReplicasInfo.decode(nowhere.body).replicas_info_table == {}


async def test_a_poll_without_a_cluster_means_the_group_of_its_senders_heartbeats(one: OneNode) -> None:
    async with one.broker() as first, one.broker(cluster="c2") as second:
        for broker in (first, second):
            await broker.elect()
        for broker in (first, second):
            assert (await broker.replica_info())[0].master_address == broker.address


async def test_a_second_connection_of_a_brokers_host_means_the_brokers_cluster(one: OneNode) -> None:
    """A broker that spells a controller's address in two ways sends heartbeats over one of them only."""
    async with one.broker() as first, one.broker(cluster="c2") as second:
        for broker in (first, second):
            await broker.elect()
        for host, cluster, broker in (("127.0.0.7", "c1", first), ("127.0.0.8", "c2", second)):
            joined = headers.RegisterBrokerToControllerRequestHeader(cluster, "b1", 2, f"{host}:1")
            claim = headers.ApplyBrokerIdRequestHeader(cluster, "b1", 2, f"{host}:1;1")
            async with one.dialled_from(host) as beating, one.dialled_from(host) as other:
                await _ask(beating, RequestCode.CONTROLLER_APPLY_BROKER_ID, claim.to_ext())
                await _ask(beating, RequestCode.CONTROLLER_REGISTER_BROKER, joined.to_ext())
                await beating.call(_beat(cluster, 2, f"{host}:1"), WITHIN_S)
                answer = await _ask(other, RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "b1"})
                assert (answer.ext or {}).get("masterAddress") == broker.address
        async with one.dialled_from("127.0.0.9") as stranger:
            refused = await _ask(stranger, RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "b1"})
            assert (refused.code, refused.remark) == (ResponseCode.CONTROLLER_INVALID_REQUEST, REMARK)


async def test_a_broker_of_an_unknown_group_never_hears_of_another_clusters_master(one: OneNode) -> None:
    """It would copy that master's log: its own group is unknown, so it has to register."""
    async with one.broker() as first, one.dialled_from("127.0.0.1") as other:
        await first.elect()
        await other.call(_beat("c2", 2, "127.0.0.1:1"), WITHIN_S)
        answer = await _ask(other, RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "b1"})
        assert answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


async def test_a_set_is_changed_in_the_cluster_of_its_master_alone(one: OneNode) -> None:
    async with one.broker() as first, one.broker(), one.broker(cluster="c2") as second:
        for broker in (first, second):
            await broker.elect()
            broker.epoch = 1
        before = one.machine.state.get(C2)
        assert (await first.alter((1, 2), 1)).code == ResponseCode.SUCCESS
        assert one.group().sync_state_set == (1, 2)
        assert one.machine.state.get(C2) == before
        header = headers.AlterSyncStateSetRequestHeader("b1", 1, 1).to_ext()
        async with one.dialled_from("127.0.0.9") as stranger:
            body = SyncStateSet.of((1,), 1).encode()
            refused = await _ask(stranger, 1001, header | {"clusterName": "c2"}, body)
            assert refused.code == ResponseCode.NO_PERMISSION
        assert one.machine.state.get(C2) == before


async def test_a_change_of_master_holds_the_polls_of_its_own_cluster_only(one: OneNode) -> None:
    async with one.broker() as first, one.broker(cluster="c2") as second:
        for broker in (first, second):
            await broker.elect()
        with one.controller._submitter.changes.open(C1):
            held = asyncio.create_task(first.replica_info())
            assert (await second.replica_info())[0].master_address == second.address
            await second.replica_info()
            assert not held.done()
        assert (await held)[0].master_address == first.address


async def test_a_masters_death_moves_the_group_of_its_cluster_only(one: OneNode) -> None:
    async with one.broker() as first, one.broker() as slave, one.broker(cluster="c2") as second:
        for broker in (first, second):
            await broker.elect()
            broker.epoch = 1
        assert (await first.alter((1, 2), 1)).code == ResponseCode.SUCCESS
        before = one.machine.state.get(C2)
        await first.die()
        assert (await slave.wait_notice(2)).header.master_address == slave.address
        assert one.machine.state.get(C2) == before
        assert {notice.header.master_epoch for notice in second.notices} <= {1}


async def test_an_agent_names_the_cluster_of_a_member(one: OneNode) -> None:
    async with one.broker(), one.broker(cluster="c2"), one.dialled_from("127.0.0.1") as agent:
        for named, count in (
            (NamedMember("b1", 1, "127.0.0.1"), 0),
            (NamedMember("b1", 1, "127.0.0.1", "c2"), 1),
        ):
            body = NodeHeartbeat((named,)).encode()
            await _ask(agent, RequestCode.NODE_HEARTBEAT, {}, body)
            assert one.heartbeats.agents.named_count == count
        assert one.heartbeats.table.get(ReplicaKey(*C2, 1)) is not None
