"""Planned switchovers under load, again and again: nothing acknowledged is lost.

A master that steps down in the midst of writes acknowledges some that nobody else holds: with everybody told at once 5 of
12 switchovers lost messages, with the old master told first 1 of 26. So its writes are stopped and drained before.
"""

from pathlib import Path

import pytest

from testkit.demo.cluster import DemoCluster
from testkit.demo.progress import Progress
from testkit.demo.story import Story, wait_whole
from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings, read_back

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SWITCHOVERS = 5
TOPIC = "load"


async def test_no_planned_switchover_under_load_loses_an_acknowledged_message(tmp_path: Path) -> None:
    release = await jars()
    progress = Progress()
    cluster = DemoCluster(release, tmp_path, progress)
    settings = LoadSettings(threads=4, rate=500, poll_name_server_ms=200)
    load = LoadClient(release, cluster.name_server.address, TOPIC, tmp_path / "load", settings)
    try:
        await cluster.start()
        await wait_whole(cluster)
        await load.start()
        await load.wait_for_acknowledged(500, 90.0)
        story = Story(cluster, load, progress)
        epochs = [(await story.switch_over()).new_epoch for _ in range(SWITCHOVERS)]
        await load.stop()
        result = await read_back(release, cluster.name_server.address, TOPIC, load.sends(), tmp_path / "load")
    finally:
        await load.process.stop()
        await cluster.stop()
    assert result.acknowledged > 1_000
    assert result.lost == frozenset()
    assert epochs == sorted(set(epochs))
