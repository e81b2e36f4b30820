r"""OpenMetrics text with timestamps to samples: history that another program exported.

Problem: history is imported once and believed for months, so a file that was cut off, or holds one invalid
line, must not land in part and look whole. Shape: a strict reader of lines. Every sample must carry a
timestamp, the text must end with `# EOF`, and the first line that breaks a rule ends the reading with its
number. Names, labels and escapes are taken apart by the collector's own parser, once a series.
`RepeatedStamps` finds samples whose series has one of the same time already. Never: `# TYPE` and `# HELP`
decide nothing here, as what a sample is follows from its name; exemplars are dropped.

`promtool tsdb dump-openmetrics` writes label values with the escapes of Go (`\t`, `\u200b`), which no
exposition format has; a writer of those formats would double the backslash. So they are read as Go means
them. Timestamps are cut to microseconds, which are those of segments: a sample never moves into a later
window.

Source: OpenMetrics 1.0, sections "Overall Structure" and "Timestamps" (seconds, with a fraction); Go's
`strconv.Quote`.
"""

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal, localcontext
from typing import Final, NamedTuple

from slo_pipeline.formats.exposition import SERIES_CACHED_MAX
from slo_pipeline.formats.series_text import Series, SeriesCache, split_series, unescaped

EOF: Final = "# EOF"
US_PER_S: Final = 1_000_000
# The years 1 to 9999; a value outside is milliseconds mistaken for seconds, or garbage.
TIMESTAMP_S_MIN: Final = -62_135_596_800.0
TIMESTAMP_S_MAX: Final = 253_402_300_799.0
LINE_CHARACTERS_MAX: Final = 1_048_576
SERIES_MAX: Final = 2_000_000
"""Of one text: some 200 bytes each, to know the last time of each."""
DISORDERED_STAMPS_MAX: Final = 10_000_000
"""Maximum of remembered times for series whose samples are not in time order."""

_SERIES_KEY_BYTES: Final = 16
_GO_ESCAPE: Final = re.compile(
    r"((?:\\x[0-9a-fA-F]{2})+)|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)", re.DOTALL
)
_GO_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "r": "\r", "t": "\t", "v": "\v"}
_SURROGATES: Final = range(0xD800, 0xE000)
_CODE_MAX: Final = 0x10FFFF
_REPLACEMENT: Final = "\ufffd"


class OpenMetricsError(ValueError):
    """The text cannot be imported; the message names the line and says why."""


class TimedSample(NamedTuple):
    """One value of one series at one time.

    Attributes:
        series: its labels in the order of their names, so that equal series are equal.
        key: stands for the series.
        ts_us: UTC microseconds since 1970.
        value: as written.
        is_cut: whether the text had a finer time.
    """

    series: Series
    key: bytes
    ts_us: int
    value: float
    is_cut: bool


def timed_samples(lines: Iterable[str]) -> Iterator[TimedSample]:
    """Yield the samples of a text in its order.

    Raises:
        OpenMetricsError: at the first line that is not a sample with a timestamp, or at the end if `# EOF` is
            missing.
    """
    reader = _LineReader()
    ended_at: int | None = None
    for number, raw in enumerate(lines, 1):
        if len(raw) > LINE_CHARACTERS_MAX:
            raise OpenMetricsError(f"line {number}: longer than {LINE_CHARACTERS_MAX} characters")
        line = raw.rstrip("\r\n").lstrip(" \t")
        if ended_at is not None and line:
            raise OpenMetricsError(f"line {number}: text after {EOF!r} of line {ended_at}")
        if line == EOF:
            ended_at = number
        if not line or line[0] == "#":
            continue
        try:
            yield reader.sample(line)
        except ValueError as error:
            raise OpenMetricsError(f"line {number}: {error}") from None
    if ended_at is None:
        raise OpenMetricsError(f"the text does not end with {EOF!r}: it was cut off")


class _LineReader:
    """Reads one line after another; it remembers series."""

    def __init__(self) -> None:
        self._series = SeriesCache(SERIES_CACHED_MAX)
        self._keys: dict[Series, bytes] = {}

    def sample(self, line: str) -> TimedSample:
        """Return the sample of a line.

        Raises:
            ValueError: it is not a sample, or lacks a timestamp.
        """
        brace = line.rfind("} ")
        head, rest = (line[: brace + 1], line[brace + 1 :]) if brace >= 0 else line.partition(" ")[::2]
        series = self._series.get(head)
        if series is None:
            found, head, rest = split_series(line, go_unescaped)
            series = self._series.put(head, Series(found.metric, tuple(sorted(found.labels))))
        fields = rest.partition("#")[0].split()
        if len(fields) != 2:
            missing = "has no timestamp" if len(fields) == 1 else f"has {len(fields)} fields after its labels"
            raise ValueError(f"{series.metric} {missing}")
        value, ts_us, is_cut = _number("value", fields[0]), *_microseconds(fields[1])
        return TimedSample(series, self._key(series), ts_us, value, is_cut)

    def _key(self, series: Series) -> bytes:
        key = self._keys.get(series)
        if key is None:
            if len(self._keys) >= SERIES_CACHED_MAX:
                self._keys.clear()
            text = repr((series.metric, series.labels)).encode()
            key = self._keys[series] = hashlib.blake2b(text, digest_size=_SERIES_KEY_BYTES).digest()
        return key


def go_unescaped(text: str) -> str:
    """Return a quoted text without its escapes.

    These are the escapes of the exposition formats, and those that only Go writes.

    An unknown escape keeps its backslash.
    """
    return _GO_ESCAPE.sub(_go_character, text) if "\\" in text else text


def _go_character(match: re.Match[str]) -> str:
    octets, short, long, letter = match.groups()
    if octets is not None:
        return bytes.fromhex(octets.replace("\\x", "")).decode(errors="replace")
    if letter is not None:
        return _GO_ESCAPES.get(letter) or unescaped(match.group())
    code = int(short or long, 16)
    return _REPLACEMENT if code > _CODE_MAX or code in _SURROGATES else chr(code)


def _microseconds(text: str) -> tuple[int, bool]:
    """Return a timestamp in seconds as microseconds, and whether it was finer than those."""
    seconds = _number("timestamp", text)
    if not TIMESTAMP_S_MIN <= seconds <= TIMESTAMP_S_MAX:
        raise ValueError(f"invalid timestamp {text} (expected seconds in the years 1 to 9999)")
    if abs(seconds) < 1 / US_PER_S:
        # An exponent may be arbitrarily small: it adds zero digits here.
        return (-1 if seconds < 0 else 0), seconds != 0
    with localcontext(prec=len(text) + len(str(US_PER_S))):
        exact = Decimal(text) * US_PER_S
    # The quotient of integers: rounding a decimal needs as many digits as the context has.
    whole, parts = exact.as_integer_ratio()
    return whole // parts, parts != 1


def _number(name: str, text: str) -> float:
    # Python would read 1_0 as ten.
    if "_" in text:
        raise ValueError(f"invalid {name} {text!r} (expected a number)")
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"invalid {name} {text!r} (expected a number)") from None
    if name == "timestamp" and not math.isfinite(number):
        raise ValueError(f"invalid {name} {text!r} (expected a time)")
    return number


class RepeatedStamps:
    """Finds samples whose series has one of the same time already.

    For a series in time order the last time is enough. For the others (which a first reading finds) all times
    stay in memory.

    Attributes:
        disordered: keys of series whose samples are not in the order of time.
    """

    def __init__(self, disordered: Collection[bytes] = ()) -> None:
        self.disordered = set(disordered)
        self._last_us: dict[bytes, int] = {}
        self._stamps_us: dict[bytes, set[int]] = {key: set() for key in disordered}
        self._kept = 0

    @property
    def series(self) -> int:
        """Return how many series there were so far."""
        return len(self._last_us)

    def is_first(self, sample: TimedSample) -> bool:
        """Take a sample in; return whether its series had none of this time.

        Of a series that turns out to be disordered the answer may be wrong: ask again with its key.

        Raises:
            OpenMetricsError: more series, or times of disordered series, than can be remembered.
        """
        key, ts_us = sample.key, sample.ts_us
        last_us = self._last_us.get(key)
        if last_us is None and len(self._last_us) >= SERIES_MAX:
            raise OpenMetricsError(f"more than {SERIES_MAX} series: import it in parts")
        stamps = self._stamps_us.get(key)
        if stamps is None:
            if last_us is not None and ts_us < last_us:
                self.disordered.add(key)
                return True
            self._last_us[key] = ts_us
            return ts_us != last_us
        self._last_us[key] = ts_us
        before = len(stamps)
        stamps.add(ts_us)
        self._kept += len(stamps) - before
        if self._kept > DISORDERED_STAMPS_MAX:
            raise OpenMetricsError(
                f"more than {DISORDERED_STAMPS_MAX} samples of series that are not in the order of time, "
                f"{sample.series.metric} among them: sort them"
            )
        return len(stamps) > before
