"""Prometheus text to samples, fast enough for a scrape a second of every process.

Problem: a broker's page holds the same few hundred series every second; only the numbers change. A general
parser takes apart names, labels and escapes each time, at about 20,000 samples per second. Shape: everything
before the value is looked up as one string. Only a line never seen before is taken apart, by a strict parser
of names, labels and escapes; its result is cached under that string (`series_text`). The memory is bounded,
so that a page with ever new labels costs speed and not memory.

What a sample is follows from its name (`_total`, `_bucket`, `_sum`, `_count`). `# TYPE` and `# HELP` are not
read: the OpenTelemetry exporter 1.29 of RocketMQ 5.1.4 to 5.3 writes `# TYPE` lines under names no sample
has, and stamps samples with milliseconds; 1.44 (5.4 on) does neither. Both come out alike here. Exemplars are
dropped. Never: it does no I/O, and one bad line never costs the others; it is counted.

Source: Prometheus documentation, "Exposition formats", text format 0.0.4; opentelemetry-java issue 5716.
"""

from dataclasses import dataclass
from typing import NamedTuple

from slo_pipeline.formats.series_text import Series, SeriesCache, SeriesError, split_series

__all__ = [
    "PAGE_SERIES_MAX",
    "SERIES_CACHED_MAX",
    "ExpositionPage",
    "ExpositionParser",
    "Sample",
    "Series",
    "lines_of",
]

SERIES_CACHED_MAX = 200_000
PAGE_SERIES_MAX = SERIES_CACHED_MAX // 2
"""Of one page: all its series are in one generation of the cache."""
MILLISECONDS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: beyond it a timestamp is rubbish, not time."""


class Sample(NamedTuple):
    """One value; `timestamp_ms` only where the page had one."""

    series: Series
    value: float
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class ExpositionPage:
    """A parsed page: samples in its order, and the number of lines that are not samples."""

    samples: list[Sample]
    malformed: int


def lines_of(page: bytes) -> int:
    """Return how many lines of a page can be samples, comments left out, without taking any apart."""
    comments = page.count(b"\n#") + page.startswith(b"#")
    unended = bool(page) and not page.endswith(b"\n")
    return page.count(b"\n") + unended - comments


class ExpositionParser:
    """Parses the pages of one target; it remembers series, so use one a target."""

    def __init__(self) -> None:
        self._series = SeriesCache(SERIES_CACHED_MAX)

    def parse(self, text: str) -> ExpositionPage:
        """Return the samples of a page; other lines are counted and left out."""
        samples: list[Sample] = []
        malformed = 0
        known = self._series.get
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            if line[0] in " \t":
                line = line.lstrip(" \t")
                if not line or line[0] == "#":
                    continue
            brace = line.rfind("} ")
            if brace < 0:
                head, _, rest = line.partition(" ")
            else:
                head, rest = line[: brace + 1], line[brace + 2 :]
            try:
                series = known(head)
                if series is None:
                    series, rest = self._learn(line)
                samples.append(_sample(series, rest))
            except ValueError:
                malformed += line.strip() != ""
        return ExpositionPage(samples, malformed)

    def _learn(self, line: str) -> tuple[Series, str]:
        series, head, rest = split_series(line)
        return self._series.put(head, series), rest


def _sample(series: Series, rest: str) -> Sample:
    if "#" in rest:
        rest = rest[: rest.index("#")]
    if "_" in rest:
        raise SeriesError("Python would read 1_0 as a number")
    fields = rest.split()
    if len(fields) == 1:
        return Sample(series, float(fields[0]), None)
    if len(fields) != 2:
        raise SeriesError(f"{len(fields)} fields after the name")
    # OpenMetrics stamps seconds with a fraction; we never ask for it, so a number here is milliseconds.
    timestamp_ms = int(fields[1])
    if not 0 <= timestamp_ms <= MILLISECONDS_MAX:
        raise SeriesError(f"timestamp {timestamp_ms}")
    return Sample(series, float(fields[0]), timestamp_ms)
