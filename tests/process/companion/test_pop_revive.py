"""POP consumers die while their group refuses writes for want of copies.

The messages that they did not acknowledge come again.

A master that refuses its own puts of due messages moves on in its revive log all the same. Without the
companion 0 of 100 messages came again.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import host_port
from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.consumers.pop_consumer import PopConsumer
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CLUSTER, GROUP = "c", "g"
BOOT_TIMEOUT_S = 150.0
WAIT_S = 60.0
INVISIBLE_S = 12.0
MESSAGES, ACKNOWLEDGED = 100, 20
GUARDED = 1_000
"""minInSyncReplicas under a write guard."""
OFFSETS_COPIED_WITHIN_S = 3.0
"""A slave copies consumer offsets every second (syncBrokerMetadataPeriod)."""
CONSUMER = PopConsumer("T", "consumers", GROUP, INVISIBLE_S)


class BrokerPair:
    """Two brokers of a group that needs both, each with its companion."""

    def __init__(self, jar_directory: Path, directory: Path) -> None:
        self.name_server = NameServer(jar_directory, directory / "ns")
        self.controllers = ControllerCluster(directory / "controllers", 1)
        addresses = self.controllers.remoting_addresses
        settings = {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS, "controllerHeartBeatTimeoutMills": "15000"}
        self.brokers = [
            JavaBroker(
                jar_directory,
                BrokerPlace(CLUSTER, GROUP, name, directory / name),
                self.name_server.address,
                settings,
                controllers=addresses,
            )
            for name in ("one", "other")
        ]
        self.companions = [
            BrokerCompanion(
                broker, addresses, **{"broker-metrics": broker.metrics_url.split("/")[2], "deadline-s": "20"}
            )
            for broker in self.brokers
        ]

    async def start(self) -> None:
        """Start all; both brokers are in the SyncStateSet."""
        await asyncio.gather(self.name_server.start(), self.controllers.start())
        await asyncio.gather(*(broker.start(BOOT_TIMEOUT_S) for broker in self.brokers))
        await self.wait_whole()
        await asyncio.gather(*(companion.process.start() for companion in self.companions))

    async def wait_whole(self) -> dict[str, Any]:
        """Wait until both are in the SyncStateSet; return the group."""
        return await self.controllers.wait_group(
            CLUSTER, GROUP, lambda info: info["master_id"] and len(info["sync_state_set"]) == 2, WAIT_S
        )

    async def in_order(self) -> tuple[JavaBroker, JavaBroker, BrokerCompanion]:
        """Return master, slave, and the master's companion."""
        group = await self.wait_whole()
        master, slave = sorted(self.brokers, key=lambda broker: broker.address != group["master_address"])
        return master, slave, self.companions[self.brokers.index(master)]

    async def stop(self) -> None:
        """Stop all."""
        await asyncio.gather(*(companion.process.stop() for companion in self.companions))
        await asyncio.gather(*(broker.kill() for broker in self.brokers))
        await asyncio.gather(self.name_server.stop(), self.controllers.stop())


@contextlib.asynccontextmanager
async def pair(directory: Path, version: str) -> AsyncIterator[BrokerPair]:
    """Run a pair."""
    found = BrokerPair(await jars(version), directory)
    try:
        await found.start()
        yield found
    finally:
        await found.stop()


async def taken_and_not_acknowledged(master: JavaBroker) -> Sequence[str]:
    """Have a consumer take all messages, acknowledge some, and go; return the bodies of the others."""
    bodies = [f"m{number}" for number in range(MESSAGES + ACKNOWLEDGED)]
    await CONSUMER.send(master.address, bodies)
    taken = await CONSUMER.take(master.address, bodies, INVISIBLE_S)
    assert len(taken) == len(bodies), "no message comes twice within its time"
    await CONSUMER.acknowledge(master.address, taken[:ACKNOWLEDGED])
    return [each.body for each in taken[ACKNOWLEDGED:]]


@pytest.mark.parametrize("version", ["5.4.0", "5.5.0"])
async def test_messages_due_while_writes_are_refused_come_again_also_after_a_restart_of_the_companion(
    tmp_path: Path, version: str
) -> None:
    async with pair(tmp_path, version) as group:
        master, slave, companion = await group.in_order()
        due = await taken_and_not_acknowledged(master)
        await slave.kill()
        await companion.wait_debt(MESSAGES, WAIT_S)
        await companion.process.kill()
        await companion.process.start()
        await companion.wait_metric("pop_revives_refused_total", MESSAGES, WAIT_S)
        await slave.start(BOOT_TIMEOUT_S)
        await group.wait_whole()
        again = await CONSUMER.take(master.address, due, WAIT_S)
        (event,) = await companion.events("PopRevived")
        assert await companion.metric("pop_revives_owed") == 0
    assert {each.body for each in again} == set(due), "acknowledged messages do not come again"
    assert len(again) < 2 * MESSAGES
    assert event["attrs"]["refused"] == str(MESSAGES)


async def handed_over_by_command(companion: BrokerCompanion) -> dict[str, Any]:
    """Run the command `handover` in place of a companion; return its answer."""
    async with companion.handover_command() as command:
        assert await command.wait(WAIT_S) == 0, command.tail()
        printed = command.output()
    found: dict[str, Any] = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    return found


async def set_least_copies(broker: JavaBroker, copies: int) -> None:
    """Set a broker's minInSyncReplicas, as a write guard does."""
    asker = Asker(host_port(broker.address))
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                with contextlib.suppress(AskError):
                    await asker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"minInSyncReplicas=%d\n" % copies)
                    return
                await asyncio.sleep(0.05)
    finally:
        asker.close()


@pytest.mark.parametrize("companion_runs", [True, False], ids=["companion", "command"])
async def test_what_a_guarded_master_could_not_revive_comes_from_the_one_that_it_hands_over_to(
    tmp_path: Path, *, companion_runs: bool
) -> None:
    async with pair(tmp_path, "5.5.0") as group:
        master, slave, companion = await group.in_order()
        due = await taken_and_not_acknowledged(master)
        await set_least_copies(master, GUARDED)
        await companion.wait_metric("pop_revives_refused_total", MESSAGES, WAIT_S)
        # The successor copies its master's offset at the same time, so it would not read these checkpoints.
        await asyncio.sleep(OFFSETS_COPIED_WITHIN_S)
        if companion_runs:
            answer = await companion.hand_over()
            if answer["pop_revives_owed"]:
                # A busy machine may take longer than a handover waits (`SETTLE_WITHIN_S`).
                await companion.wait_metric("pop_revives_owed", 0, WAIT_S)
                answer["pop_revives_owed"] = False
            assert len(await companion.events("PopRevived")) == 1, "put back before the answer says so"
        else:
            await companion.wait_debt(MESSAGES, WAIT_S)
            await companion.process.kill()
            answer = await handed_over_by_command(companion)
        assert (answer["reason"], answer["pop_revives_owed"]) == ("done", False)
        again = await CONSUMER.take(slave.address, due, WAIT_S)
    assert {each.body for each in again} == set(due)
