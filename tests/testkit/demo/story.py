"""What the demo does to the cluster under load: three faults.

The cluster is whole again after each before the next comes.

1. `kill -9` of the master's process, and its restart once another broker leads.
2. `kill -9` of the leading controller, and its restart.
3. One planned switchover.

Every step waits for what it is about (a new master epoch, a new leader, the whole SyncStateSet) and fails
with the controllers' logs when that does not come.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from testkit.demo.cluster import CLUSTER, GROUP, DemoCluster
from testkit.demo.progress import StepPrinter
from testkit.processes.fault_log import FaultLog
from testkit.rocketmq.load import LoadClient
from testkit.rocketmq.processes import JavaBroker

MEMBERS = 3
_WHOLE_TIMEOUT_S = 90.0
_CHANGE_TIMEOUT_S = 60.0
_ASK_AGAIN_S = 0.5
_QUIET_S = 4.0
_ACKS_AFTER_CHANGE = 200
_PAUSED_S = 0.05
"""As in the operator's preStop: by then clients wait for answers."""

GroupInfo = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Happened:
    """One thing that was done to the cluster.

    Attributes:
        title: what a person calls it.
        fault_ns: when it was done, UTC.
        until_ns: when the cluster was whole and quiet again, UTC.
        new_epoch: the master epoch that followed; None when the master stayed.
    """

    title: str
    fault_ns: int
    until_ns: int
    new_epoch: int | None


class DemoError(Exception):
    """A step of the demo did not end as it must."""


class DemoStory:
    """The faults, in order, on a cluster under load."""

    def __init__(self, cluster: DemoCluster, load: LoadClient, progress: StepPrinter) -> None:
        """Tell nothing yet; `tell` does.

        Args:
            cluster: started, every member in the SyncStateSet.
            load: started, with acknowledged sends.
            progress: told of each step.
        """
        self._cluster = cluster
        self._load = load
        self._progress = progress
        self._faults = FaultLog(cluster.fault_log, CLUSTER)

    async def tell(self) -> list[Happened]:
        """Do all three, one after another, and return the actions with their times."""
        return [await self.kill_master(), await self._kill_leader(), await self.switch_over()]

    async def kill_master(self) -> Happened:
        """Kill the master's process with SIGKILL, and start it again when another broker leads."""
        return await self._end_master("kill", "kill -9", JavaBroker.kill)

    async def stop_master(self) -> Happened:
        """End the master's process with SIGTERM, and start it again when another broker leads."""
        return await self._end_master("stop", "SIGTERM", JavaBroker.shut_down)

    async def pause_and_kill_master(self) -> Happened:
        """Pause the master's process and kill it, as the operator's preStop does."""
        return await self._end_master("pause", "SIGSTOP and kill -9", _pause_and_kill)

    async def freeze_master(self) -> Happened:
        """Pause the master's process until another broker leads and takes sends, and let it go on."""
        before = await wait_whole(self._cluster)
        master = self._broker_at(before["master_address"])
        with self._progress.step(f"SIGSTOP of the master, {master.place.name}"):
            fault_ns = self._faults.injected("freeze", master.place.name, GROUP)
            master.process.signal(signal.SIGSTOP)
            try:
                after = await self._wait_epoch_above(before["master_epoch"])
                await self._wait_acknowledged(fault_ns)
            finally:
                master.process.signal(signal.SIGCONT)
        with self._progress.step(f"{master.place.name} goes on, until all {MEMBERS} are in sync"):
            self._faults.healed("freeze", master.place.name, GROUP)
            await wait_whole(self._cluster)
        await asyncio.sleep(_QUIET_S)
        return Happened(
            f"SIGSTOP of the master ({master.place.name})", fault_ns, time.time_ns(), after["master_epoch"]
        )

    async def _end_master(
        self, fault: str, how: str, end: Callable[[JavaBroker], Awaitable[None]]
    ) -> Happened:
        before = await wait_whole(self._cluster)
        master = self._broker_at(before["master_address"])
        with self._progress.step(f"{how} of the master, {master.place.name}"):
            fault_ns = self._faults.injected(fault, master.place.name, GROUP)
            await end(master)
            after = await self._wait_epoch_above(before["master_epoch"])
            await self._wait_acknowledged(fault_ns)
        self._progress.say(
            f"{self._broker_at(after['master_address']).place.name} is master, epoch {after['master_epoch']}"
        )
        with self._progress.step(f"restart of {master.place.name}, until all {MEMBERS} are in sync"):
            await master.start()
            self._faults.healed(fault, master.place.name, GROUP)
            await wait_whole(self._cluster)
        await asyncio.sleep(_QUIET_S)
        return Happened(
            f"{how} of the master ({master.place.name})", fault_ns, time.time_ns(), after["master_epoch"]
        )

    async def _kill_leader(self) -> Happened:
        before = await wait_whole(self._cluster)
        controllers = self._cluster.controllers
        leader = await controllers.wait_leader()
        with self._progress.step(f"kill -9 of the leading controller, n{leader}"):
            fault_ns = self._faults.injected("kill", f"controller-{leader}")
            await controllers.kill_node(leader)
            successor = await controllers.wait_leader(other_than=leader)
        self._progress.say(f"n{successor} leads")
        await asyncio.sleep(_QUIET_S)
        await controllers.start_node(leader)
        self._faults.healed("kill", f"controller-{leader}")
        after = await wait_whole(self._cluster)
        if after["master_epoch"] != before["master_epoch"]:
            raise DemoError("the master changed although only a controller was killed")
        return Happened(f"kill -9 of the leading controller (n{leader})", fault_ns, time.time_ns(), None)

    async def switch_over(self) -> Happened:
        """Hand the master over to the other broker, on purpose, and wait until the group is whole again."""
        before = await wait_whole(self._cluster)
        target = next(
            replica
            for replica in before["replicas"]
            if replica["electable"] and replica["in_sync"] and not replica["master"]
        )
        name = self._broker_at(target["address"]).place.name
        with self._progress.step(f"planned switchover to {name}"):
            fault_ns = self._faults.injected("switchover", name, GROUP)
            await self._elect(target["broker_id"])
            after = await self._wait_epoch_above(before["master_epoch"])
            await self._wait_acknowledged(fault_ns)
            await wait_whole(self._cluster)
            self._faults.healed("switchover", name, GROUP)
        await asyncio.sleep(_QUIET_S)
        return Happened(f"planned switchover to {name}", fault_ns, time.time_ns(), after["master_epoch"])

    async def _elect(self, broker_id: int) -> None:
        """Ask until the broker is master.

        The controllers refuse while a slave is behind or no controller leads. A
        repeated request changes nothing.
        """
        deadline_s = asyncio.get_running_loop().time() + _CHANGE_TIMEOUT_S
        while (refusal := await asked_to_elect(self._cluster, broker_id)) is not None:
            if asyncio.get_running_loop().time() > deadline_s:
                raise DemoError(f"the switchover was refused: {refusal}")
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _wait_epoch_above(self, epoch: int) -> GroupInfo:
        return await self._wait_group(
            lambda group: bool(group["master_epoch"] > epoch and group["master_id"])
        )

    async def _wait_group(self, holds: Callable[[GroupInfo], bool]) -> GroupInfo:
        return await self._cluster.controllers.wait_group(CLUSTER, GROUP, holds, _CHANGE_TIMEOUT_S)

    async def _wait_acknowledged(self, fault_ns: int) -> None:
        await self._load.wait_for_acknowledged(_ACKS_AFTER_CHANGE, _CHANGE_TIMEOUT_S, after_ns=fault_ns)

    def _broker_at(self, address: str) -> JavaBroker:
        for broker in self._cluster.brokers:
            if broker.address == address:
                return broker
        raise DemoError(f"no broker of the demo listens on {address}")


async def _pause_and_kill(broker: JavaBroker) -> None:
    broker.process.signal(signal.SIGSTOP)
    await asyncio.sleep(_PAUSED_S)
    await broker.kill()


async def asked_to_elect(cluster: DemoCluster, broker_id: int) -> str | None:
    """Ask the leading controller once for a master; return why it refused, None if it did not."""
    leader = await cluster.controllers.wait_leader()
    url = f"http://{cluster.controllers.http_addresses[leader]}/v1/groups/{CLUSTER}/{GROUP}/elect"
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json={"brokerId": broker_id}) as response,
        ):
            return None if response.ok else await response.text()
    except aiohttp.ClientError as error:
        return repr(error)


async def wait_whole(cluster: DemoCluster) -> GroupInfo:
    """Wait until the group has a living master and every member in its SyncStateSet; return the group."""
    return await cluster.controllers.wait_group(
        CLUSTER, GROUP, lambda group: is_whole(group, cluster.members), _WHOLE_TIMEOUT_S
    )


def is_whole(group: GroupInfo, members: int = MEMBERS) -> bool:
    """Say if a group has a master, and so many members in its SyncStateSet."""
    return group["master_id"] is not None and len(group["sync_state_set"]) == members
