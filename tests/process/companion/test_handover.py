"""The command of a broker's preStop, with real brokers and a real name server, under load.

When it ends, all see another broker as master.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from testkit.demo.cluster import CLUSTER, GROUP
from testkit.demo.story import wait_whole
from testkit.demo.under_load import UnderLoad, under_load
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import command_path
from testkit.rocketmq.processes import JavaBroker

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

HANDOVERS = 3
DEADLINE_S = 20


def handover_of(running: UnderLoad, broker: JavaBroker) -> ManagedProcess:
    """Describe the command for one broker."""
    settings = {
        "cluster": CLUSTER,
        "group": GROUP,
        "broker": broker.address,
        "controllers": ";".join(running.cluster.controllers.remoting_addresses),
        "name-servers": running.cluster.name_server.address,
        "deadline-s": str(DEADLINE_S),
    }
    words = [part for key, value in settings.items() for part in (f"--{key}", value)]
    log = running.directory / f"handover-of-{broker.place.name}.log"
    return ManagedProcess("handover", [command_path("ha-sidecar"), "handover", "--output=json", *words], log)


async def handed_over(running: UnderLoad, broker: JavaBroker) -> dict[str, Any]:
    """Run the command to its end, and return what it printed."""
    command = handover_of(running, broker)
    async with command:
        assert await command.wait(DEADLINE_S + 10.0) == 0, command.tail()
    printed = command.output()
    found: dict[str, Any] = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    return found


async def test_when_a_handover_ends_controllers_broker_and_name_server_know_the_new_master(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path) as running:
        cluster, load = running.cluster, running.load
        for _ in range(HANDOVERS):
            before = await wait_whole(cluster)
            old = cluster.broker_at(before["master_address"])
            (new,) = set(cluster.brokers) - {old}
            result = await handed_over(running, old)
            assert await cluster.name_server.master_of(GROUP) == new.address
            after = await cluster.controllers.group_info(CLUSTER, GROUP)
            assert after is not None
            assert after["master_address"] == new.address
            assert after["master_epoch"] == result["epoch"] > before["master_epoch"]
            assert (result["handed_over"], result["old_master_id"]) == (True, before["master_id"])
            assert result["new_master_id"] == after["master_id"]
            assert result["took_ms"] < DEADLINE_S * 1000
            running.progress.say(f"handed over in {result['took_ms']} ms")
            await load.wait_for_acknowledged(200, 60.0, after_ns=load.sends()[-1].end_ns)
        read = await running.read_back()
    assert read.acknowledged > 1_000
    assert read.lost == frozenset()


async def test_a_handover_of_a_slave_or_of_nobody_does_nothing_and_succeeds(tmp_path: Path) -> None:
    async with under_load(tmp_path) as running:
        before = await wait_whole(running.cluster)
        (slave,) = set(running.cluster.brokers) - {running.cluster.broker_at(before["master_address"])}
        as_slave = await handed_over(running, slave)
        await slave.kill()
        as_nobody = await handed_over(running, slave)
        after, _ = await asyncio.gather(
            running.cluster.controllers.group_info(CLUSTER, GROUP), running.load.stop()
        )
    assert after is not None
    assert (as_slave["handed_over"], as_nobody["handed_over"]) == (False, False)
    assert after["master_epoch"] == before["master_epoch"]
