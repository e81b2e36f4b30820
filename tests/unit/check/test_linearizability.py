"""The checker of histories: it accepts what a register can answer, and nothing else; a dumber one agrees."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.check.linearizability import PENDING_S, Interval, SearchVerdict, check

Op = tuple[str, int]


def step(state: int, call: Op) -> int | None:
    """A plain register: writes set it, reads must see it."""
    kind, value = call
    if kind == "write":
        return value
    return state if state == value else None


def verdict(*calls: tuple[float, float, str, int]) -> SearchVerdict:
    history = [Interval(begin, end, (kind, value)) for begin, end, kind, value in calls]
    return check(history, 0, step).verdict


def test_calls_one_after_the_other_must_agree() -> None:
    assert verdict((0, 1, "write", 1), (2, 3, "read", 1)) is SearchVerdict.VALID
    assert verdict((0, 1, "write", 1), (2, 3, "read", 0)) is SearchVerdict.INVALID


def test_calls_at_the_same_time_may_come_in_any_order() -> None:
    assert verdict((0, 5, "write", 1), (1, 2, "read", 0), (3, 4, "read", 1)) is SearchVerdict.VALID
    assert verdict((0, 5, "write", 1), (1, 2, "read", 1), (3, 4, "read", 0)) is SearchVerdict.INVALID


def test_a_call_without_an_answer_may_have_had_its_effect_late_or_never() -> None:
    lost = (0, PENDING_S, "write", 1)
    assert verdict(lost, (1, 2, "read", 0)) is SearchVerdict.VALID
    assert verdict(lost, (1, 2, "read", 0), (3, 4, "read", 1)) is SearchVerdict.VALID
    assert verdict(lost, (1, 2, "read", 1), (3, 4, "read", 0)) is SearchVerdict.INVALID


def test_an_empty_history_is_valid() -> None:
    assert verdict() is SearchVerdict.VALID


def test_a_search_that_is_given_up_is_not_valid() -> None:
    history = [Interval(0.0, 9.0, ("write", value)) for value in range(9)]
    history.append(Interval(10.0, 11.0, ("read", 99)))
    assert check(history, 0, step, steps_max=50).verdict is SearchVerdict.UNKNOWN


def test_what_was_stuck_is_told() -> None:
    history = [Interval(0.0, 1.0, ("write", 1)), Interval(2.0, 3.0, ("read", 7))]
    finding = check(history, 0, step)
    assert finding.placed == 1
    assert [one.call for one in finding.stuck] == [("read", 7)]


def test_a_thousand_calls_of_eight_clients_are_judged_in_a_moment() -> None:
    history = []
    for number in range(1_000):
        value = number // 8
        kind = "write" if number % 8 == 0 else "read"
        history.append(Interval(value + (number % 8) / 10, value + (number % 8) / 10 + 0.05, (kind, value)))
    assert check(history, 0, step).verdict is SearchVerdict.VALID


def naive(history: list[Interval[Op]]) -> SearchVerdict:
    """Try every order of every choice of the pending calls."""
    pending = [one for one in history if one.is_pending]
    needed = [one for one in history if not one.is_pending]
    for chosen in range(1 << len(pending)):
        calls = needed + [one for number, one in enumerate(pending) if chosen >> number & 1]
        for order in permutations(calls):
            late = any(
                later.ended_s < earlier.began_s
                for position, earlier in enumerate(order)
                for later in order[position + 1 :]
            )
            if not late and _runs(order):
                return SearchVerdict.VALID
    return SearchVerdict.INVALID


def _runs(order: tuple[Interval[Op], ...]) -> bool:
    state: int | None = 0
    for one in order:
        state = step(state, one.call)
        if state is None:
            return False
    return True


@st.composite
def intervals(draw: st.DrawFn) -> Interval[Op]:
    began = draw(st.integers(0, 8))
    ended = draw(st.one_of(st.integers(began, 10).map(float), st.just(PENDING_S)))
    call = (draw(st.sampled_from(("write", "read"))), draw(st.integers(0, 2)))
    return Interval(float(began), ended, call)


@settings(max_examples=150, deadline=None)
@given(st.lists(intervals(), max_size=5))
def test_the_search_agrees_with_trying_everything(history: list[Interval[Op]]) -> None:
    assert check(history, 0, step).verdict is naive(history)


@pytest.mark.parametrize("size", [20, 200])
def test_pending_writes_do_not_make_the_search_long(size: int) -> None:
    history = [Interval(float(number), PENDING_S, ("write", number + 1)) for number in range(20)]
    history += [Interval(100.0 + number, 100.5 + number, ("read", 0)) for number in range(size)]
    finding = check(history, 0, step)
    assert finding.verdict is SearchVerdict.VALID
    assert finding.steps < 50 * size
