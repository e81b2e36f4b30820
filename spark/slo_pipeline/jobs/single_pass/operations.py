"""Partial sums of a window of the canary's operations, in a task.

Problem: availability, latency and durability of a day are sums over a million operations. Shape: for each
group, seconds and messages become runs, and latencies become counts of equal values. A stretch of the latency
plot is finished in its task, if its window holds the whole stretch; else its parts are counts that the driver
adds up. What a change of master needs (the acknowledgements around its bounds) is picked out. The driver adds
up (`verdicts`, `tables`). Never: a judgement that needs rows of another task.

The rules are those of `transforms.slices`, `latency`, `durability` and `failovers.write_gaps`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import arrays, rows
from slo_pipeline.jobs.single_pass.arrays import (
    NO_RUNS,
    Bools,
    Ints,
    Runs,
    Weighted,
    added,
    by_name,
    in_order,
    ints,
    joined,
    quantile,
    runs,
    sums,
    union,
    weighted,
)
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.transforms.durability import DEFINITE_REFUSALS
from slo_pipeline.transforms.timing import US_PER_MS, US_PER_S

MINUTE_US: Final = 60 * US_PER_S
COLUMNS: Final = ("op", "group", "seq", "intended_ts", "start_ts", "end_ts", "result", "clock_id")
OK, UNANSWERED, REFUSED, OPEN = range(4)
"""Kinds of sends: acknowledged, acknowledged without a time, refused, and those whose fate is open."""
Row = dict[str, Any]


class OperationsLook(NamedTuple):
    """Settings, the same for every task.

    Attributes:
        over: the period.
        now_us: when the run is.
        latency: of each objective on latency, its threshold in ms and the width of its slices.
        durable_us: width of the slices of durability.
        bounds: by group, where to look for the write gap of each change: low and high.
        plots: whether the stretches of the latency plot are needed.
    """

    over: Period
    now_us: int
    latency: Sequence[tuple[float, int]]
    durable_us: int
    bounds: Mapping[str, Sequence[tuple[int, int]]]
    plots: bool = True


class Sent(NamedTuple):
    """Runs of one kind of sends: message numbers, and the minute that they count in."""

    start: Ints
    stop: Ints
    minute: Ints


class Fast(NamedTuple):
    """Minutes, and how many acknowledged sends took at most the threshold of an objective, or longer."""

    minute: Ints
    good: Ints
    bad: Ints


class StretchSums(NamedTuple):
    """A stretch of the latency plot, or a part of it: latencies, and how many sends failed."""

    took: Weighted
    failed: int


NO_SENDS: Final = Sent(ints(), ints(), ints())


@dataclass
class OperationSums:
    """What a window says of one group; sums of windows are the sums of both.

    Attributes:
        seen: seconds with a send; by intended time.
        failed_second, failed_sends: seconds with a failed send, and how many.
        watched_until: the last intended send.
        took: latencies of acknowledged sends, microseconds.
        timeless: acknowledged sends without a time.
        failed: failed sends.
        series: rows of LATENCY_SERIES, of stretches that are whole.
        cut: by begin: stretches that begin before the window or end after it.
        fast: for each objective on latency: minutes, sends within and beyond the threshold.
        sent: runs of sends by kind.
        acks: by change: end, message and clock of the acknowledgements in its bounds and next to them.
        is_read: whether anything is read back.
        was_read, was_missed: messages.
        last_read: by clock.
    """

    seen: Runs = NO_RUNS
    failed_second: Ints = field(default_factory=ints)
    failed_sends: Ints = field(default_factory=ints)
    watched_until: int | None = None
    took: Weighted = field(default_factory=lambda: Weighted(ints(), ints()))
    timeless: int = 0
    failed: int = 0
    series: list[Row] = field(default_factory=list)
    cut: dict[int, "StretchSums"] = field(default_factory=dict)
    fast: list[Fast] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    acks: list[list[tuple[int, int, str]]] = field(default_factory=list)
    is_read: bool = False
    was_read: Runs = NO_RUNS
    was_missed: Runs = NO_RUNS
    last_read: dict[str, int] = field(default_factory=dict)


class _Columns(NamedTuple):
    """The rows of one group."""

    seq: Ints
    at: Ints
    start: Ints
    end: Ints
    ended: Bools
    ok: Bools
    refused: Bools
    missing: Bools
    clock: rows.CodedTexts

    def among(self, chosen: Bools | Ints) -> "_Columns":
        """Return chosen rows."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        return _Columns(
            self.seq[chosen],
            self.at[chosen],
            self.start[chosen],
            self.end[chosen],
            self.ended[chosen],
            self.ok[chosen],
            self.refused[chosen],
            self.missing[chosen],
            self.clock.among(chosen),
        )


def of_task(task: Task, look: OperationsLook) -> dict[str, OperationSums]:
    """Read and add up a task's operations: the sums of each group."""
    table = rows.read(task, COLUMNS, look.now_us)
    group, op, result = (rows.texts(table, name) for name in ("group", "op", "result"))
    every = _Columns(
        rows.numbers(table, "seq"),
        rows.numbers(table, "intended_ts"),
        rows.numbers(table, "start_ts"),
        rows.numbers(table, "end_ts"),
        rows.is_there(table, "end_ts"),
        result.is_in("ok"),
        result.is_in(*DEFINITE_REFUSALS),
        result.is_in("missing"),
        rows.texts(table, "clock_id"),
    )
    is_send, is_read = op.is_in("send"), op.is_in("read")
    found: dict[str, OperationSums] = {}
    for name, own in group.places():
        made = OperationSums()
        _sends(every.among(own[is_send[own]]), name, look, made)
        _reads(every.among(own[is_read[own]]), made)
        whole, made.cut = _parted(made.cut, task, look.over.stretch_us)
        made.series = [_plotted(name, start, of) for start, of in whole.items()]
        found[name] = made
    return found


def _parted(
    of: Mapping[int, StretchSums], task: Task, width_us: int
) -> tuple[dict[int, StretchSums], dict[int, StretchSums]]:
    """Part the stretches inside a task's window from those at its borders."""
    whole, cut = dict[int, StretchSums](), dict[int, StretchSums]()
    for start, sums_of in of.items():
        inside = start >= task.start_us and start + width_us <= task.end_us
        (whole if inside else cut)[start] = sums_of
    return whole, cut


def _sends(sends: _Columns, group: str, look: OperationsLook, made: OperationSums) -> None:
    if not len(sends.at):
        return
    second = sends.at // US_PER_S
    made.seen = runs(second)
    made.failed_second, made.failed_sends = sums(second[~sends.ok], ~sends.ok[~sends.ok])
    made.watched_until = int(sends.at.max())
    made.acks = _near(sends, look.bounds.get(group, ()))
    over = look.over
    inside = sends.among((sends.at >= over.start_us) & (sends.at < over.end_us))
    timed = inside.ok & inside.ended
    took = inside.end - inside.at
    made.took = weighted(took[timed])
    made.timeless = int((inside.ok & ~inside.ended).sum())
    made.failed = int((~inside.ok).sum())
    if look.plots:
        made.cut = _stretches(inside.at // over.stretch_us * over.stretch_us, took, timed, inside.ok)
    made.fast = [_fast(inside, took, value, width) for value, width in look.latency]
    minute = minutes_of(inside.at, look.durable_us)
    for chosen in (
        timed,
        inside.ok & ~inside.ended,
        ~inside.ok & inside.refused,
        ~inside.ok & ~inside.refused,
    ):
        made.sent.append(_sent(inside.seq[chosen], minute[chosen]))


def minutes_of(at: Ints, width_us: int) -> Ints:
    """Return the minute in which the slice of each time begins."""
    return (at // width_us * width_us) // MINUTE_US


def _near(sends: _Columns, bounds: Sequence[tuple[int, int]]) -> list[list[tuple[int, int, str]]]:
    """Pick the acknowledgements within each bounds, the last one before them and the first one after."""
    if not bounds:
        return []
    acked = sends.among(sends.ok & sends.ended)
    order = np.lexsort((acked.seq, acked.end))
    end = acked.end[order]
    found = []
    for low, high in bounds:
        first = max(int(np.searchsorted(end, low, side="right")) - 1, 0)
        last = int(np.searchsorted(end, high, side="left")) + 1
        found.append(
            [
                (int(acked.end[one]), int(acked.seq[one]), acked.clock.text[acked.clock.code[one]])
                for one in order[first:last]
            ]
        )
    return found


def _stretches(stretch: Ints, took: Ints, timed: Bools, ok: Bools) -> dict[int, StretchSums]:
    every, failed = sums(stretch, ~ok)
    starts, values = stretch[timed], took[timed]
    if not in_order(starts).all():
        order = np.argsort(starts, kind="stable")
        starts, values = starts[order], values[order]
    first, last = (np.searchsorted(starts, every, side=side) for side in ("left", "right"))
    return {
        start: StretchSums(weighted(values[low:high]), count)
        for start, low, high, count in zip(
            every.tolist(), first.tolist(), last.tolist(), failed.tolist(), strict=True
        )
    }


def _plotted(group: str, start: int, of: StretchSums) -> Row:
    """Return a row of LATENCY_SERIES."""
    return {
        "group": group,
        "ts": start,
        "p50_ms": quantile(of.took, 0.5, US_PER_MS),
        "p99_ms": quantile(of.took, 0.99, US_PER_MS),
        "max_ms": float(of.took.value[-1]) / US_PER_MS if len(of.took.value) else None,
        "failed": of.failed,
    }


def _fast(sends: _Columns, took: Ints, value: float, width_us: int) -> Fast:
    ok = sends.ok
    within = (took / US_PER_MS <= value) & sends.ended
    beyond = (took / US_PER_MS > value) & sends.ended
    minute, good, bad = sums(minutes_of(sends.at[ok], width_us), within[ok], beyond[ok])
    return Fast(minute, good, bad)


def _sent(seq: Ints, minute: Ints) -> Sent:
    """Return messages as runs of one minute; a number that comes twice counts twice."""
    if not len(seq):
        return NO_SENDS
    if not (np.diff(seq) > 0).all():
        order = np.lexsort((minute, seq))
        seq, minute = seq[order], minute[order]
    cut = np.flatnonzero((np.diff(seq) != 1) | (np.diff(minute) != 0)) + 1
    first = np.concatenate([ints([0]), cut])
    last = np.concatenate([cut, ints([len(seq)])]) - 1
    return Sent(seq[first], seq[last] + 1, minute[first])


def _reads(reads: _Columns, made: OperationSums) -> None:
    if not len(reads.at):
        return
    made.is_read = True
    made.was_read = runs(reads.seq[reads.ok])
    made.was_missed = runs(reads.seq[reads.missing])
    told = np.where(reads.ended, reads.end, reads.start)
    for code in np.unique(reads.clock.code):
        made.last_read[reads.clock.text[code]] = int(told[reads.clock.code == code].max())


def folded(parts: Iterable[dict[str, OperationSums]]) -> dict[str, OperationSums]:
    """Add up the sums of windows, in order of time, by group."""
    whole = arrays.folded(parts, merged)
    for name, one in whole.items():
        one.series += [_plotted(name, start, of) for start, of in sorted(one.cut.items())]
        one.cut = {}
    return whole


def merged(parts: Iterable[dict[str, OperationSums]]) -> dict[str, OperationSums]:
    """Add up the sums of neighbouring windows, in order of time, by group."""
    return {name: _added(name, of) for name, of in sorted(by_name(parts).items())}


def _joined(cut: Iterable[Mapping[int, StretchSums]]) -> dict[int, StretchSums]:
    """Add up the parts of stretches, in order of time."""
    return {
        start: StretchSums(added(one.took for one in of), sum(one.failed for one in of))
        for start, of in sorted(by_name(cut).items())
    }


def _added(group: str, of: Sequence[OperationSums]) -> OperationSums:
    if len(of) == 1:
        return of[0]
    cut = _joined(one.cut for one in of)
    # Later windows lack parts of the stretches before the last one.
    series = [_plotted(group, start, cut.pop(start)) for start in list(cut)[:-1]]
    second, count = sums(joined(one.failed_second for one in of), joined(one.failed_sends for one in of))
    last_read: dict[str, int] = {}
    for one in of:
        for clock, us in one.last_read.items():
            last_read[clock] = max(last_read.get(clock, us), us)
    return OperationSums(
        seen=union(one.seen for one in of),
        failed_second=second,
        failed_sends=count,
        watched_until=max((one.watched_until for one in of if one.watched_until is not None), default=None),
        took=added(one.took for one in of),
        timeless=sum(one.timeless for one in of),
        failed=sum(one.failed for one in of),
        series=[*(row for one in of for row in one.series), *series],
        cut=cut,
        fast=[
            Fast(*sums(*[joined(one[place] for one in parts) for place in range(3)]))
            for parts in zip(*[one.fast for one in of if one.fast], strict=True)
        ],
        sent=[
            Sent(*[joined(one[place] for one in parts) for place in range(3)])
            for parts in zip(*[one.sent for one in of if one.sent], strict=True)
        ],
        acks=[
            sorted(ack for part in parts for ack in part)
            for parts in zip(*[one.acks for one in of if one.acks], strict=True)
        ],
        is_read=any(one.is_read for one in of),
        was_read=union(one.was_read for one in of),
        was_missed=union(one.was_missed for one in of),
        last_read=last_read,
    )
