"""A master without joined slaves died like its predecessor.

A seed copies from a member with all acknowledged messages, or waits.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller_core.groups.keys import GroupKey, ReplicaKey
from ha_sidecar.address import host_port
from ha_sidecar.seed.config import SeedConfig
from ha_sidecar.seed.source import find_outlook, find_source
from testkit.fakes.answering_broker import AnsweringBroker
from testkit.products.collector_in_process import until

KEY = GroupKey("c1", "b1")
FIRST, SECOND = "127.0.0.1:7001", "127.0.0.1:7002"
EPOCH = 9
"""Above what a notice under way may tell a fake broker."""


class Lost:
    """A group of two brokers and two log replicas whose brokers died one after the other.

    The second died before any member joined it.
    """

    def __init__(self, group: Any, directory: Path) -> None:
        self._group = group
        self._directory = directory
        self.replicas: list[AnsweringBroker] = []

    async def make(self) -> None:
        """Let it come to that."""
        first, second = await self._group.add(), await self._group.add()
        for ha_address in (FIRST, SECOND):
            replica = await self._group.add(is_log_replica=True)
            replica.ha_address = ha_address
            self.replicas.append(replica)
        await first.die()
        await self.replicas[0].wait_notice(2)
        self._address = second.address
        await second.die()
        await until(lambda: self._group.node.group().master_id is None)
        for replica in self.replicas:
            replica.epoch, replica.max_offset = EPOCH, 900

    def config(self, min_in_sync: int = 2) -> SeedConfig:
        """Return the settings of the second broker's seed."""
        return SeedConfig(
            cluster="c1",
            group="b1",
            store=self._directory,
            controllers=(host_port(self._group.node.remoting),),
            advertise=self._address,
            reclaim=True,
            min_in_sync=min_in_sync,
        )

    async def source(self, min_in_sync: int = 2) -> str | None:
        """Return from whom that seed would copy, host:port."""
        found = await asyncio.to_thread(find_source, self.config(min_in_sync))
        return None if found is None else "{}:{}".format(*found.address)


@pytest.fixture
async def lost(answering_group: Any, tmp_path: Path) -> Lost:
    made = Lost(answering_group, tmp_path)
    await made.make()
    return made


async def test_the_one_elected_last_takes_its_id_back_and_copies_from_a_member_of_the_set_before_it(
    lost: Lost,
) -> None:
    outlook = await asyncio.to_thread(find_outlook, lost.config())
    assert outlook is not None
    assert outlook.former_id == 2
    assert await lost.source() in (FIRST, SECOND)


@pytest.mark.parametrize(
    ("epoch", "max_offset"),
    [(EPOCH, 901), (EPOCH + 1, 800)],
    ids=["longer", "of a later epoch, whose master cut the other's end"],
)
async def test_the_log_that_goes_furthest_is_copied(lost: Lost, epoch: int, max_offset: int) -> None:
    lost.replicas[1].epoch, lost.replicas[1].max_offset = epoch, max_offset
    assert await lost.source() == SECOND
    lost.replicas[0].epoch, lost.replicas[0].max_offset = epoch, max_offset + 1
    assert await lost.source() == FIRST


async def test_nobody_is_copied_from_where_a_master_alone_may_have_acknowledged(lost: Lost) -> None:
    assert await lost.source(min_in_sync=1) is None


async def test_nobody_is_copied_from_while_the_log_that_goes_furthest_is_not_served(
    lost: Lost, answering_group: Any
) -> None:
    slave = await answering_group.add(in_sync=False)
    slave.epoch, slave.max_offset = EPOCH, 900
    table = answering_group.node.heartbeats.table
    await until(lambda: table.is_alive(ReplicaKey(*KEY, slave.broker_id)))
    assert await lost.source() in (FIRST, SECOND), "its log is not longer than theirs"
    slave.epoch = EPOCH + 1
    assert await lost.source() is None, "it joined the second, and may have acknowledged something with it"


async def test_nobody_is_copied_from_while_one_that_lives_does_not_tell_how_far_its_log_goes(
    lost: Lost,
) -> None:
    lost.replicas[1].tells_its_epochs = False
    assert await lost.source() is None


async def test_nobody_is_copied_from_where_none_of_the_set_before_lives(
    lost: Lost, answering_group: Any
) -> None:
    late = await answering_group.add(is_log_replica=True, in_sync=False)
    late.ha_address, late.epoch, late.max_offset = "127.0.0.1:7003", EPOCH, 900
    for replica in lost.replicas:
        await replica.die()
    table = answering_group.node.heartbeats.table
    await until(lambda: not any(table.is_alive(ReplicaKey(*KEY, member)) for member in (3, 4)))
    assert await lost.source() is None
