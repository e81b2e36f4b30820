"""Which rows each task reads: windows of time, planned by the segments' footers.

Problem: rows that belong together (a scrape, a second) may lie in several segments, and a task that gets
whole segments would see a part of them. Shape: a task reads a window of time, whose borders are whole
seconds, out of every row group that may have rows of it. So each scrape and each second is in one task; a
longer stretch of a plot may be in several, and the driver adds up its parts. The number of windows follows
from the rows that the footers count: a task holds about TASK_ROWS_MAX rows, whatever the period. If a second
has more, several tasks read it and each keeps its part of the groups. Never: a row is read here.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from slo_pipeline.jobs.late import TIME_OF
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.sources.extracts import Extracts
from slo_pipeline.sources.layout import (
    SegmentUnusableError,
    day_folders,
    open_segment,
    reading,
    refuse,
    segment_files,
)
from slo_pipeline.transforms.clocks import TIMES
from slo_pipeline.transforms.timing import US_PER_S

TASK_ROWS_MAX: Final = 500_000
"""Rows that a task holds at once. With the arrays made of them they take about 350 bytes each, so that a
worker stays below 400 MiB."""
STREAMED_ROWS_MAX: Final = 4_000_000
"""Rows that a task reads if it holds only a batch of them."""
TASK_ROWS_MIN: Final = 50_000
"""A task of fewer rows costs more to start than to run."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ALWAYS: Final = 1 << 62


class RowGroup(NamedTuple):
    """A row group, and the range of its rows' times; all of time if the footer does not tell.

    Attributes:
        path, number: where it is.
        rows: how many it has.
        first_us, last_us: range of the column of `TIME_OF`.
        low_us, high_us: range of all columns of `TIMES`.
    """

    path: str
    number: int
    rows: int
    first_us: int
    last_us: int
    low_us: int = -_ALWAYS
    high_us: int = _ALWAYS


class Task(NamedTuple):
    """The rows of one kind in one window of time.

    Attributes:
        kind: of segment.
        parts: paths, and the row groups to read of each.
        start_us, end_us: the half-open window, by the column of `TIME_OF`.
        rows: of those row groups, as far as the window has a part of each.
        part: which part of the window's groups or instances, from 0.
        parts_of: how many parts there are.
        low_us, high_us: range of all times of the row groups.
    """

    kind: str
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    start_us: int
    end_us: int
    rows: int
    part: int = 0
    parts_of: int = 1
    low_us: int = -_ALWAYS
    high_us: int = _ALWAYS


def files(
    directory: Path, kind: str, without: Collection[str] = (), extracts: Extracts | None = None
) -> list[Path]:
    """Return the files to read of a kind: extracts, and the segments of the other days."""
    found = extracts.files(kind) if extracts is not None else []
    left_out = {Path(one).name for one in without if one.startswith(f"{kind}/")}
    for folder in day_folders(directory, kind):
        if extracts is None or not extracts.hold(folder):
            found += [path for path in segment_files(folder) if path.name not in left_out]
    return [path.absolute() for path in found]


def row_groups(kind: str, paths: Iterable[Path], metric: str | None = None) -> list[RowGroup]:
    """Read the footers of segments.

    Args:
        kind: of segment.
        paths: of segments.
        metric: leave out row groups of samples that cannot have this metric.

    Raises:
        SegmentUnusableError: one line with the first unusable segment and the number of the others.
    """
    found, reasons = list[RowGroup](), list[str]()
    for path in paths:
        try:
            footer = open_segment(path, SEGMENTS[kind]).metadata
        except SegmentUnusableError as error:
            reasons.append(str(error))
            continue
        names = [footer.schema.column(place).path for place in range(footer.num_columns)]
        places = {name: names.index(name) for name in TIMES[kind]}
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if metric is not None and not _may_hold(group.column(names.index("metric")).statistics, metric):
                continue
            ranges = {name: _range(group.column(place).statistics) for name, place in places.items()}
            low_us, high_us = min(one[0] for one in ranges.values()), max(one[1] for one in ranges.values())
            found.append(RowGroup(str(path), number, group.num_rows, *ranges[TIME_OF[kind]], low_us, high_us))
    refuse(reasons)
    return found


def holding(task: Task, metrics: Collection[str]) -> Task:
    """Return a task of samples without the row groups that cannot have any of some metrics."""
    parts = []
    for path, numbers in task.parts:
        with reading(Path(path)):
            footer = pq.read_metadata(path)
        place = [footer.schema.column(one).path for one in range(footer.num_columns)].index("metric")
        ranges = {number: footer.row_group(number).column(place).statistics for number in numbers}
        kept = [number for number, of in ranges.items() if any(_may_hold(of, one) for one in metrics)]
        parts += [(path, tuple(kept))] if kept else []
    return task._replace(parts=tuple(parts))


def _may_hold(statistics: Any, text: str) -> bool:  # noqa: ANN401 - pyarrow's statistics are not typed
    """Tell whether a column of texts may have one."""
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= text <= statistics.max)


def _range(statistics: Any) -> tuple[int, int]:  # noqa: ANN401 - pyarrow's statistics are not typed
    try:
        if statistics is None or not statistics.has_min_max:
            return -_ALWAYS, _ALWAYS
        return micros(statistics.min), micros(statistics.max)
    except (OverflowError, ValueError):
        # Python's calendar ends before Parquet's.
        return -_ALWAYS, _ALWAYS


def micros(when: dt.datetime) -> int:
    """Return a moment as microseconds since 1970; without a zone it is in UTC."""
    aware = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(microseconds=1)


def by_rows(kind: str, groups: Sequence[RowGroup], cores: int) -> list[Task]:
    """Split row groups into tasks of about equal numbers of rows, whatever their times.

    Such a task reads its rows batch by batch and does not hold them.
    """
    count = tasks_for(sum(group.rows for group in groups), cores, STREAMED_ROWS_MAX)
    share = sum(group.rows for group in groups) / max(count, 1)
    tasks: list[Task] = []
    held: list[RowGroup] = []
    rows = 0
    for group in groups:
        held.append(group)
        rows += group.rows
        if rows >= share:
            tasks.append(_task(kind, held, -_ALWAYS, _ALWAYS))
            held, rows = [], 0
    return [*tasks, _task(kind, held, -_ALWAYS, _ALWAYS)] if held else tasks


def windows(kind: str, groups: Sequence[RowGroup], start_us: int, end_us: int, cores: int) -> list[Task]:
    """Cut a span of time into tasks of about equal numbers of rows, in order of time.

    Args:
        kind: of segment.
        groups: that may have rows in it.
        start_us: begin of the half-open span.
        end_us: its end.
        cores: that may work at once.
    """
    inside = [one for one in groups if one.rows and one.first_us < end_us and one.last_us >= start_us]
    if not inside:
        return []
    cuts = _cuts(inside, start_us, end_us, cores)
    made = []
    for low, high in zip([start_us, *cuts], [*cuts, end_us], strict=True):
        own = [one for one in inside if one.first_us < high and one.last_us >= low]
        if own:
            made += _parts(_task(kind, own, low, high))
    return made


def every_window(kind: str, groups: Sequence[RowGroup], cores: int) -> list[Task]:
    """Cut all of time into tasks of about equal numbers of rows, in order of time."""
    first_us, last_us = (
        min((one.first_us for one in groups), default=0),
        max((one.last_us for one in groups), default=-1),
    )
    return windows(kind, groups, first_us, last_us + 1, cores)


def _parts(task: Task) -> list[Task]:
    """Split a task with too many rows by groups or instances: a second is not divided by time."""
    count = round(task.rows / TASK_ROWS_MAX)
    if count < 2:
        return [task]
    return [task._replace(rows=task.rows // count, part=part, parts_of=count) for part in range(count)]


def tasks_for(rows: int, cores: int, rows_max: int) -> int:
    """Return how many tasks a number of rows is worth, if one reads at most so many."""
    at_most = -(-rows // TASK_ROWS_MIN)
    return max(1, min(cores, at_most), -(-rows // rows_max))


def _cuts(inside: Sequence[RowGroup], start_us: int, end_us: int, cores: int) -> list[int]:
    """Choose borders between tasks, as if the rows of a row group came at a steady pace."""
    begin = np.maximum([one.first_us for one in inside], start_us).astype(np.float64)
    end = np.minimum([one.last_us + 1 for one in inside], end_us).astype(np.float64)
    # Rows without a range may all lie in the span.
    rows = np.array(
        [one.rows if one.last_us == _ALWAYS else rows_in(one, start_us, end_us) for one in inside]
    )
    count = tasks_for(round(rows.sum()), cores, TASK_ROWS_MAX)
    if count < 2:
        return []
    # The pace changes where a row group begins or ends; between two such moments rows grow evenly.
    at = np.concatenate([begin, end])
    pace = np.concatenate([rows, -rows]) / np.tile(end - begin, 2)
    order = np.argsort(at, kind="stable")
    at, pace = at[order], np.cumsum(pace[order])
    before = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(np.diff(at) * pace[:-1])]))
    wanted = np.interp(np.arange(1, count) * before[-1] / count, before, at)
    cuts = {round(one / US_PER_S) * US_PER_S for one in wanted.tolist()}
    return sorted(cut for cut in cuts if start_us < cut < end_us)


def _task(kind: str, groups: Sequence[RowGroup], start_us: int, end_us: int) -> Task:
    by_path: dict[str, list[int]] = {}
    for group in groups:
        by_path.setdefault(group.path, []).append(group.number)
    parts = tuple((path, tuple(numbers)) for path, numbers in by_path.items())
    rows = sum(rows_in(group, start_us, end_us) for group in groups)
    low_us, high_us = min(group.low_us for group in groups), max(group.high_us for group in groups)
    return Task(kind, parts, start_us, end_us, rows, low_us=low_us, high_us=high_us)


def rows_in(group: RowGroup, start_us: int, end_us: int) -> int:
    """Return about how many rows of a row group lie in a window, as if they came at a steady pace."""
    low, high = max(group.first_us, start_us), min(group.last_us + 1, end_us)
    return round(group.rows * max(high - low, 0) / (group.last_us + 1 - group.first_us))
