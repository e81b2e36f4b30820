"""A pair of brokers with the static roles that the operator gives: it replicates, and nothing fails over."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testkit.products.replica import log_prefix_equal
from testkit.rocketmq.group_without_controllers import GROUP, OLD_STORE, TOPIC, OldGroup
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import NameServer
from testkit.worlds.pod_templates import broker_settings

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

ACKS_S = 240.0
ONE_COPY = "FLUSH_SLAVE_TIMEOUT"
OF_ROLES = ("enableControllerMode", "inSyncReplicas")


@pytest.fixture
async def pair(tmp_path: Path, name_server: NameServer) -> AsyncIterator[OldGroup]:
    group = OldGroup(await jars(), tmp_path, name_server)
    yield group
    await group.stop()


def _settings(number: int) -> dict[str, str]:
    """Return what the operator writes about roles of a pair that acknowledges with two copies."""
    conf = broker_settings(
        {"cluster": "c", "mode": "Static", "durability": "AllInSync", "storage": {"size": "1Gi"}}
    )
    role = "SLAVE" if number else "SYNC_MASTER"
    # A client gives up after 3 s, which is a master's default too.
    quick = {"slaveTimeout": "1000"}
    return {**{key: conf[key] for key in OF_ROLES}, **quick, "brokerId": str(number), "brokerRole": role}


async def test_a_static_pair_acknowledges_with_two_copies_and_does_not_fail_over(pair: OldGroup) -> None:
    master = await pair.start_old("master", _settings(0))
    slave = await pair.start_old("slave", _settings(1))
    await pair.until_followed(master)
    sends = await pair.send(500)
    assert {send.status for send in sends if not send.acknowledged} <= {ONE_COPY}
    end = await pair.until_equal(master, slave)
    logs = [pair.volume(name) / OLD_STORE / "commitlog" for name in ("master", "slave")]
    assert log_prefix_equal(*logs, end)

    # Without its slave the master stores a message and says that it has one copy only.
    await slave.kill()
    directory = pair.directory / "alone"
    settings = LoadSettings(threads=1, payload_bytes=100)
    async with LoadClient(pair.jars, pair.name_server.address, TOPIC, directory, settings) as load:
        async with asyncio.timeout(ACKS_S):
            while load.stats().statuses.get(ONE_COPY, 0) < 2:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.1)
        stats = await load.stop()
    assert stats.acknowledged == 0

    # Nothing fails over: the slave stays a slave.
    slave = await pair.start_old("slave", _settings(1))
    await pair.until_equal(master, slave)
    await master.kill()
    (told,) = (await pair.survey(slave))["brokers"]
    assert (told["broker_id"], told["controller_mode"]) == (1, False)
    assert await pair.name_server.master_of(GROUP) in (None, master.address)
