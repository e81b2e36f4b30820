"""The plots of the whole period: budget, latency over time, histogram, replication lag.

Problem: a month of seconds in a thousand pixels must not lose the one bad second.
Shape: series come in already bucketed with their maximum kept; failures are marks of their own; the axis says when it does
not begin at 0.
Never: no smoothing, no line through a bucket in which nothing was measured.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from slo_pipeline.reports import words
from slo_pipeline.reports.markup import Markup, join, number, tag
from slo_pipeline.reports.model import Failover, Group, LagSeries, Report
from slo_pipeline.reports.svg import (
    WIDTH,
    Box,
    Linear,
    Log,
    crosses,
    decades,
    figure,
    line,
    nice_ticks,
    path,
    rect,
    steps,
    text,
    time_axis,
    time_ticks,
    value_axis,
)

LEFT_PX: Final = 88
RIGHT_PX: Final = 24
STYLES: Final = 6
SEGMENT_MIN_PX: Final = 3.0
# A stretch longer than this many buckets without a value breaks the line.
HOLE_BUCKETS: Final = 1.5
_KINDS: Final = ("failover", "switchover", "unexplained")


def budget_bar(report: Report, group: Group) -> Markup:
    """Draw one group's whole budget as a bar: what failovers, switchovers and the unexplained took, what is left."""
    left, right, top, height = 0.0, float(WIDTH), 2.0, 18.0
    spent = {kind: sum(1 for bad in group.bad_seconds if bad.booking == kind) for kind in _KINDS}
    per_s = (right - left) / max(report.budget_s, float(sum(spent.values())), 1.0)
    parts = [rect(left, top, right - left, height, "left-f", radius=4)]
    x = left
    for kind in _KINDS:
        if spent[kind]:
            width = max(SEGMENT_MIN_PX, spent[kind] * per_s)
            parts.append(
                rect(x, top, width, height, f"{kind}-f", note=f"{kind}: {words.seconds(spent[kind])}")
            )
            x += width + 1
    said = ", ".join(f"{kind} {words.seconds(seconds)}" for kind, seconds in spent.items() if seconds)
    remaining = report.budget_s - group.bad_s
    return figure(
        f"budget-{group.name}",
        f"Error budget of {group.name}",
        f"{said or 'Nothing'} spent of {words.seconds(report.budget_s)}; {words.seconds(remaining)} left.",
        height + 4,
        *parts,
    )


def burn_down(report: Report, group: Group, failovers: Sequence[Failover], name: str) -> Markup:
    """Draw what is left of a group's budget over the period, with its changes of master."""
    box = Box(LEFT_PX, 26, WIDTH - RIGHT_PX, 196)
    scale = Linear(report.start_us, report.end_us, box.left, box.right)
    remaining = report.budget_s - group.bad_s
    spare = max(1.0, (report.budget_s - remaining) * 0.35)
    y = Linear(remaining - spare, report.budget_s + spare * 0.4, box.bottom, box.top)
    left = [(scale(report.start_us), y(report.budget_s))]
    left += [
        (scale(bad.us), y(report.budget_s - spent)) for spent, bad in enumerate(group.bad_seconds, start=1)
    ]
    window_us = report.window_days * 86_400 * 1_000_000
    pace_end = report.budget_s * (1 - (report.end_us - report.start_us) / window_us)
    pace = path([(box.left, y(report.budget_s)), (box.right, y(max(pace_end, y.low)))], "pace")
    ticks = [tick for tick in nice_ticks(y.low, report.budget_s, 5) if tick <= report.budget_s]
    return figure(
        name,
        f"What is left of {group.name}'s budget",
        f"{words.seconds(report.budget_s)} at the start, {words.seconds(remaining)} at the end.",
        238,
        value_axis(box, y, [(tick, words.seconds(tick)) for tick in ticks]),
        pace,
        path(steps(left, box.right), "step"),
        _change_marks(failovers, scale, box),
        time_axis(box, scale, time_ticks(report.start_us, report.end_us)),
    )


def _change_marks(failovers: Sequence[Failover], scale: Linear, box: Box) -> Markup:
    """Mark each change of master: a triangle for a failover, a ring for a switchover, with its epoch."""
    parts: list[Markup] = []
    for failover in failovers:
        x = scale(failover.elected_us)
        said = f"{failover.booking}, epoch {failover.epoch}, {words.seconds(failover.bad_s)} of budget"
        parts.append(line(x, box.top - 8, x, box.bottom, "faultline"))
        if failover.is_planned:
            parts.append(tag("circle", tag("title", said), cx=x, cy=box.top - 14, r=4.5, class_="mark"))
        else:
            corners = f"M{number(x - 5.5)} {number(box.top - 19)}h11l-5.5 10z"
            parts.append(tag("path", tag("title", said), d=corners, class_="red"))
        parts.append(text(x + 10, box.top - 10, f"epoch {failover.epoch}", "t halo"))
    return join(parts)


def latency_over_time(report: Report, group: Group, name: str) -> Markup:
    """Draw median, 99th percentile and maximum of acknowledged sends over the period; failures as crosses on top."""
    box = Box(LEFT_PX, 46, WIDTH - RIGHT_PX, 230)
    scale = Linear(report.start_us, report.end_us, box.left, box.right)
    top = max((bucket.max_ms for bucket in group.series if bucket.max_ms is not None), default=10.0)
    low = min((bucket.p50_ms for bucket in group.series if bucket.p50_ms is not None), default=1.0)
    y = Log(min(1.0, max(0.05, low * 0.8)), max(100.0, top * 1.3), box.bottom, box.top)
    half_us = report.bucket_s * 500_000
    lines = []
    for index, quantile in ((1, "p50_ms"), (3, "p99_ms"), (2, "max_ms")):
        known = [(bucket.us + half_us, getattr(bucket, quantile)) for bucket in group.series]
        points = [(us, float(value)) for us, value in known if value is not None]
        lines.append(_broken_line(points, scale, y, report.bucket_s, f"l{index}"))
    failed = [(scale(bucket.us + half_us), box.top - 12.0) for bucket in group.series if bucket.failed]
    latency = group.latency
    return figure(
        name,
        f"Send latency of {group.name} over time",
        f"Median {words.ms(latency.p50_ms)}, 99 % {words.ms(latency.p99_ms)}, slowest {words.ms(latency.max_ms)}."
        if latency
        else "No acknowledged send.",
        270,
        value_axis(box, y, [(tick, words.ms(tick)) for tick in decades(y.low, y.high)]),
        text(box.left - 10, box.top - 8, "failed", "t e"),
        *lines,
        crosses(failed, "no"),
        _legend([("l1", "median"), ("l3", "99 %"), ("l2", "slowest")], box),
        time_axis(box, scale, time_ticks(report.start_us, report.end_us)),
    )


def _broken_line(
    points: Sequence[tuple[float, float]], x: Linear, y: Linear | Log, bucket_s: float, class_: str
) -> Markup:
    """Draw a line that is broken where buckets are missing; a lone bucket is a dot-sized stroke."""
    runs: list[list[tuple[float, float]]] = [[]]
    for index, (us, value) in enumerate(points):
        if index and us - points[index - 1][0] > HOLE_BUCKETS * bucket_s * 1_000_000:
            runs.append([])
        runs[-1].append((x(us), y(value)))
    drawn = [[*run, (run[-1][0] + 1.5, run[-1][1])] for run in runs if run]
    return join(path(run, class_) for run in drawn)


def _legend(entries: Sequence[tuple[str, str]], box: Box) -> Markup:
    parts: list[Markup] = []
    x = box.left
    for class_, label in entries:
        parts.append(line(x, 10, x + 26, 10, class_))
        parts.append(text(x + 33, 14, label, "t"))
        x += 33 + len(label) * 6.6 + 26
    return join(parts)


def histogram(group: Group, name: str) -> Markup:
    """Draw how many acknowledged sends took how long; counts stand beside bars too short to see."""
    total = sum(sends for _, sends in group.histogram) or 1
    most = max((sends for _, sends in group.histogram), default=1)
    left, row = 132.0, 24.0
    width = Linear(0, most, 0, WIDTH - left - 190)
    parts: list[Markup] = []
    for index, (label, sends) in enumerate(bucket_labels(group)):
        y = index * row
        parts.append(text(left - 12, y + 16, label, "e"))
        parts.append(rect(left, y + 4, max(width(sends), 1.5 if sends else 0.0), row - 8, "bar", radius=2))
        parts.append(
            text(
                left + width(sends) + 9,
                y + 16,
                f"{words.plain(sends)}  ({words.percent(sends / total)})",
                "t",
            )
        )
    return figure(
        name,
        f"Send latency of {group.name}, histogram",
        "; ".join(f"{label}: {sends}" for label, sends in bucket_labels(group)),
        max(1, len(parts) // 3) * row + 4,
        *parts,
    )


def bucket_labels(group: Group) -> list[tuple[str, int]]:
    """Return the histogram's buckets with their bounds in words, without the empty ends."""
    labelled: list[tuple[str, int]] = []
    bounds = [0.0, *(bound for bound, _ in group.histogram)]
    for (low, high), (_, sends) in zip(pairwise(bounds), group.histogram, strict=True):
        label = f"over {words.ms(low)}" if high == float("inf") else f"{words.plain(low)} to {words.ms(high)}"
        labelled.append((label if low else f"up to {words.ms(high)}", sends))
    while labelled and labelled[-1][1] == 0:
        labelled.pop()
    while labelled and labelled[0][1] == 0:
        labelled.pop(0)
    return labelled


def lag(report: Report, group: Group, name: str) -> Markup:
    """Draw the worst replication lag of each replica over the period."""
    shown = group.lag[:STYLES]
    box = Box(LEFT_PX, 34, WIDTH - RIGHT_PX, 190)
    scale = Linear(report.start_us, report.end_us, box.left, box.right)
    top = max((value for series in shown for _, value in series.values), default=0.0)
    y = Linear(0, max(top * 1.08, 1024.0), box.bottom, box.top)
    entries = [(f"l{index}", series.name) for index, series in enumerate(shown, start=1)]
    return figure(
        name,
        f"Replication lag of {group.name}",
        "; ".join(f"{series.name} at most {words.octets(worst_lag(series))}" for series in shown),
        230,
        value_axis(box, y, [(tick, words.octets(tick)) for tick in nice_ticks(0, y.high, 4)]),
        *(
            _broken_line(series.values, scale, y, report.bucket_s, class_)
            for series, (class_, _) in zip(shown, entries, strict=True)
        ),
        _legend(entries, box),
        time_axis(box, scale, time_ticks(report.start_us, report.end_us)),
    )


def worst_lag(series: LagSeries) -> float:
    """Return the largest lag of a replica in bytes."""
    return max((value for _, value in series.values), default=0.0)
