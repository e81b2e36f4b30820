"""What writers and the SyncStateSet went through around one change of master: two plots on one time scale.

Problem: the timeline says what the system did; whether anybody felt it only the canary's sends say. Shape:
sends as points on a logarithmic scale, acknowledged ones as dots, others as crosses in a band of their own on
top (they lack a latency), the fault's time shaded over the whole height; below, at the same scale, the
SyncStateSet's size. Never: a failed send is not drawn at a latency it does not have.
"""

from bisect import bisect_right
from collections import Counter
from typing import Final

from slo_pipeline.reports.drawing.markup import Markup, join
from slo_pipeline.reports.drawing.svg import (
    US_PER_S,
    WIDTH,
    Box,
    Linear,
    Log,
    crosses,
    decades,
    dots,
    figure,
    line,
    path,
    rect,
    steps,
    text,
    time_axis,
    time_ticks,
    value_axis,
)
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import Failover, SyncStateSetStep

LEFT_PX: Final = 88
RIGHT_PX: Final = 24
LATENCY_HEIGHT_PX: Final = 268
SYNC_HEIGHT_PX: Final = 132
BAND_PX: Final = 26
MEMBER_PX: Final = 7.0


def bounds(failover: Failover) -> tuple[int, int]:
    """Return the stretch of time both plots show, microseconds: the interval and as much again around it."""
    start_us = min(failover.interval_start_us, failover.begin_us)
    around_us = max(2 * US_PER_S, min(10 * US_PER_S, (failover.interval_end_us - start_us) // 2))
    return start_us - around_us, failover.interval_end_us + around_us


def _shades(failover: Failover, box: Box, scale: Linear) -> Markup:
    parts: list[Markup] = []
    if failover.fault_us is not None:
        healed = scale.high if failover.fault_healed_us is None else float(failover.fault_healed_us)
        left, right = scale.clamp(failover.fault_us), scale.clamp(healed)
        parts.append(
            rect(left, box.top, right - left, box.bottom - box.top, "fault", note="while the fault lasted")
        )
        parts.append(line(left, box.top, left, box.bottom, "faultline"))
    if failover.gap_start_us is not None:
        ended = scale.high if failover.first_ack_us is None else float(failover.first_ack_us)
        left, right = scale.clamp(failover.gap_start_us), scale.clamp(ended)
        parts.append(
            rect(left, box.top, right - left, box.bottom - box.top, "gap", note="no acknowledged send")
        )
    return join(parts)


def latency_points(failover: Failover, name: str) -> Markup:
    """Draw the canary's sends around a change of master."""
    low_us, high_us = bounds(failover)
    box = Box(LEFT_PX, 22, WIDTH - RIGHT_PX, LATENCY_HEIGHT_PX - 34)
    scale = Linear(low_us, high_us, box.left, box.right)
    shown = [point for point in failover.points if low_us <= point.us <= high_us]
    answered = [point.latency_ms for point in shown if point.result == "ok" and point.latency_ms is not None]
    high_ms = max(100.0, max(answered, default=1.0) * 1.3)
    low_ms = min(1.0, max(0.05, min(answered, default=1.0) * 0.8))
    y = Log(low_ms, high_ms, box.bottom, box.top + BAND_PX + 8)
    ok = [
        (scale(point.us), y(point.latency_ms)) for point in shown if point.result == "ok" and point.latency_ms
    ]
    band = box.top + BAND_PX / 2
    no = [(scale(point.us), band) for point in shown if point.result != "ok"]
    return figure(
        name,
        f"Canary's sends around epoch {failover.epoch} of {failover.group}",
        _latency_words(failover, len(ok), len(no), max(answered, default=None)),
        LATENCY_HEIGHT_PX,
        _shades(failover, box, scale),
        value_axis(box, y, [(tick, words.ms(tick)) for tick in decades(low_ms, high_ms)]),
        text(box.left - 10, band + 4, "failed", "t e"),
        line(box.left, box.top + BAND_PX, box.right, box.top + BAND_PX, "axis"),
        time_axis(box, scale, time_ticks(low_us, high_us)),
        dots(ok, "ok"),
        crosses(no, "no"),
        _legend(box, len(ok), len(no)),
    )


def _legend(box: Box, ok: int, no: int) -> Markup:
    x = box.right - 330
    return join(
        part
        for part in (
            dots([(x, 8)], "ok"),
            text(x + 10, 12, f"{words.plain(ok)} acknowledged", "t"),
            crosses([(x + 180, 8)], "no"),
            text(x + 190, 12, f"{words.plain(no)} failed", "t"),
        )
        if part is not None
    )


def _latency_words(failover: Failover, ok: int, no: int, worst_ms: float | None) -> str:
    return (
        f"{words.count(ok, 'acknowledged send')}, the slowest took {words.ms(worst_ms)}; "
        f"{words.count(no, 'failed send')}. {words.gap(failover)}"
    )


def results(failover: Failover) -> list[tuple[str, int]]:
    """Return how many sends in the plot ended how, the most frequent first."""
    low_us, high_us = bounds(failover)
    counted = Counter(point.result for point in failover.points if low_us <= point.us <= high_us)
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def visible_steps(failover: Failover) -> list[SyncStateSetStep]:
    """Return the SyncStateSet's steps in the plot, the first one moved to its left border."""
    low_us, high_us = bounds(failover)
    # The steps are those of the group's whole period, in order.
    begin = bisect_right(failover.steps, low_us, key=lambda step: step.us)
    end = bisect_right(failover.steps, high_us, key=lambda step: step.us)
    before = failover.steps[max(0, begin - 1) : begin]
    first = [SyncStateSetStep(low_us, step.members, step.size) for step in before]
    return [*first, *failover.steps[begin:end]]


def in_sync(failover: Failover, name: str) -> Markup:
    """Draw the size of the SyncStateSet around a change of master."""
    low_us, high_us = bounds(failover)
    box = Box(LEFT_PX, 20, WIDTH - RIGHT_PX, SYNC_HEIGHT_PX - 32)
    scale = Linear(low_us, high_us, box.left, box.right)
    shown = visible_steps(failover)
    top = max([step.size for step in shown] + [2])
    y = Linear(0, top + 0.35, box.bottom, box.top)
    corners = steps([(scale(step.us), y(step.size)) for step in shown], box.right)
    area = [(corners[0][0], box.bottom), *corners, (corners[-1][0], box.bottom)] if corners else []
    return figure(
        name,
        f"SyncStateSet of {failover.group} around epoch {failover.epoch}",
        "; ".join(f"{words.clock(step.us)} {{{step.members}}}" for step in shown) or "No change reported.",
        SYNC_HEIGHT_PX,
        _shades(failover, box, scale),
        value_axis(box, y, [(size, str(size)) for size in range(top + 1)]),
        path(area, "area") if area else None,
        path(corners, "step") if corners else None,
        _member_labels(shown, scale, y),
        time_axis(box, scale, time_ticks(low_us, high_us)),
    )


def _member_labels(shown: list[SyncStateSetStep], scale: Linear, y: Linear) -> Markup:
    """Write a set's members above its step where the step is long enough for them."""
    parts: list[Markup] = []
    for index, step in enumerate(shown):
        end = scale(shown[index + 1].us) if index + 1 < len(shown) else scale.end
        label = f"{{{step.members}}}"
        start = scale(step.us)
        if end - start > len(label) * MEMBER_PX + 8:
            parts.append(text(start + 6, y(step.size) - 5, label, "t halo"))
    return join(parts)
