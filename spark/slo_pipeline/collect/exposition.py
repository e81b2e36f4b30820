"""Prometheus text to samples, fast enough for a scrape a second of every process.

Problem: a broker's page holds the same few hundred series every second; only the numbers change. A general parser
takes apart names, labels and escapes each time, at about 20,000 samples a second.
Shape: everything before the value is looked up as one string. Only a line never seen before is taken apart, by a
strict parser of names, labels and escapes; its result is kept under that string. The memory is bounded and forgotten
whole when full, so that a page with ever new labels costs speed and not memory.

What a sample is follows from its name (`_total`, `_bucket`, `_sum`, `_count`). `# TYPE` and `# HELP` are not read: the
OpenTelemetry exporter 1.29 of RocketMQ 5.1.4 to 5.3 writes `# TYPE` lines under names no sample has, and stamps
samples with milliseconds; 1.44 (5.4 on) does neither. Both come out alike here. Exemplars are dropped.
Never: it does no I/O, and one bad line never costs the others; it is counted.

Source: Prometheus documentation, "Exposition formats", text format 0.0.4; opentelemetry-java issue 5716.
"""

import re
import sys
from dataclasses import dataclass

SERIES_CACHED_MAX = 100_000
MILLISECONDS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: beyond it a timestamp is rubbish, not time."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(,|(?=\}))')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Series:
    """A sample's name and labels; labels in the order of the page, names once each."""

    metric: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value; `timestamp_ms` only where the page had one."""

    series: Series
    value: float
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page: samples in its order, and how many lines were no samples."""

    samples: list[Sample]
    malformed: int


class _LineError(ValueError):
    """One line is not a sample."""


class ExpositionParser:
    """Parses the pages of one target; it remembers series, so use one a target."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}
        self._labels: dict[tuple[str, str], tuple[str, str]] = {}

    def parse(self, text: str) -> Page:
        """Return the samples of a page; lines that are none are counted and left out."""
        samples: list[Sample] = []
        malformed = 0
        known = self._series
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            brace = line.rfind("} ")
            if brace < 0:
                head, _, rest = line.partition(" ")
            else:
                head, rest = line[: brace + 1], line[brace + 2 :]
            series = known.get(head)
            try:
                if series is None:
                    series, rest = self._learn(line)
                samples.append(_sample(series, rest))
            except ValueError:
                malformed += line.strip() != ""
        return Page(samples, malformed)

    def _learn(self, line: str) -> tuple[Series, str]:
        series, head, rest = split_series(line)
        if len(self._series) >= SERIES_CACHED_MAX:
            self._series.clear()
            self._labels.clear()
        # Hundreds of series have most of their labels in common: kept once, they are a fifth of the memory.
        common = self._labels
        labels = tuple([common.setdefault(label, label) for label in series.labels])
        self._series[head] = Series(sys.intern(series.metric), labels)
        return self._series[head], rest


def split_series(line: str) -> tuple[Series, str, str]:
    """Return the series of a line, the text that stands for it, and what follows.

    Raises:
        ValueError: no series stands at the line's beginning.
    """
    name = _NAME.match(line)
    if name is None:
        raise _LineError("no name")
    if not line.startswith("{", name.end()):
        return Series(name.group(), ()), name.group(), line[name.end() :]
    labels: dict[str, str] = {}
    at = name.end() + 1
    while label := _LABEL.match(line, at):
        key, value, _ = label.groups()
        if key in labels:
            raise _LineError(f"label {key} twice")
        labels[key] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
        at = label.end()
    if not line.startswith("}", at):
        raise _LineError(f"labels do not end at {at}")
    return Series(name.group(), tuple(labels.items())), line[: at + 1], line[at + 1 :]


def _unescape(match: re.Match[str]) -> str:
    # An unknown escape keeps its backslash, as Prometheus does.
    return _ESCAPES.get(match.group(1), match.group())


def _sample(series: Series, rest: str) -> Sample:
    if "#" in rest:
        rest = rest[: rest.index("#")]
    if "_" in rest:
        raise _LineError("Python would read 1_0 as a number")
    fields = rest.split()
    if len(fields) == 1:
        return Sample(series, float(fields[0]), None)
    if len(fields) != 2:
        raise _LineError(f"{len(fields)} fields after the name")
    # OpenMetrics stamps seconds with a fraction; we never ask for it, so a number here is milliseconds.
    timestamp_ms = int(fields[1])
    if not 0 <= timestamp_ms <= MILLISECONDS_MAX:
        raise _LineError(f"timestamp {timestamp_ms}")
    return Sample(series, float(fields[0]), timestamp_ms)
