"""Scales, axes and figures: the little of a plotting library that the report needs.

Problem: a plotting library brings half a megabyte of script or pictures without text; the report must be
readable, small and the same bytes for the same input. Shape: a scale maps values to pixels, an axis draws
ticks of a scale, `figure` wraps marks in an SVG that says what it shows (`role=img`, `<title>`, `<desc>`).
Colours come from classes, so the page's style decides light and dark. Never: no random ids, no fonts, no
scripts.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from slo_pipeline.reports.drawing.markup import Markup, join, number, tag

WIDTH: Final = 1040
US_PER_S: Final = 1_000_000
# Distances between ticks that people count in, seconds.
TIME_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
    172_800, 432_000, 864_000,
)  # fmt: skip
S_PER_DAY: Final = 86_400


class Scale(Protocol):
    """Maps a value to a pixel."""

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        ...


class Linear(NamedTuple):
    """A straight scale; an empty domain maps to its beginning."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        if self.high == self.low:
            return self.start
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clamp(self, value: float) -> float:
        """Return the pixel of a value, at the border if it lies outside."""
        return self(min(max(value, self.low), self.high))


class Log(NamedTuple):
    """A logarithmic scale; values below the lowest are drawn at the border."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + min(share, 1.0) * (self.end - self.start)


class Box(NamedTuple):
    """Where a plot lies in its figure, pixels."""

    left: float
    top: float
    right: float
    bottom: float


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Return round values inside [low, high], roughly as many as asked for."""
    if high <= low:
        return [low]
    raw = (high - low) / max(about, 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return the powers of ten in [low, high]."""
    return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def time_ticks(start_us: int, end_us: int, about: int = 8) -> list[tuple[int, str]]:
    """Return ticks on round UTC times with their labels; the day is named where the labels would repeat."""
    span_s = max(1, (end_us - start_us) // US_PER_S)
    step_s = next((step for step in TIME_STEPS_S if step * about >= span_s), TIME_STEPS_S[-1])
    first = -(-start_us // (step_s * US_PER_S)) * step_s * US_PER_S
    style = (
        "%H:%M:%S" if step_s < 60 else "%H:%M" if step_s < S_PER_DAY and span_s <= 2 * S_PER_DAY else "%d %b"
    )
    if step_s < S_PER_DAY < span_s / 2:
        style = "%d %b %H:%M"
    return [
        (us, datetime.fromtimestamp(us // US_PER_S, tz=UTC).strftime(style))
        for us in range(first, end_us + 1, step_s * US_PER_S)
    ]


def figure(
    name: str,
    title: str,
    description: str,
    height: float,
    *marks: object,
    width: float = WIDTH,
    stretch: bool = False,
) -> Markup:
    """Return an SVG with real text that says what it shows.

    Args:
        name: unique on the page; ids are made of it.
        title: what the picture is.
        description: what a person would say who sees it.
        height: pixels.
        *marks: markup to draw.
        width: pixels.
        stretch: fill the place it is given, whatever its shape; for bars without text.
    """
    # Each name has ids of its own: what an id should not hold is written as its number.
    name = "".join(one if one.isalnum() or one in "-." else f"_{ord(one):x}_" for one in name)
    return tag(
        "svg",
        tag("title", title, id=f"{name}-t"),
        tag("desc", description, id=f"{name}-d"),
        *marks,
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
        view_box=f"0 0 {number(width)} {number(height)}",
        preserve_aspect_ratio="none" if stretch else None,
        xmlns="http://www.w3.org/2000/svg",
    )


def text(x: float, y: float, content: object, class_: str = "") -> Markup:
    """Return a text with its baseline at y."""
    return tag("text", content, x=float(x), y=float(y), class_=class_ or None)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def rect(
    x: float, y: float, width: float, height: float, class_: str, *, note: str = "", radius: float = 0
) -> Markup:
    """Return a rectangle; the note is what a pointer over it shows."""
    return tag(
        "rect",
        tag("title", note) if note else None,
        x=float(x),
        y=float(y),
        width=float(max(width, 0.0)),
        height=float(height),
        rx=float(radius) if radius else None,
        class_=class_,
    )


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Return a line through the points."""
    return tag("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in points), class_=class_)


def dots(points: Iterable[tuple[float, float]], class_: str) -> Markup | None:
    """Return round dots as one path of zero-length strokes: ten bytes a dot."""
    # Each place once: more dots at it are not to be seen.
    drawn = "".join(dict.fromkeys(f"M{number(x)} {number(y)}h0" for x, y in points))
    return tag("path", d=drawn, class_=class_) if drawn else None


def crosses(points: Iterable[tuple[float, float]], class_: str, *, reach: float = 3.2) -> Markup | None:
    """Return crosses as one path, so that failures differ from dots in shape, not only in colour."""
    side = number(2 * reach)
    drawn = "".join(
        dict.fromkeys(
            f"M{number(x - reach)} {number(y - reach)}l{side} {side}m0-{side}l-{side} {side}"
            for x, y in points
        )
    )
    return tag("path", d=drawn, class_=class_) if drawn else None


def diamond(x: float, y: float, note: str, *, reach: float = 5.5) -> Markup:
    """Return a diamond with a note."""
    corners = f"M{number(x)} {number(y - reach)}l{reach} {reach}l-{reach} {reach}l-{reach}-{reach}z"
    return tag("path", tag("title", note), d=corners, class_="mark")


def steps(points: Sequence[tuple[float, float]], until: float) -> list[tuple[float, float]]:
    """Return the corners of a step line that keeps each value until the next point."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    if corners:
        corners.append((until, corners[-1][1]))
    return corners


def value_axis(box: Box, scale: Scale, ticks: Sequence[tuple[float, str]]) -> Markup:
    """Return horizontal grid lines with labels at their left."""
    return join(
        part
        for value, label in ticks
        for part in (
            line(box.left, scale(value), box.right, scale(value), "grid"),
            text(box.left - 10, scale(value) + 4, label, "t e"),
        )
    )


def time_axis(box: Box, scale: Scale, ticks: Sequence[tuple[float, str]], *, grid: bool = False) -> Markup:
    """Return the lower axis with labels under it."""
    parts: list[Markup] = [line(box.left, box.bottom, box.right, box.bottom, "axis")]
    for value, label in ticks:
        x = scale(value)
        parts.append(line(x, box.top if grid else box.bottom, x, box.bottom + 5, "grid" if grid else "axis"))
        parts.append(text(x, box.bottom + 20, label, "t m"))
    return join(parts)
