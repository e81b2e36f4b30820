"""Sends that reach a real master while a write guard is up.

RocketMQ looks at a broker's role twice in a send: it refuses a slave's, and a master's without copies. A send
whose thread stands still between both until the broker is a slave needs no copies any more (5.5.0,
HookUtils.checkBeforePutMessage and CommitLog.needHandleHA). It was acknowledged and lost, once in some
hundreds of switchovers on full cores. So no send may get that far while its master is about to be replaced.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from controller_core.broker_settings import MIN_IN_SYNC
from controller_core.channel.asking import Asker
from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.settings import properties
from controller_core.server.write_guards.write_guard import OUT_OF_REACH
from ha_sidecar.address import host_port
from slo_pipeline.canary.requests import send_request
from testkit.demo.cluster import GROUP, DemoCluster
from testkit.demo.progress import StepPrinter
from testkit.demo.story import asked_to_elect, wait_whole
from testkit.rocketmq.debugger import DEBUGGED, threads_held_at
from testkit.rocketmq.jars import jars

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SECOND_LOOK: Final = "org.apache.rocketmq.store.CommitLog.needHandleHA"
STOPPED: Final = ("broker unable to service", "in-sync replicas not enough")
"""Remarks of sends that the guard's settings refuse."""
SENDS: Final = 8
WITHIN_S: Final = 30.0
TOPIC: Final = "guarded"
TRIES_MAX: Final = 10


async def test_no_send_that_begins_during_a_write_guard_is_acknowledged_by_the_slave_to_be(
    tmp_path: Path,
) -> None:
    cluster = DemoCluster(await jars(), tmp_path, StepPrinter(), log_replicas=0, jvm=DEBUGGED)
    try:
        await cluster.start()
        for _ in range(TRIES_MAX):
            answers = await _sends_during_a_switchover(cluster)
            assert [one for one in answers if one.code == ResponseCode.SUCCESS] == []
            if any((one.remark or "").startswith(STOPPED) for one in answers):
                return
        pytest.fail(f"no send met a guard in {TRIES_MAX} switchovers")
    finally:
        await cluster.stop()


async def _sends_during_a_switchover(cluster: DemoCluster) -> list[RemotingCommand]:
    """Send as soon as the guard is up; hold what reaches the second look until the master is a slave."""
    group = await wait_whole(cluster)
    master = cluster.broker_at(group["master_address"])
    slave_id = next(one["broker_id"] for one in group["replicas"] if not one["master"])
    connection, asker = await connect(*host_port(master.address), 5.0), Asker(host_port(master.address))
    try:
        assert (await _send(connection, 0)).code == ResponseCode.SUCCESS
        async with threads_held_at(SECOND_LOOK, master.process, master.place.directory):
            switching = asyncio.create_task(asked_to_elect(cluster, slave_id))
            await _until(asker, lambda settings: int(settings[MIN_IN_SYNC]) >= OUT_OF_REACH)
            sends = [asyncio.create_task(_send(connection, number)) for number in range(1, SENDS + 1)]
            assert await switching is None
            await _until(asker, lambda settings: settings["brokerRole"] == "SLAVE")
        return await asyncio.gather(*sends)
    finally:
        connection.close()
        asker.close()


async def _until(asker: Asker, holds: Callable[[dict[str, str]], bool]) -> None:
    """Wait until a broker's settings are so."""
    async with asyncio.timeout(WITHIN_S):
        while not holds(  # noqa: ASYNC110 - without a notification
            properties.parse((await asker.ask(RequestCode.GET_BROKER_CONFIG)).body.decode())
        ):
            await asyncio.sleep(0.001)


async def _send(connection: Connection, number: int) -> RemotingCommand:
    request = send_request(TOPIC, GROUP, 0, number, b"-", time.time_ns() // 1_000_000)
    return await connection.call(request, WITHIN_S)
