"""OpenMetrics text with timestamps to samples: history that another program exported.

Problem: history is imported once and believed for months, so a file that was cut off, or holds one line that is none, must
not land in part and look whole.
Shape: a strict reader of lines. Every sample must carry a timestamp, the text must end with `# EOF`, and the first line that
breaks a rule ends the reading with its number. Names, labels and escapes are taken apart by the collector's own parser, once a
series.
Never: `# TYPE` and `# HELP` decide nothing here, as what a sample is follows from its name; exemplars are dropped.

Source: OpenMetrics 1.0, sections "Overall Structure" and "Timestamps" (seconds, with a fraction).
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from slo_pipeline.collect.exposition import SERIES_CACHED_MAX, Series, split_series

EOF: Final = "# EOF"
US_PER_S: Final = 1_000_000
# The end of the year 9999; what is later, or before 1970, is milliseconds taken for seconds, or rubbish.
TIMESTAMP_S_MAX: Final = 253_402_300_799.0


class OpenMetricsError(ValueError):
    """The text cannot be imported; the message names the line and says why."""


class TimedSample(NamedTuple):
    """One value of one series at one time."""

    series: Series
    ts_us: int
    value: float


def timed_samples(lines: Iterable[str]) -> Iterator[TimedSample]:
    """Yield the samples of a text in its order.

    Raises:
        OpenMetricsError: at the first line that is no sample with a timestamp, or at the end if `# EOF` is missing.
    """
    known: dict[str, Series] = {}
    ended_at: int | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")
        if ended_at is not None and line:
            raise OpenMetricsError(f"line {number}: text after {EOF!r} of line {ended_at}")
        if line == EOF:
            ended_at = number
        if not line or line[0] == "#":
            continue
        try:
            yield _sample(line, known)
        except ValueError as error:
            raise OpenMetricsError(f"line {number}: {error}") from None
    if ended_at is None:
        raise OpenMetricsError(f"the text does not end with {EOF!r}: it was cut off")


def _sample(line: str, known: dict[str, Series]) -> TimedSample:
    brace = line.rfind("} ")
    head, rest = (line[: brace + 1], line[brace + 1 :]) if brace >= 0 else line.partition(" ")[::2]
    series = known.get(head)
    if series is None:
        series, head, rest = split_series(line)
        if len(known) >= SERIES_CACHED_MAX:
            known.clear()
        known[head] = series
    fields = rest.partition("#")[0].split()
    if len(fields) != 2:
        missing = "has no timestamp" if len(fields) == 1 else f"has {len(fields)} fields after its labels"
        raise ValueError(f"{series.metric} {missing}")
    value, seconds = _number("value", fields[0]), _number("timestamp", fields[1])
    if not 0 <= seconds <= TIMESTAMP_S_MAX:
        raise ValueError(f"timestamp {fields[1]} is no second between 1970 and 9999")
    return TimedSample(series, round(seconds * US_PER_S), value)


def _number(name: str, text: str) -> float:
    # Python would read 1_0 as ten.
    if "_" in text:
        raise ValueError(f"{name} {text!r} is no number")
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{name} {text!r} is no number") from None
    if name == "timestamp" and not math.isfinite(number):
        raise ValueError(f"{name} {text!r} is no time")
    return number
