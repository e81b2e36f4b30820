"""A companion's metrics and probes beside a real Java master with two slaves.

They are compared with the broker's own answers.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller_core.channel.asking import Asker, AskError
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.remoting.bodies import EpochEntryCache, HARuntimeInfo
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import host_port
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import command_path
from testkit.products.one_controller import OneNode, one_node
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(500)]

CLUSTER, GROUP = "c", "g"
BOOT_TIMEOUT_S = 150.0
WAIT_S = 90.0
POLL_INTERVAL_MS = 100
FILE_BYTES = str(1 << 20)
SETTINGS = {
    **QUICK_SETTINGS,
    "mappedFileSizeCommitLog": FILE_BYTES,
    # A frozen slave keeps its connection, and so its place in the answer, for as long as the test looks.
    "haHousekeepingInterval": "300000",
}


@dataclass
class Scrape:
    """One scrape: values by name, and by name and slave."""

    one: dict[str, float]
    of_slave: dict[str, dict[str, float]]


class WatchedBrokers:
    """A Java master, a Java slave, a log replica, and the master's companion."""

    def __init__(self, jar_directory: Path, directory: Path, name_server: NameServer, node: OneNode) -> None:
        """Describe them; nothing runs yet."""

        def broker(name: str) -> JavaBroker:
            place = BrokerPlace(CLUSTER, GROUP, name, directory / name)
            return JavaBroker(
                jar_directory, place, name_server.address, SETTINGS, controllers=[node.remoting]
            )

        self.node = node
        self.master, self.slave = broker("master"), broker("slave")
        self.replica = LogReplicaProcess(
            directory / "replica", CLUSTER, GROUP, [node.remoting], {"mapped-file-bytes": FILE_BYTES}
        )
        self.http = f"127.0.0.1:{free_port()}"
        settings = {
            "cluster": CLUSTER,
            "group": GROUP,
            "broker": self.master.address,
            "controllers": node.remoting,
            "http": self.http,
            "poll-interval-ms": str(POLL_INTERVAL_MS),
        }
        arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
        command = [command_path("ha-sidecar"), "companion", *arguments]
        self.companion = ManagedProcess("companion", command, directory / "companion.log")
        self._asker = Asker(host_port(self.master.address))

    async def start(self) -> None:
        """Start all, the master first, and wait until everybody is in sync."""
        await self.master.start(BOOT_TIMEOUT_S)
        await self.companion.start()
        await self.replica.start()
        await self.slave.start(BOOT_TIMEOUT_S)
        async with asyncio.timeout(WAIT_S):
            while (group := self.group()) is None or len(group.sync_state_set) < 3:  # noqa: ASYNC110 - a state emits no event
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop all."""
        self._asker.close()
        await self.companion.stop()
        await self.replica.process.stop()
        await self.slave.stop()
        await self.master.stop()

    def group(self) -> Group | None:
        """Return what the controller holds."""
        return self.node.machine.state.get(GroupKey(CLUSTER, GROUP))

    async def status(self) -> HARuntimeInfo:
        """Ask the master 907; a JVM may take longer for its first answers than an ask waits."""
        return HARuntimeInfo.decode(await self._ask(RequestCode.GET_BROKER_HA_STATUS))

    async def epochs(self) -> EpochEntryCache:
        """Ask the master 1007."""
        return EpochEntryCache.decode(await self._ask(RequestCode.GET_BROKER_EPOCH_CACHE))

    async def _ask(self, code: int) -> bytes:
        async with asyncio.timeout(WAIT_S):
            while True:
                with contextlib.suppress(AskError):
                    return (await self._asker.ask(code)).body
                await asyncio.sleep(0.05)

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a path of the companion's."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{self.http}{path}") as response:
            return response.status, await response.text()

    async def scrape(self) -> Scrape:
        """Read the companion's metrics."""
        _, text = await self.get("/metrics")
        found = Scrape({}, {})
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name, slave = sample.name.removeprefix("rmqha_ha_"), sample.labels.get("slave")
                assert (sample.labels["cluster"], sample.labels["group"]) == (CLUSTER, GROUP)
                if slave is None:
                    found.one[name] = sample.value
                else:
                    found.of_slave.setdefault(slave, {})[name] = sample.value
        return found

    async def scrape_until(self, what: str, holds: Callable[[Scrape, HARuntimeInfo], bool]) -> Scrape:
        """Scrape, and ask the broker, until both satisfy `holds`; return the scrape."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            scrape, status = await self.scrape(), await self.status()
            if holds(scrape, status):
                return scrape
            assert time.monotonic() < deadline_s, f"{what}: {scrape}, the broker says {status}"
            await asyncio.sleep(0.02)

    async def wait_gone(self) -> None:
        """Wait until the companion shows that the broker does not answer."""
        async with asyncio.timeout(WAIT_S):
            while (await self.scrape()).one["broker_up"]:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[tuple[WatchedBrokers, LoadClient]]:
    jar_directory = await jars("5.5.0")
    name_server = NameServer(jar_directory, directory / "ns")
    await name_server.start()
    try:
        async with one_node(directory / "controller", {}) as node:
            group = WatchedBrokers(jar_directory, directory, name_server, node)
            try:
                await group.start()
                settings = LoadSettings(threads=2, rate=200, payload_bytes=1_000)
                async with LoadClient(
                    jar_directory, name_server.address, "T", directory / "load", settings
                ) as load:
                    yield group, load
            finally:
                await group.stop()
    finally:
        await name_server.stop()


def by_slave(status: HARuntimeInfo) -> dict[str, tuple[float, ...]]:
    """Return what the broker says of each slave, as a scrape shows it."""
    return {
        (one.addr or "").removeprefix("/"): (one.slave_ack_offset, one.diff, one.in_sync)
        for one in status.ha_connection_info
    }


def shown(scrape: Scrape) -> dict[str, tuple[float, ...]]:
    names = ("slave_ack_offset_bytes", "slave_lag_bytes", "slave_in_sync")
    return {slave: tuple(values[name] for name in names) for slave, values in scrape.of_slave.items()}


def rates(status: HARuntimeInfo) -> dict[str, float]:
    """Return the bytes per second that the broker says it sends to each slave."""
    return {
        (one.addr or "").removeprefix("/"): one.transferred_byte_in_second
        for one in status.ha_connection_info
    }


def rates_shown(scrape: Scrape) -> dict[str, float]:
    return {slave: values["slave_sent_bytes_per_second"] for slave, values in scrape.of_slave.items()}


def least_ack_that_counts(status: HARuntimeInfo) -> int:
    acks = [one.slave_ack_offset for one in status.ha_connection_info if one.in_sync]
    return min([status.master_commit_log_max_offset, *acks])


async def check_at_rest(group: WatchedBrokers) -> None:
    """With no writer at work everything can be held against the broker's answers to the byte."""
    scrape = await group.scrape_until(
        "the same of each slave",
        lambda scrape, status: (
            len(scrape.of_slave) == 2
            and shown(scrape) == by_slave(status)
            and scrape.one["max_offset_bytes"] == status.master_commit_log_max_offset
            and all(diff == 0 for _, diff, _ in by_slave(status).values())
        ),
    )
    epochs, held = await group.epochs(), group.group()
    assert held is not None
    assert held.master_id is not None
    replica = await group.replica.metrics()
    expected = {
        "broker_up": 1,
        "controllers_up": 1,
        "is_master": 1,
        "in_sync": 1,
        "sync_state_set_size": len(held.sync_state_set),
        "master_epoch": held.master_epoch,
        "log_epoch": max(entry.epoch for entry in epochs.epoch_list),
        "max_offset_bytes": epochs.max_offset,
        # As the master itself sends it to its slaves, with each frame.
        "confirm_offset_bytes": replica["rmqha_ha_confirm_offset_bytes"],
        "lag_bytes": 0,
        "slaves": 2,
    }
    assert {name: scrape.one[name] for name in expected} == expected
    assert scrape.one["confirm_offset_bytes"] == scrape.one["max_offset_bytes"] > 0
    assert all(values["slave_lag_seconds"] == 0 for values in scrape.of_slave.values())


async def check_a_frozen_slave(group: WatchedBrokers, load: LoadClient) -> None:
    """The lag in bytes is the broker's; the lag in seconds grows with time and ends with the freeze."""
    # The companion counts from its last look before the freeze.
    look_s = time.monotonic() - POLL_INTERVAL_MS / 1_000
    group.slave.process.signal(signal.SIGSTOP)
    try:
        await load.wait_for_acknowledged(200, WAIT_S, after_ns=time.time_ns())
        await load.stop()
        scrape = await group.scrape_until(
            "one slave lags",
            lambda scrape, status: (
                shown(scrape) == by_slave(status)
                and sorted(diff > 0 for _, diff, _ in by_slave(status).values()) == [False, True]
            ),
        )
        (frozen,) = [slave for slave, values in scrape.of_slave.items() if values["slave_lag_bytes"]]
        first_s = scrape.of_slave[frozen]["slave_lag_seconds"]
        assert 0 < first_s < time.monotonic() - look_s
        assert scrape.of_slave[frozen]["slave_lag_bytes"] > 200 * 1_000 / 2
        scrape = await group.scrape_until(
            "it lags for longer, and holds back confirmations for as long as it counts",
            lambda scrape, status: (
                scrape.of_slave[frozen]["slave_lag_seconds"] > first_s + 1.0
                and shown(scrape) == by_slave(status)
                and scrape.one["confirm_offset_bytes"] == least_ack_that_counts(status)
            ),
        )
        assert scrape.of_slave[frozen]["slave_lag_seconds"] < time.monotonic() - look_s
    finally:
        group.slave.process.signal(signal.SIGCONT)
    await group.scrape_until(
        "all have all",
        lambda scrape, _: (
            scrape.one["sync_state_set_size"] == 3
            and len(scrape.of_slave) == 2
            and all(
                values["slave_lag_bytes"] == values["slave_lag_seconds"] == 0 and values["slave_in_sync"] == 1
                for values in scrape.of_slave.values()
            )
        ),
    )


async def test_a_companion_s_numbers_are_those_of_its_java_broker(tmp_path: Path) -> None:
    async with watched(tmp_path) as (group, load):
        await load.wait_for_acknowledged(200, WAIT_S)
        await group.scrape_until(
            "the rate to each slave while somebody writes",
            lambda scrape, status: 0 not in rates(status).values() and rates_shown(scrape) == rates(status),
        )
        await check_a_frozen_slave(group, load)
        await check_at_rest(group)
        assert await group.get("/livez") == (200, "ok\n")
        assert (await group.get("/readyz"))[0] == 200
        # A probe of life is the companion's own: Kubernetes must not end it because its broker is gone.
        await group.master.kill()
        await group.wait_gone()
        assert await group.get("/livez") == (200, "ok\n")
        assert await group.get("/readyz") == (503, "the broker does not answer\n")
