"""A Java broker and its node agent in a network namespace of their own, which stop alone or together."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.groups.liveness.node_agents import TRUST_MS
from controller_core.groups.liveness.table import STARTING_MS
from controller_core.remoting.nodes.token import node_token
from testkit.processes.far_side import FarSide, far_side, lacking
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster, command_path
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]

CLUSTER, GROUP = "main", "orders"
TOKEN = "let-me-in"  # noqa: S105 - a made-up token
HEARTBEAT_TIMEOUT_MS = 1_500
NODE_TIMEOUT_MS = 500
SETTLE_S = 120.0
QUIET_S = 4.0
SETTINGS = {
    **ZERO_LOSS_SETTINGS,
    **QUICK_SETTINGS,
    "controllerHeartBeatTimeoutMills": str(HEARTBEAT_TIMEOUT_MS),
}
AT_ONCE_MS_MAX = 1_400
"""Below the broker's own timeout; a machine with time to spare needs 500 to 900."""


@dataclass
class LostNodeWorld:
    """Controllers and a second broker on this machine; a broker and its agent in a namespace."""

    wire: FarSide
    controllers: ControllerCluster
    broker: JavaBroker
    other: JavaBroker
    agent: ManagedProcess
    agent_http: str

    async def lead_again(self) -> dict[str, Any]:
        """Make the broker in the namespace master; return the group once its agent can be relied on."""
        group = await self.controllers.wait_group(CLUSTER, GROUP, _is_whole, SETTLE_S)
        own_id = next(one["broker_id"] for one in group["replicas"] if one["address"] == self.broker.address)
        deadline_s = asyncio.get_running_loop().time() + SETTLE_S
        while (refusal := await self._designate(own_id)) is not None:
            assert asyncio.get_running_loop().time() < deadline_s, refusal
            await asyncio.sleep(0.5)
        group = await self.controllers.wait_group(CLUSTER, GROUP, _is_whole, SETTLE_S)
        assert group["master_address"] == self.broker.address
        await self._until_named()
        # Nothing tells when the controllers take a broker no longer for one that is starting.
        await asyncio.sleep((STARTING_MS + TRUST_MS) / 1000)
        return await self.controllers.wait_group(CLUSTER, GROUP, _is_whole, SETTLE_S)

    async def _designate(self, broker_id: int) -> str | None:
        leader = await self.controllers.wait_leader()
        url = f"http://{self.controllers.http_addresses[leader]}/v1/groups/{CLUSTER}/{GROUP}/elect"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(url, json={"brokerId": broker_id}) as response,
        ):
            return None if response.status == 200 else await response.text()

    async def _until_named(self) -> None:
        async with asyncio.timeout(SETTLE_S), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://{self.agent_http}/metrics") as response:
                        text = await response.text()
                    if (
                        "rmqha_node_agent_members 1.0" in text
                        and "rmqha_node_agent_heartbeat_takers 3.0" in text
                    ):
                        return
                await asyncio.sleep(0.1)

    async def replaced(self, epoch: int) -> tuple[str, float]:
        """Wait for another master; return the cause and how many ms have passed since the call."""
        began_ns = time.time_ns()
        group = await self.controllers.wait_group(
            CLUSTER, GROUP, lambda now: now["master_epoch"] > epoch and now["master_id"] is not None, SETTLE_S
        )
        assert group["master_address"] == self.other.address
        leader = await self.controllers.wait_leader()
        url = f"http://{self.controllers.http_addresses[leader]}/v1/failovers?cluster={CLUSTER}&group={GROUP}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            records = (await response.json())["failovers"]
        record = next(one for one in records if one["new_epoch"] == group["master_epoch"])
        return record["cause"], (record["suspected_ns"] - began_ns) / 1e6

    async def stays(self, group: dict[str, Any]) -> None:
        """Watch that the master stays master of its epoch."""
        await asyncio.sleep(QUIET_S)
        now = await self.controllers.wait_group(CLUSTER, GROUP, lambda _: True)
        assert now["master_epoch"] == group["master_epoch"]


def _is_whole(group: dict[str, Any]) -> bool:
    return group["master_id"] is not None and len(group["sync_state_set"]) == 2


@contextlib.asynccontextmanager
async def _world(directory: Path) -> AsyncIterator[LostNodeWorld]:
    release = await jars()
    async with contextlib.AsyncExitStack() as stack:
        wire = await stack.enter_async_context(far_side())
        settings = {"httpToken": TOKEN, "directAddresses": "true"}
        controllers = await stack.enter_async_context(
            ControllerCluster(directory / "controllers", settings=settings, host=wire.near_host)
        )
        name_server = NameServer(release, directory / "namesrv", wire.near_host)
        stack.push_async_callback(name_server.stop)
        await name_server.start()
        brokers = []
        for name, host in (("far", wire.far_host), ("near", wire.near_host)):
            place = BrokerPlace(CLUSTER, GROUP, name, directory / name)
            addresses = controllers.remoting_addresses
            broker = JavaBroker(
                release, place, name_server.address, SETTINGS, controllers=addresses, host=host
            )
            if host == wire.far_host:
                wire.take(broker.process)
            stack.push_async_callback(broker.stop)
            await broker.start()
            brokers.append(broker)
        token_file = directory / "token"
        token_file.write_text(node_token(TOKEN))
        http = f"{wire.far_host}:{free_port()}"
        command = [
            *(command_path("ha-sidecar"), "node-agent", "--http", http, "--token-file", str(token_file)),
            *("--controllers", ",".join(controllers.remoting_addresses)),
            *("--controllers-http", ",".join(controllers.http_addresses)),
        ]
        agent = wire.take(ManagedProcess("node agent", command, directory / "agent.log"))
        stack.push_async_callback(agent.stop)
        await agent.start()
        yield LostNodeWorld(wire, controllers, brokers[0], brokers[1], agent, http)


async def test_a_broker_that_stops_with_its_agent_is_replaced_sooner_than_one_that_stops_alone(
    tmp_path: Path,
) -> None:
    async with _world(tmp_path) as world:
        group = await world.lead_again()
        world.agent.signal(signal.SIGSTOP)
        await world.stays(group)
        world.agent.signal(signal.SIGCONT)
        await world.agent.kill()
        await world.agent.start()
        await world.stays(group)

        world.broker.process.signal(signal.SIGSTOP)
        cause, alone_ms = await world.replaced(group["master_epoch"])
        world.broker.process.signal(signal.SIGCONT)
        assert cause == "HeartbeatTimeout"
        assert alone_ms > HEARTBEAT_TIMEOUT_MS - 400

        group = await world.lead_again()
        for process in (world.broker.process, world.agent):
            process.signal(signal.SIGSTOP)
        cause, frozen_ms = await world.replaced(group["master_epoch"])
        for process in (world.broker.process, world.agent):
            process.signal(signal.SIGCONT)
        assert cause == "NodeLost"
        assert NODE_TIMEOUT_MS - 350 < frozen_ms < AT_ONCE_MS_MAX

        group = await world.lead_again()
        await world.wire.cut()
        cause, cut_ms = await world.replaced(group["master_epoch"])
        await world.wire.heal()
        assert cause == "NodeLost"
        assert cut_ms < AT_ONCE_MS_MAX
        sys.stdout.write(
            f"suspected after: alone {alone_ms:.0f}, frozen {frozen_ms:.0f}, cut {cut_ms:.0f} ms\n"
        )
