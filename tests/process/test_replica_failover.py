"""Two Java brokers and one log replica under our controllers: the master is killed, nothing acknowledged is lost.

When it is back, all three commit logs hold the same bytes.
"""

import asyncio
import time
from pathlib import Path

import pytest

from testkit.controllers import ControllerCluster
from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings, first_acknowledged_after, read_back
from testkit.replica import LogReplica, log_prefix_equal
from testkit.rocketmq import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, Broker, BrokerPlace, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP = "c", "g"
BOOT_TIMEOUT_S = 150.0
REDUNDANT_TIMEOUT_S = 90.0
FIRST_ACKNOWLEDGEMENT_S_MAX = 5.0
"""Far above what it takes on a quiet machine; this test is about loss, and about the replica being enough."""


async def test_a_killed_master_costs_no_message_and_afterwards_all_three_logs_are_equal(
    tmp_path: Path,
) -> None:
    jar_directory = await jars()
    name_server = NameServer(jar_directory, tmp_path / "ns")
    controllers = ControllerCluster(tmp_path / "controllers", 3)
    addresses = controllers.remoting_addresses
    brokers = [
        Broker(
            jar_directory,
            BrokerPlace(CLUSTER, GROUP, name, tmp_path / name),
            name_server.address,
            {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS},
            controllers=addresses,
        )
        for name in ("broker-0", "broker-1")
    ]
    replica = LogReplica(tmp_path / "replica", CLUSTER, GROUP, addresses)
    try:
        await asyncio.gather(name_server.start(), controllers.start())
        await brokers[0].start(BOOT_TIMEOUT_S)
        await brokers[1].start(BOOT_TIMEOUT_S)
        await replica.start()
        await replica.wait_in_sync()
        settings = LoadSettings(threads=2, poll_name_server_ms=200)
        async with LoadClient(jar_directory, name_server.address, "T", tmp_path / "load", settings) as load:
            await load.wait_for_acknowledged(500, 60.0)
            await controllers.wait_group(CLUSTER, GROUP, lambda info: len(info["sync_state_set"]) == 3)
            killed_ns = time.time_ns()
            await brokers[0].kill()
            await load.wait_for_acknowledged(300, 60.0, after_ns=killed_ns)
            await load.stop()
        first = first_acknowledged_after(load.sends(), killed_ns)
        assert first is not None
        assert (first.end_ns - killed_ns) / 1e9 < FIRST_ACKNOWLEDGEMENT_S_MAX
        result = await read_back(jar_directory, name_server.address, "T", load.sends(), tmp_path / "read")
        assert result.lost == frozenset()
        info = await controllers.group_info(CLUSTER, GROUP)
        assert info is not None
        assert info["master_id"] == 2
        await brokers[0].start(BOOT_TIMEOUT_S)
        await controllers.wait_group(
            CLUSTER, GROUP, lambda info: len(info["sync_state_set"]) == 3, REDUNDANT_TIMEOUT_S
        )
        max_offset = await replica.wait_max_offset()
        assert max_offset > 0
        for broker in brokers:
            assert log_prefix_equal(replica.store / "commitlog", broker.store / "commitlog", max_offset)
    finally:
        await replica.process.stop()
        await asyncio.gather(*(broker.stop() for broker in brokers))
        await asyncio.gather(controllers.stop(), name_server.stop())
