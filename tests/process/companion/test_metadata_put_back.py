"""Brokers of 5.3.3, whose slaves lose topics with attributes.

A companion gives a promoted slave back what its master knew.
"""

import asyncio
import signal
from pathlib import Path

import pytest

from ha_sidecar.decisions.metadata_comparison import GROUPS, OFFSETS, TOPICS, missing_names
from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.broker_metadata import (
    CONSUMERS,
    FIFO,
    OFFSETS_MADE,
    asking,
    create,
    delete_group,
    has_all_made,
    made_in,
    wait_known,
)
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP = "c", "g"
VERSION = "5.3.3"
BOOT_TIMEOUT_S = 150.0
WAIT_S = 60.0
TOLD_WITHIN_S = 120.0
"""What a slave lacks counts after 30 s."""
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


def is_the_broker_s_own(topic: str) -> bool:
    """Say whether RocketMQ has the topic for itself."""
    return topic.lower().startswith("rmq_sys_") or topic in OWN_TOPICS


async def test_a_promoted_slave_of_a_release_that_loses_topics_has_them_and_groups_and_offsets_again(
    tmp_path: Path,
) -> None:
    jar_directory = await jars(VERSION)
    name_server = NameServer(jar_directory, tmp_path / "ns")
    cluster = ControllerCluster(tmp_path / "controllers", 1)
    addresses = cluster.remoting_addresses
    brokers = [
        JavaBroker(
            jar_directory,
            BrokerPlace(CLUSTER, GROUP, name, tmp_path / name),
            name_server.address,
            {
                **QUICK_SETTINGS,
                "autoCreateTopicEnable": "false",
                # The first one is lost when it is killed, and not while it stands still.
                "controllerHeartBeatTimeoutMills": "200000",
            },
            controllers=addresses,
        )
        for name in ("one", "other")
    ]
    companion: BrokerCompanion | None = None
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
        companion = BrokerCompanion(second, addresses, **{"metadata-put-back": "true"})
        async with asking(first) as master, asking(second) as slave:
            await create(master)
            good = await wait_known(master, has_all_made)
            # Its copy ends at the topic that has attributes, while groups and offsets come.
            await wait_known(slave, lambda own: made_in(own).keys() >= {CONSUMERS, *OFFSETS_MADE})
            await companion.process.start()
            await companion.wait_status(lambda found: found["metadata_in_sync"] is not None, WAIT_S)
            # A master that stands still is neither copied nor compared: the missing parts stay missing.
            first.process.signal(signal.SIGSTOP)
            await delete_group(slave)
            lost = made_in(await wait_known(slave, lambda own: CONSUMERS not in made_in(own)))
            assert not lost.keys() & {FIFO, CONSUMERS, *OFFSETS_MADE}
            told = await companion.wait_status(
                lambda found: found["metadata_in_sync"] is False, TOLD_WITHIN_S
            )
            assert told["broker"]["is_master"] is False
            assert FIFO in told["metadata_missing"][TOPICS.file_name]
            assert await companion.metric("metadata_in_sync") == 0
            await first.kill()
            found = await wait_known(slave, has_all_made)
            assert made_in(found) == made_in(good)
            told = await companion.wait_status(lambda found: found["metadata_in_sync"] is True, WAIT_S)
            assert (told["broker"]["is_master"], told["metadata_missing"]) == (True, {})
            assert await companion.metric("metadata_in_sync") == 1
            # A broker refuses requests to create its own topics, and makes them itself where it needs them.
            missing = missing_names(found, good)
            assert all(is_the_broker_s_own(name) for _, name in missing), missing
            (event,) = await companion.events("MetadataPutBack")
            given = event["attrs"]["names"].split(",")
            offsets = {f"{OFFSETS.file_name}:{name}" for name in OFFSETS_MADE}
            assert offsets | {f"{TOPICS.file_name}:{FIFO}", f"{GROUPS.file_name}:{CONSUMERS}"} <= set(given)
    finally:
        if companion is not None:
            await companion.process.stop()
        await asyncio.gather(*(broker.stop() for broker in brokers))
        await asyncio.gather(cluster.stop(), name_server.stop())
