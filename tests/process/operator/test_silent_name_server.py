"""A name server that does not answer, as on a lost node, holds up no change of master for long.

A broker registers at its name servers every 10 s. It holds a lock until all have answered, for at most
`registerBrokerTimeoutMills`. A new master takes its role in two parts. After the first it says that it is
master. The second needs that lock. Until it is over, no replica enters the SyncStateSet, so the broker
acknowledges no send.

Source: BrokerController.registerBrokerAll, changeScheduleServiceStatus, ReplicasManager.changeToMaster 5.5.0.
"""

import asyncio
import time
from pathlib import Path

import pytest

from testkit.processes.relay import Relay
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer
from testkit.worlds.pod_templates import broker_settings

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CLUSTER, GROUP = "c", "g"
WITHIN_S = 60.0
ROLE_S_MAX = 2.0
"""From the kill to the role: a second for a busy machine, and the time of a registration."""
IN_ROLE = "ScheduleServiceStatus changed to true"
GIVEN_UP = "Registration to one or more name servers does NOT complete within deadline"


def _registering() -> dict[str, str]:
    """Return what the operator writes about registrations."""
    conf = broker_settings({"cluster": CLUSTER, "replicas": 2, "storage": {"size": "1Gi"}})
    return {key: conf[key] for key in ("registerBrokerTimeoutMills", "registerNameServerPeriod")}


async def test_a_new_master_takes_its_role_while_a_name_server_does_not_answer_its_registration(
    tmp_path: Path,
) -> None:
    jar_directory = await jars("5.5.0")
    name_servers = [NameServer(jar_directory, tmp_path / f"ns{number}") for number in range(2)]
    controllers = ControllerCluster(tmp_path / "controllers", 1)
    relay = Relay(name_servers[1].address)
    settings = {**QUICK_SETTINGS, **_registering(), "brokerRole": "SYNC_MASTER"}

    def broker(name: str, second_name_server: str) -> JavaBroker:
        place = BrokerPlace(CLUSTER, GROUP, name, tmp_path / name)
        addresses = f"{name_servers[0].address};{second_name_server}"
        return JavaBroker(
            jar_directory, place, addresses, settings, controllers=controllers.remoting_addresses
        )

    master, slave = broker("first", name_servers[1].address), broker("second", relay.address)
    try:
        await asyncio.gather(*(one.start() for one in name_servers), controllers.start(), relay.start())
        await master.start(WITHIN_S)
        await slave.start(WITHIN_S)
        await controllers.wait_group(CLUSTER, GROUP, lambda now: len(now["sync_state_set"]) == 2, WITHIN_S)
        assert IN_ROLE not in slave.process.output()
        relay.hold()
        async with asyncio.timeout(WITHIN_S):
            await relay.holds_bytes.wait()
        killed_s = time.monotonic()
        await master.kill()
        await slave.process.wait_for_text(IN_ROLE, WITHIN_S)
        took_s = time.monotonic() - killed_s
        await slave.process.wait_for_text(GIVEN_UP, WITHIN_S)
    finally:
        await asyncio.gather(master.stop(), slave.stop())
        await relay.stop()
        await asyncio.gather(controllers.stop(), *(one.stop() for one in name_servers))
    assert took_s < ROLE_S_MAX
