"""Rows of a closed day that come in another day's folder.

Problem: a segment belongs to the day of its folder, and a row to the day of its time. A writer that does not
part its rows at midnight leaves rows of yesterday in today's folder; when yesterday is closed, neither day
counts them, and the loss would go unnoticed. Shape: `rows_of` is the rule, a function of a table. The
segment's statistics say whether it has such rows, so that nearly all segments need no read. Late rows are
copied to `late_<kind>/`, under the segment's own name: landing a slice again changes nothing. Never: a
segment is not changed, and a row of a day that is still open is not late.
"""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slo_pipeline.schemas.names import EVENTS_TABLE, OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.sources.layout import check, reading

TIME_OF: Final = {SAMPLES_TABLE: "ts", EVENTS_TABLE: "ts", OPERATIONS_TABLE: "intended_ts"}
"""The column that decides a row's day, by kind of segment."""
ONE_DAY: Final = dt.timedelta(days=1)


def begin_of(day: dt.date) -> dt.datetime:
    """Return a day's first moment, UTC."""
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def rows_of(day: dt.date, rows: pa.Table, time: str) -> pa.Table:
    """Return the rows whose time lies in a day, half-open, UTC."""
    kind = rows.schema.field(time).type
    begin, end = (pa.scalar(begin_of(one), kind) for one in (day, day + ONE_DAY))
    from_begin = _call("greater_equal", rows[time], begin)
    return rows.filter(_call("and", from_begin, _call("less", rows[time], end)))


def has_rows_of(day: dt.date, path: Path, time: str) -> bool:
    """Tell by a segment's statistics whether it may hold rows of a day; without statistics it may."""
    metadata = pq.read_metadata(path)
    at = [metadata.schema.column(place).path for place in range(metadata.num_columns)].index(time)
    for group in range(metadata.num_row_groups):
        seen = metadata.row_group(group).column(at).statistics
        if seen is None or not seen.has_min_max:
            return True
        if seen.min < begin_of(day + ONE_DAY) and seen.max >= begin_of(day):
            return True
    return False


def keep_strays(data: Path, tables: Path, day: dt.date, names: Iterable[str]) -> dict[str, int]:
    """Copy the rows of a closed day out of segments of other days' folders.

    Args:
        data: directory of segments.
        tables: where `late_<kind>/day=.../` goes.
        day: the closed day.
        names: segments that it was not made of, paths relative to `data`.

    Returns:
        How many rows were found, by segment; those without are left out.

    Raises:
        SegmentUnusableError: a segment cannot be read.
    """
    found: dict[str, int] = {}
    for name in names:
        kind = name.partition("/")[0]
        check([data / name], SEGMENTS[kind])
        with reading(data / name):
            if not has_rows_of(day, data / name, TIME_OF[kind]):
                continue
            rows = rows_of(day, pq.ParquetFile(data / name).read(), TIME_OF[kind])
        if not rows.num_rows:
            continue
        target = tables / f"late_{kind}" / f"day={day.isoformat()}" / Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        pq.write_table(rows, temporary, compression="zstd")
        temporary.replace(target)
        found[name] = rows.num_rows
    return found


def _call(function: str, *arguments: object) -> Any:  # noqa: ANN401 - pyarrow's compute functions are not typed
    return pc.call_function(function, list(arguments))
