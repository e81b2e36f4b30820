"""The first look: which rows have times that can be true, and when each group's rows are.

Problem: the period ends with the newest credible send, so nothing can be added up before all times were read.
Shape: a task reads only the columns that this needs, and returns spans and counts that can be merged. Row
groups of samples whose footers tell both are not read. Never: the clock is read here.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slo_pipeline.jobs.late import TIME_OF
from slo_pipeline.jobs.single_pass import rows
from slo_pipeline.jobs.single_pass.arrays import Bools, Ints
from slo_pipeline.jobs.single_pass.plan import RowGroup, Task
from slo_pipeline.schemas.names import OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.transforms.budget import S_PER_DAY
from slo_pipeline.transforms.clocks import EARLIEST_US, TIMES, latest_us
from slo_pipeline.transforms.timing import US_PER_S

DAY_US: Final = S_PER_DAY * US_PER_S
_NAMES: Final = {SAMPLES_TABLE: (), OPERATIONS_TABLE: ("op", "group", "clock_id")}
Key = tuple[Any, ...]
Row = dict[str, Any]


class Times(NamedTuple):
    """What a task found.

    Attributes:
        spans: first and last time by group and day; of sends, or of samples under the group "".
        apart: number, first and last time by kind, writer, group and whether they are ahead.
    """

    spans: dict[tuple[str, int], tuple[int, int]]
    apart: dict[Key, tuple[int, int, int]]


def settled(group: RowGroup, now_us: int) -> bool:
    """Tell whether a footer says that all rows are credible and of one day; for kinds with one time."""
    is_credible = group.first_us >= EARLIEST_US and group.last_us <= latest_us(now_us)
    return is_credible and group.first_us // DAY_US == group.last_us // DAY_US


def of_footers(groups: Iterable[RowGroup]) -> Times:
    """Return what the footers of settled row groups tell."""
    spans = [{("", one.first_us // DAY_US): (one.first_us, one.last_us)} for one in groups if one.rows]
    return merged(Times(span, {}) for span in spans)


def of_task(task: Task, now_us: int) -> Times:
    """Read the times of a task's rows."""
    is_credible = rows.is_credible(task, now_us)
    times = [TIME_OF[task.kind]] if is_credible else [*TIMES[task.kind]]
    found, has_apart = [], False
    for batch in rows.batches(task, [*_NAMES[task.kind], *times]):
        fits = np.ones(batch.num_rows, np.bool_)
        if not is_credible:
            fits = np.asarray(rows.credible(batch, task.kind, now_us).to_numpy(), dtype=np.bool_)
        apart = {}
        if not fits.all():
            has_apart = True
            apart = {} if task.kind == SAMPLES_TABLE else _counted(batch, task.kind, fits, now_us)
        found.append(Times(_spans(batch, task.kind, fits), apart))
    if has_apart and task.kind == SAMPLES_TABLE:
        found.append(Times({}, _apart(task, now_us)))
    return merged(found)


def _apart(task: Task, now_us: int) -> dict[Key, tuple[int, int, int]]:
    """Read a task's samples again, with their labels, and count those to set apart."""
    parts = []
    for batch in rows.batches(task, ["instance", "labels", *TIMES[task.kind]]):
        fits = np.asarray(rows.credible(batch, task.kind, now_us).to_numpy(), dtype=np.bool_)
        parts.append(Times({}, _counted(batch, task.kind, fits, now_us)))
    return merged(parts).apart


def _spans(batch: pa.Table, kind: str, fits: Bools) -> dict[tuple[str, int], tuple[int, int]]:
    at = rows.numbers(batch, TIME_OF[kind])
    if kind == SAMPLES_TABLE:
        return _by_day(at[fits], "")
    group = rows.texts(batch, "group")
    chosen = fits & rows.texts(batch, "op").is_in("send") if kind == OPERATIONS_TABLE else fits
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for name, own in group.places():
        spans |= _by_day(at[own[chosen[own]]], name)
    return spans


def _by_day(at: Ints, name: str) -> dict[tuple[str, int], tuple[int, int]]:
    if not len(at):
        return {}
    day = at // DAY_US
    return {
        (name, int(one)): (int(at[day == one].min()), int(at[day == one].max())) for one in np.unique(day)
    }


def _counted(batch: pa.Table, kind: str, fits: Bools, now_us: int) -> dict[Key, tuple[int, int, int]]:
    """Count rows that are set apart."""
    own = batch.filter(pa.array(~fits))
    is_sample = kind == SAMPLES_TABLE
    writers = rows.texts(own, "instance" if is_sample else "clock_id")
    named = own["labels"].to_pylist() if is_sample else rows.texts(own, "group")
    times = [own[name].to_pylist() for name in TIMES[kind]]
    counted: dict[Key, tuple[int, int, int]] = {}
    for place, of in enumerate(zip(*times, strict=True)):
        told = [one for one in of if one is not None]
        ahead = max(told) > latest_us(now_us)
        us = max(told) if ahead else min(told)
        if isinstance(named, list):
            group = next((value for name, value in named[place] if name == "group"), None) or ""
        else:
            group = named.text[named.code[place]]
        key = (kind, writers.text[writers.code[place]], group, ahead)
        counted[key] = _more(counted.get(key), (1, us, us))
    return counted


def _more(one: tuple[int, int, int] | None, other: tuple[int, int, int]) -> tuple[int, int, int]:
    return other if one is None else (one[0] + other[0], min(one[1], other[1]), max(one[2], other[2]))


def merged(parts: Iterable[Times]) -> Times:
    """Put together what several tasks found."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    apart: dict[Key, tuple[int, int, int]] = {}
    for part in parts:
        for place, (first, last) in part.spans.items():
            known = spans.get(place, (first, last))
            spans[place] = (min(known[0], first), max(known[1], last))
        for key, counted in part.apart.items():
            apart[key] = _more(apart.get(key), counted)
    return Times(spans, apart)


def apart_rows(apart: dict[Key, tuple[int, int, int]]) -> list[Row]:
    """Return the APART table, in a fixed order."""
    names = ("kind", "writer", "group", "ahead", "rows", "first_ts", "last_ts")
    return [dict(zip(names, (*key, *apart[key]), strict=True)) for key in sorted(apart)]
