"""Brokers with access control (ACL 2.0) on.

The status names their refusals, and a switchover does not go on without a write guard.

The controllers sign nothing, so the master refuses to tell and to take settings. Switchovers that went on
without a guard lost 3 of 8,674 acknowledged messages.
"""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

USER = ("rocketmq", "12345678")
_AUTH = "org.apache.rocketmq.auth"
ACCESS_CONTROL = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{USER[0]}","password":"{USER[1]}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{USER[0]}","secretKey":"{USER[1]}"}}',
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
REFUSED = "was answered 16: "
SWITCHOVERS = 3


async def test_a_switchover_is_refused_in_the_brokers_words_and_loses_nothing(tmp_path: Path) -> None:
    release = await jars("5.5.0")
    controllers, name_server = (
        ControllerCluster(tmp_path / "controllers", 3),
        NameServer(release, tmp_path / "ns"),
    )
    settings = {
        **ZERO_LOSS_SETTINGS,
        **QUICK_SETTINGS,
        **ACCESS_CONTROL,
        "controllerHeartBeatTimeoutMills": "15000",
        "mappedFileSizeCommitLog": str(64 << 20),
    }
    addresses = controllers.remoting_addresses
    brokers = [
        JavaBroker(
            release,
            BrokerPlace("demo", "orders", f"orders-{index}", tmp_path / f"orders-{index}"),
            name_server.address,
            settings,
            controllers=addresses,
        )
        for index in range(2)
    ]
    replica = LogReplicaProcess(tmp_path / "replica", "demo", "orders", addresses)
    companion = BrokerCompanion(brokers[0], addresses)
    load_settings = LoadSettings(rate=500, poll_name_server_ms=200, user=USER)
    load = LoadClient(release, name_server.address, "load", tmp_path / "load", load_settings)
    try:
        await asyncio.gather(
            controllers.start(), name_server.start(), replica.start(), companion.process.start()
        )
        for broker in brokers:
            await broker.start()
        group = await controllers.wait_group(
            "demo", "orders", lambda found: found["master_id"] and len(found["sync_state_set"]) == 2, 120
        )
        await name_server.wait_for_master("orders")
        await load.start()
        await load.wait_for_acknowledged(500, 120.0)
        slave = next(one for one in group["replicas"] if one["electable"] and not one["master"])
        for _ in range(SWITCHOVERS):
            refusal = await _elect(controllers, slave["broker_id"])
            assert "stays master" in refusal
            assert REFUSED in refusal
        assert REFUSED in await _text_with(REFUSED, f"http://{replica.http_address}/readyz")
        assert REFUSED in await _text_with(REFUSED, f"http://{companion.http}/readyz")
        after = await controllers.group_info("demo", "orders")
        assert after is not None
        assert (after["master_id"], after["master_epoch"]) == (group["master_id"], group["master_epoch"])
        await load.stop()
        result = await read_back(release, name_server.address, "load", load.sends(), tmp_path / "load", USER)
    finally:
        await load.process.stop()
        await asyncio.gather(
            *(
                process.kill()
                for process in (*(one.process for one in brokers), replica.process, companion.process)
            )
        )
        await asyncio.gather(name_server.stop(), controllers.stop())
    assert result.acknowledged >= 500
    assert result.lost == frozenset()
    for log in (replica.process.output(), companion.process.output()):
        assert 1 <= sum(" refuses: " in line for line in log.splitlines()) <= 12, "once for each question"


async def _elect(controllers: ControllerCluster, broker_id: int) -> str:
    """Ask for a switchover; return why it was refused."""
    url = f"http://{controllers.http_addresses[await controllers.wait_leader()]}/v1/groups/demo/orders/elect"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"brokerId": broker_id}) as response,
    ):
        assert not response.ok
        return await response.text()


async def _text_with(words: str, url: str) -> str:
    """Return what a page says, as soon as these words are in it.

    Raises:
        TimeoutError: they never are.
    """
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            async with session.get(url) as response:
                text = await response.text()
            if words in text:
                return text
            await asyncio.sleep(0.1)
