"""The plots of the whole period: budget, latency over time, histogram, replication lag.

Problem: a month of seconds in a thousand pixels must not lose the one bad second. Shape: series come in
already bucketed with their maximum kept; failures are marks of their own; the axis says when it does not
begin at 0. Never: no smoothing, no line through a bucket in which nothing was measured.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from slo_pipeline.reports.drawing.markup import Markup, join, number, tag
from slo_pipeline.reports.drawing.svg import (
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
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import Failover, GroupReport, LagSeries, Report

LEFT_PX: Final = 88
RIGHT_PX: Final = 24
REPLICAS_MAX: Final = 8
LAG_LEFT_PX: Final = 200
LAG_ROW_PX: Final = 58
# An idle group's lag of a few hundred bytes must not fill the picture.
LAG_SCALE_MIN_BYTES: Final = 1_000_000.0
SEGMENT_MIN_PX: Final = 3.0
# Nearer than this, marks and labels of changes of master cover each other, and steps look like one.
MARK_MIN_PX: Final = 12.0
LABEL_MIN_PX: Final = 90.0
STEP_MIN_PX: Final = 1.0
LAG_NAME_CHARACTERS_MAX: Final = 27
SPENT_WIDTH_PX: Final = 440
# A stretch longer than this many buckets without a value breaks the line.
HOLE_BUCKETS: Final = 1.5


def spent_scale_s(report: Report) -> float:
    """Return the seconds that fill a spending bar.

    That is a whole budget if somebody spent a fifth of it, else the most spent.
    """
    most = max((group.bad_s for group in report.groups), default=0)
    return max(report.budget_s, float(most)) if most > report.budget_s / 5 else max(float(most), 1.0)


def spent_bar(report: Report, group: GroupReport) -> Markup:
    """Draw what one group spent: failovers first, unexplained last, on the scale of all groups."""
    scale = Linear(0.0, spent_scale_s(report), 0.0, float(SPENT_WIDTH_PX))
    spent = {kind: sum(1 for bad in group.bad_seconds if bad.booking == kind) for kind in words.BOOKINGS}
    parts = [rect(0, 0, SPENT_WIDTH_PX, 16, "left-f", radius=3)]
    x = 0.0
    for kind in words.BOOKINGS:
        if spent[kind]:
            width = max(SEGMENT_MIN_PX, scale(spent[kind]))
            parts.append(
                rect(x, 0, width, 16, f"{kind}-f", note=f"{kind}: {words.seconds(spent[kind])}", radius=3)
            )
            x += width
    said = ", ".join(f"{kind} {words.seconds(seconds)}" for kind, seconds in spent.items() if seconds)
    return figure(
        f"spent-{group.name}",
        f"Budget spent by {group.name}",
        f"{said or 'Nothing'} spent of {words.seconds(report.budget_s)}.",
        16,
        *parts,
        width=SPENT_WIDTH_PX,
    )


def burn_down(report: Report, group: GroupReport, failovers: Sequence[Failover], name: str) -> Markup:
    """Draw the rest of a group's budget over the period, with its changes of master."""
    box = Box(LEFT_PX, 26, WIDTH - RIGHT_PX, 196)
    scale = Linear(report.start_us, report.end_us, box.left, box.right)
    remaining = report.budget_s - group.bad_s
    spare = max(1.0, (report.budget_s - remaining) * 0.35)
    y = Linear(remaining - spare, report.budget_s + spare * 0.4, box.bottom, box.top)
    left = [(scale(report.start_us), y(report.budget_s))]
    for spent, bad in enumerate(group.bad_seconds, start=1):
        corner = (scale(bad.us), y(report.budget_s - spent))
        if len(left) > 1 and corner[0] - left[-1][0] < STEP_MIN_PX:
            corner = (left.pop()[0], corner[1])  # too near to be seen as a step of its own
        left.append(corner)
    window_us = report.window_days * 86_400 * 1_000_000
    pace_end = report.budget_s * (1 - (report.end_us - report.start_us) / window_us)
    pace = path([(box.left, y(report.budget_s)), (box.right, y(max(pace_end, y.low)))], "pace")
    ticks = [tick for tick in nice_ticks(y.low, report.budget_s, 4) if tick == round(tick)]
    return figure(
        name,
        f"Remaining error budget of {group.name}",
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
    marked = labelled = -math.inf
    for failover in failovers:
        x = scale(failover.elected_us)
        if x - marked < MARK_MIN_PX:
            continue  # would lie on its neighbour; the table has it
        marked = x
        said = f"{failover.booking}, epoch {failover.epoch}, {words.seconds(failover.bad_s)} of budget"
        parts.append(line(x, box.top - 8, x, box.bottom, "faultline"))
        if failover.is_planned:
            parts.append(tag("circle", tag("title", said), cx=x, cy=box.top - 14, r=4.5, class_="mark"))
        else:
            corners = f"M{number(x - 5.5)} {number(box.top - 19)}h11l-5.5 10z"
            parts.append(tag("path", tag("title", said), d=corners, class_="red"))
        if x - labelled >= LABEL_MIN_PX:
            parts.append(text(x + 10, box.top - 10, f"epoch {failover.epoch}", "t halo"))
            labelled = x
    return join(parts)


def latency_over_time(report: Report, group: GroupReport, name: str) -> Markup:
    """Draw median, 99th percentile and maximum of acknowledged sends over the period.

    Failures are crosses on top.
    """
    box = Box(LEFT_PX, 56, WIDTH - RIGHT_PX, 236)
    scale = Linear(report.start_us, report.end_us, box.left, box.right)
    top = max((bucket.max_ms for bucket in group.series if bucket.max_ms is not None), default=10.0)
    low = min((bucket.p50_ms for bucket in group.series if bucket.p50_ms is not None), default=1.0)
    y = Log(min(1.0, max(0.05, low * 0.8)), max(160.0, top * 1.3), box.bottom, box.top)
    half_us = report.bucket_s * 500_000
    band = _band(
        [
            (b.us + half_us, b.p50_ms, b.max_ms)
            for b in group.series
            if b.p50_ms is not None and b.max_ms is not None
        ],
        scale,
        y,
        report.bucket_s,
    )
    median = [(b.us + half_us, b.p50_ms) for b in group.series if b.p50_ms is not None]
    most = [(b.us + half_us, b.p99_ms) for b in group.series if b.p99_ms is not None]
    lines = [
        band,
        _broken_line(most, scale, y, report.bucket_s, "l1 thin"),
        _broken_line(median, scale, y, report.bucket_s, "l1"),
    ]
    failed = [(scale(bucket.us + half_us), box.top - 18.0) for bucket in group.series if bucket.failed]
    latency = group.latency
    return figure(
        name,
        f"Send latency of {group.name} over time",
        f"Median {words.ms(latency.p50_ms)}, 99 % {words.ms(latency.p99_ms)}, slowest "
        f"{words.ms(latency.max_ms)}."
        if latency
        else "No acknowledged send.",
        274,
        value_axis(box, y, [(tick, words.ms(tick)) for tick in decades(y.low, y.high)]),
        text(box.left - 10, box.top - 14, "failed", "t e"),
        *lines,
        crosses(failed, "no"),
        _legend([("l1", "median"), ("l1 thin", "99 %"), ("wideband", "up to the slowest")], box),
        time_axis(box, scale, time_ticks(report.start_us, report.end_us)),
    )


def _runs(stretches: Sequence[float], bucket_s: float) -> list[range]:
    """Return the ranges of neighbouring stretches: a hole ends one; without stretches the result is empty."""
    if not stretches:
        return []
    holes = [
        index
        for index in range(1, len(stretches))
        if stretches[index] - stretches[index - 1] > HOLE_BUCKETS * bucket_s * 1_000_000
    ]
    return [range(start, end) for start, end in pairwise([0, *holes, len(stretches)])]


def _broken_line(
    points: Sequence[tuple[float, float]], x: Linear, y: Linear | Log, bucket_s: float, class_: str
) -> Markup:
    """Draw a line that is broken where stretches are missing; a lone one is a short stroke."""
    lines = []
    for run in _runs([us for us, _ in points], bucket_s):
        corners = [(x(points[index][0]), y(points[index][1])) for index in run]
        lines.append(path([*corners, (corners[-1][0] + 1.5, corners[-1][1])], class_))
    return join(lines)


def _band(stretches: Sequence[tuple[float, float, float]], x: Linear, y: Log, bucket_s: float) -> Markup:
    """Fill what lies between the lower and the upper value of each stretch."""
    areas = []
    for run in _runs([us for us, _, _ in stretches], bucket_s):
        upper = [(x(stretches[index][0]), y(stretches[index][2])) for index in run]
        lower = [(x(stretches[index][0]), y(stretches[index][1])) for index in reversed(run)]
        areas.append(path([*upper, *lower], "band"))
    return join(areas)


def _legend(entries: Sequence[tuple[str, str]], box: Box) -> Markup:
    parts: list[Markup] = []
    x = box.left
    for class_, label in entries:
        parts.append(line(x, 10, x + 26, 10, class_))
        parts.append(text(x + 33, 14, label, "t"))
        x += 33 + len(label) * 6.6 + 26
    return join(parts)


def histogram(group: GroupReport, name: str) -> Markup:
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


def bucket_labels(group: GroupReport) -> list[tuple[str, int]]:
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


def lag(report: Report, group: GroupReport, name: str) -> Markup:
    """Draw the worst replication lag of each replica over the period, one row each, all on one scale."""
    shown = group.lag[:REPLICAS_MAX]
    top = max(max((worst_lag(series) for series in shown), default=0.0), LAG_SCALE_MIN_BYTES)
    scale = Linear(report.start_us, report.end_us, LAG_LEFT_PX, WIDTH - RIGHT_PX)
    parts: list[Markup] = []
    for index, series in enumerate(shown):
        bottom = (index + 1) * LAG_ROW_PX
        y = Linear(0, top, bottom, bottom - LAG_ROW_PX + 14)
        parts.append(text(0, bottom - 18, words.clipped(series.name, LAG_NAME_CHARACTERS_MAX), "b"))
        parts.append(text(0, bottom - 2, f"at most {words.octets(worst_lag(series))}", "t"))
        parts.append(line(LAG_LEFT_PX, bottom, WIDTH - RIGHT_PX, bottom, "axis"))
        parts.append(line(LAG_LEFT_PX, y.end, WIDTH - RIGHT_PX, y.end, "grid"))
        parts.append(text(WIDTH - RIGHT_PX, y.end - 3, words.octets(top), "t e halo"))
        parts.append(_columns(series.values, scale, y, report.bucket_s))
    box = Box(LAG_LEFT_PX, 0, WIDTH - RIGHT_PX, len(shown) * LAG_ROW_PX)
    return figure(
        name,
        f"Replication lag of {group.name}",
        "; ".join(f"{series.name} at most {words.octets(worst_lag(series))}" for series in shown),
        box.bottom + 30,
        *parts,
        time_axis(box, scale, time_ticks(report.start_us, report.end_us)),
    )


def _columns(values: Sequence[tuple[int, float]], x: Linear, y: Linear, bucket_s: float) -> Markup:
    """Draw one column a stretch as one path; a stretch with a lag is at least a pixel high."""
    width = max(1.0, x(x.low + bucket_s * 1_000_000) - x.start - 0.4)
    drawn = ""
    for us, value in values:
        height = max(1.0, y.start - y(value)) if value > 0 else 0.4
        drawn += f"M{number(x(us))} {number(y.start)}v-{number(height)}h{number(width)}v{number(height)}z"
    return tag("path", d=drawn, class_="bar")


def availability_strip(report: Report, group: GroupReport, name: str) -> Markup:
    """Draw the period as a strip.

    It shows good stretches, stretches with bad seconds (full height) and unknown ones (low).
    """
    scale = Linear(report.start_us, report.end_us, LEFT_PX, WIDTH - RIGHT_PX)
    top, bottom = 26.0, 62.0
    width = max(1.2, scale(report.start_us + report.bucket_s * 1_000_000) - scale.start - 0.8)
    shapes = {"good": (10.0, ""), "unknown": (24.0, ""), "bad": (0.0, "")}
    for stretch in group.strip:
        state = "bad" if stretch.bad_s else "unknown" if stretch.unknown_s else "good"
        start, drawn = shapes[state]
        high = bottom - top - start
        corner = f"M{number(scale(stretch.us))} {number(top + start)}"
        shapes[state] = (start, f"{drawn}{corner}h{number(width)}v{number(high)}h-{number(width)}z")
    legend = [
        ("good-f", "all writes acknowledged"),
        ("bad-f", "writes failed"),
        ("unknown-f", "not measured"),
    ]
    box = Box(LEFT_PX, top, WIDTH - RIGHT_PX, bottom)
    return figure(
        name,
        f"Seconds of {group.name}",
        f"{group.good_s} good, {group.bad_s} bad, {group.unknown_s} unknown seconds.",
        94,
        *[tag("path", d=drawn, class_=f"{state}-f") for state, (_, drawn) in shapes.items() if drawn],
        join(
            part
            for index, (class_, label) in enumerate(legend)
            for part in (
                rect(LEFT_PX + index * 190, 2, 10, 10, class_, radius=2),
                text(LEFT_PX + index * 190 + 16, 12, label, "t"),
            )
        ),
        time_axis(box, scale, time_ticks(report.start_us, report.end_us)),
    )


def worst_lag(series: LagSeries) -> float:
    """Return the largest lag of a replica in bytes."""
    return max((value for _, value in series.values), default=0.0)
