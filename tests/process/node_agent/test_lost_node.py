"""A broker and its node agent in a network namespace of their own, which stop alone or together.

Controllers and agent are real processes. The brokers only speak to controllers (`testkit.fakes`), so that the
times are those of the controllers and not those of a JVM.
"""

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
from testkit.fakes.__main__ import HEARTBEAT_S, TIMEOUT_MS
from testkit.fakes.broker import FakeBroker
from testkit.processes.far_side import FarSide, far_side, lacking
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster, command_path

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]

CLUSTER, GROUP = "c1", "b1"
TOKEN = "let-me-in"  # noqa: S105 - a made-up token
WITHIN_S = 60.0
QUIET_S = 4.0
NODE_TIMEOUT_MS = 500


@dataclass
class LostNodeWorld:
    """Controllers and a slave on this machine; the master and its agent in a namespace."""

    wire: FarSide
    controllers: ControllerCluster
    master: ManagedProcess
    agent: ManagedProcess
    agent_http: str

    async def group(self) -> dict[str, Any]:
        """Return the group as the leader serves it."""
        return await self.controllers.wait_group(CLUSTER, GROUP, lambda _: True)

    async def until_named(self) -> None:
        """Wait until all controllers take heartbeats that name the master."""
        wanted = ("rmqha_node_agent_members 1.0", "rmqha_node_agent_heartbeat_takers 3.0")
        async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://{self.agent_http}/metrics") as response:
                        text = await response.text()
                    if all(line in text for line in wanted):
                        return
                await asyncio.sleep(0.1)

    async def replaced(self) -> tuple[str, float]:
        """Wait for another master; return the cause, and the milliseconds from this call to the suspicion."""
        began_ns = time.time_ns()
        group = await self.controllers.wait_group(
            CLUSTER, GROUP, lambda now: now["master_epoch"] > 1 and now["master_id"] == 2, WITHIN_S
        )
        leader = await self.controllers.wait_leader()
        url = f"http://{self.controllers.http_addresses[leader]}/v1/failovers?cluster={CLUSTER}&group={GROUP}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            records = (await response.json())["failovers"]
        record = next(one for one in records if one["new_epoch"] == group["master_epoch"])
        took_ms = (record["suspected_ns"] - began_ns) / 1e6
        sys.stdout.write(f"{record['cause']} after {took_ms:.0f} ms\n")
        return record["cause"], took_ms

    async def stays(self) -> None:
        """Watch that the master stays master of its epoch."""
        await asyncio.sleep(QUIET_S)
        assert (await self.group())["master_epoch"] == 1


@contextlib.asynccontextmanager
async def _world(directory: Path) -> AsyncIterator[LostNodeWorld]:
    async with contextlib.AsyncExitStack() as stack:
        wire = await stack.enter_async_context(far_side())
        settings = {"httpToken": TOKEN, "directAddresses": "true"}
        controllers = await stack.enter_async_context(
            ControllerCluster(directory / "controllers", settings=settings, host=wire.near_host)
        )
        addresses = controllers.remoting_addresses
        command = [sys.executable, "-m", "testkit.fakes", ",".join(addresses), GROUP]
        master = wire.take(ManagedProcess("master", command, directory / "master.log"))
        stack.push_async_callback(master.stop)
        await master.start()
        await master.wait_for_text("is master", WITHIN_S)
        slave = FakeBroker(addresses, GROUP, beat_interval_s=HEARTBEAT_S, timeout_ms=60_000)
        await slave.start()
        stack.push_async_callback(slave.die)
        await master.wait_for_text("is whole", WITHIN_S)
        token_file = directory / "token"
        token_file.write_text(node_token(TOKEN))
        http = f"{wire.far_host}:{free_port()}"
        command = [
            *(command_path("ha-sidecar"), "node-agent", "--http", http, "--token-file", str(token_file)),
            *("--controllers", ",".join(addresses)),
            *("--controllers-http", ",".join(controllers.http_addresses)),
        ]
        agent = wire.take(ManagedProcess("node agent", command, directory / "agent.log"))
        stack.push_async_callback(agent.stop)
        await agent.start()
        world = LostNodeWorld(wire, controllers, master, agent, http)
        await world.until_named()
        # Nothing tells when the controllers take a broker no longer for one that is starting.
        await asyncio.sleep((STARTING_MS + TRUST_MS) / 1000)
        yield world


# A controller whose own loop stood still for 250 ms (`DOUBT_MS`) judges nobody for 3 s: a busy machine.
@pytest.mark.flaky(reruns=3)
@pytest.mark.parametrize("fault", ["frozen", "cut"])
async def test_a_master_that_is_silent_with_its_agent_is_lost_with_its_node(
    fault: str, tmp_path: Path
) -> None:
    async with _world(tmp_path) as world:
        if fault == "cut":
            await world.wire.cut()
        else:
            for process in (world.master, world.agent):
                process.signal(signal.SIGSTOP)
        cause, took_ms = await world.replaced()
        for process in (world.master, world.agent):
            process.signal(signal.SIGCONT)
        await world.wire.heal()
    assert cause == "NodeLost"
    # The last heartbeat may be an interval old. A busy machine pauses, which shows in the patience.
    assert NODE_TIMEOUT_MS - HEARTBEAT_S * 1000 - 100 < took_ms < TIMEOUT_MS


async def test_a_master_that_is_silent_alone_has_its_own_timeout_and_an_agent_alone_changes_nothing(
    tmp_path: Path,
) -> None:
    async with _world(tmp_path) as world:
        world.agent.signal(signal.SIGSTOP)
        await world.stays()
        world.agent.signal(signal.SIGCONT)
        await world.agent.kill()
        await world.stays()
        await world.agent.start()
        await world.until_named()
        await world.stays()
        world.master.signal(signal.SIGSTOP)
        cause, took_ms = await world.replaced()
        world.master.signal(signal.SIGCONT)
    assert cause == "HeartbeatTimeout"
    assert took_ms > TIMEOUT_MS - HEARTBEAT_S * 1000 - 100
