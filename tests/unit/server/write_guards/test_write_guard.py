"""A living master is replaced only after it stopped accepting writes and its slaves have its whole log."""

import asyncio
import time

import pytest

from controller_core.channel.errors import ConnectError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.common import broker_questions
from controller_core.server.write_guards import guard_spacing, write_guard
from testkit.fakes.guarded_master import lifted, master_of, switch_over
from testkit.products.one_controller import OneNode

GUARDED = write_guard.OUT_OF_REACH


async def test_writes_are_stopped_and_drained_before_another_is_master_and_allowed_afterwards(
    one: OneNode,
) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.asked.clear()
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        await lifted(one)
        asked = old.store.asked
        assert asked[:4] == ["setting?", f"set {GUARDED}", "slaves?", "slaves?"]
        assert asked.index("told") < asked.index("set 2") == len(asked) - 2
        assert asked[-1] == "setting?"
        assert old.store.sends_from_ms == 0
        assert one.group().master_id == 2
        kinds = [str(event.kind) for event in one.machine.state.history.events]
        order = ["WritesStopped", "MasterElected", "WritesAllowed"]
        positions = [len(kinds) - 1 - kinds[::-1].index(kind) for kind in order]
        assert positions == sorted(positions)


async def test_a_master_takes_no_send_from_its_guard_until_it_gets_its_setting_back(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_guard, "DRAINED_WITHIN_S", 60.0)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        assert old.store.sends_from_ms > time.time_ns() // 1_000_000
        old.store.slave_acks = [100]
        await switching
        await lifted(one)
        assert old.store.sends_from_ms == 0


async def test_a_connection_of_a_time_when_another_answered_at_the_address_is_not_used(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        await old.wait_notice(1)
        old.store.lent_to = {id(connection) for connection in old.accepted}
        assert old.store.lent_to
        old.store.asked.clear()
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert old.store.asked[:3] == ["setting?", "setting?", f"set {GUARDED}"]


async def test_nobody_is_elected_while_a_slave_lacks_part_of_the_log(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_guard, "DRAINED_WITHIN_S", 60.0)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        assert not switching.done()
        assert one.group().master_id == 1
        old.store.slave_acks = [100]
        assert (await switching).code == ResponseCode.SUCCESS
        assert one.group().master_id == 2


async def test_a_switchover_whose_slaves_do_not_catch_up_is_refused_and_the_master_writes_on(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_guard, "DRAINED_WITHIN_S", 0.05)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "Master 1 of b1 stays master" in (answer.remark or "")
        await lifted(one)
        assert (one.group().master_id, one.group().master_epoch) == (1, 1)
        assert old.store.setting == 2


async def test_writes_that_wait_for_no_copy_do_not_hinder_a_switchover(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_guard, "APPENDED_WITHIN_S", 0.05)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.grows, old.store.slave_lag = True, 1
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert one.group().master_id == 2


async def test_a_log_that_grows_is_copied_up_to_its_end_of_after_the_guard(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_guard, "APPENDED_WITHIN_S", 0.05)
    monkeypatch.setattr(write_guard, "DRAINED_WITHIN_S", 0.3)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        # What the slave lacks was written before the guard, and may have been acknowledged.
        old.store.grows, old.store.slave_acks = True, [99]
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "its slaves lack part of its log" in (answer.remark or "")


async def test_a_switchover_that_failed_stops_no_writes_again_before_its_pause_is_over(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_guard, "DRAINED_WITHIN_S", 0.05)
    monkeypatch.setattr(guard_spacing, "PAUSE_S", 600.0)
    monkeypatch.setattr(guard_spacing, "PAUSE_S_MAX", 600.0)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        await switch_over(new, to=2)
        await lifted(one)
        old.store.asked.clear()
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "less than 600.0 s ago: its slaves lack part of its log" in (answer.remark or "")
        assert old.store.asked == []


async def test_a_setting_that_somebody_else_changed_meanwhile_refuses_the_switchover(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        old.store.setting, old.store.slave_acks = 1, [100]
        answer = await switching
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "changed during the guard" in (answer.remark or "")


@pytest.mark.parametrize(
    "code",
    [RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_HA_STATUS],
)
async def test_a_master_that_refuses_any_step_of_its_guard_keeps_its_role_and_its_words_are_told(
    one: OneNode, code: RequestCode
) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.refuses = {code}
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert f"{code.name} was answered 16: not you" in (answer.remark or "")
        assert one.group().master_id == 1
        old.store.refuses.clear()
        await lifted(one)
        assert old.store.setting == 2


async def test_a_master_that_tells_no_such_setting_keeps_its_role(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.setting_text = ""
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "its minInSyncReplicas is not a number" in (answer.remark or "")


async def test_a_master_whose_port_is_closed_is_replaced_without_a_guard(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        await old.stop_listening()
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert (one.group().master_id, one.group().write_guards) == (2, {})


async def test_a_master_that_beats_and_cannot_be_reached_keeps_its_role(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)

        async def unreachable(address: str, _request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
            raise ConnectError(f"{address} did not accept within 0.5 s")

        monkeypatch.setattr(one.controller._submitter.guards._settings, "_ask", unreachable)
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "its minInSyncReplicas cannot be read: 127.0.0.1" in (answer.remark or "")
        assert (one.group().master_id, one.group().write_guards) == (1, {})


async def test_a_master_that_listens_and_gives_no_answer_keeps_its_office(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_questions, "ASK_TIMEOUT_S", 0.05)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.mute = {RequestCode.GET_BROKER_CONFIG}
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert "Master 1 of b1 stays master" in (answer.remark or "")
        assert (one.group().master_id, one.group().write_guards) == (1, {})


async def test_a_connection_that_ends_while_a_master_is_asked_costs_no_guard(one: OneNode) -> None:
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.hangs_up = 1
        assert (await switch_over(new, to=2)).code == ResponseCode.SUCCESS
        assert f"set {GUARDED}" in old.store.asked
        assert old.store.hangs_up == 0


async def test_a_master_that_does_not_say_whether_it_stopped_keeps_its_office(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_questions, "ASK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(write_guard, "LIFT_PAUSE_S", 0.01)
    async with master_of(one) as old, one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.mute = {RequestCode.UPDATE_BROKER_CONFIG}
        answer = await switch_over(new, to=2)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert one.group().write_guards == {1: 2}
        old.store.mute.clear()
        await lifted(one)
        assert old.store.asked[-2:] == ["set 2", "setting?"]


async def test_the_death_of_a_master_is_not_held_up_by_a_guard(one: OneNode) -> None:
    old = master_of(one)
    await old.start()
    async with one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.asked.clear()
        await old.die()
        await new.wait_notice(2)
        assert old.store.asked == []
        assert one.group().master_id == 2


async def test_a_master_that_dies_while_it_is_guarded_is_followed_by_one_election_only(one: OneNode) -> None:
    old = master_of(one)
    await old.start()
    async with one.broker() as new:
        await old.elect()
        await old.alter((1, 2), set_epoch=1)
        old.store.slave_acks = [99]
        switching = asyncio.create_task(switch_over(new, to=2))
        await old.store.looked.wait()
        await old.die()
        await new.wait_notice(2)
        answer = await switching
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert (one.group().master_id, one.group().master_epoch) == (2, 2)
        assert one.group().write_guards == {1: 2}  # until it answers again
