"""The cases of the HA protocol that need a controller or notices of changed roles.

The number in a test's name is the case's in docs/reference/ha_conformance.md, which
states and explains the rule.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller_core.remoting.codes import ResponseCode
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.fakes.broker import FakeBroker
from testkit.ha.java_stores import QUICK_TIMES, JavaStores
from testkit.ha.peers import OurMaster
from testkit.products.one_controller import OneNode, one_node
from testkit.products.replica import LogReplicaProcess, log_prefix_equal
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

CLUSTER, GROUP = "c1", "b1"
FILE_BYTES = 1 << 16
BOOT_TIMEOUT_S = 150.0
WAIT_S = 60.0
SLOW_BYTES_PER_S = 100_000


async def wait_for(is_so: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while not is_so():  # noqa: ASYNC110  # the awaited events happen in threads and other processes
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise TimeoutError(what) from None


def replica_of(node: OneNode, directory: Path) -> LogReplicaProcess:
    settings = {"mapped-file-bytes": str(FILE_BYTES), "ack-after": "write"}
    return LogReplicaProcess(directory / "replica", CLUSTER, GROUP, [node.remoting], settings)


async def let_in(master: FakeBroker, *members: int, set_epoch: int) -> None:
    answer = await master.alter(members, set_epoch)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


@asynccontextmanager
async def group_of_two(
    directory: Path, first_port: int, second_port: int
) -> AsyncIterator[tuple[OneNode, FakeBroker, FakeBroker]]:
    """A controller, the master of epoch 1 and its slave, which speak to it only and name these HA ports."""
    async with (
        one_node(directory / "controller", {}) as node,
        FakeBroker([node.remoting], GROUP) as first,
        FakeBroker([node.remoting], GROUP) as second,
    ):
        await first.elect()
        first.ha_address, second.ha_address = f"127.0.0.1:{first_port}", f"127.0.0.1:{second_port}"
        await let_in(first, 1, 2, set_epoch=1)
        yield node, first, second


async def test_case_17_a_log_replica_that_hears_of_a_new_master_while_it_receives_ends_like_the_new_one(
    tmp_path: Path,
) -> None:
    await jars("5.5.0")
    slow = {
        **QUICK_TIMES,
        "haFlowControlEnable": "true",
        "maxHaTransferByteInSecond": str(SLOW_BYTES_PER_S),
    }
    stores = await asyncio.to_thread(JavaStores, "5.5.0", tmp_path / "stores")
    try:
        old = stores.open(tmp_path / "old", 1, FILE_BYTES, slow)
        new = stores.open(tmp_path / "new", 2, FILE_BYTES)
        old.become_master(1)
        common_offset = old.fill(10)
        new.become_slave(1, 2, old.port)
        new.wait(lambda status: status.max_offset == status.confirm_offset == common_offset)
        old_end_offset = old.fill(800, body_bytes=1500)
        async with group_of_two(tmp_path, old.port, new.port) as (node, first, _):
            replica = replica_of(node, tmp_path)
            await replica.start()
            try:
                log = replica.store / "commitlog"
                await wait_for(lambda: log.is_dir() and any(log.iterdir()), "the beginning of a transfer")
                assert new.become_master(2)
                await first.die()
                end_offset = new.fill(10)
                assert await replica.wait_max_offset(end_offset) == end_offset < old_end_offset
                assert log_prefix_equal(log, new.log_directory, end_offset)
                assert (replica.store / "epochFileCheckpoint").read_bytes() == new.epoch_file()
                kinds = [event["kind"] for event in await replica.events()]
                assert kinds.count("HandshakeDone") >= 2
                assert "Disconnected" in kinds
            finally:
                await replica.process.stop()
    finally:
        stores.__exit__()


async def test_case_17_and_case_11_a_java_broker_follows_a_notice_in_a_transfer_and_its_set_grows_and_shrinks(
    tmp_path: Path,
) -> None:
    jar_directory = await jars("5.5.0")
    name_server = NameServer(jar_directory, tmp_path / "ns")
    place = BrokerPlace(CLUSTER, GROUP, "broker", tmp_path / "broker")
    settings = {**QUICK_SETTINGS, "mappedFileSizeCommitLog": str(FILE_BYTES)}
    with OurMaster(
        tmp_path / "old", FILE_BYTES, config=MasterConfig(FILE_BYTES, flow_bytes_per_s_max=SLOW_BYTES_PER_S)
    ) as old:
        old.fill(50)
        shutil.copytree(tmp_path / "old", tmp_path / "new", ignore=shutil.ignore_patterns("lock"))
        common_offset = old.max_offset
        old_end_offset = old.fill(800, body_bytes=1500)
        with OurMaster(tmp_path / "new", FILE_BYTES, epoch=2) as new:
            end_offset = new.fill(50)
            async with group_of_two(tmp_path, old.port, new.port) as (node, first, second):
                broker = JavaBroker(
                    jar_directory, place, name_server.address, settings, controllers=[node.remoting]
                )
                replica = replica_of(node, tmp_path)
                try:
                    await asyncio.gather(name_server.start(), broker.start(BOOT_TIMEOUT_S))
                    await wait_for(
                        lambda: any(slave.ack_offset > common_offset for slave in old.server.slaves()),
                        "the beginning of a transfer",
                    )
                    await first.die()
                    await wait_for(
                        lambda: any(slave.ack_offset == end_offset for slave in new.server.slaves()),
                        "the end of the new master's log",
                    )
                    assert end_offset < old_end_offset
                    log = new.store.log.layout.directory
                    assert log_prefix_equal(log, broker.store / "commitlog", end_offset)
                    epochs = (broker.store / "epochFileCheckpoint").read_bytes()
                    assert epochs == (new.store.directory / "epochFileCheckpoint").read_bytes()

                    group = node.group()
                    second.epoch = group.master_epoch
                    await let_in(second, 2, 3, set_epoch=group.set_epoch)
                    await second.die()
                    await wait_for(lambda: node.group().master_id == 3, "the broker's election")
                    for _ in range(2):
                        await replica.start()
                        await wait_for(lambda: set(node.group().sync_state_set) == {3, 4}, "the set of two")
                        await replica.process.kill()
                        await wait_for(lambda: set(node.group().sync_state_set) == {3}, "the set of one")
                finally:
                    await replica.process.stop()
                    await broker.stop()
                    await name_server.stop()
