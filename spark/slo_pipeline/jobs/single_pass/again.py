"""A second look at few operations: sends near a change of master, and messages that were not read back.

Problem: how far around a change its sends are shown, and which messages are missing, is known only when all
windows were added up. Shape: the driver names stretches of time and messages; tasks read again only the row
groups that may hold them, and pick. The rules are those of `jobs.gold.closeup_points` and
`transforms.durability`. Never: all operations are read again for a page without losses and changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slo_pipeline.jobs.gold import CLOSEUP_STRETCHES_MAX
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import rows
from slo_pipeline.jobs.single_pass.arrays import Bools, Ints, Runs, sums
from slo_pipeline.jobs.single_pass.operations import minutes_of
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.transforms.durability import UNREAD_MAX_US
from slo_pipeline.transforms.timing import US_PER_MS

COLUMNS: Final = (
    "op", "group", "seq", "intended_ts", "end_ts", "result", "broker_addr", "queue_id", "queue_offset",
    "clock_id",
)  # fmt: skip
_FAR_PAST: Final = -(1 << 62)
Row = dict[str, Any]


class Closeup(NamedTuple):
    """The sends near one change of master: from `low_us` to `high_us`, both included."""

    failover_id: str
    group: str
    low_us: int
    high_us: int


class Unread(NamedTuple):
    """How the messages of a group are judged that were not read back.

    Attributes:
        read: messages that were read and never missed.
        missed: messages that a reader said are missing.
        last_read: by clock.
        start_us, end_us: when they were sent.
    """

    read: Runs
    missed: Runs
    last_read: Mapping[str, int]
    start_us: int
    end_us: int


class SecondLook(NamedTuple):
    """Settings, the same for every task."""

    over: Period
    now_us: int
    durable_us: int
    closeups: Sequence[Closeup]
    unread: Mapping[str, Unread]


@dataclass
class Found:
    """What tasks found.

    Attributes:
        points: by change, place and result: the slowest send's latency (0 where unknown), time and latency.
        lost: rows of LOST.
        counts: by group: minutes, lost and pending messages whose acknowledgement has a time.
        pending: by group.
    """

    points: dict[tuple[str, int, str], tuple[float, int, float | None]] = field(default_factory=dict)
    lost: list[Row] = field(default_factory=list)
    counts: dict[str, list[tuple[Ints, Ints, Ints]]] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)


def of_task(task: Task, look: SecondLook) -> Found:
    """Read a task's operations again."""
    table = rows.read(task, COLUMNS, look.now_us)
    at = rows.numbers(table, "intended_ts")
    inside = (at >= look.over.start_us) & (at < look.over.end_us)
    table = table.filter(pa.array(inside & rows.texts(table, "op").is_in("send")))
    group = rows.texts(table, "group")
    found = Found()
    for name, own in group.places():
        sends = table.take(pa.array(own))
        for closeup in look.closeups:
            if closeup.group == name:
                _points(sends, closeup, found)
        if name in look.unread:
            _judge(sends, name, look.unread[name], look.durable_us, found)
    return found


def _points(sends: pa.Table, of: Closeup, found: Found) -> None:
    at = rows.numbers(sends, "intended_ts")
    near = np.flatnonzero((at >= of.low_us) & (at <= of.high_us))
    if not len(near):
        return
    result, ended = rows.texts(sends, "result"), rows.is_there(sends, "end_ts")
    latency = np.where(ended, (rows.numbers(sends, "end_ts") - at) / US_PER_MS, 0.0)[near]
    place = np.floor((at[near] - of.low_us) * CLOSEUP_STRETCHES_MAX / (of.high_us - of.low_us)).astype(
        np.int64
    )
    code = result.code[near]
    # The last one of each place and result is the slowest, and of equal ones the last in the segments.
    order = np.lexsort((np.arange(len(near)), latency, code, place))
    is_last = np.append((np.diff(place[order]) != 0) | (np.diff(code[order]) != 0), True)
    for one in order[is_last]:
        key = (of.failover_id, int(place[one]), result.text[code[one]])
        slow, known = float(latency[one]), bool(ended[near[one]])
        if key not in found.points or found.points[key][0] <= slow:
            found.points[key] = (slow, int(at[near[one]]), slow if known else None)


def _judge(sends: pa.Table, group: str, of: Unread, width_us: int, found: Found) -> None:
    seq = rows.numbers(sends, "seq")
    own = sends.filter(pa.array(rows.texts(sends, "result").is_in("ok") & ~of.read.holds(seq)))
    if not own.num_rows:
        return
    seq, end, ended = rows.numbers(own, "seq"), rows.numbers(own, "end_ts"), rows.is_there(own, "end_ts")
    clock = rows.texts(own, "clock_id")
    last = np.array([of.last_read.get(text, _FAR_PAST) for text in clock.text], np.int64)[clock.code]
    is_lost = of.missed.holds(seq) | (ended & (end <= last - UNREAD_MAX_US))
    found.pending[group] = found.pending.get(group, 0) + int((~is_lost).sum())
    minute = minutes_of(rows.numbers(own, "intended_ts"), width_us)
    found.counts.setdefault(group, []).append(_by_minute(minute[ended], is_lost[ended]))
    named = own.filter(pa.array(is_lost)).select(
        ["group", "seq", "end_ts", "broker_addr", "queue_id", "queue_offset"]
    )
    found.lost += named.rename_columns(
        ["group", "seq", "acknowledged_ts", "broker_addr", "queue_id", "queue_offset"]
    ).to_pylist()


def _by_minute(minute: Ints, is_lost: Bools) -> tuple[Ints, Ints, Ints]:
    key, lost, pending = sums(minute, is_lost, ~is_lost)
    return key, lost, pending


def merged(parts: Iterable[Found]) -> Found:
    """Put together what tasks found, in their order."""
    whole = Found()
    for part in parts:
        for key, point in part.points.items():
            if key not in whole.points or whole.points[key][0] <= point[0]:
                whole.points[key] = point
        whole.lost += part.lost
        for group, counts in part.counts.items():
            whole.counts.setdefault(group, []).extend(counts)
        for group, count in part.pending.items():
            whole.pending[group] = whole.pending.get(group, 0) + count
    return whole


def points(found: Found) -> list[Row]:
    """Return the picked sends: failover_id, ts, latency_ms, result."""
    return [
        {"failover_id": failover_id, "ts": us, "latency_ms": latency, "result": result}
        for (failover_id, _, result), (_, us, latency) in found.points.items()
    ]
