"""`prometheus_raw` reads the raw samples of a Prometheus.

This Python Data Source has the schema of the samples segment.

    spark.dataSource.register(PrometheusRaw)
    spark.read.format("prometheus_raw").options(
        url="http://prometheus:9090", match='{__name__=~"rmqha_.*"}',
        start="2026-11-20T00:00:00Z", end="2026-11-21T00:00:00Z"
    ).load()

Problem: a month of samples does not fit one answer, and the query to a store must not exceed the caller's.
Shape: one partition a selector and slice of time (`slice`, 2h by default), each fetched by itself as Arrow
batches. Filters on `ts` narrow the slices and an equality of `metric` narrows the selectors; every filter is
also given back to Spark, which checks it again, so a pushed filter can make a read cheaper and never wrong.
Never: the clock. `start` and `end` are required, so that a plan reads the same rows whenever it runs.

Options: url, match (several: one a line), start and end (RFC 3339 or seconds since 1970, half-open), slice,
protocol (auto, remote_read, query), headers (a JSON object), timeout_s.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from controller_core import bounded_json
from slo_pipeline.schemas.frames import struct_type
from slo_pipeline.schemas.segments import SAMPLES
from slo_pipeline.sources.prometheus_wire import PrometheusError, PrometheusServer, Protocol, TimeRange, fetch
from slo_pipeline.sources.selectors import NAME_LABEL, Matcher, parse

PROTOCOLS: Final[dict[str, Protocol]] = {"auto": "auto", "remote_read": "remote_read", "query": "query"}
DEFAULTS: Final = {"slice": "2h", "protocol": "auto", "headers": "{}", "timeout_s": "60"}
# Spark compares a batch's schema strictly, and takes every column of a source for nullable.
NULLABLE: Final = pa.schema([field.with_nullable(True) for field in SAMPLES])
MS_PER_DAY: Final = 86_400_000
PARTITIONS_MAX: Final = 100_000
UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Slice(InputPartition):
    """One selector in one stretch of time."""

    matchers: tuple[Matcher, ...]
    stretch: TimeRange


@dataclass(frozen=True)
class SamplesRequest:
    """What the options ask for."""

    store: PrometheusServer
    selectors: tuple[tuple[Matcher, ...], ...]
    stretch: TimeRange
    slice_ms: int

    def slices(self) -> list[Slice]:
        """Cut into slices aligned to 1970, so that the same slice has the same borders in every run.

        Raises:
            PrometheusError: more than PARTITIONS_MAX.
        """
        first = self.stretch.start_ms // self.slice_ms
        last = -(-self.stretch.end_ms // self.slice_ms)
        if (last - first) * len(self.selectors) > PARTITIONS_MAX:
            raise PrometheusError(f"slice: {self.slice_ms} ms makes more than {PARTITIONS_MAX} requests")
        cut = [
            TimeRange(
                max(number * self.slice_ms, self.stretch.start_ms),
                min((number + 1) * self.slice_ms, self.stretch.end_ms),
            )
            for number in range(first, last)
        ]
        return [
            Slice(selector, stretch)
            for selector in self.selectors
            for stretch in cut
            if stretch.start_ms < stretch.end_ms
        ]


def time_ms(text: str) -> int:
    """Return milliseconds since 1970 of RFC 3339 or of seconds.

    Raises:
        ValueError: it is neither.
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return round(float(text) * 1_000)
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def _width_ms(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    width_ms = int(found[1]) * UNITS_MS[found[2]] if found else 0
    if not width_ms or MS_PER_DAY % width_ms:
        raise ValueError("write 30s, 5m, 2h or 1d; it must divide a day")
    return width_ms


def _url(text: str) -> str:
    if not re.match(r"https?://.", text):
        raise ValueError("write http:// or https://")
    return text.rstrip("/")


def _selectors(text: str) -> tuple[tuple[Matcher, ...], ...]:
    found = tuple(parse(line) for line in text.splitlines() if line.strip())
    if not found:
        raise ValueError("name at least one selector")
    return found


def _headers(text: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in dict(bounded_json.decode(text)).items()}


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "url": _url,
    "match": _selectors,
    "start": time_ms,
    "end": time_ms,
    "slice": _width_ms,
    "protocol": PROTOCOLS.__getitem__,
    "headers": _headers,
    "timeout_s": float,
}


def asked(options: Mapping[str, str]) -> SamplesRequest:
    """Read the options.

    Raises:
        PrometheusError: naming the option, its value and the fault.
    """
    given = DEFAULTS | {name.lower(): value for name, value in options.items()}
    read: dict[str, Any] = {}
    for name, reader in _READERS.items():
        if name not in given:
            raise PrometheusError(f"{name}: missing")
        try:
            read[name] = reader(given[name])
        except (ValueError, TypeError, KeyError) as error:
            raise PrometheusError(f"{name}: {given[name]!r}: {error}") from None
    if read["start"] >= read["end"]:
        raise PrometheusError(f"start: {given['start']!r}: it lies before end, {given['end']!r}")
    store = PrometheusServer(read["url"], read["headers"], read["protocol"], read["timeout_s"])
    return SamplesRequest(store, read["match"], TimeRange(read["start"], read["end"]), read["slice"])


class PrometheusRaw(DataSource):
    """Spark's entry: see the module."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "prometheus_raw"

    def schema(self) -> StructType:
        """Return the samples segment's columns."""
        return struct_type(SAMPLES)

    def reader(self, schema: StructType) -> "PrometheusReader":
        """Return a reader; the options are checked here, on the driver."""
        return PrometheusReader(asked(self.options))


class PrometheusReader(DataSourceReader):
    """Plans slices on the driver, and fetches each where Spark runs it."""

    def __init__(self, what: SamplesRequest) -> None:
        self._asked = what

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the query; yield every filter back, so that Spark checks it again."""
        self._asked = narrowed(self._asked, filters)
        yield from filters

    def partitions(self) -> list[InputPartition]:
        """Return the slices."""
        return list(self._asked.slices())

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Fetch one slice as Arrow batches.

        There are none for the stand-in that Spark makes of an empty list of slices.
        """
        if partition is None:
            return
        if not isinstance(partition, Slice):
            raise TypeError(f"a partition of another source: {partition!r}")
        for batch in fetch(self._asked.store, partition.matchers, partition.stretch):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=NULLABLE)


def narrowed(what: SamplesRequest, filters: Iterable[Filter]) -> SamplesRequest:
    """Return a smaller question that still holds every row the filters let through."""
    start_ms, end_ms = what.stretch
    selectors = what.selectors
    for one in filters:
        match one:
            case GreaterThan(("ts",), datetime() as moment) | GreaterThanOrEqual(
                ("ts",), datetime() as moment
            ):
                start_ms = max(start_ms, int(moment.timestamp() * 1_000))
            case LessThan(("ts",), datetime() as moment) | LessThanOrEqual(("ts",), datetime() as moment):
                # Rounded up: the store knows milliseconds, Spark checks the microsecond.
                end_ms = min(end_ms, int(moment.timestamp() * 1_000) + 1)
            case EqualTo(("metric",), str() as metric):
                selectors = tuple(
                    (*one_selector, Matcher(NAME_LABEL, "=", metric)) for one_selector in selectors
                )
            case _:
                continue
    return SamplesRequest(what.store, selectors, TimeRange(start_ms, max(start_ms, end_ms)), what.slice_ms)
