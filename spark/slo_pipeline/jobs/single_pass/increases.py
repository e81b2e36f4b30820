"""Pair increments of a counter as a pass over arrays, in a task.

Problem: a window function over frames sorts and shuffles texts of labels. Shape: a task sorts a window's
samples by series and time; neighbours are differences of arrays. Of each series the first and the last sample
go to the driver, which pairs them with those of the next window. Never: a sample is counted by two tasks.

The rules are those of `transforms.counters`, which says the same of frames and stays as the second opinion.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slo_pipeline.jobs.single_pass import rows, series
from slo_pipeline.jobs.single_pass.arrays import Bools, Floats, Ints, in_order, ints, joined
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.jobs.single_pass.series import UNKNOWN, Points
from slo_pipeline.transforms.counters import GAP_MAX_US, UP

CELLS_MAX: Final = 4_194_304
"""Sums are held in an array of every window of every set of labels up to so many."""
SPREAD_MAX: Final = 1_000_000
"""Parts of long gaps that are made at once, but for those of a single gap."""
Labels = tuple[str, ...]
Births = Mapping[tuple[int, int], int]
"""By instance and process: when it first answered a scrape, microseconds."""


class IncreaseLook(NamedTuple):
    """Settings, the same for every task: the counter, the labels to keep, and the width of a window."""

    metric: str
    by: Labels
    window_us: int


class Samples(NamedTuple):
    """One sample of each of some series."""

    at: Ints
    value: Floats
    process: Ints

    def among(self, chosen: Bools | Ints) -> "Samples":
        """Return chosen ones."""
        return Samples(self.at[chosen], self.value[chosen], self.process[chosen])

    def followed_by(self, others: "Samples") -> "Samples":
        """Return these samples and then the others."""
        value = np.concatenate([self.value, others.value])
        return Samples(joined([self.at, others.at]), value, joined([self.process, others.process]))


class WindowSums(NamedTuple):
    """Increments by set of labels and window, and whether a part of each was spread over a gap."""

    labels: Ints
    window: Ints
    grown: Floats
    is_spread: Bools


class Increases(NamedTuple):
    """What a window says.

    Attributes:
        texts: sets of labels; other fields have places in this list.
        sums: increments of pairs within the window.
        series: ids in order.
        labels: of each series.
        instance: of each series.
        first, last: samples of each series.
    """

    texts: list[Labels]
    sums: WindowSums
    series: Ints
    labels: Ints
    instance: Ints
    first: Samples
    last: Samples


NOTHING_SUMMED: Final = WindowSums(ints(), ints(), np.array([], np.float64), np.array([], np.bool_))
NO_SAMPLES: Final = Samples(ints(), np.array([], np.float64), ints())


def of_task(task: Task, look: IncreaseLook) -> Increases:
    """Read and add up a task's samples."""
    found = list(series.points(task, look.metric, labels=bool(look.by)))
    found = [one for one in found if len(one.at)]
    if not found:
        return Increases([], NOTHING_SUMMED, ints(), ints(), ints(), NO_SAMPLES, NO_SAMPLES)
    ids, code = _coded([one.series for one in found])
    texts, labels = _labels(found, ids, look.by)
    points = Samples(
        joined(one.at for one in found),
        np.concatenate([one.value for one in found]),
        joined(one.process for one in found),
    )
    instance = np.zeros(len(ids), np.int64)
    instance[code] = joined(one.instance for one in found)
    order = _order(code, points.at)
    if order is not None:
        code, points = code[order], points.among(order)
    is_pair = code[1:] == code[:-1]
    begins = np.append(True, ~is_pair)
    pairs = _pairs(points.among(np.append(is_pair, False)), points.among(np.append(False, is_pair)))
    sums = _summed(labels[code[1:][is_pair]], pairs, look.window_us)
    ends = np.append(~is_pair, True)
    return Increases(texts, sums, ids, labels, instance, points.among(begins), points.among(ends))


def _coded(parts: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return the different ids in order, and the place of each row's id among them."""
    whole = joined(parts)
    begins = np.flatnonzero(np.append(True, np.diff(whole) != 0))
    ids, place = np.unique(whole[begins], return_inverse=True)
    return ids, np.repeat(place.astype(np.int64), np.diff(np.append(begins, len(whole))))


def _order(code: Ints, at: Ints) -> Ints | None:
    """Return the order of rows by series and time; None if they are in it."""
    first = int(at.min())
    width = int(at.max()) - first + 1
    if int(code.max(initial=0)) < (1 << 62) // width:
        key = code * width + (at - first)
        return None if in_order(key).all() else np.argsort(key, kind="stable")
    return np.lexsort((at, code))


def _labels(found: Sequence[Points], ids: Ints, by: Labels) -> tuple[list[Labels], Ints]:
    """Return the different sets of kept labels, and the place of each series' set among them."""
    if not by:
        return [()], np.zeros(len(ids), np.int64)
    place = np.full(len(ids), -1, np.int64)
    texts: dict[Labels, int] = {}
    for one in found:
        number = np.searchsorted(ids, one.series)
        own, first = np.unique(number, return_index=True)
        new = place[own] < 0
        own, first = own[new], first[new]
        if one.labels is None or not len(own):
            continue
        rows_of = one.labels.take(pa.array(first))
        instances = [one.named.text[code] for code in one.named.code[first]]
        columns = [_kept(rows_of, name, instances) for name in by]
        for at, kept in zip(own.tolist(), zip(*columns, strict=True), strict=True):
            place[at] = texts.setdefault(kept, len(texts))
    return list(texts), place


def _kept(labels: pa.Array, name: str, instances: Sequence[str]) -> list[str]:
    """Return a label of each row, "" where it is missing; `instance` is also the sample's own column."""
    options = pc.MapLookupOptions(pa.scalar(name), "first")
    found = rows.call("map_lookup", labels, options=options).to_pylist()
    other = instances if name == "instance" else [""] * len(found)
    return [own if text is None else text for text, own in zip(found, other, strict=True)]


class _Pairs(NamedTuple):
    """Neighbouring samples of a series: both times, and the increment."""

    before_us: Ints
    at: Ints
    grown: Floats

    def among(self, chosen: Bools | Ints) -> "_Pairs":
        """Return chosen ones."""
        return _Pairs(self.before_us[chosen], self.at[chosen], self.grown[chosen])


def _pairs(before: Samples, after: Samples) -> _Pairs:
    """Return increments: the difference, or the whole value after a reset."""
    both_known = (before.process != UNKNOWN) & (after.process != UNKNOWN)
    is_reset = (both_known & (before.process != after.process)) | (after.value < before.value)
    return _Pairs(before.at, after.at, np.where(is_reset, after.value, after.value - before.value))


def _summed(labels: Ints, pairs: _Pairs, window_us: int) -> WindowSums:
    """Add up increments by labels and window; those of long gaps are spread over their windows."""
    is_long = pairs.at - pairs.before_us > GAP_MAX_US
    short = ~is_long
    window = pairs.at[short] // window_us
    sums = _added(labels[short], window, pairs.grown[short], np.zeros(len(window), np.bool_))
    if not is_long.any():
        return sums
    labels, long = labels[is_long], pairs.among(is_long)
    count = (long.at - 1) // window_us - long.before_us // window_us + 1
    # An outage is a long gap of every series: only so many are spread at once.
    share = np.cumsum(count) // SPREAD_MAX
    for own in np.split(np.arange(len(count)), np.flatnonzero(np.diff(share)) + 1):
        spread = _spread(labels[own], long.among(own), count[own], window_us)
        sums = _whole([sums, spread])
    return sums


def _spread(labels: Ints, long: _Pairs, count: Ints, window_us: int) -> WindowSums:
    """Divide each gap's increment over the windows that it spans, by the share of the gap in each."""
    place = np.repeat(np.arange(len(count)), count)
    number = (long.before_us // window_us)[place]
    number += np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    low = np.maximum(long.before_us[place], number * window_us)
    high = np.minimum(long.at[place], (number + 1) * window_us)
    share = long.grown[place] * (high - low) / (long.at - long.before_us)[place]
    return _added(labels[place], number, share, np.ones(len(place), np.bool_))


def _added(labels: Ints, window: Ints, grown: Floats, is_spread: Bools) -> WindowSums:
    if not len(window):
        return NOTHING_SUMMED
    first = int(window.min())
    width = int(window.max()) - first + 1
    cells = (int(labels.max()) + 1) * width
    key = labels * width + (window - first)
    if cells <= CELLS_MAX:
        found = np.flatnonzero(np.bincount(key, minlength=cells))
        total, spread = (np.bincount(key, one, cells)[found] for one in (grown, is_spread))
    else:
        found, place = np.unique(key, return_inverse=True)
        total, spread = (np.bincount(place, one, len(found)) for one in (grown, is_spread))
    return WindowSums(found // width, found % width + first, total.astype(np.float64), spread > 0)


def _whole(parts: Sequence[WindowSums]) -> WindowSums:
    """Add up sums."""
    return _added(
        joined(part.labels for part in parts),
        joined(part.window for part in parts),
        np.concatenate([part.grown for part in parts]),
        np.concatenate([part.is_spread for part in parts]),
    )


def merged(parts: Sequence[Increases], window_us: int) -> Increases:
    """Put windows together, in order of time: pair the last samples of one with the first of the next."""
    parts = [part for part in parts if len(part.series)]
    texts = {
        text: place for place, text in enumerate(dict.fromkeys(text for of in parts for text in of.texts))
    }
    whole = Increases(list(texts), NOTHING_SUMMED, ints(), ints(), ints(), NO_SAMPLES, NO_SAMPLES)
    sums = []
    for part in parts:
        place = ints(texts[text] for text in part.texts)
        sums.append(part.sums._replace(labels=place[part.sums.labels]))
        own = part._replace(labels=place[part.labels])
        sums.append(_seam(whole, own, window_us))
        whole = _beside(whole, own)
    if not sums:
        return whole
    return whole._replace(sums=_whole(sums))


def _seam(whole: Increases, part: Increases, window_us: int) -> WindowSums:
    """Pair the last samples so far with the first ones of the next window."""
    _, before, after = np.intersect1d(whole.series, part.series, assume_unique=True, return_indices=True)
    pairs = _pairs(whole.last.among(before), part.first.among(after))
    return _summed(part.labels[after], pairs, window_us)


def _beside(whole: Increases, part: Increases) -> Increases:
    """Return the series of both, with their first and last samples."""
    ids = joined([whole.series, part.series])
    found, first = np.unique(ids, return_index=True)
    last = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
    firsts, lasts = whole.first.followed_by(part.first), whole.last.followed_by(part.last)
    labels, instance = joined([whole.labels, part.labels]), joined([whole.instance, part.instance])
    return Increases(
        whole.texts, whole.sums, found, labels[first], instance[first], firsts.among(first), lasts.among(last)
    )


def with_births(whole: Increases, births: Births, window_us: int) -> WindowSums:
    """Add the first sample of each series that appeared after its process had answered without it."""
    keys = zip(whole.instance.tolist(), whole.first.process.tolist(), strict=True)
    born = np.array([births.get(key, np.iinfo(np.int64).max) for key in keys], np.int64)
    late = whole.first.among(whole.first.at > born)
    own = _added(
        whole.labels[whole.first.at > born],
        late.at // window_us,
        late.value,
        np.zeros(len(late.at), np.bool_),
    )
    return _whole([whole.sums, own])


def births_of_task(task: Task) -> dict[tuple[int, int], int]:
    """Return when each process of a task's samples first answered a scrape."""
    born: dict[tuple[int, int], int] = {}
    for one in series.points(task, UP, labels=False):
        up = np.flatnonzero(one.value == 1.0)
        keys = zip(one.instance[up].tolist(), one.process[up].tolist(), strict=True)
        for key, us in zip(keys, one.at[up].tolist(), strict=True):
            born[key] = min(us, born.get(key, us))
    return born


def born(parts: Sequence[Mapping[tuple[int, int], int]]) -> dict[tuple[int, int], int]:
    """Put together what tasks found: the earliest answer of each process."""
    whole: dict[tuple[int, int], int] = {}
    for part in parts:
        for key, us in part.items():
            whole[key] = min(us, whole.get(key, us))
    return whole
