"""Planned switchovers under load, again and again: nothing acknowledged is lost.

A master that steps down during writes acknowledges some that no slave holds: with everybody told at once 5 of
12 switchovers lost messages, with the old master told first 1 of 26. So its writes are stopped and drained
before. Sends that wait for no copy are not stopped, and the log grows on with them.
"""

import time
from pathlib import Path

import pytest

from testkit.demo.story import DemoStory, wait_whole
from testkit.demo.under_load import under_load
from testkit.rocketmq.load import LoadClient, LoadSettings

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SWITCHOVERS = 5


async def test_no_planned_switchover_under_load_loses_an_acknowledged_message(tmp_path: Path) -> None:
    async with under_load(tmp_path) as running:
        story = DemoStory(running.cluster, running.load, running.progress)
        epochs = [(await story.switch_over()).new_epoch for _ in range(SWITCHOVERS)]
        result = await running.read_back()
    assert result.acknowledged > 1_000
    assert result.lost == frozenset()
    assert epochs == sorted(set(epochs))


async def test_sends_that_wait_for_no_copy_hinder_no_switchover_and_cost_no_other_send(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path, rate=200) as running:
        cluster, story = running.cluster, DemoStory(running.cluster, running.load, running.progress)
        settings = LoadSettings(rate=800, poll_name_server_ms=200, waits=False)
        hasty = LoadClient(
            running.release, cluster.name_server.address, "hasty", tmp_path / "hasty", settings
        )
        async with hasty:
            await hasty.wait_for_acknowledged(1_000, 90.0)
            for _ in range(SWITCHOVERS):
                group = await wait_whole(cluster)
                began_ns = time.time_ns()
                slave = next(
                    one
                    for one in group["replicas"]
                    if one["electable"] and one["broker_id"] != group["master_id"]
                )
                assert await story.asked_to_elect(slave["broker_id"]) is None
                await running.load.wait_for_acknowledged(100, 60.0, after_ns=began_ns)
                await hasty.wait_for_acknowledged(100, 60.0, after_ns=began_ns)
            result = await running.read_back()
    assert result.acknowledged > 1_000
    assert result.lost == frozenset()
