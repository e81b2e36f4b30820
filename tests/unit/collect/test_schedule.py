"""Slots of a fixed schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.shell.schedule import Schedule


def test_slots_do_not_drift_when_the_caller_is_late() -> None:
    schedule = Schedule(start_ns=1_000, interval_ns=100, late_max_ns=1_000)
    assert list(schedule.take(1_000).slots) == [0]
    assert list(schedule.take(1_130).slots) == [1]
    assert schedule.wait_ns(1_130) == 70


def test_nothing_is_due_before_the_start() -> None:
    schedule = Schedule(start_ns=1_000, interval_ns=100, late_max_ns=0)
    assert schedule.take(999).slots == range(0)
    assert schedule.wait_ns(999) == 1


def test_late_slots_are_handed_out_with_the_time_they_were_meant_for() -> None:
    schedule = Schedule(start_ns=0, interval_ns=50, late_max_ns=1_000)
    due = schedule.take(220)
    assert [schedule.due_ns(slot) for slot in due.slots] == [0, 50, 100, 150, 200]
    assert due.missed == 0


def test_slots_too_old_to_mean_anything_are_missed_and_not_bunched_up() -> None:
    schedule = Schedule(start_ns=0, interval_ns=50, late_max_ns=100)
    due = schedule.take(10_020)
    assert [schedule.due_ns(slot) for slot in due.slots] == [9_950, 10_000]
    assert due.missed == 199
    assert schedule.take(10_020).slots == range(0)


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Schedule(0, 0, 0)


@given(st.integers(1, 50), st.integers(0, 200), st.lists(st.integers(0, 300), min_size=1, max_size=30))
def test_every_slot_is_handed_out_once_or_missed(
    interval_ns: int, late_max_ns: int, steps: list[int]
) -> None:
    schedule, now_ns, taken, missed = Schedule(0, interval_ns, late_max_ns), 0, [], 0
    for step_ns in steps:
        now_ns += step_ns
        due = schedule.take(now_ns)
        taken += list(due.slots)
        missed += due.missed
        assert all(now_ns - late_max_ns <= schedule.due_ns(slot) <= now_ns for slot in due.slots)
    assert len(taken) + missed == now_ns // interval_ns + 1
    assert taken == sorted(set(taken))
