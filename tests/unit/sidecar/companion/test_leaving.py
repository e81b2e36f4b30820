"""How a broker ends when its pod stops: at once where nothing is lost by it, else in good order."""

import asyncio
from typing import Any

import pytest

from controller_core.remoting.bodies import HAConnectionRuntimeInfo
from ha_sidecar.companion import leaving
from ha_sidecar.companion.leaving import EndMethod, leave
from testkit.fakes.answering_broker import AnsweringBroker
from testkit.processes.ports import free_port

COPIES = {"brokerRole": "SYNC_MASTER", "allAckInSyncStateSet": "true"}


async def master_of_copies(answering_group: Any) -> AnsweringBroker:
    """Return a master that acknowledges only what its one slave has."""
    master: AnsweringBroker = await answering_group.add()
    master.settings, master.min_in_sync_replicas = COPIES, 2
    master.slaves = (HAConnectionRuntimeInfo(addr="/10.0.0.2:4000", in_sync=True),)
    return master


async def test_a_master_whose_messages_lie_on_a_successor_is_killed_as_it_is(answering_group: Any) -> None:
    master = await master_of_copies(answering_group)
    slave = await answering_group.add()
    decided = await leave(answering_group.config(master))
    assert (decided.how, decided.is_master) == (EndMethod.KILL, True)
    assert master.is_master, "its end makes the failover"
    assert not slave.is_master


@pytest.mark.parametrize("name", ["brokerRole", "allAckInSyncStateSet"])
async def test_a_master_that_acknowledges_less_hands_over_first(answering_group: Any, name: str) -> None:
    master = await master_of_copies(answering_group)
    slave = await answering_group.add()
    master.settings = {**COPIES, name: "other"}
    decided = await leave(answering_group.config(master))
    assert (decided.how, decided.is_master) == (EndMethod.KILL, False)
    assert slave.is_master


async def test_a_master_that_may_acknowledge_alone_hands_over_first(answering_group: Any) -> None:
    master = await master_of_copies(answering_group)
    slave = await answering_group.add()
    master.min_in_sync_replicas = 1
    assert (await leave(answering_group.config(master))).how is EndMethod.KILL
    assert slave.is_master


async def test_a_master_that_has_lost_sight_of_a_member_is_not_killed_as_it_is(answering_group: Any) -> None:
    master = await master_of_copies(answering_group)
    slave = await answering_group.add()
    master.slaves = (HAConnectionRuntimeInfo(addr="/10.0.0.2:4000", in_sync=False),)
    assert (await leave(answering_group.config(master, deadline_s=1))).how is EndMethod.STOP
    assert not slave.is_master, "it may lack what the master acknowledged"


async def test_a_master_that_only_a_log_replica_follows_stops_in_good_order(answering_group: Any) -> None:
    master = await master_of_copies(answering_group)
    await answering_group.add(is_log_replica=True)
    decided = await leave(answering_group.config(master, deadline_s=1))
    assert (decided.how, "successor" in decided.reason) == (EndMethod.STOP, True)


async def test_a_slave_is_killed_as_its_master_would_wait_for_one_that_stops_in_good_order(
    answering_group: Any,
) -> None:
    master = await master_of_copies(answering_group)
    slave = await answering_group.add()
    decided = await leave(answering_group.config(slave))
    assert (decided.how, decided.is_master) == (EndMethod.KILL, False)
    assert master.is_master


async def test_a_slave_of_a_group_without_a_master_stops_in_good_order(answering_group: Any) -> None:
    master = await master_of_copies(answering_group)
    slave = await answering_group.add(in_sync=False)
    assert (await leave(answering_group.config(slave))).how is EndMethod.KILL
    await master.die()
    async with asyncio.timeout(5):
        while (decided := await leave(answering_group.config(slave))).how is EndMethod.KILL:
            continue  # the controller has not seen the end of its connection
    assert "lacks a master" in decided.reason


async def test_a_broker_that_says_nothing_stops_in_good_order(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LOOK_TIMEOUT_S", 0.3)
    master = await master_of_copies(answering_group)
    decided = await leave(answering_group.config(master, broker=("127.0.0.1", free_port())))
    assert decided.how is EndMethod.STOP


async def test_a_broker_that_refuses_stops_and_its_words_are_the_reason(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LOOK_TIMEOUT_S", 0.3)
    master = await master_of_copies(answering_group)
    master.access_refusal = "username cannot be null"
    decided = await leave(answering_group.config(master))
    assert (decided.how, decided.is_master) == (EndMethod.STOP, False)
    assert "was answered 16: username cannot be null" in decided.reason
