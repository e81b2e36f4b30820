"""Rows on their way to a segment, in bounded memory and without work for the garbage collector.

Problem: a hundred brokers make 20,000 samples per second; as Python objects a minute of them is half a
gigabyte and a pause of seconds when it is turned into a table, and during a pause no scrape is on time.
Shape: samples are stored as machine numbers in columns: a series is a small number, and its name and labels
are stored once. Turning columns into tables is then done by pyarrow's own code, a part at a time, as a sample
with its labels is ten times as large as its numbers. Events and probe operations are few; they are stored as
tuples. Both are split by UTC day when they are taken out, since a segment holds one day. Never: a buffer
never grows beyond its bound; it refuses rows that do not fit, and the caller counts them.
"""

import datetime as dt
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from slo_pipeline.formats.exposition import Sample, Series
from slo_pipeline.schemas import SEGMENTS
from slo_pipeline.schemas.names import SAMPLES_TABLE
from slo_pipeline.schemas.series_ids import series_id

SAMPLES_BUFFERED_MAX = 1_000_000
"""32 bytes each; at 20,000 a second it is a segment of 50 s."""
ROWS_BUFFERED_MAX = 100_000
ADDRESSES_MAX = 500_000
"""Objects that stand for series, in one batch; each has some 100 bytes of its own beside what its parser
holds."""

US_PER_DAY = 86_400_000_000
_DAYS_BEFORE_1970 = (dt.date(1970, 1, 1) - dt.date(1, 1, 1)).days
_NO_TIMESTAMP = -1
_US_PER_MS = 1_000

PART_ROWS = 131_072
"""Of samples that are a table at a time: some 45 MB with a broker's labels."""

DayTables = list[tuple[dt.date, Iterable[pa.Table]]]
"""The rows of each UTC day, in parts that can be gone over again."""


def day_of(ts_us: int) -> dt.date:
    """Return the UTC day of microseconds since 1970."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=ts_us // US_PER_DAY)


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Samples taken out of their buffer.

    No other code holds them, so any thread may turn them into tables.
    """

    series: list[Series]
    instances: list[tuple[str, str]]
    ts_us: "array[int]"
    series_id: "array[int]"
    instance_id: "array[int]"
    value: "array[float]"
    embedded_us: "array[int]"

    def tables(self) -> DayTables:
        """Return the rows of each UTC day, ordered by metric, labels, instance and time."""
        numbers = pa.table(
            {
                "ts": _column(self.ts_us, pa.int64()),
                "series": _column(self.series_id, pa.int32()),
                "instance": _column(self.instance_id, pa.int32()),
                "value": _column(self.value, pa.float64()),
                "embedded": _column(self.embedded_us, pa.int64()),
            }
        )
        named = _Named.of(self.series, self.instances)
        return [
            (day, _SampleParts(_sorted(rows, self.series, len(self.instances)), named))
            for day, rows in _by_day(numbers)
        ]


class SampleBuffer:
    """Samples as columns of numbers."""

    def __init__(self, rows_max: int = SAMPLES_BUFFERED_MAX) -> None:
        self._rows_max = rows_max
        self._reset()

    def _reset(self) -> None:
        self._series_ids: dict[Series, int] = {}
        # A parser gives the same object for the same series: its address is found faster than its labels are
        # compared.
        self._ids_by_address: dict[int, int] = {}
        self._addressed: list[Series] = []
        self._instance_ids: dict[tuple[str, str], int] = {}
        self._ts_us = array("q")
        self._series = array("i")
        self._instance = array("i")
        self._value = array("d")
        self._embedded_us = array("q")

    def __len__(self) -> int:
        return len(self._ts_us)

    def add(self, ts_us: int, instance: str, uid: str, samples: Sequence[Sample]) -> bool:
        """Keep one scrape whole, or refuse it whole.

        Args:
            ts_us: begin of the scrape, UTC microseconds.
            instance: the scraped target.
            uid: identity of that process; "" when unknown.
            samples: what it said.

        Returns:
            True if it was stored; False: the buffer is full.
        """
        if len(self) + len(samples) > self._rows_max:
            return False
        instance_id = self._instance_ids.setdefault((instance, uid), len(self._instance_ids))
        known = self._ids_by_address.get
        ids = [known(id(sample.series)) for sample in samples]
        self._series.extend(
            [
                self._series_id(sample.series) if at is None else at
                for at, sample in zip(ids, samples, strict=True)
            ]
        )
        self._value.extend([sample.value for sample in samples])
        stamps = [sample.timestamp_ms for sample in samples]
        self._embedded_us.extend([_NO_TIMESTAMP if at is None else at * _US_PER_MS for at in stamps])
        self._ts_us.extend([ts_us] * len(samples))
        self._instance.extend([instance_id] * len(samples))
        return True

    def _series_id(self, series: Series) -> int:
        number = self._series_ids.setdefault(series, len(self._series_ids))
        if len(self._addressed) < ADDRESSES_MAX:
            # Held, so that no other object comes to lie there.
            self._addressed.append(series)
            self._ids_by_address[id(series)] = number
        return number

    def take(self) -> SampleBatch:
        """Empty the buffer; what it held belongs to the batch."""
        batch = SampleBatch(
            list(self._series_ids),
            list(self._instance_ids),
            self._ts_us,
            self._series,
            self._instance,
            self._value,
            self._embedded_us,
        )
        self._reset()
        return batch


def _by_day(numbers: pa.Table) -> Iterable[tuple[dt.date, pa.Table]]:
    # Counted from the year 1: a quotient is rounded towards zero, and a day is not.
    since = _call("add", numbers["ts"], pa.scalar(_DAYS_BEFORE_1970 * US_PER_DAY))
    days = _call("divide", since, pa.scalar(US_PER_DAY))
    for day in days.unique().to_pylist():
        rows = numbers.filter(_call("equal", days, pa.scalar(day)))
        yield day_of((day - _DAYS_BEFORE_1970) * US_PER_DAY), rows


@dataclass(frozen=True, slots=True)
class _Named:
    """What the numbers of a batch stand for."""

    metric: pa.Array
    labels: pa.Array
    ids: pa.Array
    instance: pa.Array
    uid: pa.Array

    @classmethod
    def of(cls, series: Sequence[Series], instances: Sequence[tuple[str, str]]) -> Self:
        labels = [one.labels for one in series]
        return cls(
            pa.array([one.metric for one in series], pa.string()),
            pa.array(labels, SEGMENTS[SAMPLES_TABLE].field("labels").type),
            pa.array([series_id(one.metric, one.labels) for one in series], pa.int64()),
            pa.array([name for name, _ in instances], pa.string()),
            pa.array([uid for _, uid in instances], pa.string()),
        )


@dataclass(frozen=True, slots=True)
class _SampleParts:
    """The samples of one day as tables of PART_ROWS rows, each made on demand."""

    numbers: pa.Table
    named: _Named

    def __iter__(self) -> Iterator[pa.Table]:
        for begin in range(0, self.numbers.num_rows, PART_ROWS):
            yield self._table(self.numbers.slice(begin, PART_ROWS))

    def _table(self, rows: pa.Table) -> pa.Table:
        schema, named = SEGMENTS[SAMPLES_TABLE], self.named
        stamped = _call("greater_equal", rows["embedded"], pa.scalar(0))
        nothing = pa.scalar(None, pa.int64())
        return pa.table(
            [
                rows["ts"].cast(schema.field("ts").type),
                named.metric.take(rows["series"]),
                named.labels.take(rows["series"]),
                rows["value"],
                named.instance.take(rows["instance"]),
                named.uid.take(rows["instance"]),
                _call("if_else", stamped, rows["embedded"], nothing).cast(schema.field("embedded_ts").type),
                named.ids.take(rows["series"]),
            ],
            schema=schema,
        )


def _sorted(numbers: pa.Table, series: Sequence[Series], instances: int) -> pa.Table:
    """Order rows by metric, labels, instance, time.

    Neighbours compress, and a reader of one metric skips the rest.

    Rows come in the order of time and the sort is stable, so one number a row (rank of the series, then
    instance) is the whole key.
    """
    ranks = [0] * len(series)
    for rank, place in enumerate(sorted(range(len(series)), key=lambda at: _sort_key(series[at]))):
        ranks[place] = rank
    rank_of_row = pa.array(ranks, pa.int64()).take(numbers["series"])
    key = _call("add", _call("multiply", rank_of_row, pa.scalar(instances)), numbers["instance"])
    return numbers.take(_call("array_sort_indices", key))


def _sort_key(series: Series) -> tuple[str, tuple[tuple[str, str], ...]]:
    return series.metric, series.labels


def _column(numbers: "array[Any]", kind: pa.DataType) -> pa.Array:
    """View machine numbers as a column, without copying and without making a Python object of each."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _call(function: str, *arguments: object) -> Any:  # noqa: ANN401 - pyarrow's compute functions are not typed
    return pc.call_function(function, list(arguments))


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows taken out of their buffer; any thread may turn them into tables."""

    schema: pa.Schema
    day_at: int
    rows: list[tuple[object, ...]]

    def tables(self) -> DayTables:
        """Return the rows of each UTC day, in the order they came."""
        days: dict[dt.date, list[tuple[object, ...]]] = {}
        for row in self.rows:
            ts_us = row[self.day_at]
            if not isinstance(ts_us, int):
                raise TypeError(f"{self.schema.names[self.day_at]} must be microseconds, not {ts_us!r}")
            days.setdefault(day_of(ts_us), []).append(row)
        return [(day, [self._table(rows)]) for day, rows in days.items()]

    def _table(self, rows: list[tuple[object, ...]]) -> pa.Table:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.table(arrays, schema=self.schema)


class RowBuffer:
    """Rows of `events` or `probe_ops` as tuples in the schema's order."""

    def __init__(self, table: str, day_column: str, rows_max: int = ROWS_BUFFERED_MAX) -> None:
        """Describe the buffer.

        Args:
            table: a key of `SEGMENTS`.
            day_column: the timestamp whose UTC day decides the segment; microseconds, never None.
            rows_max: the bound.
        """
        self._schema = SEGMENTS[table]
        self._day_at = self._schema.get_field_index(day_column)
        self._rows_max = rows_max
        self._rows: list[tuple[object, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether the next row would be refused."""
        return len(self._rows) >= self._rows_max

    def add(self, row: tuple[object, ...]) -> bool:
        """Keep a row, or refuse it because the buffer is full.

        Raises:
            ValueError: the row has not as many fields as the schema (our mistake).
        """
        if len(row) != len(self._schema):
            raise ValueError(f"a row of {len(row)} fields for {self._schema.names}")
        if self.full:
            return False
        self._rows.append(row)
        return True

    def take(self) -> RowBatch:
        """Empty the buffer; what it held belongs to the batch."""
        rows, self._rows = self._rows, []
        return RowBatch(self._schema, self._day_at, rows)
