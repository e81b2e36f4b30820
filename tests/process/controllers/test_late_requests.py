"""A request that waited at a frozen controller changes nothing when that controller runs again."""

import asyncio
from pathlib import Path

import pytest

from controller_core.groups.liveness.deliveries import LATE_AFTER_MS
from controller_core.remoting.codes import ResponseCode
from testkit.fakes.broker import FakeBroker
from testkit.products.controllers import ControllerCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

FROZEN_S = LATE_AFTER_MS / 1000 + 1.0
"""Longer than a broker waits for the answer."""
BOTH = (1, 2)


def broker(cluster: ControllerCluster) -> FakeBroker:
    """Return a broker that lives through a freeze of a controller."""
    return FakeBroker(cluster.remoting_addresses, "orders", timeout_ms=60_000)


async def current_set(cluster: ControllerCluster) -> tuple[tuple[int, ...], int]:
    """Return the members of the SyncStateSet, and its epoch."""
    group = await cluster.group_info("c1", "orders")
    assert group is not None
    return tuple(group["sync_state_set"]), group["sync_state_set_epoch"]


async def test_a_request_for_another_set_that_waited_at_a_frozen_follower_changes_no_set(
    tmp_path: Path,
) -> None:
    async with ControllerCluster(tmp_path) as cluster, broker(cluster) as master, broker(cluster):
        leader = await cluster.wait_leader()
        follower = (leader + 1) % len(cluster)
        await master.elect(controller=leader)
        before = members, epoch = await current_set(cluster)
        assert members == (1,)
        cluster.freeze_node(follower)
        given_up = asyncio.create_task(master.alter(BOTH, epoch, controller=follower))
        await asyncio.sleep(FROZEN_S)  # the sender's patience, not a wait for an event
        cluster.thaw_node(follower)
        late = await given_up
        assert (late.code, "may be old" in (late.remark or "")) == (ResponseCode.SYSTEM_BUSY, True)
        assert await current_set(cluster) == before
        async with asyncio.timeout(10.0):
            while (
                again := await master.alter(BOTH, epoch, controller=follower)
            ).code != ResponseCode.SUCCESS:
                assert again.code == ResponseCode.SYSTEM_BUSY
                await asyncio.sleep(0.1)
