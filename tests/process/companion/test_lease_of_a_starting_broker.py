"""A broker without a role yet answers as a master (907). It takes no writes, and its guard lets it start.

The controllers still take it for dead, from its last life. A slow machine makes this time long; here a relay
that holds the broker's questions to the controllers does.
"""

import asyncio
import time
from pathlib import Path

import pytest

from testkit.processes.relay import Relay
from testkit.products.controllers import ControllerCluster
from testkit.products.guarded_brokers import STOPPED_LINE, GuardedBroker, watched_leases
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
WITHIN_S = 60.0
SETTINGS = {**QUICK_SETTINGS, "brokerRole": "ASYNC_MASTER", "controllerHeartBeatTimeoutMills": "1500"}
REFUSED_SENDS = 150
"""One each 20 ms: together six times as long as the first lease of a master."""


async def test_a_starting_broker_that_the_controllers_take_for_dead_is_not_ended(tmp_path: Path) -> None:
    name_server = NameServer(jar_directory := await jars("5.5.0"), tmp_path / "ns")
    controllers = ControllerCluster(tmp_path / "controllers", 1)
    relay = Relay(controllers.remoting_addresses[0])
    place = BrokerPlace(CLUSTER, GROUP, "b", tmp_path / "b")
    broker = JavaBroker(jar_directory, place, name_server.address, SETTINGS, controllers=[relay.address])
    side = GuardedBroker(broker, controllers.remoting_addresses, TOPIC, 0)
    try:
        await asyncio.gather(name_server.start(), controllers.start(), relay.start())
        await broker.start(WITHIN_S)
        async with watched_leases([side]):
            await side.witness.wait_acknowledged(10, WITHIN_S)
            await side.wait_held()
            relay.hold()
            await broker.kill()
            await controllers.wait_group(CLUSTER, GROUP, _has_no_living_member, WITHIN_S)
            started_ns = time.time_ns()
            await broker.process.start()
            await side.witness.wait_refused("service not available", REFUSED_SENDS, started_ns, WITHIN_S)
            assert any(role.is_master for role in side.witness.roles() if role.ts_ns > started_ns)
            assert side.stands_still is False
            relay.release()
            await side.witness.wait_acknowledged(10, WITHIN_S)
            await side.wait_held()
        assert STOPPED_LINE not in broker.process.output()
    finally:
        await side.stop()
        await asyncio.gather(controllers.stop(), name_server.stop(), relay.stop())


def _has_no_living_member(found: dict[str, object]) -> bool:
    replicas = found["replicas"]
    assert isinstance(replicas, list)
    return not any(replica["alive"] for replica in replicas)
