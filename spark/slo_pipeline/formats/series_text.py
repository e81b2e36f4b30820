"""The series at the beginning of a line of Prometheus or OpenMetrics text.

A series has a name and labels; the module also finds where they end.

Problem: a page says the same series every second, and a history says each of them a thousand times; taking
names, labels and escapes apart each time costs ten times what the number costs. Shape: `split_series` is the
strict grammar. `SeriesCache` keeps its results under the text that was taken apart, in two generations: when
the young one is full it becomes the old one, and an entry requested again becomes young again. So a page of
more series than the bound costs the look-ups of some of them and never of all at once. Never: no I/O.

A name may stand before the braces, or quoted within them (`{"metric.name",a="b"}`); a label's name may be
quoted (`{"service.name"="a"}`). Blanks and tabs may stand wherever two tokens meet.

Source: Prometheus documentation, "Exposition formats"; Prometheus 3, model/textparse/openmetricslex.l (quoted
names); OpenMetrics 1.0, "ABNF".
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

NAME_LABEL = "__name__"

_NAME = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)?[ \t]*(\{)?")
_QUOTED = r'"((?:[^"\\\n]|\\.)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})\s*(?:(=)\s*{_QUOTED})?\s*(,|(?=\}}))")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Series:
    """A sample's name and labels; labels in the order of the page, names once each."""

    metric: str
    labels: tuple[tuple[str, str], ...]


class SeriesError(ValueError):
    """No series stands at the beginning of a line; the text says why."""


def unescaped(text: str) -> str:
    """Return a quoted text without the escapes of the exposition formats.

    An unknown escape keeps its backslash, as in Prometheus.
    """
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match.group(1), match.group()), text)


def split_series(line: str, unescape: Callable[[str], str] = unescaped) -> tuple[Series, str, str]:
    """Return the series of a line, the text that stands for it, and what follows.

    Args:
        line: of a page or a history.
        unescape: turns the characters between quotes into the text that they mean.

    Raises:
        SeriesError: no series stands at the line's beginning.
    """
    begin = _NAME.match(line)
    name, brace = (begin.group(1), begin.group(2)) if begin else (None, None)
    if begin is None or brace is None:
        if begin is None or name is None:
            raise SeriesError("no name")
        return Series(name, ()), line[: begin.end(1)], line[begin.end(1) :]
    labels: dict[str, str] = {}
    at = begin.end()
    while label := _LABEL.match(line, at):
        bare, quoted, equals, value, _ = label.groups()
        key = bare if quoted is None else unescape(quoted)
        if equals is None:
            if bare is not None:
                raise SeriesError(f"label {bare} lacks a value")
            key, value = NAME_LABEL, quoted
        name = _put(labels, name, key, unescape(value or ""))
        at = label.end()
    if not line.startswith("}", at):
        raise SeriesError(f"labels do not end at {at}")
    if not name:
        raise SeriesError("no name")
    return Series(name, tuple(labels.items())), line[: at + 1], line[at + 1 :]


def _put(labels: dict[str, str], name: str | None, key: str, value: str) -> str | None:
    """Put a label among the others, unless it is the name; return the name as far as it is known."""
    if key == NAME_LABEL:
        if name is not None:
            raise SeriesError(f"two names, {name!r} and {value!r}")
        return value
    if not key:
        raise SeriesError("a label without a name")
    if key in labels:
        raise SeriesError(f"label {key} twice")
    labels[key] = value
    return name


class SeriesCache:
    """Series by the text that stands for them; at most `series_max`, the most recently used ones."""

    def __init__(self, series_max: int) -> None:
        self._generation_max = max(1, series_max // 2)
        self._young: dict[str, Series] = {}
        self._old: dict[str, Series] = {}
        self._labels: dict[tuple[str, str], tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, text: str) -> Series | None:
        """Return the series that a text stands for; None if it is not known."""
        series = self._young.get(text)
        if series is None and (series := self._old.pop(text, None)) is not None:
            self._keep(text, series)
        return series

    def put(self, text: str, series: Series) -> Series:
        """Keep a series; return one that is equal and shares its texts with the others."""
        # Hundreds of series have most of their labels in common: kept once, they are a fifth of the memory.
        common = self._labels
        labels = tuple([common.setdefault(label, label) for label in series.labels])
        kept = Series(sys.intern(series.metric), labels)
        self._keep(text, kept)
        return kept

    def _keep(self, text: str, series: Series) -> None:
        if len(self._young) >= self._generation_max:
            self._old, self._young = self._young, {}
            self._labels = {}
        self._young[text] = series
