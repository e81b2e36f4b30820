"""Runs are sets, counts of equal values are lists, and quantiles are those of the whole list."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.jobs.single_pass.arrays import Runs, added, ints, quantile, runs, sums, union, weighted

NUMBERS = st.lists(st.integers(-40, 40), max_size=60)


def members(of: Runs) -> set[int]:
    return {
        one
        for start, stop in zip(of.start.tolist(), of.stop.tolist(), strict=True)
        for one in range(start, stop)
    }


@given(NUMBERS, NUMBERS)
def test_runs_are_the_sets_of_their_numbers(one: list[int], other: list[int]) -> None:
    left, right = runs(ints(one)), runs(ints(other))
    assert members(left) == set(one)
    assert members(union([left, right])) == set(one) | set(other)
    assert members(left.both(right)) == set(one) & set(other)
    assert members(left.without(right)) == set(one) - set(other)
    assert left.holds(ints(other)).tolist() == [number in one for number in other]


@given(NUMBERS, st.integers(-50, 50), st.integers(0, 30))
def test_a_count_of_members_is_that_of_the_set(numbers: list[int], low: int, width: int) -> None:
    (found,) = runs(ints(numbers)).count(ints([low]), ints([low + width])).tolist()
    assert found == len(set(numbers) & set(range(low, low + width)))


@given(NUMBERS)
def test_neighbours_are_one_run(numbers: list[int]) -> None:
    found = runs(ints(numbers))
    assert (found.start[1:] > found.stop[:-1]).all()


def by_position(values: Sequence[int], share: float) -> float:
    """Return the quantile as Spark's documentation says it: linear between the two nearest ranks."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * share
    low, high = int(position), -int(-position // 1)
    if low == high or ordered[low] == ordered[high]:
        return ordered[low] / 1_000
    return (high - position) * (ordered[low] / 1_000) + (position - low) * (ordered[high] / 1_000)


@given(
    st.lists(st.integers(-5, 9), min_size=1), st.lists(st.integers(0, 9)), st.sampled_from([0.5, 0.9, 0.999])
)
def test_a_quantile_of_added_counts_is_that_of_all_values(
    one: list[int], other: list[int], share: float
) -> None:
    both = added([weighted(ints(one)), weighted(ints(other))])
    assert quantile(both, share, 1_000.0) == by_position([*one, *other], share)


def test_a_quantile_of_nothing_is_unknown() -> None:
    assert quantile(weighted(ints()), 0.5) is None


@pytest.mark.parametrize("keys", [[], [3, 1, 3, 2]])
def test_sums_are_by_key_in_order(keys: list[int]) -> None:
    key, total = sums(ints(keys), ints(range(len(keys))))
    assert key.tolist() == sorted(set(keys))
    assert total.tolist() == [sum(at for at, one in enumerate(keys) if one == each) for each in key.tolist()]
