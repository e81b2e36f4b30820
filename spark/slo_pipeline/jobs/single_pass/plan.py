"""Which rows each task reads: windows of time, planned by the segments' footers.

Problem: rows that belong together (a scrape, a stretch of a plot) may lie in several segments, and a task
that gets whole segments would see a part of them. Shape: a task reads a window of time, whose borders are
multiples of a stretch, out of every row group that may have rows of it. So each scrape, second and stretch is
in one task, and only whole-period sums are added up by the driver. The number of windows follows from the
rows that the footers count: a task holds about TASK_ROWS_MAX rows. If a stretch has more, several tasks read
it and each keeps its part of the groups. Never: a row is read here.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from slo_pipeline.jobs.late import TIME_OF
from slo_pipeline.sources.extracts import Extracts
from slo_pipeline.sources.layout import day_folders, reading, segment_files

TASK_ROWS_MAX: Final = 1_000_000
"""Rows that a task holds at once; about 100 bytes each."""
TASK_ROWS_MIN: Final = 50_000
"""A task of fewer rows costs more to start than to run."""
CUTS_MAX: Final = 4_096
"""Places where windows may be cut."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ALWAYS: Final = 1 << 62


class RowGroup(NamedTuple):
    """A row group, and the range of its rows' times; all of time if the footer does not tell."""

    path: str
    number: int
    rows: int
    first_us: int
    last_us: int


class Task(NamedTuple):
    """The rows of one kind in one window of time.

    Attributes:
        kind: of segment.
        parts: paths, and the row groups to read of each.
        start_us, end_us: the half-open window, by the column of `TIME_OF`.
        rows: of those row groups, as far as the window has a part of each.
        part: which part of the window's groups or instances, from 0.
        parts_of: how many parts there are.
    """

    kind: str
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    start_us: int
    end_us: int
    rows: int
    part: int = 0
    parts_of: int = 1


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


def row_groups(kind: str, paths: Iterable[Path]) -> list[RowGroup]:
    """Read the footers of segments."""
    found = []
    for path in paths:
        with reading(path):
            footer = pq.read_metadata(path)
        names = [footer.schema.column(place).path for place in range(footer.num_columns)]
        place = names.index(TIME_OF[kind])
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            first_us, last_us = _range(group.column(place).statistics)
            found.append(RowGroup(str(path), number, group.num_rows, first_us, last_us))
    return found


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
    """Split row groups into tasks of about equal numbers of rows, whatever their times."""
    count = tasks_for(sum(group.rows for group in groups), cores)
    share = sum(group.rows for group in groups) / max(count, 1)
    tasks: list[Task] = []
    held: list[RowGroup] = []
    for group in groups:
        held.append(group)
        if sum(one.rows for one in held) >= share:
            tasks.append(_task(kind, held, -_ALWAYS, _ALWAYS))
            held = []
    return [*tasks, _task(kind, held, -_ALWAYS, _ALWAYS)] if held else tasks


def windows(
    kind: str, groups: Sequence[RowGroup], start_us: int, end_us: int, step_us: int, cores: int
) -> list[Task]:
    """Cut a span of time into tasks of about equal numbers of rows.

    Args:
        kind: of segment.
        groups: that may have rows in it.
        start_us: begin of the half-open span.
        end_us: its end.
        step_us: tasks begin at multiples of it, but for the first.
        cores: that may work at once.
    """
    inside = [one for one in groups if one.rows and one.first_us < end_us and one.last_us >= start_us]
    if not inside:
        return []
    cuts = _cuts(inside, start_us, end_us, step_us, tasks_for(sum(one.rows for one in inside), cores))
    made = []
    for low, high in zip([start_us, *cuts], [*cuts, end_us], strict=True):
        own = [one for one in inside if one.first_us < high and one.last_us >= low]
        if own:
            made += _parts(_task(kind, own, low, high))
    return made


def _parts(task: Task) -> list[Task]:
    """Split a task with too many rows by groups or instances: a stretch is not divided by time."""
    count = round(task.rows / TASK_ROWS_MAX)
    if count < 2:
        return [task]
    return [task._replace(rows=task.rows // count, part=part, parts_of=count) for part in range(count)]


def tasks_for(rows: int, cores: int) -> int:
    """Return how many tasks a number of rows is worth."""
    at_most = -(-rows // TASK_ROWS_MIN)
    return max(1, min(cores, at_most), -(-rows // TASK_ROWS_MAX))


def _cuts(inside: Sequence[RowGroup], start_us: int, end_us: int, step_us: int, count: int) -> list[int]:
    """Choose borders between tasks, as if the rows of a row group came at a steady pace."""
    first = start_us // step_us + 1
    possible = (end_us - 1) // step_us - first + 1
    if count < 2 or possible < 1:
        return []
    wide = -(-possible // CUTS_MAX)
    places = (first + np.arange(0, possible, wide, dtype=np.int64)) * step_us
    rows_before = np.zeros(len(places))
    for one in inside:
        begin, end = max(one.first_us, start_us), min(one.last_us, end_us) + 1
        rows_before += one.rows * np.clip((places - begin) / (end - begin), 0.0, 1.0)
    wanted = np.arange(1, count) * sum(one.rows for one in inside) / count
    nearest = np.clip(np.searchsorted(rows_before, wanted), 0, len(places) - 1)
    return [int(place) for place in places[np.unique(nearest)]]


def _task(kind: str, groups: Sequence[RowGroup], start_us: int, end_us: int) -> Task:
    by_path: dict[str, list[int]] = {}
    for group in groups:
        by_path.setdefault(group.path, []).append(group.number)
    parts = tuple((path, tuple(numbers)) for path, numbers in by_path.items())
    rows = sum(rows_in(group, start_us, end_us) for group in groups)
    return Task(kind, parts, start_us, end_us, rows)


def rows_in(group: RowGroup, start_us: int, end_us: int) -> int:
    """Return about how many rows of a row group lie in a window, as if they came at a steady pace."""
    low, high = max(group.first_us, start_us), min(group.last_us + 1, end_us)
    return round(group.rows * max(high - low, 0) / (group.last_us + 1 - group.first_us))
