"""A master that may have been replaced refuses writes; everything else goes on."""

from dataclasses import replace

import pytest

from ha_sidecar.decisions.fence import Fence, FenceAction, FenceInputs, FenceState

AFTER_MS, STOP_MS = 6_000, 8_500
WELL = FenceInputs(majority_ms=0, peers_ms=0, is_master=True, named=True)


def fence() -> Fence:
    return Fence(AFTER_MS, STOP_MS)


def closed() -> Fence:
    """Return a fence that closed because no controller or member answered."""
    made = fence()
    assert made.tick(WELL, AFTER_MS) is FenceAction.CLOSE
    made.confirmed(FenceAction.CLOSE)
    assert made.state is FenceState.CLOSED
    return made


def test_a_master_that_is_heard_takes_writes() -> None:
    made = fence()
    for now_ms in range(0, 60_000, 250):
        assert made.tick(replace(WELL, majority_ms=now_ms - 500), now_ms) is None
    assert made.state is FenceState.OPEN


def test_a_master_that_hears_nobody_is_closed_after_the_time_and_not_before() -> None:
    made = fence()
    assert made.tick(WELL, AFTER_MS - 1) is None
    assert made.tick(WELL, AFTER_MS) is FenceAction.CLOSE
    assert made.reason == "no controller or member answered for 6000 ms"


def test_the_order_is_repeated_until_the_broker_took_it() -> None:
    made = fence()
    assert [made.tick(WELL, AFTER_MS + late_ms) for late_ms in (0, 250, 500)] == [FenceAction.CLOSE] * 3
    made.confirmed(FenceAction.CLOSE)
    assert made.tick(WELL, AFTER_MS + 750) is None


def test_a_broker_that_cannot_be_told_is_stopped_once() -> None:
    made = fence()
    assert made.tick(WELL, AFTER_MS) is FenceAction.CLOSE
    assert made.tick(WELL, STOP_MS) is FenceAction.STOP
    assert made.tick(WELL, STOP_MS + 250) is None
    assert made.state is FenceState.STOPPED


def test_a_broker_that_took_the_order_is_never_stopped() -> None:
    made = closed()
    assert made.tick(WELL, 10 * STOP_MS) is None
    assert made.state is FenceState.CLOSED


def test_controllers_that_are_all_down_stop_no_group_whose_members_deny_to_be_master() -> None:
    made = fence()
    for now_ms in range(0, 60_000, 250):
        assert made.tick(replace(WELL, peers_ms=now_ms - 500), now_ms) is None


def test_another_master_is_reason_enough_even_while_all_are_heard() -> None:
    made = fence()
    assert made.tick(replace(WELL, named=False), 10) is FenceAction.CLOSE
    assert made.reason == "another is master"


def test_the_first_look_after_a_freeze_closes() -> None:
    made = fence()
    made.tick(WELL, 100)
    assert made.tick(replace(WELL, majority_ms=100, peers_ms=100), 40_000) in (
        FenceAction.CLOSE,
        FenceAction.STOP,
    )
    assert made.state is not FenceState.OPEN


def test_a_broker_that_does_not_answer_counts_as_a_master() -> None:
    made = fence()
    assert made.tick(replace(WELL, is_master=None), AFTER_MS) is FenceAction.CLOSE


def test_a_slave_that_hears_nobody_is_left_alone() -> None:
    made = fence()
    assert made.tick(replace(WELL, is_master=False, named=False), 10 * AFTER_MS) is None


def test_a_master_that_is_heard_again_and_still_named_gets_its_writes_back() -> None:
    made = closed()
    assert made.tick(replace(WELL, majority_ms=20_000), 20_100) is FenceAction.OPEN
    made.confirmed(FenceAction.OPEN)
    assert (made.state, made.reason) == (FenceState.OPEN, "")


def test_a_master_that_is_heard_again_and_was_replaced_stays_closed_until_it_is_a_slave() -> None:
    made = closed()
    replaced = replace(WELL, majority_ms=20_000, named=False)
    assert made.tick(replaced, 20_100) is None
    assert made.state is FenceState.CLOSED
    assert made.tick(replace(replaced, is_master=False), 20_350) is FenceAction.OPEN


def test_peers_alone_do_not_open_what_was_closed() -> None:
    made = closed()
    assert made.tick(replace(WELL, peers_ms=20_000), 20_100) is None
    assert made.state is FenceState.CLOSED


def test_a_doubt_while_opening_closes_again() -> None:
    made = closed()
    assert made.tick(replace(WELL, majority_ms=20_000), 20_100) is FenceAction.OPEN
    assert made.tick(replace(WELL, majority_ms=20_000), 20_000 + AFTER_MS) is FenceAction.CLOSE


def test_an_answer_to_an_older_order_changes_nothing() -> None:
    made = closed()
    made.tick(replace(WELL, majority_ms=20_000), 20_100)
    made.confirmed(FenceAction.CLOSE)
    assert made.state is FenceState.OPENING


def test_a_companion_that_finds_its_broker_closed_gives_it_back_only_when_it_may() -> None:
    made = Fence(AFTER_MS, STOP_MS, closed=True)
    assert made.tick(replace(WELL, named=None), 100) is None
    assert made.tick(WELL, 100) is FenceAction.OPEN


def test_a_stopped_broker_that_comes_back_as_a_slave_may_take_writes_when_it_is_elected() -> None:
    made = fence()
    made.tick(WELL, AFTER_MS)
    made.tick(WELL, STOP_MS)
    back = FenceInputs(majority_ms=30_000, peers_ms=0, is_master=False, named=False)
    assert made.tick(back, 30_100) is FenceAction.OPEN


@pytest.mark.parametrize("is_master", [True, None])
def test_controllers_that_name_nobody_yet_are_no_reason_to_close(is_master: bool | None) -> None:
    made = fence()
    assert made.tick(replace(WELL, is_master=is_master, named=None, majority_ms=9_900), 10_000) is None
