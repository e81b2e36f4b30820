"""What a report reads of a closed day, taken out of its segments once.

Problem: an hourly report over a month would open a month of segments each time, thousands of small files a
day, most of whose samples no report looks at. Shape: `write` copies the rows that a report can read,
unchanged, into one file a kind; a reader takes a closed day from there and the others from their segments.
Rows stay rows: a report of extracts has the numbers of a report of segments, whatever its objectives and its
window are, because the same transforms see the same rows. Never: judge good or bad, compute, or change a
segment.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slo_pipeline.schemas.names import EXTRACT_PREFIX
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.sources.layout import in_schema, reading

# Rows in memory at once: segments of seconds become row groups that are worth a read.
ROWS_HELD_MAX: Final = 262_144


class Extracts(NamedTuple):
    """The days that need not be read from their segments.

    Attributes:
        tables: what `daily` keeps.
        days: closed days that have an extract.
    """

    tables: Path
    days: frozenset[dt.date]

    def files(self, kind: str) -> list[Path]:
        """Return the extracts of a kind, in order; a day without such rows lacks an extract."""
        found = (_file(self.tables, kind, day) for day in sorted(self.days))
        return [path for path in found if path.exists()]

    def hold(self, folder: Path) -> bool:
        """Tell whether a folder `day=YYYY-MM-DD` of segments need not be read."""
        return folder.name in {f"day={day.isoformat()}" for day in self.days}


def extracts_of(tables: Path, closed: Iterable[dt.date]) -> Extracts:
    """Find which of the closed days have an extract: days closed before extracts existed lack one."""
    having = (day for day in closed if any(_file(tables, kind, day).exists() for kind in SEGMENTS))
    return Extracts(tables, frozenset(having))


def write(data: Path, names: Collection[str], metrics: Collection[str], directory: Path) -> None:
    """Write the extract of one day as <directory>/extract_<kind>.parquet.

    Args:
        data: directory of segments.
        names: the day's segments, paths relative to it.
        metrics: the samples that a report reads; a scrape without any of them keeps one row, to record the
            scrape.
        directory: scratch of this day.
    """
    for kind, schema in SEGMENTS.items():
        paths = [data / name for name in names if name.startswith(f"{kind}/")]
        if not paths:
            continue
        with pq.ParquetWriter(
            directory / f"{EXTRACT_PREFIX}{kind}.parquet", schema, compression="zstd"
        ) as writer:
            for rows in _gathered(paths, schema, metrics if kind == "samples" else None):
                writer.write_table(rows)


def _gathered(
    paths: Iterable[Path], schema: pa.Schema, metrics: Collection[str] | None
) -> Iterator[pa.Table]:
    """Yield the rows of many segments in tables of about ROWS_HELD_MAX rows; `metrics` None keeps all."""
    held: list[pa.Table] = []
    for path in paths:
        with reading(path):
            for rows in _rows(path, schema, metrics):
                held.append(rows)
                if sum(one.num_rows for one in held) >= ROWS_HELD_MAX:
                    yield pa.concat_tables(held)
                    held = []
    if held:
        yield pa.concat_tables(held)


def _rows(path: Path, schema: pa.Schema, metrics: Collection[str] | None) -> Iterator[pa.Table]:
    """Yield the rows to keep of one segment."""
    file = pq.ParquetFile(path)
    kept = None if metrics is None else needed(file.read(["metric", "instance", "ts"]), metrics)
    begin = 0
    for batch in file.iter_batches(ROWS_HELD_MAX, columns=schema.names):
        rows = in_schema(pa.Table.from_batches([batch]), schema).cast(schema)
        yield rows if kept is None else rows.filter(kept.slice(begin, rows.num_rows))
        begin += rows.num_rows


def needed(samples: pa.Table, metrics: Collection[str]) -> pa.ChunkedArray:
    """Tell of each sample whether a report reads it: of these metrics, or the only trace of its scrape.

    Args:
        samples: the columns metric, instance and ts of one segment, in any order of rows.
        metrics: sample names.
    """
    named = _call(
        "is_in", samples["metric"], options=pc.SetLookupOptions(pa.array(sorted(metrics), pa.string()))
    )
    scrapes = samples.select(["instance", "ts"]).append_column(
        "row", pa.array(range(samples.num_rows), pa.int64())
    )
    keys = ["instance", "ts"]
    told = scrapes.filter(named).group_by(keys).aggregate([])
    untold = scrapes.filter(_call("invert", named)).join(told, keys, join_type="left anti")
    first = untold.group_by(keys).aggregate([("row", "min")])["row_min"]
    return _call("or", named, _call("is_in", scrapes["row"], options=pc.SetLookupOptions(first)))


def _file(tables: Path, kind: str, day: dt.date) -> Path:
    return tables / f"{EXTRACT_PREFIX}{kind}" / f"day={day.isoformat()}" / "day.parquet"


def _call(function: str, *arguments: object, options: object = None) -> Any:  # noqa: ANN401 - pyarrow is untyped
    return pc.call_function(function, list(arguments), options)
