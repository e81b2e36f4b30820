"""Java brokers of two clusters with equal names at the same three controllers: neither notices the other.

RocketMQ's name server knows a group by its brokerName alone, so each cluster has its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    NameServer,
    mqadmin,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

NORTH, SOUTH, GROUP, TOPIC = "north", "south", "orders", "T"
FILE_BYTES = 1 << 22
SETTINGS = {**ZERO_LOSS_SETTINGS, **QUICK_SETTINGS, "mappedFileSizeCommitLog": str(FILE_BYTES)}
WITHIN_S = 120.0


@dataclass(frozen=True)
class TwoClusters:
    """Controllers and the brokers of two clusters.

    Attributes:
        brokers: by cluster.
        name_servers: by cluster.
        replica: a log replica of the second cluster, in sync.
    """

    controllers: ControllerCluster
    brokers: Mapping[str, Sequence[JavaBroker]]
    name_servers: Mapping[str, NameServer]
    replica: LogReplicaProcess

    async def in_sync(self, cluster: str) -> dict[str, Any]:
        """Return the group of a cluster when it has a master and a second copy."""
        return await self.controllers.wait_group(
            cluster,
            GROUP,
            lambda group: group["master_id"] is not None and len(group["sync_state_set"]) == 2,
            WITHIN_S,
        )


@contextlib.asynccontextmanager
async def _two_clusters(release: Path, directory: Path) -> AsyncIterator[TwoClusters]:
    """Run two brokers in the first cluster, and a broker with a log replica in the second."""
    async with contextlib.AsyncExitStack() as running:
        controllers = await running.enter_async_context(ControllerCluster(directory / "controllers"))
        name_servers = {name: NameServer(release, directory / name / "namesrv") for name in (NORTH, SOUTH)}
        for server in name_servers.values():
            running.push_async_callback(server.stop)
        await asyncio.gather(*(server.start() for server in name_servers.values()))
        brokers = {
            cluster: [
                JavaBroker(
                    release,
                    BrokerPlace(cluster, GROUP, f"{cluster}-{number}", directory / cluster / str(number)),
                    name_servers[cluster].address,
                    SETTINGS,
                    controllers=controllers.remoting_addresses,
                )
                for number in range(count)
            ]
            for cluster, count in ((NORTH, 2), (SOUTH, 1))
        }
        replica = LogReplicaProcess(
            directory / SOUTH / "replica",
            SOUTH,
            GROUP,
            controllers.remoting_addresses,
            {"mapped-file-bytes": str(FILE_BYTES)},
        )
        for broker in (*brokers[NORTH], *brokers[SOUTH]):
            running.push_async_callback(broker.stop)
        running.push_async_callback(replica.process.stop)
        await asyncio.gather(*(broker.start(WITHIN_S) for broker in (brokers[NORTH][0], brokers[SOUTH][0])))
        await asyncio.gather(brokers[NORTH][1].start(WITHIN_S), replica.start())
        made = TwoClusters(controllers, brokers, name_servers, replica)
        await asyncio.gather(*(made.in_sync(cluster) for cluster in (NORTH, SOUTH)))
        yield made


async def _failover_count(controllers: ControllerCluster, cluster: str) -> int:
    leader = controllers.http_addresses[await controllers.wait_leader()]
    url = f"http://{leader}/v1/failovers?cluster={cluster}&group={GROUP}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return len((await response.json())["failovers"])


async def test_a_master_of_one_cluster_is_replaced_and_the_group_of_that_name_in_the_other_is_untouched(
    tmp_path: Path,
) -> None:
    release = await jars()
    async with _two_clusters(release, tmp_path) as both:
        before = {cluster: await both.in_sync(cluster) for cluster in (NORTH, SOUTH)}
        addresses = {cluster: {one.address for one in both.brokers[cluster]} for cluster in (NORTH, SOUTH)}
        for cluster in (NORTH, SOUTH):
            assert before[cluster]["master_address"] in addresses[cluster]
        assert addresses[SOUTH] < {one["address"] for one in before[SOUTH]["replicas"]}
        counts = {cluster: await _failover_count(both.controllers, cluster) for cluster in (NORTH, SOUTH)}
        await _check_mqadmin(both, release, tmp_path)
        server = both.name_servers[SOUTH]
        async with LoadClient(
            release, server.address, TOPIC, tmp_path / "load", LoadSettings(threads=1, rate=50)
        ) as load:
            await load.wait_for_acknowledged(50, WITHIN_S)
            failed_before = load.stats().failed
            old = next(one for one in both.brokers[NORTH] if one.address == before[NORTH]["master_address"])
            await old.kill()
            after = await both.controllers.wait_group(
                NORTH,
                GROUP,
                lambda group: group["master_id"] not in {None, before[NORTH]["master_id"]},
                WITHIN_S,
            )
            await load.wait_for_acknowledged(50, WITHIN_S)
            stats = await load.stop()
        assert stats.failed == failed_before
        assert after["master_epoch"] == before[NORTH]["master_epoch"] + 1
        assert after["master_address"] in addresses[NORTH] - {old.address}
        south = await both.in_sync(SOUTH)
        for field in ("master_id", "master_address", "master_epoch", "sync_state_set_epoch"):
            assert south[field] == before[SOUTH][field], field
        assert await _failover_count(both.controllers, SOUTH) == counts[SOUTH]
        assert await _failover_count(both.controllers, NORTH) == counts[NORTH] + 1


async def _check_mqadmin(both: TwoClusters, release: Path, directory: Path) -> None:
    """Show what mqadmin gets for a name of two clusters: the clusters, and nothing that it could mistake."""
    address = both.controllers.remoting_addresses[await both.controllers.wait_leader()]
    text = await mqadmin(release, directory / "mqadmin", "getSyncStateSet", "-a", address, "-b", GROUP)
    assert f"{GROUP} exists in the clusters {NORTH}, {SOUTH}" in text
    assert "MasterAddr" not in text
