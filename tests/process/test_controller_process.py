"""Three real `controller-core serve` processes on loopback, and brokers that speak to them over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from testkit.controllers import ControllerCluster
from testkit.fake_broker import FakeBroker

pytestmark = pytest.mark.process

GROUP = "orders"
SETTLE_S = 5.0


class World(ControllerCluster):
    """Three controllers, and the brokers that a test started."""

    def __init__(self, directory: Path) -> None:
        """Describe the controllers."""
        super().__init__(directory)
        self.brokers: list[FakeBroker] = []

    def broker(self, timeout_ms: int = 10_000) -> FakeBroker:
        """Return a broker, not started, that is ended with the test."""
        self.brokers.append(FakeBroker(self.remoting_addresses, GROUP, timeout_ms=timeout_ms))
        return self.brokers[-1]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as world:
        try:
            yield world
        finally:
            for broker in world.brokers:
                await broker.die()


async def _group_of_two(cluster: World, *, timeout_ms: int = 10_000) -> tuple[FakeBroker, FakeBroker]:
    """Start a master (id 1) and a slave (id 2) that are both in the SyncStateSet."""
    master, slave = cluster.broker(timeout_ms), cluster.broker(timeout_ms)
    await master.start()
    answer = await master.elect()
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    master.epoch = headers.ElectMasterResponseHeader.from_ext(answer.ext).master_epoch or 0
    await slave.start()
    await cluster.wait_group(
        "c1", GROUP, lambda group: all(replica["alive"] for replica in group["replicas"])
    )
    answer = await master.alter((1, 2), set_epoch=1)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return master, slave


async def _elapsed(condition: Any, timeout_s: float = SETTLE_S) -> float:
    """Wait until the coroutine function gives a true value; return how long that took."""
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110 - the condition is in another process
            await asyncio.sleep(0.01)
    return loop.time() - begin_s


async def test_a_closed_connection_is_a_death_and_the_slave_is_told_at_once(
    cluster: World,
) -> None:
    master, slave = await _group_of_two(cluster)
    begin_s = asyncio.get_running_loop().time()
    await master.die()
    notice = await slave.wait_notice(2)
    assert notice.header.master_broker_id == 2
    assert notice.header.master_epoch == 2
    assert notice.sync_state_set.sync_state_set == (2,)
    assert notice.sync_state_set.sync_state_set_epoch == 3
    assert notice.at_s - begin_s < 1.0


async def test_silence_is_a_death_after_the_time_that_the_broker_announced(
    cluster: World,
) -> None:
    master, slave = await _group_of_two(cluster, timeout_ms=800)
    begin_s = asyncio.get_running_loop().time()
    await master.fall_silent()
    notice = await slave.wait_notice(2)
    assert 0.6 < notice.at_s - begin_s < 1.5


async def test_every_node_answers_what_only_the_leader_knows(cluster: World) -> None:
    master, slave = await _group_of_two(cluster)
    for controller in range(3):
        info, in_sync = await master.replica_info(controller=controller)
        assert (info.master_broker_id, info.master_epoch, in_sync.sync_state_set) == (1, 1, (1, 2))
        await slave.register(controller=controller)


async def test_a_killed_leader_is_replaced_within_two_seconds_and_no_epoch_changes(
    cluster: World,
) -> None:
    master, _slave = await _group_of_two(cluster)
    leader = await cluster.wait_leader()
    other = (leader + 1) % 3
    await cluster.kill_node(leader)

    async def answers() -> bool:
        answer = await master.call(
            RequestCode.CONTROLLER_GET_REPLICA_INFO,
            headers.GetReplicaInfoRequestHeader(GROUP),
            controller=other,
        )
        return answer.code == ResponseCode.SUCCESS

    assert await _elapsed(answers) < 2.0
    info, in_sync = await master.replica_info(controller=other)
    assert (info.master_broker_id, info.master_epoch, in_sync.sync_state_set) == (1, 1, (1, 2))


async def test_master_and_leading_controller_lost_together_still_fail_over_at_once(
    cluster: World,
) -> None:
    master, slave = await _group_of_two(cluster)
    leader = await cluster.wait_leader()
    begin_s = asyncio.get_running_loop().time()
    await cluster.kill_node(leader)
    await master.die()
    notice = await slave.wait_notice(2)
    assert notice.header.master_broker_id == 2
    assert notice.at_s - begin_s < 2.5


async def test_a_frozen_leader_is_replaced_and_does_not_act_when_it_wakes(cluster: World) -> None:
    master, slave = await _group_of_two(cluster)
    leader = await cluster.wait_leader()
    cluster.freeze_node(leader)
    new_leader = await cluster.wait_leader(other_than=leader)
    await master.die()
    await slave.wait_notice(2)
    cluster.thaw_node(leader)
    await _elapsed(lambda: _follows(cluster, leader, new_leader))
    group = await cluster.group_info("c1", GROUP)
    assert group is not None
    assert (group["master_id"], group["master_epoch"]) == (2, 2)


async def _follows(cluster: World, node: int, leader: int) -> bool:
    status = await cluster.status(node)
    return status is not None and status["leader"] == f"n{leader}"


async def test_a_restart_of_all_nodes_keeps_every_group(cluster: World) -> None:
    _master, _slave = await _group_of_two(cluster)
    before = await cluster.group_info("c1", GROUP)
    await asyncio.gather(*(cluster.kill_node(index) for index in range(3)))
    await asyncio.gather(*(cluster.start_node(index) for index in range(3)))
    await cluster.wait_leader()
    await cluster.wait_group(
        "c1", GROUP, lambda group: all(replica["alive"] for replica in group["replicas"])
    )
    after = await cluster.group_info("c1", GROUP)
    assert before is not None
    assert after is not None
    for name in ("master_id", "master_epoch", "sync_state_set", "sync_state_set_epoch", "next_broker_id"):
        assert after[name] == before[name]


async def test_after_a_cold_start_a_slave_that_beats_first_does_not_replace_the_master(
    cluster: World,
) -> None:
    master, slave = await _group_of_two(cluster)
    await master.fall_silent()
    await asyncio.gather(*(cluster.kill_node(index) for index in range(3)))
    await asyncio.gather(*(cluster.start_node(index) for index in range(3)))
    await cluster.wait_leader()
    await cluster.wait_group("c1", GROUP, lambda group: bool(group["replicas"][1]["alive"]))
    answer = await slave.elect()
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    group = await cluster.group_info("c1", GROUP)
    assert group is not None
    assert (group["master_id"], group["master_epoch"]) == (1, 1)


async def test_sigterm_hands_leadership_over_and_ends_cleanly(cluster: World) -> None:
    leader = await cluster.wait_leader()
    assert await cluster.stop_node(leader) == 0
    assert await cluster.wait_leader(2.0, other_than=leader) != leader


async def test_with_one_node_of_three_every_request_is_answered_in_time_with_2007(
    cluster: World,
) -> None:
    master, _slave = await _group_of_two(cluster)
    for index in (1, 2):
        await cluster.kill_node(index)

    async def refused() -> bool:
        answer = await master.elect()
        return answer.code == ResponseCode.CONTROLLER_NOT_LEADER

    await _elapsed(refused)
    begin_s = asyncio.get_running_loop().time()
    answer = await master.elect()
    assert asyncio.get_running_loop().time() - begin_s < 2.7
    assert answer.remark == "The controller is not in leader state"
    metadata = await master.must(RequestCode.CONTROLLER_GET_METADATA_INFO)
    assert headers.GetMetaDataResponseHeader.from_ext(metadata.ext).controller_leader_address == ""


async def test_the_failover_is_told_in_events_and_in_its_record(cluster: World) -> None:
    master, slave = await _group_of_two(cluster)
    await master.die()
    await slave.wait_notice(2)
    leader = await cluster.wait_leader()

    async def recorded() -> bool:
        return (await _failovers(cluster, leader))[0]["role_taken_ns"] is not None

    await _elapsed(recorded)
    record = (await _failovers(cluster, leader))[0]
    assert (record["cause"], record["old_master_id"], record["new_master_id"]) == ("ConnectionClosed", 1, 2)
    assert record["sync_state_set_before"] == [1, 2]
    times = [
        record[name]
        for name in ("suspected_ns", "proposed_ns", "committed_ns", "noticed_ns", "role_taken_ns")
    ]
    assert times == sorted(times)
    streams = [await _events(cluster, index) for index in range(3)]
    kinds = [event["kind"] for event in streams[0] if event["correlation_id"] == f"c1/{GROUP}/2"]
    assert kinds == ["BrokerSuspected", "MasterElected", "RoleNotified", "RoleTaken"]
    assert [event["sequence"] for event in streams[0]] == list(range(1, len(streams[0]) + 1))
    assert streams[0] == streams[1] == streams[2]


async def _failovers(cluster: World, index: int) -> list[dict[str, Any]]:
    url = f"http://{cluster.http_addresses[index]}/v1/failovers?consistent=true"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        value = await response.json()
        return list(value["failovers"])


async def _events(cluster: World, index: int, after: int = 0) -> list[dict[str, Any]]:
    url = f"http://{cluster.http_addresses[index]}/v1/events?after={after}&follow=false"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return [json.loads(line) for line in (await response.text()).splitlines()]
