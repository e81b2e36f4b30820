"""A real master whose companion fences it is never a second writer.

The master hears no controller, stands still or is cut off.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ha_sidecar.decisions.fenced_settings import CLOSED_BASE
from testkit.demo.story import is_whole, wait_whole
from testkit.demo.under_load import under_load
from testkit.processes.far_side import FarSide, far_side, lacking
from testkit.products.controllers import ControllerCluster
from testkit.products.fenced_brokers import FENCE_AFTER_S, FencedBroker, watched
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP, TOPIC = "c", "g", "T"
BOOT_TIMEOUT_S = 150.0
FAILOVER_WITHIN_S = 60.0
HAD = int(ZERO_LOSS_SETTINGS["minInSyncReplicas"])
CONTROLLERS_TIMEOUT_S = 10.0
"""controllerHeartBeatTimeoutMills of the broker."""
STOP_AFTER_S = 4.5
READ_ONLY, READ_AND_WRITE = 4, 6
FILE_BYTES = str(1 << 20)
SETTINGS = {**QUICK_SETTINGS, **ZERO_LOSS_SETTINGS, "mappedFileSizeCommitLog": FILE_BYTES}
OFTEN = {"poll-interval-ms": "300"}
SEQUENCES_APART = 1_000_000


class LoneMaster:
    """A broker that is master of its group alone, with a log replica that makes its promises good."""

    def __init__(self, jar_directory: Path, directory: Path, controllers: int) -> None:
        self._jars, self._directory = jar_directory, directory
        self.name_server = NameServer(jar_directory, directory / "ns")
        self.controllers = ControllerCluster(directory / "controllers", controllers)
        self.addresses = addresses = self.controllers.remoting_addresses
        place = BrokerPlace(CLUSTER, GROUP, "broker", directory / "broker")
        settings = {**SETTINGS, "controllerHeartBeatTimeoutMills": str(int(CONTROLLERS_TIMEOUT_S * 1000))}
        server = self.name_server.address
        self.broker = JavaBroker(jar_directory, place, server, settings, controllers=addresses)
        keys = {"mapped-file-bytes": FILE_BYTES}
        self.replica = LogReplicaProcess(directory / "replica", CLUSTER, GROUP, addresses, keys)

    async def start(self) -> None:
        """Start all; the replica is in the SyncStateSet."""
        await asyncio.gather(self.name_server.start(), self.controllers.start())
        await self.broker.start(BOOT_TIMEOUT_S)
        await self.replica.start()
        await self.replica.wait_in_sync()
        await self.name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)

    def silence(self) -> None:
        """Stop all answers to the broker.

        Connections stay open and silent, as behind a cut wire.
        """
        for index in range(len(self.controllers)):
            self.controllers.freeze_node(index)
        self.replica.process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let all answer again."""
        for index in range(len(self.controllers)):
            self.controllers.thaw_node(index)
        self.replica.process.signal(signal.SIGCONT)

    def load(self, name: str) -> LoadClient:
        """Describe a client that sends to the group."""
        settings = LoadSettings(threads=1, rate=50)
        return LoadClient(self._jars, self.name_server.address, TOPIC, self._directory / name, settings)


@contextlib.asynccontextmanager
async def lone_master(directory: Path, controllers: int) -> AsyncIterator[LoneMaster]:
    """Run a lone master's group."""
    group = LoneMaster(await jars("5.5.0"), directory, controllers)
    async with contextlib.AsyncExitStack() as running:
        for stop in (
            group.name_server.stop,
            group.controllers.stop,
            group.broker.stop,
            group.replica.process.stop,
        ):
            running.push_async_callback(stop)
        await group.start()
        yield group


async def test_a_master_that_hears_nobody_takes_no_writes_before_another_may_be_elected(
    tmp_path: Path,
) -> None:
    async with lone_master(tmp_path, 3) as group, contextlib.AsyncExitStack() as running:
        fenced = FencedBroker(group.broker, group.addresses, TOPIC, 0)
        running.push_async_callback(fenced.companion.stop)
        await fenced.companion.start()
        await fenced.wait_fence(0)
        async with group.load("before") as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await writes_go_on_though_it_is_read_only(fenced, producer)
            await producer.stop()
        await fenced.wait_setting(HAD)
        silent_since_s = time.monotonic()
        group.silence()
        await fenced.wait_fence(1, CONTROLLERS_TIMEOUT_S)
        # It says so from when it begins to tell the broker.
        await fenced.wait_setting(CLOSED_BASE + HAD)
        took_s = time.monotonic() - silent_since_s
        assert FENCE_AFTER_S - 2.0 < took_s < CONTROLLERS_TIMEOUT_S - 1.0
        group.go_on()
        await fenced.wait_fence(0)
        await fenced.wait_setting(HAD)
        await group.replica.wait_in_sync()
        async with group.load("after") as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await producer.stop()


async def writes_go_on_though_it_is_read_only(fenced: FencedBroker, producer: LoadClient) -> None:
    """Why a fence does not set brokerPermission: clients with a route go on writing."""
    await fenced.permit(READ_ONLY)
    read_only_ns = time.time_ns()
    await producer.wait_for_acknowledged(20, 60.0, after_ns=read_only_ns)
    await fenced.permit(READ_AND_WRITE)


async def test_a_frozen_master_that_cannot_be_told_is_stopped_and_serves_again_once_it_is_started(
    tmp_path: Path,
) -> None:
    async with lone_master(tmp_path, 1) as group, contextlib.AsyncExitStack() as running:
        broker = group.broker
        stopping = {
            "fence-stop-ms": str(int(STOP_AFTER_S * 1000)),
            "fence-stop-command": f"kill -9 {broker.process.pid}",
        }
        fenced = FencedBroker(broker, group.addresses, TOPIC, 0, **stopping)
        running.push_async_callback(fenced.companion.stop)
        await fenced.companion.start()
        await fenced.wait_fence(0)
        broker.process.signal(signal.SIGSTOP)
        silent_since_s = time.monotonic()
        group.silence()
        assert await broker.process.wait(60.0) == -signal.SIGKILL
        took_s = time.monotonic() - silent_since_s
        assert STOP_AFTER_S - 2.0 < took_s < CONTROLLERS_TIMEOUT_S, "in time, and not before"
        await fenced.companion.wait_for_text("fence STOPPED", 60.0)
        states = [change["attrs"]["state"] for change in await fenced.fence_changes()]
        assert states[-2:] == ["CLOSING", "STOPPED"]
        group.go_on()
        await broker.start(BOOT_TIMEOUT_S)
        await fenced.wait_fence(0)
        await fenced.wait_setting(HAD)
        await group.replica.wait_in_sync()
        async with group.load("after") as producer:
            await producer.wait_for_acknowledged(20, 60.0)
            await producer.stop()


def assert_one_writer(old: FencedBroker, new: FencedBroker, old_epoch: int, new_epoch: int) -> None:
    """Check that the new master promised nothing before the old one's last promise, in another epoch."""
    old_acks, new_acks = old.witness.acknowledged(), new.witness.acknowledged()
    assert max(send.end_ns for send in old_acks) < min(send.end_ns for send in new_acks)
    # A broker that is confirmed as master before it has written anything keeps the
    # epoch of its first election.
    assert max(old.witness.epochs_as_master()) <= old_epoch < new_epoch
    assert new.witness.epochs_as_master() == {new_epoch}
    assert not old.witness.roles()[-1].is_master


async def test_a_master_frozen_under_load_with_the_fence_on_is_never_a_second_writer(tmp_path: Path) -> None:
    settings = {"controllerHeartBeatTimeoutMills": "6000"}
    async with under_load(tmp_path, rate=200, settings=settings) as running:
        controllers = running.cluster.controllers
        before = await wait_whole(running.cluster)
        addresses = controllers.remoting_addresses
        sides = [
            FencedBroker(broker, addresses, TOPIC, SEQUENCES_APART * index, **OFTEN)
            for index, broker in enumerate(running.cluster.brokers)
        ]
        old, new = sorted(sides, key=lambda side: side.broker.address != before["master_address"])
        async with watched(sides):
            await old.witness.wait_acknowledged(50, 60.0)
            for process in (old.broker.process, old.companion):
                process.signal(signal.SIGSTOP)
            try:
                after = await controllers.wait_group(
                    before["cluster"],
                    before["name"],
                    lambda group: group["master_address"] == new.broker.address,
                    FAILOVER_WITHIN_S,
                )
                await new.witness.wait_acknowledged(50, 60.0)
            finally:
                for process in (old.broker.process, old.companion):
                    process.signal(signal.SIGCONT)
            thawed_ns = time.time_ns()
            await wait_whole(running.cluster)
            await new.witness.wait_acknowledged(50, 60.0)
            for side in sides:
                await side.wait_fence(0)
        for side in sides:
            running.progress.say(side.told())
        assert_one_writer(old, new, before["master_epoch"], after["master_epoch"])
        assert any(send.start_ns > thawed_ns for send in old.witness.sends())
        for side in sides:
            await side.wait_setting(HAD)
        result = await running.read_back()
        assert result.lost == frozenset()
        address, directory = running.cluster.name_server.address, tmp_path / "direct"
        acks = old.witness.acknowledged() + new.witness.acknowledged()
        result = await read_back(running.release, address, TOPIC, acks, directory)
        assert result.acknowledged >= 150
        assert result.lost == frozenset()


class TwoMachines:
    """A group whose first master lives on the far side of a wire, and all others on this one."""

    def __init__(self, jar_directory: Path, directory: Path, wire: FarSide) -> None:
        near = wire.near_host
        self.name_server = NameServer(jar_directory, directory / "ns", near)
        self.controllers = ControllerCluster(directory / "controllers", 3, host=near)
        addresses = self.controllers.remoting_addresses
        settings = {**SETTINGS, "controllerHeartBeatTimeoutMills": "6000"}

        def side(name: str, host: str, first_sequence: int) -> FencedBroker:
            place = BrokerPlace(CLUSTER, GROUP, name, directory / name)
            server = self.name_server.address
            broker = JavaBroker(jar_directory, place, server, settings, controllers=addresses, host=host)
            return FencedBroker(broker, addresses, TOPIC, first_sequence, **OFTEN)

        self.old = side("old", wire.far_host, 0)
        self.new = side("new", near, SEQUENCES_APART)
        for process in (self.old.broker.process, self.old.companion, self.old.witness.process):
            wire.take(process)
        replica = {"mapped-file-bytes": FILE_BYTES, "heartbeat-timeout-ms": "3000"}
        self.replica = LogReplicaProcess(directory / "replica", CLUSTER, GROUP, addresses, replica, host=near)

    async def start(self) -> None:
        """Start all; the broker on the far side is master."""
        await asyncio.gather(self.name_server.start(), self.controllers.start())
        await self.old.broker.start(BOOT_TIMEOUT_S)
        await self.name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        await asyncio.gather(self.replica.start(), self.new.broker.start(BOOT_TIMEOUT_S))

    async def stop(self) -> None:
        """End all."""
        await asyncio.gather(*(side.broker.stop() for side in (self.old, self.new)))
        await self.replica.process.stop()
        await asyncio.gather(self.controllers.stop(), self.name_server.stop())


@pytest.mark.skipif(bool(lacking()), reason=lacking())
async def test_a_fenced_master_that_is_cut_off_stops_before_another_is_elected_and_is_never_a_second_writer(
    tmp_path: Path,
) -> None:
    jar_directory = await jars()
    async with far_side() as wire:
        group = TwoMachines(jar_directory, tmp_path, wire)
        old, new, controllers = group.old, group.new, group.controllers
        try:
            await group.start()
            before = await controllers.wait_group(CLUSTER, GROUP, is_whole, BOOT_TIMEOUT_S)
            assert before["master_address"] == old.broker.address
            async with watched((old, new)):
                await old.witness.wait_acknowledged(50, 60.0)
                await wire.cut()
                cut_ns = time.time_ns()
                after = await controllers.wait_group(
                    CLUSTER,
                    GROUP,
                    lambda found: found["master_address"] == new.broker.address,
                    FAILOVER_WITHIN_S,
                )
                await new.witness.wait_acknowledged(50, 60.0)
                healed_ns = time.time_ns()
                await wire.heal()
                await controllers.wait_group(CLUSTER, GROUP, is_whole, BOOT_TIMEOUT_S)
                await new.witness.wait_acknowledged(50, 60.0)
                for side in (old, new):
                    await side.wait_fence(0)
                fence_changes = await old.fence_changes()
            assert_one_writer(old, new, before["master_epoch"], after["master_epoch"])
            closed_ns = next(change["ts_ns"] for change in fence_changes if change["ts_ns"] > cut_ns)
            first_role_ns = next(role.ts_ns for role in new.witness.roles() if role.is_master)
            assert closed_ns < first_role_ns < healed_ns, fence_changes
            # It lived all the time, got more writes, and refused them.
            assert any(cut_ns < send.start_ns < healed_ns for send in old.witness.sends())
            assert any(role.ts_ns > closed_ns and role.is_master for role in old.witness.roles())
            for side in (old, new):
                await side.wait_setting(HAD)
            acks = old.witness.acknowledged() + new.witness.acknowledged()
            result = await read_back(jar_directory, group.name_server.address, TOPIC, acks, tmp_path / "read")
            assert result.acknowledged >= 150
            assert result.lost == frozenset()
        finally:
            await group.stop()
