"""Brokers and name servers of several releases under our controllers: docs/reference/modes.md has the table.

The brokers of one release register with name servers of all releases at the same time. `make test` runs the
newest release but one; `COMPATIBILITY=all` runs all.
"""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars, name_server_jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer
from testkit.tree.files import ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
NAME_SERVERS = ("4.9.7", "5.1.1", "5.2.0", "5.5.0")
BROKERS = ("5.2.0", "5.4.0", "5.5.0")
IN_EACH_RUN = ("5.4.0",)
SETTINGS = {**QUICK_SETTINGS, "mappedFileSizeCommitLog": str(1 << 22), "registerNameServerPeriod": "10000"}
BOOT_TIMEOUT_S = 150.0
ROUTES_TIMEOUT_S = 60.0
LOGBACK_OF_4 = "logback_namesrv.xml"


async def name_server(version: str, directory: Path) -> NameServer:
    """Start a name server of a release; those of RocketMQ 4 read a file of another name for their logging."""
    server = NameServer(await name_server_jars(version), directory)
    conf = directory / "home" / "conf"
    (conf / LOGBACK_OF_4).write_text((conf / "logback-info.xml").read_text())
    await server.start()
    return server


async def wait_routes(servers: dict[str, NameServer], address: str) -> None:
    """Wait until the name servers of all releases list this master."""

    async def listed(server: NameServer) -> None:
        while await server.master_of(GROUP) != address:  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.05)

    async with asyncio.timeout(ROUTES_TIMEOUT_S):
        await asyncio.gather(*(listed(server) for server in servers.values()))


@pytest.mark.parametrize("version", BROKERS if os.environ.get("COMPATIBILITY") == "all" else IN_EACH_RUN)
async def test_brokers_of_a_release_fail_over_and_name_servers_of_every_release_list_the_new_master(
    tmp_path: Path, version: str
) -> None:
    broker_jars = await jars(version)
    async with contextlib.AsyncExitStack() as running:
        controllers = ControllerCluster(tmp_path / "controllers", 3)
        running.push_async_callback(controllers.stop)
        await controllers.start()
        servers = dict[str, NameServer]()
        for release in NAME_SERVERS:
            servers[release] = await name_server(release, tmp_path / f"ns-{release}")
            running.push_async_callback(servers[release].stop)
        addresses = ";".join(server.address for server in servers.values())
        brokers = []
        for number in (1, 2):
            place = BrokerPlace(CLUSTER, GROUP, f"broker{number}", tmp_path / f"broker{number}")
            broker = JavaBroker(
                broker_jars, place, addresses, SETTINGS, controllers=controllers.remoting_addresses
            )
            running.push_async_callback(broker.stop)
            await broker.start(BOOT_TIMEOUT_S)
            brokers.append(broker)
        first, second = brokers
        before = await controllers.wait_group(
            CLUSTER, GROUP, lambda group: len(group["sync_state_set"]) == 2, BOOT_TIMEOUT_S
        )
        assert before["master_address"] == first.address
        await wait_routes(servers, first.address)
        oldest = servers[NAME_SERVERS[0]].address
        load = LoadClient(await jars(), oldest, TOPIC, tmp_path / "load", LoadSettings(threads=1, rate=50))
        async with load as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await first.kill()
            after = await controllers.wait_group(
                CLUSTER, GROUP, lambda group: group["master_address"] == second.address, BOOT_TIMEOUT_S
            )
            await wait_routes(servers, second.address)
            await producer.wait_for_acknowledged(20, 60.0)
            await producer.stop()
        assert after["master_epoch"] > before["master_epoch"]


def test_the_table_names_the_releases_that_are_tried() -> None:
    page = (ROOT / "docs" / "reference" / "modes.md").read_text()
    for release in (*NAME_SERVERS, *BROKERS):
        assert release in page
