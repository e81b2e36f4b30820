"""A planned handover: its successor, its refusals, its waits, and its end within the deadline."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller_core.channel.asking import Asker, AskError
from ha_sidecar.address import host_port
from ha_sidecar.companion import handover
from ha_sidecar.companion.handover import Handover, HandoverError, HandoverResult
from ha_sidecar.decisions.broker_facts import BrokerFacts
from testkit.fakes.answering_broker import AnsweringBroker, FakeNameServer
from testkit.processes.ports import free_port

WAIT_S = 30.0


async def hand_over(answering_group: Any, of: AnsweringBroker, **values: object) -> HandoverResult:
    return await Handover(answering_group.config(of, **values)).run()


@pytest.fixture
async def name_server() -> AsyncIterator[tuple[FakeNameServer, tuple[str, int]]]:
    made = FakeNameServer()
    address = await made.start()
    yield made, address
    await made.stop()


async def test_the_slave_in_the_set_becomes_master(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    found = await hand_over(answering_group, master)
    assert (found.handed_over, found.old_master_id, found.new_master_id, found.epoch) == (True, 1, 2, 2)
    assert (slave.is_master, master.is_master) == (True, False)


async def test_a_slave_and_a_broker_that_is_gone_have_nothing_to_hand_over(answering_group: Any) -> None:
    await answering_group.add()
    slave = await answering_group.add()
    found = await hand_over(answering_group, slave)
    assert (found.handed_over, found.reason, found.new_master_id) == (False, "broker 2 is not master", 1)
    await slave.die()
    gone = await hand_over(answering_group, slave, broker=("127.0.0.1", free_port()))
    assert not gone.handed_over
    assert "does not answer" in gone.reason


async def test_a_log_replica_and_a_broker_outside_the_set_are_never_designated(answering_group: Any) -> None:
    master = await answering_group.add()
    replica = await answering_group.add(is_log_replica=True)
    outside = await answering_group.add(in_sync=False)
    with pytest.raises(HandoverError, match=r"successor in the SyncStateSet \[1, 2\]"):
        await hand_over(answering_group, master, deadline_s=1)
    assert master.is_master
    assert not replica.notices
    assert not outside.is_master


async def test_a_log_replica_is_passed_over_for_a_broker(answering_group: Any) -> None:
    master = await answering_group.add()
    await answering_group.add(is_log_replica=True)
    await answering_group.add()
    assert (await hand_over(answering_group, master)).new_master_id == 3


async def test_a_slave_that_is_behind_is_waited_for(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    master.max_offset, slave.max_offset = 1000, 999
    running = asyncio.ensure_future(hand_over(answering_group, master))
    done, _ = await asyncio.wait([running], timeout=0.2)
    assert not done
    assert master.is_master
    slave.max_offset = 1000
    assert (await running).handed_over


async def test_a_slave_that_stays_behind_ends_it_at_the_deadline(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    master.max_offset, slave.max_offset = 1000, 999
    with pytest.raises(HandoverError, match=r"2 s are over, waiting for broker 2 to reach 1000, it has 999"):
        await hand_over(answering_group, master, deadline_s=2)
    assert master.is_master


async def test_it_is_done_when_the_name_server_lists_the_new_master(
    answering_group: Any, name_server: tuple[FakeNameServer, tuple[str, int]]
) -> None:
    server, address = name_server
    master, slave = await answering_group.add(), await answering_group.add()
    server.masters["b1"] = master.address
    running = asyncio.ensure_future(hand_over(answering_group, master, name_servers=(address,)))
    await slave.wait_notice(2)
    async with asyncio.timeout(WAIT_S):
        while not server.asked:  # noqa: ASYNC110 - the server signals nothing
            await asyncio.sleep(0.01)
    done, _ = await asyncio.wait([running], timeout=0.2)
    assert not done
    server.masters["b1"] = slave.address
    assert (await running).handed_over


async def test_a_name_server_that_is_gone_holds_nothing_up(answering_group: Any) -> None:
    master, _ = await answering_group.add(), await answering_group.add()
    gone = host_port(f"127.0.0.1:{free_port()}")
    assert (await hand_over(answering_group, master, name_servers=(gone,))).handed_over


async def test_one_late_answer_is_no_death(answering_group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    master, _ = await answering_group.add(), await answering_group.add()
    real, asked = handover.ask_broker, []

    async def ask_broker(asker: Asker, known_address: str = "") -> BrokerFacts:
        asked.append(asker)
        if len(asked) == 1:
            raise AskError("late")
        return await real(asker, known_address)

    monkeypatch.setattr(handover, "ask_broker", ask_broker)
    assert (await hand_over(answering_group, master)).handed_over


async def test_controllers_that_are_gone_end_it_at_the_deadline(answering_group: Any) -> None:
    master, _ = await answering_group.add(), await answering_group.add()
    config = answering_group.config(master, controllers=(("127.0.0.1", free_port()),), deadline_s=1)
    with pytest.raises(HandoverError, match="waiting for the controllers"):
        await Handover(config).run()


async def test_a_broker_that_refuses_is_an_error_in_its_words_and_not_one_that_is_gone(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "LOOK_AGAIN_S", 0.0)
    master, slave = await answering_group.add(), await answering_group.add()
    master.access_refusal = "username cannot be null"
    with pytest.raises(HandoverError, match="was answered 16: username cannot be null"):
        await hand_over(answering_group, master)
    assert not slave.is_master


async def test_a_successor_that_refuses_is_told_in_its_words(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    slave.access_refusal = "username cannot be null"
    with pytest.raises(HandoverError, match=r"broker 2, which refuses: .* 16: username cannot be null"):
        await hand_over(answering_group, master, deadline_s=1)


async def test_a_switchover_that_the_controllers_refuse_is_told_in_the_brokers_words(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "ELECT_AGAIN_S", 0.01)
    master, slave = await answering_group.add(), await answering_group.add()
    master.takes_settings = False
    with pytest.raises(
        HandoverError, match=r"2012: Master 1 of b1 stays master.*UPDATE_BROKER_CONFIG was answered 3"
    ):
        await hand_over(answering_group, master, deadline_s=1)
    assert (master.is_master, slave.is_master) == (True, False)
