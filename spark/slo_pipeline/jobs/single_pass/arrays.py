"""Sets of numbers as runs, and small helpers over numpy arrays.

Problem: a month of messages or of seconds is too much to send to the driver one by one. Shape: neighbouring
numbers become one run `[start, stop)`, so that a canary that never fails costs a run per task. Counting and
membership are binary searches over runs. Never: no I/O, and nothing of the pipeline's tables.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Name = TypeVar("Name")
One = TypeVar("One")
DENSE_MAX: Final = 4
"""Numbers spread over at most so many times as many places are counted in an array of places."""
FOLDED_PARTS: Final = 16
"""Sums of windows that are held beside the sums so far before they are added to them."""


def by_name(parts: Iterable[Mapping[Name, One]]) -> dict[Name, list[One]]:
    """Return what some parts have under each name, in the order of the parts."""
    found: dict[Name, list[One]] = {}
    for part in parts:
        for name, of in part.items():
            found.setdefault(name, []).append(of)
    return found


def folded(parts: Iterable[One], merged: Callable[[Sequence[One]], One]) -> One:
    """Add up parts in their order while they come; few of them are in memory at once."""
    held: list[One] = []
    for part in parts:
        held.append(part)
        if len(held) > FOLDED_PARTS:
            held = [merged(held)]
    return merged(held)


def ints(values: Iterable[int] = ()) -> Ints:
    """Return numbers as an array."""
    return np.array(list(values), dtype=np.int64)


def joined(parts: Iterable[Ints]) -> Ints:
    """Return arrays of numbers one after the other."""
    found = list(parts)
    return np.concatenate(found) if found else ints()


_FAR: Final = 1 << 62


@dataclass(frozen=True)
class Runs:
    """A set of integers as half-open runs, in order and without overlap."""

    start: Ints
    stop: Ints

    def count(self, low: Ints, high: Ints) -> Ints:
        """Return how many members lie in each `[low, high)`."""
        return self._below(high) - self._below(low)

    def holds(self, numbers: Ints) -> Bools:
        """Tell of each number whether it is a member."""
        return np.asarray(self.count(numbers, numbers + 1) == 1, np.bool_)

    def both(self, other: "Runs") -> "Runs":
        """Return the intersection of two sets."""
        if not len(self.start) or not len(other.start):
            return NO_RUNS
        at = joined([self.start, other.start, self.stop, other.stop])
        step = np.repeat(np.array([1, 1, -1, -1]), [len(self.start), len(other.start)] * 2)
        # At one place ends come before begins, so that runs which only touch do not overlap.
        order = np.lexsort((step, at))
        depth = np.cumsum(step[order])
        inside = np.flatnonzero(depth == 2)
        return Runs(at[order][inside], at[order][inside + 1])

    def without(self, other: "Runs") -> "Runs":
        """Return the members that are not in another set."""
        if not len(other.start):
            return self
        return self.both(Runs(np.append(ints([-_FAR]), other.stop), np.append(other.start, ints([_FAR]))))

    def _below(self, numbers: Ints) -> Ints:
        if not len(self.start):
            return np.zeros(len(numbers), np.int64)
        before = np.concatenate([ints([0]), np.cumsum(self.stop - self.start)])
        place = np.searchsorted(self.start, numbers, side="right")
        last = np.maximum(place - 1, 0)
        beyond = np.where(place > 0, np.maximum(self.stop[last] - numbers, 0), 0)
        return before[place] - beyond


NO_RUNS = Runs(ints(), ints())


def in_order(numbers: Ints) -> Bools:
    """Tell of each number but the first whether it is at least its predecessor."""
    return np.asarray(numbers[1:] >= numbers[:-1], np.bool_)


def runs(numbers: Ints) -> Runs:
    """Return the set of some numbers, which may repeat."""
    if not len(numbers):
        return NO_RUNS
    # Segments are nearly in order: looking is cheaper than sorting.
    is_sorted = in_order(numbers).all()
    unique = numbers[np.append(True, np.diff(numbers) != 0)] if is_sorted else np.unique(numbers)
    cut = np.flatnonzero(np.diff(unique) != 1) + 1
    first = np.concatenate([ints([0]), cut])
    last = np.concatenate([cut, ints([len(unique)])]) - 1
    return Runs(unique[first], unique[last] + 1)


def union(parts: Iterable[Runs]) -> Runs:
    """Return the union of sets."""
    found = [part for part in parts if len(part.start)]
    if not found:
        return NO_RUNS
    start, stop = joined(part.start for part in found), joined(part.stop for part in found)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(stop[order])
    begins = np.concatenate([ints([0]), np.flatnonzero(start[1:] > reach[:-1]) + 1])
    ends = np.concatenate([begins[1:], ints([len(start)])]) - 1
    return Runs(start[begins], reach[ends])


@dataclass(frozen=True)
class Weighted:
    """Values in order, each once, and how often each occurs."""

    value: Ints
    count: Ints

    @property
    def total(self) -> int:
        """Return how many there are."""
        return int(self.count.sum())


def weighted(values: Ints) -> Weighted:
    """Count equal values."""
    if not len(values):
        return Weighted(ints(), ints())
    low, high = int(values.min()), int(values.max())
    if high - low < DENSE_MAX * len(values):
        # Counting in places is several times faster than sorting.
        counts = np.bincount(values - low)
        found = np.flatnonzero(counts)
        return Weighted(found + low, counts[found].astype(np.int64))
    value, count = np.unique(values, return_counts=True)
    return Weighted(value, count.astype(np.int64))


def added(parts: Iterable[Weighted]) -> Weighted:
    """Add up counts of equal values."""
    found = list(parts)
    value, place = np.unique(joined(part.value for part in found), return_inverse=True)
    count = joined(part.count for part in found)
    return Weighted(value, np.bincount(place, count, len(value)).astype(np.int64))


def sums(keys: Ints, *columns: Bools | Ints) -> list[Ints]:
    """Add up columns by key: the keys in order, then a column of sums for each column."""
    if len(keys) and in_order(keys).all():
        first = np.concatenate([ints([0]), np.flatnonzero(np.diff(keys)) + 1])
        return [keys[first], *(np.add.reduceat(one, first, dtype=np.int64) for one in columns)]
    key, place = np.unique(keys, return_inverse=True)
    return [key, *(np.bincount(place, one, len(key)).astype(np.int64) for one in columns)]


def worst_by(keys: Ints, values: Floats, worse: np.ufunc) -> tuple[Ints, Floats]:
    """Return the keys in order, each once, and the worst value of each.

    Args:
        keys: of the values; they may repeat.
        values: in the order of their keys.
        worse: `numpy.maximum` or `numpy.minimum`.
    """
    if not len(keys):
        return ints(), np.array([], np.float64)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.concatenate([ints([0]), np.flatnonzero(np.diff(keys)) + 1])
    return keys[first], worse.reduceat(values, first)


def quantile(of: Weighted, share: float, unit: float = 1.0) -> float | None:
    """Return what Spark's `percentile` returns of the values in another unit; None without any.

    Between two neighbours it interpolates with both weights, in this order, which decides the last bit.
    """
    total = of.total
    if not total:
        return None
    position = (total - 1) * share
    low, high = int(np.floor(position)), int(np.ceil(position))
    places = np.searchsorted(np.cumsum(of.count), [low, high], side="right")
    below, above = float(of.value[places[0]]) / unit, float(of.value[places[1]]) / unit
    if low == high or below == above:
        return below
    return (high - position) * below + (position - low) * above
