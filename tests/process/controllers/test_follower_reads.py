"""Three real controllers: each answers polls itself, and what one has acknowledged no other forgets."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import ResponseCode
from testkit.fakes.broker import FakeBroker
from testkit.products.controllers import ControllerCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

CHANGES = 40
WITHIN_S = 30.0


async def page(address: str, path: str) -> Any:
    """Return a page of a controller: JSON, or text."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as response:
        assert response.status == 200, await response.text()
        return await (response.json() if response.content_type == "application/json" else response.text())


async def served(cluster: ControllerCluster, node: int) -> float:
    """Return how many reads a node has answered while another led."""
    text = await page(cluster.http_addresses[node], "/metrics")
    name = 'rmqha_controller_follower_reads_total{result="served"} '
    return float(text.partition(name)[2].split()[0])


async def told_epoch(broker: FakeBroker, node: int) -> int:
    """Return the epoch of the SyncStateSet that a node tells."""
    answer = await broker.replica_info_or_refusal(controller=node)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert headers.GetReplicaInfoResponseHeader.from_ext(answer.ext).master_broker_id == 1
    return SyncStateSet.decode(answer.body).sync_state_set_epoch


async def test_every_controller_answers_polls_itself_and_none_tells_old_things(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path) as cluster:
        leader = await cluster.wait_leader()
        followers = [node for node in range(3) if node != leader]
        async with (
            FakeBroker(cluster.remoting_addresses, "b1") as master,
            FakeBroker(cluster.remoting_addresses, "b1"),
        ):
            await master.elect()
            async with asyncio.timeout(WITHIN_S):  # until each has seen the master for long enough
                while not all([await served(cluster, node) for node in followers]):
                    for node in followers:
                        await told_epoch(master, node)
                    await asyncio.sleep(0.05)
            set_epoch = await told_epoch(master, leader)
            before = [await served(cluster, node) for node in followers]
            for change in range(CHANGES):
                answer = await master.alter((1, 2) if change % 2 == 0 else (1,), set_epoch=set_epoch)
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                set_epoch += 1
                assert await told_epoch(master, followers[change % 2]) == set_epoch
            after = [await served(cluster, node) for node in followers]
            assert sum(after) - sum(before) >= CHANGES / 2
            for node in followers:
                group = await page(cluster.http_addresses[node], "/v1/groups/c1/b1?consistent=true")
                assert group["sync_state_set_epoch"] == set_epoch
                log = await page(cluster.http_addresses[node], "/v1/log?limit=1000")
                kinds = [entry["kind"] for entry in log["entries"] if entry["committed"]]
                assert kinds.count("AlterSyncStateSet") >= CHANGES
