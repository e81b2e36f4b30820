"""A write guard that its leader could not end: who lifts it, when, and what is left as it is."""

import asyncio
import time

import pytest

from controller_core.broker_settings import FENCED_MS
from controller_core.groups import commands
from controller_core.groups.commands import RaiseWriteGuard, Stamp
from controller_core.remoting.codes import RequestCode
from controller_core.server.write_guards import write_guard
from testkit.fakes.guarded_master import Master, lifted, master_of
from testkit.products.one_controller import OneNode

GUARDED = write_guard.OUT_OF_REACH


async def _set_back_once(one: OneNode, old: Master) -> None:
    """Let a new leader set back what an earlier one had stopped; the note is not struck off yet."""
    await old.elect()
    await _leave_a_guard(one, old, epoch=1)
    old.store.setting = GUARDED
    one.controller.leadership_changed(True, 2)
    async with asyncio.timeout(10):
        while old.store.setting == GUARDED:  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.001)


async def test_a_request_to_stop_that_comes_after_the_setting_is_back_stops_nothing_for_long(
    one: OneNode,
) -> None:
    async with master_of(one) as old:
        await _set_back_once(one, old)
        old.store.setting = GUARDED
        await lifted(one)
        assert old.store.setting == 2


async def test_a_later_change_of_master_does_not_shorten_the_time_for_late_requests(one: OneNode) -> None:
    async with master_of(one) as old:
        await _set_back_once(one, old)
        looked = old.store.asked.count("setting?")
        one.controller._submitter.guards.lift_all()
        async with asyncio.timeout(10):
            while old.store.asked.count("setting?") == looked:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.001)
        old.store.setting = GUARDED
        await lifted(one)
        assert old.store.setting == 2


async def test_a_refused_undo_is_told_once_and_tried_until_the_broker_takes_it(
    one: OneNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_guard, "LIFT_PAUSE_S", 0.001)
    monkeypatch.setattr(write_guard, "LIFT_PAUSE_S_MAX", 0.001)
    async with master_of(one) as old:
        await old.elect()
        await _leave_a_guard(one, old, epoch=1)
        old.store.refuses = {RequestCode.UPDATE_BROKER_CONFIG}
        one.controller.leadership_changed(True, 2)
        async with asyncio.timeout(60):
            while old.store.refused < 2 * write_guard.LIFT_TRIES_OF_DEAD_MAX:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.001)
        old.store.refuses.clear()
        await lifted(one)
        assert old.store.setting == 2
        told = [record for record in caplog.records if "its writes stay stopped" in record.getMessage()]
        assert len(told) == 1
        assert "was answered 16: not you" in told[0].getMessage()


async def test_a_setting_that_somebody_else_changed_under_a_guard_stays_and_sends_are_taken(
    one: OneNode,
) -> None:
    async with master_of(one) as old:
        await old.elect()
        await _leave_a_guard(one, old, epoch=1)
        old.store.setting, old.store.sends_from_ms = 3, time.time_ns() // 1_000_000 + 60_000
        one.controller.leadership_changed(True, 2)
        await lifted(one)
        assert (old.store.setting, old.store.sends_from_ms) == (3, 0)


async def test_the_fence_of_a_companion_outlives_a_guard_below_it(one: OneNode) -> None:
    fence = 10_000
    async with master_of(one) as old:
        await old.elect()
        await _leave_a_guard(one, old, epoch=1)
        old.store.setting, old.store.sends_from_ms = fence + GUARDED, FENCED_MS
        one.controller.leadership_changed(True, 2)
        await lifted(one)
        assert (old.store.setting, old.store.sends_from_ms) == (fence + 2, FENCED_MS)


async def test_a_guard_left_behind_is_lifted_when_its_broker_is_heard_of_again(one: OneNode) -> None:
    old = master_of(one)
    await old.start()
    await old.elect()
    await old.die()
    await _leave_a_guard(one, old, epoch=1)
    await old.start()
    await old.elect()
    await lifted(one)
    assert old.store.setting == 2
    await old.die()


async def test_a_new_leader_lifts_the_guards_that_the_leader_before_left(one: OneNode) -> None:
    async with master_of(one) as old:
        await old.elect()
        await _leave_a_guard(one, old, epoch=1)
        one.controller.leadership_changed(True, 2)
        await lifted(one)
        assert old.store.setting == 2


async def _leave_a_guard(one: OneNode, broker: Master, epoch: int) -> None:
    """Note a guard and set the broker, as a leader does that is gone before the end."""
    broker.store.setting = GUARDED
    note = RaiseWriteGuard(
        cluster="c1",
        broker_name="b1",
        stamp=Stamp(1, 1, "gone"),
        master_id=broker.broker_id,
        master_epoch=epoch,
        min_in_sync_replicas=2,
    )
    await one.node.propose(commands.encode(note))
