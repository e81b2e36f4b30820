"""Brokers of 5.3.3, whose slaves lose topics with attributes: a companion gives a promoted one back what its master knew."""

import asyncio
import contextlib
import re
from pathlib import Path

import aiohttp
import pytest

from controller_core.channel.asking import Asker
from ha_sidecar.roles import metadata
from ha_sidecar.roles.metadata_guard import (
    GROUPS,
    OFFSETS,
    TOPICS,
    lacking,
    names,
    put_back,
)
from testkit.broker_metadata import CONSUMERS, FIFO, asking, create, must, wait_known
from testkit.controllers import ControllerCluster, command_path
from testkit.jars import jars
from testkit.ports import free_port
from testkit.process import ManagedProcess
from testkit.rocketmq import QUICK_SETTINGS, Broker, BrokerPlace, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP = "c", "g"
VERSION = "5.3.3"
BOOT_TIMEOUT_S = 150.0
WAIT_S = 60.0
KNOWN_BEFORE: metadata.Snapshot = {
    TOPICS: b'{"topicConfigTable":{"Lost":{"topicName":"Lost","perm":6,"readQueueNums":4,"writeQueueNums":4,'
    b'"attributes":{"message.type":"DELAY"}}}}',
    GROUPS: b'{"subscriptionGroupTable":{"late":{"groupName":"late","retryMaxTimes":3}}}',
    OFFSETS: b'{"offsetTable":{"Lost@late":{0:11,2:12}}}',
}
"""What a master knew, as Java writes it: keys of queues without quotes."""
OWN_TOPICS = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TBW102",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        f"{CLUSTER}_REPLY_TOPIC",
    }
    | {CLUSTER, GROUP, "DefaultHeartBeatSyncerTopic"}
)


def topics_of(snapshot: metadata.Snapshot) -> frozenset[str]:
    """Return the names of the topics."""
    return names(TOPICS, snapshot.get(TOPICS, b"")) or frozenset()


def is_the_broker_s_own(topic: str) -> bool:
    """Say whether RocketMQ has the topic for itself."""
    return topic.lower().startswith("rmq_sys_") or topic in OWN_TOPICS


def companion_of(broker: Broker, controllers: list[str], directory: Path) -> tuple[ManagedProcess, str]:
    """Describe a companion that puts back; return it and its HTTP address."""
    http = f"127.0.0.1:{free_port()}"
    settings = {
        "cluster": CLUSTER,
        "group": GROUP,
        "broker": broker.address,
        "controllers": ";".join(controllers),
        "http": http,
        "metadata-put-back": "true",
    }
    arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
    command = [command_path("ha-sidecar"), "companion", *arguments]
    return ManagedProcess("companion", command, directory / "companion.log"), http


async def wait_compared(http: str) -> None:
    """Wait until the companion has compared slave and master."""
    async with asyncio.timeout(WAIT_S), aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://{http}/v1/status") as response:
                    if (await response.json())["metadata_in_sync"] is not None:
                        return
            await asyncio.sleep(0.1)


async def takes_back(broker: Asker, good: metadata.Snapshot) -> None:
    """Whatever the broker lacks it has after the requests that put it back, offsets to the number."""
    for request in put_back(await wait_known(broker, bool), good):
        await must(broker, request.code, request.header, request.body)
    found = await wait_known(broker, lambda own: not lacking(own, good))
    assert b"Lost@late:{0:11,2:12}" in re.sub(rb'[\s"]', b"", found[OFFSETS])


async def test_a_promoted_slave_of_a_release_that_loses_topics_has_them_and_groups_and_offsets_again(
    tmp_path: Path,
) -> None:
    jar_directory = await jars(VERSION)
    name_server = NameServer(jar_directory, tmp_path / "ns")
    cluster = ControllerCluster(tmp_path / "controllers", 1)
    addresses = cluster.remoting_addresses
    brokers = [
        Broker(
            jar_directory,
            BrokerPlace(CLUSTER, GROUP, name, tmp_path / name),
            name_server.address,
            {
                **QUICK_SETTINGS,
                "autoCreateTopicEnable": "false",
                # The first one is lost when it is killed, and not when the machine stands still for some seconds.
                "controllerHeartBeatTimeoutMills": "15000",
            },
            controllers=addresses,
        )
        for name in ("one", "other")
    ]
    companion: ManagedProcess | None = None
    try:
        await asyncio.gather(name_server.start(), cluster.start())
        await asyncio.gather(*(broker.start(BOOT_TIMEOUT_S) for broker in brokers))
        group = await cluster.wait_group(
            CLUSTER,
            GROUP,
            lambda info: info["master_id"] is not None and len(info["sync_state_set"]) == 2,
            WAIT_S,
        )
        first, second = sorted(brokers, key=lambda broker: broker.address != group["master_address"])
        companion, http = companion_of(second, addresses, tmp_path)
        async with asking(first) as master, asking(second) as slave:
            await create(master)
            good = await wait_known(master, lambda own: OFFSETS in own and TOPICS in own)
            # Its copy ends at the topic that has attributes, while groups and offsets come.
            lost = await wait_known(
                slave, lambda own: f"{FIFO}@{CONSUMERS}" in own.get(OFFSETS, b"").decode()
            )
            assert FIFO not in topics_of(lost)
            await companion.start()
            await wait_compared(http)
            await first.kill()
            await companion.wait_for_text("put back", WAIT_S)
            found = await wait_known(slave, lambda own: FIFO in topics_of(own))
            assert b'"message.type":"FIFO"' in found[TOPICS].replace(b" ", b"")
            # A broker lets nobody make its own topics, and makes them itself where it needs them.
            assert all(is_the_broker_s_own(name) for _, name in lacking(found, good)), lacking(found, good)
            await takes_back(slave, KNOWN_BEFORE)
    finally:
        if companion is not None:
            await companion.stop()
        await asyncio.gather(*(broker.stop() for broker in brokers))
        await asyncio.gather(cluster.stop(), name_server.stop())
