"""The Java load client and the Java reader against a real name server and a real broker."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from testkit.jars import jars
from testkit.load import LoadClient, LoadSettings, first_acknowledged_after, read_back
from testkit.rocketmq import Broker, BrokerPlace, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

BOOT_S_MAX = 150.0


@pytest_asyncio.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[NameServer]:
    server = NameServer(await jars(), tmp_path / "namesrv")
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def broker(tmp_path: Path, name_server: NameServer) -> AsyncIterator[Broker]:
    place = BrokerPlace("test", "orders", "orders-0", tmp_path / "broker")
    process = Broker(await jars(), place, name_server.address, {"brokerRole": "ASYNC_MASTER"})
    await process.start(BOOT_S_MAX)
    yield process
    await process.stop()


async def test_every_acknowledged_send_is_read_back(
    tmp_path: Path, name_server: NameServer, broker: Broker
) -> None:
    settings = LoadSettings(threads=2, rate=200, poll_name_server_ms=500)
    async with LoadClient(await jars(), name_server.address, "Load", tmp_path / "load", settings) as load:
        await load.wait_for_acknowledged(100)
        stats = await load.stop()
        sends = load.sends()
    assert stats.acknowledged >= 100
    assert stats.failed == 0
    assert 0 < stats.longest_gap_s < 3
    result = await read_back(await jars(), name_server.address, "Load", sends, tmp_path / "read")
    assert result.acknowledged == stats.acknowledged
    assert result.read == stats.acknowledged
    assert (result.lost, result.duplicates, result.unexpected) == (frozenset(), frozenset(), frozenset())


async def test_a_restart_of_the_broker_shows_as_one_gap_and_loses_nothing(
    tmp_path: Path, name_server: NameServer, broker: Broker
) -> None:
    settings = LoadSettings(threads=2, rate=200, poll_name_server_ms=300, send_timeout_ms=500)
    async with LoadClient(await jars(), name_server.address, "Load", tmp_path / "load", settings) as load:
        await load.wait_for_acknowledged(100)
        stopped_ns = time.time_ns()
        await broker.stop()
        await broker.start(BOOT_S_MAX)
        await load.wait_for_acknowledged(100, after_ns=time.time_ns())
        stats = await load.stop()
        sends = load.sends()
    first = first_acknowledged_after(sends, stopped_ns + 500_000_000)
    assert first is not None
    assert stats.gap_start_ns is not None
    assert stopped_ns - 1_000_000_000 < stats.gap_start_ns < first.end_ns
    assert stats.longest_gap_s > 0.5
    result = await read_back(await jars(), name_server.address, "Load", sends, tmp_path / "read")
    assert not result.lost
