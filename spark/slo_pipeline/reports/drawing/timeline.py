"""The picture of one change of master: actors, actions, times, and the effect on writers.

Problem: phases of 5 ms and of 2 s belong on one picture, told by four kinds of process. Shape: swim lanes
(controller, broker, canary, replica), one row a phase so that labels never collide, time since the fault
along the bottom. The window ends soon after the first acknowledged send; what lies beyond is cut at the
border with an arrow and its time in words. Never: draw an unset mark; its row says so.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from slo_pipeline.reports.drawing.markup import Markup, join, number, tag
from slo_pipeline.reports.drawing.svg import (
    WIDTH,
    Box,
    Linear,
    diamond,
    figure,
    line,
    nice_ticks,
    rect,
    text,
    time_axis,
)
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import Failover, Phase

LANES: Final = (
    ("Controller", ("P1 detection", "P2 election")),
    ("Broker", ("P3 promotion",)),
    ("Canary", ("P4 publication", "P5 first write")),
    ("Replica", ("P6 redundancy",)),
)
LABELS: Final = {
    "P0 fault": "fault",
    "P1 detection": "detection",
    "P2 election": "election",
    "P3 promotion": "role taken",
    "P4 publication": "route seen",
    "P5 first write": "first write",
    "P6 redundancy": "redundancy",
}
ROW_PX: Final = 28
LANE_GAP_PX: Final = 12
LEFT_PX: Final = 196
# On a phone the picture is as wide as the screen, so that nothing is cut and its text can be read.
NARROW_WIDTH_PX: Final = 340
NARROW_LEFT_PX: Final = 90
LANE_NAME_PX: Final = 20
TOP_PX: Final = 34
BAR_PX: Final = 15
BAR_MIN_PX: Final = 3.0
# About how wide a character of a label is; only decides on which side of a bar its label stands.
CHARACTER_PX: Final = 6.6
BOLD_CHARACTER_PX: Final = 7.4
# Redundancy is drawn to its end if that makes the picture at most this much longer.
LENGTHEN_MAX: Final = 1.6


class TimelineLayout(NamedTuple):
    """How wide the picture is and where its bars begin, pixels.

    A narrow one has its lanes' names in rows of their own.
    """

    width: float
    left: float
    ticks: int
    is_narrow: bool


WIDE: Final = TimelineLayout(WIDTH, LEFT_PX, 7, is_narrow=False)
NARROW: Final = TimelineLayout(NARROW_WIDTH_PX, NARROW_LEFT_PX, 3, is_narrow=True)


@dataclass(frozen=True)
class _Frame:
    """What every row needs to know."""

    failover: Failover
    scale: Linear
    end_ms: float
    layout: TimelineLayout

    def ms(self, us: int) -> float:
        """Return milliseconds since the beginning."""
        return (us - self.failover.begin_us) / 1_000


def css(phase: str) -> str:
    """Return the class of a phase's colour."""
    return f"p{phase[1]}"


def _window_end_ms(failover: Failover) -> float:
    """Return where the picture ends: after the marks that writers wait for, redundancy if it is near."""

    def ms(us: int) -> float:
        return (us - failover.begin_us) / 1_000

    ends = {phase.name: ms(phase.end_us) for phase in failover.phases if phase.end_us is not None}
    main = max((end for name, end in ends.items() if name != "P6 redundancy"), default=100.0)
    if failover.first_ack_us is None and failover.gap_start_us is not None:
        main = max(main, ms(failover.interval_end_us))
    redundancy = ends.get("P6 redundancy", main)
    return max(20.0, redundancy if redundancy <= main * LENGTHEN_MAX else main)


def timelines(failover: Failover, name: str) -> Markup:
    """Draw a change of master for wide and for narrow screens; the page's style shows one of both."""
    return join(
        (
            tag("div", timeline(failover, name), class_="scroll on-wide"),
            tag("div", timeline(failover, f"{name}-narrow", NARROW), class_="on-narrow"),
        )
    )


def timeline(failover: Failover, name: str, layout: TimelineLayout = WIDE) -> Markup:
    """Draw a change of master as swim lanes.

    Args:
        failover: with its phases and marks.
        name: unique on the page.
        layout: for which screen.
    """
    end_ms = _window_end_ms(failover)
    low_ms = min(0.0, (failover.gap_start_us - failover.begin_us) / 1_000) if failover.gap_start_us else 0.0
    low_ms = max(low_ms, -0.35 * end_ms) - 0.015 * end_ms
    scale = Linear(low_ms, end_ms * 1.13, layout.left, layout.width - 24)
    frame = _Frame(failover, scale, end_ms, layout)
    rows, bottom = _lanes(frame)
    box = Box(layout.left, TOP_PX, layout.width - 24, bottom)
    round_ms = nice_ticks(low_ms * 0.9, end_ms * 1.1, layout.ticks)
    ticks = [(tick, _tick_label(tick, end_ms)) for tick in round_ms]
    since = bottom + (42 if layout.is_narrow else 20)
    return figure(
        name,
        f"Timeline of {failover.group}, epoch {failover.epoch}",
        describe(failover),
        since + 24 if not layout.is_narrow else since + 8,
        _fault_shade(frame, box),
        _gap_shade(frame, box),
        time_axis(box, scale, ticks, grid=True),
        rows,
        _fault_line(frame, box),
        text(0, since, f"since {words.clock(failover.begin_us)} UTC", "t"),
        width=layout.width,
    )


def describe(failover: Failover) -> str:
    """Say in one sentence what the picture shows."""
    told = [
        f"{LABELS[phase.name]} {words.ms(phase.duration_ms)}"
        for phase in failover.phases
        if phase.duration_ms
    ]
    return f"Phases one after the other: {', '.join(told) or 'none known'}. {words.gap(failover)}"


def _tick_label(tick_ms: float, end_ms: float) -> str:
    if abs(tick_ms) < 1e-6:
        return "0"
    sign = "+" if tick_ms > 0 else "−"
    if end_ms >= 2_000:
        return f"{sign}{words.plain(abs(tick_ms) / 1_000, 2)} s"
    return f"{sign}{words.plain(abs(tick_ms), 1)} ms"


def _fault_shade(frame: _Frame, box: Box) -> Markup | None:
    fault_us, healed_us = frame.failover.fault_us, frame.failover.fault_healed_us
    if fault_us is None:
        return None
    end_ms = frame.ms(healed_us) if healed_us is not None else frame.scale.high
    left, right = frame.scale.clamp(0.0), frame.scale.clamp(end_ms)
    return rect(
        left, box.top - 8, right - left, box.bottom - box.top + 8, "fault", note="while the fault lasted"
    )


def _fault_line(frame: _Frame, box: Box) -> Markup | None:
    failover = frame.failover
    x = frame.scale(0.0)
    if failover.fault is not None:
        label = f"fault: {failover.fault}"
    else:
        label = "switch ordered" if failover.is_planned else "last sign of the old master"
    label = words.clipped(label, max(8, int((frame.layout.width - x) / BOLD_CHARACTER_PX)))
    return join((line(x, box.top - 8, x, box.bottom, "faultline"), text(x, box.top - 15, label, "b halo")))


def _gap_shade(frame: _Frame, box: Box) -> Markup | None:
    bounds = _gap_bounds(frame)
    if bounds is None:
        return None
    left, right = bounds
    return rect(left, box.top - 8, right - left, box.bottom - box.top + 8, "gap")


def _gap_bounds(frame: _Frame) -> tuple[float, float] | None:
    failover = frame.failover
    if failover.gap_start_us is None:
        return None
    end_ms = frame.ms(failover.first_ack_us) if failover.first_ack_us is not None else frame.scale.high
    return frame.scale.clamp(frame.ms(failover.gap_start_us)), frame.scale.clamp(end_ms)


def _lanes(frame: _Frame) -> tuple[Markup, float]:
    """Draw all lanes from the top; return them and where they end."""
    known = {phase.name: phase for phase in frame.failover.phases}
    parts: list[Markup] = []
    y = float(TOP_PX)
    for lane, phases in LANES:
        parts.append(line(0, y, frame.layout.width, y, "lane"))
        y += LANE_GAP_PX / 2
        lane_name = _lane_name(frame.failover, lane)
        if frame.layout.is_narrow:
            parts.append(text(0, y + LANE_NAME_PX - 6, lane_name, "b halo"))
            y += LANE_NAME_PX
        else:
            parts.append(text(0, y + ROW_PX / 2 + 4, lane_name, "b"))
        if lane == "Canary":
            parts.append(_gap_row(frame, y))
            y += ROW_PX
        for phase in phases:
            parts.append(_phase_row(frame, known.get(phase), phase, y))
            y += ROW_PX
        told = _marks_row(frame, lane, y)
        if told is not None:
            parts.append(told)
            y += ROW_PX
        y += LANE_GAP_PX / 2
    return join(parts), y


def _lane_name(failover: Failover, lane: str) -> str:
    if lane == "Broker" and failover.new_master_id is not None:
        return f"Broker {failover.new_master_id}"
    return "Replicas" if lane == "Replica" else lane


def _row_name(frame: _Frame, middle: float, name: str) -> Markup:
    return text(frame.layout.left - (8 if frame.layout.is_narrow else 14), middle + 4, name, "e")


def _gap_row(frame: _Frame, y: float) -> Markup:
    middle = y + ROW_PX / 2
    name = _row_name(frame, middle, "no write")
    bounds = _gap_bounds(frame)
    if bounds is None:
        return join((name, text(frame.layout.left + 6, middle + 4, "no canary watched", "t")))
    left, right = bounds
    gap_ms = frame.failover.write_gap_ms
    what = "a write" if frame.layout.is_narrow else "an acknowledged send"
    label = "no acknowledged send since" if gap_ms is None else f"{words.ms(gap_ms)} without {what}"
    bar = rect(
        left, middle - BAR_PX / 2, max(right - left, BAR_MIN_PX), BAR_PX, "gapbar", note=label, radius=2
    )
    return join((name, bar, _beside(frame, left, right, middle, label, "b red halo")))


def _phase_row(frame: _Frame, phase: Phase | None, name: str, y: float) -> Markup:
    middle = y + ROW_PX / 2
    label = _row_name(frame, middle, LABELS[name])
    if phase is None or phase.start_us is None or phase.end_us is None or phase.duration_ms is None:
        return join((label, text(frame.layout.left + 6, middle + 4, _absent(frame.failover, name), "t")))
    start_ms, end_ms = frame.ms(phase.start_us), frame.ms(phase.end_us)
    left, right = frame.scale.clamp(start_ms), frame.scale.clamp(end_ms)
    said = _said(phase, end_ms)
    beyond = end_ms > frame.scale.high
    if beyond:
        said = f"{words.ms(phase.duration_ms)}, until +{words.ms(end_ms)}"
    bar = rect(
        left,
        middle - BAR_PX / 2,
        max(right - left, BAR_MIN_PX),
        BAR_PX,
        css(name),
        note=f"{name}: {said}",
        radius=2,
    )
    arrow = _arrow(right, middle, css(name)) if beyond else None
    return join(
        part for part in (label, bar, arrow, _beside(frame, left, right, middle, said, "halo")) if part
    )


def _said(phase: Phase, end_ms: float) -> str:
    if phase.order == "in_order":
        return f"{words.ms(phase.duration_ms)}"
    if phase.order == "overtaken":
        return f"came earlier, at +{words.ms(max(0.0, end_ms - (phase.skew_ms or 0.0)))}"
    return f"{words.ms(phase.skew_ms)} earlier by another clock: order uncertain"


def _absent(failover: Failover, name: str) -> str:
    if name == "P1 detection" and failover.is_planned:
        return "nothing to detect: planned"
    if name == "P4 publication":
        return "no new route needed or seen"
    return "not reported"


def _arrow(x: float, middle: float, class_: str) -> Markup:
    return tag("path", d=f"M{number(x)} {number(middle - 11)}l11 11l-11 11z", class_=class_)


def _beside(frame: _Frame, left: float, right: float, middle: float, label: str, class_: str) -> Markup:
    """Write a label right of a bar; left of it, or inside, where the picture ends."""
    label = words.clipped(label, int((frame.scale.end - frame.layout.left) / CHARACTER_PX))
    width = len(label) * CHARACTER_PX
    if right + 8 + width <= frame.scale.end + 18:
        return text(right + 8, middle + 4, label, class_)
    if left - 8 - width >= frame.layout.left:
        return text(left - 8, middle + 4, label, f"{class_} e")
    return text(right - 10, middle + 4, label, f"{class_.replace('halo', '')} e".replace("  ", " "))


def _marks_row(frame: _Frame, lane: str, y: float) -> Markup | None:
    """Draw what else a lane reported, as diamonds with one line of words."""
    source = {"Replica": "replica", "Controller": "controller"}.get(lane)
    near = [
        mark
        for mark in frame.failover.marks
        if mark.source == source and frame.scale.low <= frame.ms(mark.us) <= frame.scale.high
    ]
    if not near:
        return None
    middle = y + ROW_PX / 2
    shapes = [
        diamond(
            frame.scale(frame.ms(mark.us)), middle, f"{mark.note} at +{words.ms(max(0.0, frame.ms(mark.us)))}"
        )
        for mark in near
    ]
    last = max(frame.scale(frame.ms(mark.us)) for mark in near)
    said = ", ".join(dict.fromkeys(mark.note for mark in near))
    return join((*shapes, _beside(frame, last, last + 6, middle, said, "t halo")))
