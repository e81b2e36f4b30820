"""What a report reads of a closed day, taken out of its segments once.

Problem: an hourly report over a month would open a month of segments each time, thousands of small files a day, most of whose
samples no report looks at.
Shape: `write` copies the rows that a report can read, unchanged, into one file a kind; a reader takes a closed day from there and
the others from their segments. Rows stay rows: a report of extracts has the numbers of a report of segments, whatever its
objectives and its window are, because the same transforms see the same rows.
Never: no rule about what is good or bad, and no arithmetic; a segment is not changed.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slo_pipeline.schemas.segments import SEGMENTS

PREFIX: Final = "extract_"
"""Of a kind, in the name of the table that holds its extracts."""
# What is in memory at once: segments of seconds become row groups that are worth a read.
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
        """Return the extracts of a kind, in order; a day without any row of it has none."""
        found = (_file(self.tables, kind, day) for day in sorted(self.days))
        return [path for path in found if path.exists()]

    def hold(self, folder: Path) -> bool:
        """Tell whether a folder `day=YYYY-MM-DD` of segments need not be read."""
        return folder.name in {f"day={day.isoformat()}" for day in self.days}


def extracts_of(tables: Path, closed: Iterable[dt.date]) -> Extracts:
    """Find which of the closed days have an extract: days that were closed before there were any have none."""
    having = (day for day in closed if any(_file(tables, kind, day).exists() for kind in SEGMENTS))
    return Extracts(tables, frozenset(having))


def write(data: Path, names: Collection[str], metrics: Collection[str], directory: Path) -> None:
    """Write the extract of one day as <directory>/extract_<kind>.parquet.

    Args:
        data: directory of segments.
        names: the day's segments, paths relative to it.
        metrics: the samples that a report reads; of a scrape without any of them one row is kept, as it was a scrape.
        directory: scratch of this day.
    """
    for kind, schema in SEGMENTS.items():
        paths = [data / name for name in names if name.startswith(f"{kind}/")]
        if not paths:
            continue
        with pq.ParquetWriter(directory / f"{PREFIX}{kind}.parquet", schema, compression="zstd") as writer:
            for rows in _gathered(paths, schema, metrics if kind == "samples" else None):
                writer.write_table(rows)


def _gathered(
    paths: Iterable[Path], schema: pa.Schema, metrics: Collection[str] | None
) -> Iterator[pa.Table]:
    """Yield the rows of many segments in tables of about ROWS_HELD_MAX rows; `metrics` None keeps all."""
    held: list[pa.Table] = []
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(ROWS_HELD_MAX, columns=schema.names):
            rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            held.append(rows if metrics is None else needed(rows, metrics))
            if sum(one.num_rows for one in held) >= ROWS_HELD_MAX:
                yield pa.concat_tables(held)
                held = []
    if held:
        yield pa.concat_tables(held)


def needed(samples: pa.Table, metrics: Collection[str]) -> pa.Table:
    """Keep the samples that a report reads: of these metrics, and the first row of each scrape, which says that it was one.

    Args:
        samples: rows of the samples segment; those of a scrape stand together, or more are kept than needed.
        metrics: sample names.
    """
    named = _call(
        "is_in", samples["metric"], options=pc.SetLookupOptions(pa.array(sorted(metrics), pa.string()))
    )
    return samples.filter(_call("or", named, _begins_scrape(samples)))


def _begins_scrape(samples: pa.Table) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Tell of each row whether the one before it is of another scrape."""
    first = pa.array([True] if samples.num_rows else [], pa.bool_())
    changes = [
        _call("not_equal", samples[name].slice(1), samples[name].slice(0, max(samples.num_rows - 1, 0)))
        for name in ("instance", "ts")
    ]
    return pa.chunked_array([first, *_call("or", *changes).chunks], pa.bool_())


def _file(tables: Path, kind: str, day: dt.date) -> Path:
    return tables / f"{PREFIX}{kind}" / f"day={day.isoformat()}" / "day.parquet"


def _call(function: str, *arguments: object, options: object = None) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pc.call_function(function, list(arguments), options)
