"""What a write guard sets of a broker, and what it leaves behind."""

import pytest

from controller_core.broker_settings import FENCED_MS
from controller_core.server.write_guards.write_guard import OUT_OF_REACH
from controller_core.server.write_guards.write_settings import SENDS_REFUSED_MS, WriteSettings

NOW_MS = 1_795_000_000_000


def test_a_guard_refuses_all_sends_for_a_time_that_ends_by_itself() -> None:
    stopped = WriteSettings(2).stopped(OUT_OF_REACH, NOW_MS)
    assert stopped == WriteSettings(OUT_OF_REACH, NOW_MS + SENDS_REFUSED_MS)


@pytest.mark.parametrize("later_ms", [NOW_MS + SENDS_REFUSED_MS + 1, FENCED_MS, FENCED_MS + NOW_MS])
def test_a_guard_does_not_shorten_the_time_that_somebody_else_has_set(later_ms: int) -> None:
    assert WriteSettings(2, later_ms).stopped(OUT_OF_REACH, NOW_MS).sends_from_ms == later_ms


@pytest.mark.parametrize("found_ms", [0, 1, NOW_MS, NOW_MS + SENDS_REFUSED_MS, NOW_MS * 2])
def test_after_a_guard_sends_are_taken_whatever_the_leader_s_clock_says(found_ms: int) -> None:
    assert WriteSettings(OUT_OF_REACH, found_ms).allowed(2) == WriteSettings(2, 0)


@pytest.mark.parametrize("fenced_ms", [FENCED_MS, FENCED_MS + NOW_MS + SENDS_REFUSED_MS])
def test_the_fence_of_a_companion_outlives_a_guard_and_the_guard_s_time_goes(fenced_ms: int) -> None:
    assert WriteSettings(OUT_OF_REACH, fenced_ms).allowed(2) == WriteSettings(2, FENCED_MS)
