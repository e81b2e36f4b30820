"""Runs are sets, counts of equal values are lists, and quantiles are those of the whole list."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.jobs.single_pass import arrays
from slo_pipeline.jobs.single_pass.arrays import (
    Runs,
    added,
    folded,
    ints,
    quantile,
    runs,
    sums,
    union,
    weighted,
    worst_by,
)

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


@given(st.lists(st.one_of(st.integers(-5, 9), st.integers(-(10**12), 10**12))))
def test_counts_are_those_of_each_value_whether_they_are_dense_or_far_apart(values: list[int]) -> None:
    found = weighted(ints(values))
    assert found.value.tolist() == sorted(set(values))
    assert dict(zip(found.value.tolist(), found.count.tolist(), strict=True)) == Counter(values)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9))))
def test_the_worst_value_of_each_key_is_found_in_any_order(pairs: list[tuple[int, int]]) -> None:
    key, worst = worst_by(
        ints(key for key, _ in pairs), np.array([v for _, v in pairs], np.float64), np.maximum
    )
    assert dict(zip(key.tolist(), worst.tolist(), strict=True)) == {
        one: max(value for key, value in pairs if key == one) for one, _ in sorted(pairs)
    }


def test_few_parts_are_held_while_many_are_added_up_in_order() -> None:
    held: list[int] = []

    def merged(parts: Sequence[list[int]]) -> list[int]:
        held.append(len(parts))
        return [one for part in parts for one in part]

    def parts() -> Iterator[list[int]]:
        yield from ([number] for number in range(100))

    assert folded(parts(), merged) == list(range(100))
    assert max(held) == arrays.FOLDED_PARTS + 1


@pytest.mark.parametrize("keys", [[], [3, 1, 3, 2], [1, 2, 2, 3]])
def test_sums_are_by_key_in_order(keys: list[int]) -> None:
    key, total = sums(ints(keys), ints(range(len(keys))))
    assert key.tolist() == sorted(set(keys))
    assert total.tolist() == [sum(at for at, one in enumerate(keys) if one == each) for each in key.tolist()]
