"""A master that stands still: the controllers elect another before it is killed, and the question ends in time whatever they do."""

import asyncio
import time
from typing import Any

import pytest

from ha_sidecar.roles import replacing
from ha_sidecar.roles.companion_facts import BrokerFacts
from ha_sidecar.roles.config import host_port
from ha_sidecar.roles.replacing import goodbye, replaced
from testkit.answering_broker import AnsweringBroker
from testkit.ports import free_port


def last_words(of: AnsweringBroker) -> Any:
    """Return the goodbye of a fake broker."""
    facts = BrokerFacts(of.broker_id, of.address, True, of.epoch, of.max_offset, None, None, ())
    return goodbye(of.cluster, of.group, facts)


async def yes() -> bool:
    """Answer."""
    return True


async def no() -> bool:
    """Answer."""
    return False


async def test_another_is_elected_while_all_connections_of_the_broker_are_open(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    controller = host_port(answering_group.node.remoting)
    await master.fall_silent()

    async def is_elected() -> bool:
        return bool(slave.is_master)

    assert await replaced((controller,), last_words(master), is_elected, yes)


async def test_a_controller_that_is_away_does_not_keep_the_others_from_electing(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    await master.fall_silent()

    async def is_elected() -> bool:
        return bool(slave.is_master)

    addresses = (("127.0.0.1", free_port()), host_port(answering_group.node.remoting))
    assert await replaced(addresses, last_words(master), is_elected, yes)


async def test_where_nobody_is_elected_the_broker_is_not_kept_waiting_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replacing, "ELECTED_WITHIN_S", 0.05)
    heartbeat = goodbye("c1", "b1", BrokerFacts(1, "127.0.0.1:1", True, 1, 0, None, None, ()))
    started_s = time.monotonic()
    assert not await replaced((("127.0.0.1", free_port()),), heartbeat, no, yes)
    assert time.monotonic() - started_s < replacing.SETTLED_WITHIN_S


async def test_a_successor_that_does_not_serve_in_time_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replacing, "SETTLED_WITHIN_S", 0.05)
    heartbeat = goodbye("c1", "b1", BrokerFacts(1, "127.0.0.1:1", True, 1, 0, None, None, ()))
    assert not await replaced((("127.0.0.1", free_port()),), heartbeat, yes, no)


async def test_a_question_that_is_never_answered_does_not_hold_the_next_one_up() -> None:
    asked = 0

    async def is_settled() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return True

    heartbeat = goodbye("c1", "b1", BrokerFacts(1, "127.0.0.1:1", True, 1, 0, None, None, ()))
    assert await replaced((("127.0.0.1", free_port()),), heartbeat, yes, is_settled)
    assert asked == 2
