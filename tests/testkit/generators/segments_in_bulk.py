"""Files where segments lie, with something in them: for whoever copies and counts files and reads none."""

import datetime as dt
import functools
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.sources.layout import schema_of

_MAGIC = b"PAR1"


def segment(
    data: Path, table: str, day: dt.date, name: str, content: bytes | None = None, *, padding: bytes = b""
) -> Path:
    """Write a file as a segment of a table and a day: one without rows that has its own name in it.

    Args:
        data: directory of segments.
        table: for instance `samples`.
        day: the folder's.
        name: of the file, without its suffix.
        content: written instead.
        padding: bytes that no reader looks at, which make the file larger.
    """
    path = data / table / f"day={day.isoformat()}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_without_rows(table, path.name, padding) if content is None else content)
    return path


def _without_rows(table: str, name: str, padding: bytes) -> bytes:
    """Return a segment without row groups: its footer names no offset, so anything may come before it."""
    made = io.BytesIO()
    kept = {"name": name}
    with pq.ParquetWriter(made, _schema(table).with_metadata(kept)):
        pass
    return _MAGIC + padding + made.getvalue().removeprefix(_MAGIC)


@functools.cache
def _schema(table: str) -> pa.Schema:
    return schema_of(table.removeprefix("late_"))


def contents(data: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory that a reader would see, by its path."""
    found = (path for path in data.rglob("*.parquet") if path.name[0] not in "._")
    return {str(path.relative_to(data)): path.read_bytes() for path in found}
