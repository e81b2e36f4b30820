"""A master that falls silent, still connected to everybody, and comes back: it has acknowledged nothing that is gone."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.demo.cluster import CLUSTER, GROUP, DemoCluster
from testkit.demo.progress import Progress
from testkit.demo.story import GroupInfo, wait_whole
from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings, read_back

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

FREEZES = 2
TOPIC = "load"
FAILOVER_WITHIN_S = 30.0
"""The brokers here are dead after 3 s of silence."""


def _has_master_after(epoch: int) -> Callable[[GroupInfo], bool]:
    return lambda group: group["master_epoch"] > epoch and group["master_id"] is not None


async def test_a_master_frozen_under_load_and_thawed_after_the_failover_loses_nothing(tmp_path: Path) -> None:
    release = await jars()
    cluster = DemoCluster(release, tmp_path, Progress())
    settings = LoadSettings(threads=4, rate=500, poll_name_server_ms=200)
    load = LoadClient(release, cluster.name_server.address, TOPIC, tmp_path / "load", settings)
    epochs = []
    try:
        await cluster.start()
        await wait_whole(cluster)
        await load.start()
        await load.wait_for_acknowledged(500, 90.0)
        for _ in range(FREEZES):
            before = await wait_whole(cluster)
            master = next(broker for broker in cluster.brokers if broker.address == before["master_address"])
            master.process.signal(signal.SIGSTOP)
            try:
                after = await cluster.controllers.wait_group(
                    CLUSTER, GROUP, _has_master_after(before["master_epoch"]), FAILOVER_WITHIN_S
                )
                elected_ns = load.sends()[-1].end_ns
                await load.wait_for_acknowledged(500, 60.0, after_ns=elected_ns)
            finally:
                master.process.signal(signal.SIGCONT)
            assert after["master_address"] != before["master_address"]
            await wait_whole(cluster)
            epochs.append(after["master_epoch"])
        await load.stop()
        result = await read_back(release, cluster.name_server.address, TOPIC, load.sends(), tmp_path / "load")
    finally:
        await load.process.stop()
        await cluster.stop()
    assert result.acknowledged > 1_000
    assert result.lost == frozenset()
    assert epochs == sorted(set(epochs))
