"""A real master of an Async group stops before another one may be elected, whatever happens to it.

Both sides of a cut have a writer of their own. Each test prints what each broker acknowledged, and when.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from testkit.processes.far_side import FarSide, far_side, lacking
from testkit.products.controllers import ControllerCluster
from testkit.products.guarded_brokers import STOPPED_LINE, GuardedBroker, watched_leases
from testkit.products.troubled_jvm import forced_collections, starved
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

LOAD_S = float(os.environ.get("LEASE_LOAD_S", "10"))
"""`make lease-load` sets it, and the next ones."""
FULL_GC_S = float(os.environ.get("LEASE_LOAD_FULL_GC_S") or "0")
"""Between two forced full collections of each broker's heap; 0 for none."""
HEAP = os.environ.get("LEASE_LOAD_HEAP", "")
"""Of each broker, such as 4g; empty for the usual one."""
CPU_SHARE = float(os.environ.get("LEASE_LOAD_CPU") or "1")
"""Of a core, for the master's process; 1 for no limit."""

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(600 + LOAD_S),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
_log = logging.getLogger(__name__)
BOOT_TIMEOUT_S = 150.0
FAILOVER_WITHIN_S = 60.0
TIMEOUT_MS = 1_500
LONG_TIMEOUT_MS = 5_000
"""Where a broker must go on in time after a pause, however busy the machine is."""
LOAD_TIMEOUT_MS = int(os.environ.get("LEASE_LOAD_TIMEOUT_MS") or LONG_TIMEOUT_MS)
SETTINGS = {
    **QUICK_SETTINGS,
    "brokerRole": "ASYNC_MASTER",
    "mappedFileSizeCommitLog": str(1 << 24),
}
"""The operator's, of an Async group: an acknowledgement is the master's own copy."""
SEQUENCES_APART = 1_000_000
SILENT_S = 6.0
"""For how long nothing answers at the addresses; while Kubernetes replaced pods, 5 s at most were seen."""
PAST_THE_LEASE_S = 0.2
"""After the guard's stop: it rounds down to hundredths of a second, so the lease ends a little later."""
STARTING_S = 20.0
"""For how long the controllers spare a broker that has just started."""


class AsyncGroup:
    """Two brokers under their guards, three controllers; the first broker may live behind a wire."""

    def __init__(self, jar_directory: Path, directory: Path, wire: FarSide, timeout_ms: int) -> None:
        near = wire.near_host
        self.name_server = NameServer(jar_directory, directory / "ns", near)
        self.controllers = ControllerCluster(directory / "controllers", 3, host=near)
        addresses = self.controllers.remoting_addresses

        def side(name: str, host: str, first_sequence: int) -> GuardedBroker:
            place = BrokerPlace(CLUSTER, GROUP, name, directory / name)
            server = self.name_server.address
            settings = {**SETTINGS, "controllerHeartBeatTimeoutMills": str(timeout_ms)}
            broker = JavaBroker(jar_directory, place, server, settings, controllers=addresses, host=host)
            if HEAP:
                # The JVM takes this variable's options over those of its command line.
                options = f"_JAVA_OPTIONS=-Xms{HEAP} -Xmx{HEAP}"
                broker.process.command = ["env", options, *broker.process.command]
            return GuardedBroker(broker, addresses, TOPIC, first_sequence)

        self.old = side("old", wire.far_host, 0)
        self.new = side("new", near, SEQUENCES_APART)
        self.sides: Sequence[GuardedBroker] = (self.old, self.new)
        for process in (self.old.broker.process, self.old.companion, self.old.witness.process):
            wire.take(process)

    async def start(self) -> None:
        """Start all; the broker behind the wire is master, and no broker counts as starting."""
        await asyncio.gather(self.name_server.start(), self.controllers.start())
        await self.old.broker.start(BOOT_TIMEOUT_S)
        await self.name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        started_s = time.monotonic()
        await self.new.broker.start(BOOT_TIMEOUT_S)
        self.before = await self.whole()
        assert self.before["master_address"] == self.old.broker.address
        await asyncio.sleep(max(0.0, started_s + STARTING_S - time.monotonic()))

    async def whole(self) -> dict[str, object]:
        """Wait until both are in sync; return what the controllers say."""
        return await self.controllers.wait_group(
            CLUSTER, GROUP, lambda found: len(found["sync_state_set"]) == 2, BOOT_TIMEOUT_S
        )

    async def elected(self) -> dict[str, object]:
        """Wait until the second broker is master; return what the controllers say."""
        return await self.controllers.wait_group(
            CLUSTER,
            GROUP,
            lambda found: found["master_address"] == self.new.broker.address,
            FAILOVER_WITHIN_S,
        )

    def assert_one_writer(self) -> None:
        """Check that the old master promised nothing after the new one's first promise."""
        for side in self.sides:
            acks = side.witness.acknowledged()
            span = f"{acks[0].end_ns} to {acks[-1].end_ns}" if acks else "none"
            _log.info(f"{side.broker.place.name}: {len(acks)} of {len(side.witness.sends())}, {span}")
        last_ns = max(send.end_ns for send in self.old.witness.acknowledged())
        first_ns = min(send.end_ns for send in self.new.witness.acknowledged())
        _log.info(
            f"{(first_ns - last_ns) / 1e6:.0f} ms from the old master's last promise to the new one's first"
        )
        assert last_ns < first_ns

    async def stop(self) -> None:
        """End all."""
        await asyncio.gather(*(side.stop() for side in self.sides))
        await asyncio.gather(self.controllers.stop(), self.name_server.stop())


@contextlib.asynccontextmanager
async def async_group(
    directory: Path, timeout_ms: int = TIMEOUT_MS
) -> AsyncIterator[tuple[AsyncGroup, FarSide]]:
    """Run the group with companions and witnesses; the old master writes."""
    jar_directory = await jars("5.5.0")
    async with far_side() as wire:
        group = AsyncGroup(jar_directory, directory, wire, timeout_ms)
        try:
            await group.start()
            async with watched_leases(group.sides):
                await group.old.wait_held()
                await group.old.witness.wait_acknowledged(50, 60.0)
                yield group, wire
        finally:
            await group.stop()


async def test_a_master_that_is_cut_off_stops_before_another_promises_and_joins_it_later(
    tmp_path: Path,
) -> None:
    async with async_group(tmp_path) as (group, wire):
        await wire.cut()
        cut_s = time.monotonic()
        await group.old.wait_still(FAILOVER_WITHIN_S)
        _log.info(f"the old master stood still {(time.monotonic() - cut_s) * 1e3:.0f} ms after the cut")
        await group.elected()
        await group.new.witness.wait_acknowledged(50, 60.0)
        assert group.old.stands_still
        await wire.heal()
        await group.old.broker.process.wait(60.0)
        await group.old.broker.start(BOOT_TIMEOUT_S)
        await group.whole()
        group.assert_one_writer()
        assert [event["kind"] for event in await group.old.events("LeaseLapsed")] == ["LeaseLapsed"]


async def test_a_master_that_stands_still_is_ended_and_not_a_second_writer(tmp_path: Path) -> None:
    async with async_group(tmp_path) as (group, _):
        group.old.signal_java(signal.SIGSTOP)
        await group.elected()
        await group.old.broker.process.wait(60.0)
        await group.new.witness.wait_acknowledged(50, 60.0)
        await group.old.broker.start(BOOT_TIMEOUT_S)
        await group.whole()
        group.assert_one_writer()


async def test_neither_load_nor_an_end_of_all_controllers_stops_a_master(tmp_path: Path) -> None:
    async with async_group(tmp_path, LOAD_TIMEOUT_MS) as (group, wire):
        async with _troubles(group) as took_ms:
            await asyncio.sleep(LOAD_S)
        lapses = [await side.lapses() for side in group.sides]
        acks = len(group.old.witness.acknowledged())
        failovers = int(str((await group.whole())["master_epoch"])) - int(str(group.before["master_epoch"]))
        _log.info(f"failovers in {LOAD_S:.0f} s and {acks} writes: {failovers}")
        _log.info(f"leases that ran out: {sum(lapses)}")
        if took_ms:
            _log.info(f"full collections: {len(took_ms)}, the longest {max(took_ms):.0f} ms")
        assert (failovers, lapses) == (0, [0, 0])
        await controllers_that_have_ended_stop_no_master(group, wire)


@contextlib.asynccontextmanager
async def _troubles(group: AsyncGroup) -> AsyncIterator[list[float]]:
    """Collect the heaps of both brokers and starve the master, where that is asked for; yield the times."""
    took_ms: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        for side in group.sides if FULL_GC_S else ():
            collecting = forced_collections(partial(_java_pid, side), FULL_GC_S, took_ms)
            await stack.enter_async_context(collecting)
        if CPU_SHARE < 1:
            await stack.enter_async_context(starved(partial(_java_pid, group.old), CPU_SHARE))
        yield took_ms


def _java_pid(side: GuardedBroker) -> int:
    return side.java_pid


async def test_a_companion_that_is_short_of_cpu_costs_a_pause_and_one_that_died_costs_the_role(
    tmp_path: Path,
) -> None:
    async with async_group(tmp_path, LONG_TIMEOUT_MS) as (group, _):
        # Short of CPU until the broker stands still.
        group.old.companion.signal(signal.SIGSTOP)
        await group.old.wait_still(FAILOVER_WITHIN_S)
        await asyncio.sleep(PAST_THE_LEASE_S)
        group.old.companion.signal(signal.SIGCONT)
        await group.old.wait_running(FAILOVER_WITHIN_S)
        await group.old.witness.wait_acknowledged(50, 60.0)
        assert (await group.whole())["master_epoch"] == group.before["master_epoch"]
        assert await group.old.lapses() == 1
        # Dead, and back after the election.
        await group.old.companion.kill()
        await group.old.wait_still(FAILOVER_WITHIN_S)
        await group.elected()
        await group.new.witness.wait_acknowledged(50, 60.0)
        group.assert_one_writer()
        await group.old.companion.start()
        await group.old.broker.process.wait(60.0)
        assert group.old.broker.process.output().count(STOPPED_LINE) == 2


async def controllers_that_have_ended_stop_no_master(group: AsyncGroup, wire: FarSide) -> None:
    """Kill all controllers for longer than a lease: no other master can come, and this one writes on.

    At last their addresses are silent, as those of pods that Kubernetes replaces.
    """
    controllers = group.controllers
    for index in range(len(controllers)):
        await controllers.kill_node(index)
    ended_ns = time.time_ns()
    await asyncio.sleep(1.5 * LONG_TIMEOUT_MS / 1_000)
    await group.old.witness.wait_acknowledged(50, 60.0)
    assert await group.old.lapses() == 0
    gap_ms = longest_gap_ms([s.end_ns for s in group.old.witness.acknowledged() if s.end_ns > ended_ns])
    _log.info(f"longest pause of the writer without any controller: {gap_ms:.0f} ms")
    await wire.cut()
    await asyncio.sleep(SILENT_S)
    await wire.heal()
    for index in range(len(controllers)):
        await controllers.start_node(index)
    assert (await group.whole())["master_epoch"] == group.before["master_epoch"]
    assert await group.old.lapses() == 0


def longest_gap_ms(times_ns: Sequence[int]) -> float:
    """Return the longest time between two of these."""
    return max(after - before for before, after in itertools.pairwise(times_ns)) / 1e6
