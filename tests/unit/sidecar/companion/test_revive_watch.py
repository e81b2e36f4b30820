"""Checkpoints that a broker refused to revive are sent to the revive log of the current master, once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ha_sidecar.common.events import EventLog
from ha_sidecar.companion import revive_watch
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.debt_store import DEBT_FILE, debt_store
from ha_sidecar.companion.revive_watch import ReviveWatch
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts
from testkit.fakes.revive_broker import ReviveBroker

PATIENCE_S = 60.0
"""Settlings of these tests do not reach it: each ends when nothing is owed, or at a limit of its own."""
MASTER = BrokerFacts(1, "", True, 1, 0, 0, ())


def checkpoint(first: int, **more: Any) -> tuple[str, dict[str, Any]]:
    return "ck", {"t": "T", "c": "G", "q": 0, "so": first, "pt": 1, "n": 1, "bm": 0, "bn": "g", **more}


def acknowledgement(first: int) -> tuple[str, dict[str, Any]]:
    return "ack", {"t": "T", "c": "G", "q": 0, "so": first, "pt": 1, "ao": first, "bn": "g"}


class WatchedReviveQueue:
    """A broker with ten checkpoints in revive queue 1, three of them revived; another broker; the watch."""

    def __init__(self, broker: ReviveBroker, other: ReviveBroker, directory: Path) -> None:
        self.broker, self.other = broker, other
        for each in (broker, other):
            each.log[1] = [checkpoint(first) for first in range(10)]
        broker.committed = {1: 2}
        self.facts: BrokerFacts | None = MASTER
        self.master = broker
        self.events = EventLog("c", "g")
        self.directory = directory
        self.watch = self.started()
        self.debt_file = directory / DEBT_FILE

    def started(self) -> ReviveWatch:
        """Return the watch of a companion process that has just started."""
        config = CompanionConfig(
            cluster="c",
            group="g",
            broker=self.broker.address,
            controllers=(("h", 1),),
            state=self.directory,
        )
        return ReviveWatch(
            config, self.broker.page, self.events, lambda: self.facts, self._group, debt_store(config)
        )

    def restart(self) -> None:
        """End the companion's process and start the next."""
        self.watch.close()
        self.watch = self.started()

    async def owe(self, through: int) -> None:
        """Have the watch note a debt that the broker does not take yet."""
        await self.refuse(through)
        self.broker.takes_max = len(self.broker.sent)
        await self.watch.look()
        await self.watch.look()
        assert self.watch.is_owed

    def _group(self) -> GroupFacts:
        host, port = self.master.address
        return GroupFacts(1, f"{host}:{port}", 1, (1, 2), ())

    async def refuse(self, through: int) -> None:
        """Look, then have the broker move on to an offset with all its puts refused."""
        await self.watch.settle()
        self.broker.refused["T", "G"] = self.broker.refused.get(("T", "G"), 0) + 1
        self.broker.committed[1] = through


def firsts(broker: ReviveBroker) -> list[int]:
    """Return the first offsets of the checkpoints that a broker was sent, in order."""
    return [value["so"] for _, value, _ in broker.sent]


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[WatchedReviveQueue]:
    monkeypatch.setattr(revive_watch, "SETTLE_LOOK_S", 0.001)
    monkeypatch.setattr(revive_watch, "SETTLE_WITHIN_S", PATIENCE_S)
    async with contextlib.AsyncExitStack() as running:
        brokers = ReviveBroker(), ReviveBroker()
        for broker in brokers:
            running.push_async_callback(broker.stop)
            await broker.start()
        made = WatchedReviveQueue(*brokers, tmp_path / "state")
        running.callback(lambda: made.watch.close())
        yield made


async def test_checkpoints_after_the_last_safe_offset_are_sent_without_the_acknowledged_ones(
    watched: WatchedReviveQueue,
) -> None:
    watched.broker.log[1] += [acknowledgement(4), acknowledgement(6)]
    watched.broker.log[1][7] = checkpoint(7, c="another")
    await watched.refuse(through=8)
    await watched.watch.settle()
    assert firsts(watched.broker) == [3, 5, 8]
    assert {queue for queue, _, _ in watched.broker.sent} == {1}
    assert all(
        "TAGS\x01ck\x02" in text and "TIMER_DELIVER_MS\x0177\x02" in text
        for _, _, text in watched.broker.sent
    )
    (event,) = watched.events.after(0)
    assert (event["kind"], event["attrs"]) == ("PopRevived", {"checkpoints": "3", "refused": "1"})
    assert (watched.watch.put_back, watched.watch.refused, watched.watch.is_owed) == (3, 1, False)


async def test_nothing_is_sent_while_the_broker_refuses_nothing(watched: WatchedReviveQueue) -> None:
    await watched.watch.settle()
    watched.broker.committed[1] = 9
    await watched.watch.settle()
    assert watched.broker.sent == []


async def test_the_counters_of_a_broker_that_never_revived_a_message_are_not_read(
    watched: WatchedReviveQueue, caplog: pytest.LogCaptureFixture
) -> None:
    watched.broker.committed.clear()
    await watched.broker.stop_page()
    await watched.watch.look()
    assert caplog.text == ""


async def test_the_first_message_that_a_broker_should_revive_and_refuses_is_owed(
    watched: WatchedReviveQueue,
) -> None:
    watched.broker.committed.clear()
    await watched.refuse(through=1)
    await watched.watch.settle()
    assert firsts(watched.broker) == [0, 1]


async def test_a_master_that_refuses_again_gets_the_rest_later_and_nothing_twice(
    watched: WatchedReviveQueue,
) -> None:
    await watched.refuse(through=8)
    watched.broker.takes_max = 2
    settling = asyncio.ensure_future(watched.watch.settle())
    await watched.broker.refused_send.wait()
    assert (firsts(watched.broker), watched.watch.is_owed) == ([3, 4], True)
    watched.broker.takes_max = None
    await settling
    assert (firsts(watched.broker), watched.watch.is_owed) == ([3, 4, 5, 6, 7, 8], False)


async def test_a_settling_that_gives_up_during_a_send_does_not_send_that_checkpoint_again(
    watched: WatchedReviveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watched.refuse(through=8)
    watched.broker.answers.clear()
    monkeypatch.setattr(revive_watch, "SETTLE_WITHIN_S", 0.05)
    await watched.watch.settle()
    assert watched.watch.is_owed
    watched.broker.answers.set()
    monkeypatch.setattr(revive_watch, "SETTLE_WITHIN_S", PATIENCE_S)
    await watched.watch.settle()
    assert (firsts(watched.broker), watched.watch.is_owed) == ([3, 4, 5, 6, 7, 8], False)


async def test_what_a_master_refused_before_it_stepped_down_is_sent_to_its_successor(
    watched: WatchedReviveQueue,
) -> None:
    await watched.refuse(through=5)
    watched.facts, watched.master = replace(MASTER, is_master=False), watched.other
    await watched.watch.settle()
    assert (firsts(watched.broker), firsts(watched.other)) == ([], [3, 4, 5])
    watched.broker.refused["T", "G"] += 1
    await watched.watch.settle()
    assert len(watched.other.sent) == 3, "a slave is not watched"


async def test_messages_that_the_log_does_not_hold_any_more_are_passed_over(
    watched: WatchedReviveQueue,
) -> None:
    watched.broker.committed = {}
    await watched.refuse(through=6)
    watched.broker.least = 4
    await watched.watch.settle()
    assert firsts(watched.broker) == [4, 5, 6]


async def test_a_long_queue_is_put_back_in_parts(
    watched: WatchedReviveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive_watch, "CHECKPOINTS_MAX", 2)
    monkeypatch.setattr(revive_watch, "ACKS_AFTER_MAX", 1)
    await watched.refuse(through=9)
    await watched.watch.settle()
    assert firsts(watched.broker) == [3, 4, 5, 6, 7, 8, 9]


async def test_a_page_that_cannot_be_read_is_logged_once_and_sends_nothing(
    watched: WatchedReviveQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await watched.refuse(through=5)
    await watched.broker.stop_page()
    await watched.watch.settle()
    await watched.watch.settle()
    assert watched.broker.sent == []
    assert len([record for record in caplog.records if "cannot be checked" in record.message]) == 1


async def test_a_restarted_companion_puts_back_what_its_predecessor_owed(watched: WatchedReviveQueue) -> None:
    await watched.owe(through=6)
    watched.restart()
    watched.broker.takes_max = None
    await watched.watch.settle()
    assert (firsts(watched.broker), watched.watch.is_owed) == ([3, 4, 5, 6], False)
    assert not watched.debt_file.exists()
    watched.restart()
    await watched.watch.settle()
    assert len(watched.broker.sent) == 4, "settled once"


async def test_refusals_while_the_companion_restarts_are_owed_too(watched: WatchedReviveQueue) -> None:
    await watched.owe(through=5)
    watched.watch.close()
    watched.broker.committed[1] = 8
    watched.broker.refused["T", "G"] += 1
    watched.watch = watched.started()
    watched.broker.takes_max = None
    await watched.watch.settle()
    assert firsts(watched.broker) == [3, 4, 5, 6, 7, 8]
    assert watched.watch.refused == 2


async def test_a_restart_keeps_what_was_put_back_in_part(watched: WatchedReviveQueue) -> None:
    await watched.refuse(through=8)
    watched.broker.takes_max = 2
    await watched.watch.look()
    await watched.watch.look()
    watched.restart()
    watched.broker.takes_max = None
    await watched.watch.settle()
    assert firsts(watched.broker) == [3, 4, 5, 6, 7, 8]


async def test_a_broker_that_comes_back_as_a_slave_has_its_debt_settled_at_the_new_master(
    watched: WatchedReviveQueue,
) -> None:
    await watched.owe(through=5)
    watched.restart()
    watched.facts, watched.master = replace(MASTER, is_master=False), watched.other
    watched.broker.committed[1] = 9
    await watched.watch.settle()
    assert firsts(watched.other) == [3, 4, 5], (
        "its later offsets come from the new master, which revived them"
    )


async def test_a_damaged_file_costs_one_line_and_the_old_debt(
    watched: WatchedReviveQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await watched.owe(through=5)
    watched.debt_file.write_bytes(watched.debt_file.read_bytes()[:-9])
    watched.restart()
    watched.broker.takes_max = None
    await watched.watch.settle()
    assert watched.broker.sent == []
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert str(watched.debt_file) in line
    await watched.refuse(through=8)
    await watched.watch.settle()
    assert firsts(watched.broker) == [6, 7, 8], "refusals after the restart are owed as ever"


async def test_a_folder_that_cannot_be_written_costs_one_line_and_the_debt_stays_in_memory(
    watched: WatchedReviveQueue, caplog: pytest.LogCaptureFixture
) -> None:
    watched.directory.write_text("a file in its place")
    await watched.owe(through=5)
    watched.broker.takes_max = None
    await watched.watch.settle()
    assert firsts(watched.broker) == [3, 4, 5]
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.partition(":")[0] for line in lines] == [
        "POP checkpoints owed before the restart are unknown",
        "owed POP checkpoints are kept in memory only",
    ]


async def test_a_second_process_waits_until_the_first_one_ends(watched: WatchedReviveQueue) -> None:
    await watched.owe(through=5)
    second = watched.started()
    watched.broker.takes_max = None
    await second.look()
    assert watched.broker.sent == []
    watched.watch.close()
    await second.settle()
    second.close()
    assert firsts(watched.broker) == [3, 4, 5]
