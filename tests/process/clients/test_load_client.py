"""The Java load client and the Java reader against a real name server and a real broker."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, first_acknowledged_after, read_back
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

BOOT_S_MAX = 150.0
SETTINGS = {
    "brokerRole": "ASYNC_MASTER",
    # It would refuse requests that waited for 0.2 s or 1 s, which is common on a busy machine.
    "waitTimeMillsInSendQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}
SENDS_WITHIN_S = 90.0


@pytest_asyncio.fixture
async def broker(tmp_path: Path, name_server: NameServer) -> AsyncIterator[JavaBroker]:
    place = BrokerPlace("test", "orders", "orders-0", tmp_path / "broker")
    process = JavaBroker(await jars(), place, name_server.address, SETTINGS)
    try:
        await process.start(BOOT_S_MAX)
        await name_server.wait_for_master("orders")
        yield process
    finally:
        await process.stop()


async def test_every_acknowledged_send_is_read_back(
    tmp_path: Path, name_server: NameServer, broker: JavaBroker
) -> None:
    settings = LoadSettings(threads=2, rate=200, poll_name_server_ms=500, send_timeout_ms=60_000)
    async with LoadClient(await jars(), name_server.address, "Load", tmp_path / "load", settings) as load:
        await load.wait_for_acknowledged(100, SENDS_WITHIN_S)
        stats = await load.stop()
        sends = load.sends()
    assert stats.acknowledged >= 100
    assert stats.failed == 0
    first_ns, *_, last_ns = sorted(send.end_ns for send in sends)
    assert 0 < stats.longest_gap_s < (last_ns - first_ns) / 1e9
    result = await read_back(await jars(), name_server.address, "Load", sends, tmp_path / "read")
    assert result.acknowledged == stats.acknowledged
    assert result.read == stats.acknowledged
    assert (result.lost, result.duplicates, result.unexpected) == (frozenset(), frozenset(), frozenset())


async def test_a_restart_of_the_broker_shows_as_one_gap_and_loses_nothing(
    tmp_path: Path, name_server: NameServer, broker: JavaBroker
) -> None:
    settings = LoadSettings(threads=2, rate=200, poll_name_server_ms=300, send_timeout_ms=500)
    async with LoadClient(await jars(), name_server.address, "Load", tmp_path / "load", settings) as load:
        await load.wait_for_acknowledged(100, SENDS_WITHIN_S)
        await broker.shut_down()
        stopped_ns = time.time_ns()
        await broker.start(BOOT_S_MAX)
        await load.wait_for_acknowledged(100, SENDS_WITHIN_S, after_ns=time.time_ns())
        stats = await load.stop()
        sends = load.sends()
    first = first_acknowledged_after(sends, stopped_ns)
    assert first is not None
    assert stats.gap_start_ns is not None
    # From before the broker was back until after it had gone; how long it took to go is its own affair.
    assert stats.gap_start_ns < first.end_ns
    assert stats.gap_start_ns + stats.longest_gap_s * 1e9 > stopped_ns
    assert stats.longest_gap_s > 0.5
    result = await read_back(await jars(), name_server.address, "Load", sends, tmp_path / "read")
    assert not result.lost
