"""Which files of a data directory are segments, and whether each can be read.

Problem: people and programs leave other files beside segments, and a segment that is empty or damaged makes
one reader fail, another one skip it, and a third one take its columns for nulls. Shape: `day_folders` and
`segment_files` say which names are ours; `ignored` lists the others. `check` opens the footer of each segment
before anything is computed, and refuses with the same words for every caller; `unusable_content` does the
same for a copy. Never: Spark is not needed here, and a path is never a pattern.

Source: docs/reference/segments.md.
"""

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.schemas.names import EXTRACT_PREFIX, SUFFIX
from slo_pipeline.schemas.segments import ADDED_COLUMNS, SEGMENTS

NAMED_MAX: Final = 5
"""Of paths in one line."""
_DAY: Final = re.compile(r"day=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_HIDDEN: Final = (".", "_")
_MAGIC: Final = b"PAR1"
DAMAGE: Final = (pa.ArrowException, UnicodeDecodeError)
"""What Arrow raises for damaged Parquet; the latter for the name of a column."""
# Of timestamps. Spark reads no nanoseconds.
_UNITS: Final = ("ms", "us")
NOT_A_FILE: Final = "unusable segment: not a file"


class SegmentUnusableError(Exception):
    """A segment cannot be read; the text names it and says why."""


def day_of_name(name: str) -> dt.date | None:
    """Return the day of a folder's name `day=YYYY-MM-DD`; None if it names none."""
    match = _DAY.fullmatch(name)
    try:
        return dt.date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def is_segment(name: str) -> bool:
    """Tell whether a name in a day's folder is that of a finished segment."""
    return name.endswith(SUFFIX) and not name.startswith(_HIDDEN)


def day_folders(directory: Path, table: str) -> list[Path]:
    """Return the folders of a table's days, in order."""
    return [path for path in _entries(directory / table) if day_of_name(path.name) is not None]


def segment_files(folder: Path) -> list[Path]:
    """Return the finished segments of a day's folder, in order."""
    return [path for path in _entries(folder) if is_segment(path.name)]


def segments(directory: Path, table: str) -> Iterator[Path]:
    """Yield the finished segments of a table, in order."""
    for folder in day_folders(directory, table):
        yield from segment_files(folder)


def ignored(directory: Path, tables: Iterable[str]) -> list[Path]:
    """Return what lies among days and segments and is neither.

    Names that begin with `.` or `_` are left out.
    """
    found = []
    for table in tables:
        for path in _entries(directory / table):
            if day_of_name(path.name) is None:
                found.append(path)
            else:
                found += [one for one in _entries(path) if not is_segment(one.name)]
    return [path for path in found if not path.name.startswith(_HIDDEN)]


def ignored_text(paths: Collection[Path | str]) -> str:
    """Return one line on the ignored files."""
    named = ", ".join(map(str, list(paths)[:NAMED_MAX]))
    more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
    return f"ignored, as no segments: {named}{more}"


def check(paths: Iterable[Path], schema: pa.Schema) -> None:
    """Refuse segments that cannot be read whole.

    Raises:
        SegmentUnusableError: one line with the first path and why, and how many others there are.
    """
    refuse(f"{path}: {why}" for path in paths if (why := unusable(path, schema)) is not None)


def refuse(reasons: Iterable[str]) -> None:
    """Refuse unusable segments, if there are any.

    Args:
        reasons: for each of them, its name and the reason.

    Raises:
        SegmentUnusableError: one line with the first reason, and how many others there are.
    """
    left = iter(reasons)
    first = next(left, None)
    if first is None:
        return
    others = sum(1 for _ in left)
    also = f" (and {others} segments more)" if others else ""
    raise SegmentUnusableError(f"{first}{also}")


def schema_of(path: str) -> pa.Schema:
    """Return the schema of a segment or an extract by its path `<table>/day=YYYY-MM-DD/<name>`."""
    return SEGMENTS[path.partition("/")[0].removeprefix(EXTRACT_PREFIX)]


def unusable(path: Path, schema: pa.Schema) -> str | None:
    """Return why a segment cannot be read; None if it can, as far as its footer says."""
    found = _opened(path, schema)
    return found if isinstance(found, str) else None


def unusable_content(file: IO[bytes] | pa.NativeFile, schema: pa.Schema) -> str | None:
    """Return why the content of a segment cannot be read; None if it can, as far as its footer says.

    Raises:
        OSError: the operating system cannot read the file.
    """
    found = _parsed(file, schema)
    return found if isinstance(found, str) else None


def open_segment(path: Path, schema: pa.Schema) -> pq.ParquetFile:
    """Open a segment whose footer says that it can be read.

    Raises:
        SegmentUnusableError: one line.
    """
    found = _opened(path, schema)
    if isinstance(found, str):
        raise SegmentUnusableError(f"{path}: {found}")
    return found


def _opened(path: Path, schema: pa.Schema) -> pq.ParquetFile | str:
    """Return the opened segment, or why it cannot be read."""
    try:
        return _parsed(pa.OSFile(str(path)), schema) if path.is_file() else NOT_A_FILE
    except OSError as error:
        return f"unusable segment: {error.strerror or 'damaged Parquet'}"


def _parsed(file: IO[bytes] | pa.NativeFile, schema: pa.Schema) -> pq.ParquetFile | str:
    """Return a segment by its content, or why it cannot be read."""
    begin = file.read(len(_MAGIC))
    if not begin:
        return "unusable segment: empty (0 bytes)"
    if begin != _MAGIC:
        return "unusable segment: not Parquet"
    try:
        parquet = pq.ParquetFile(file)
        found = parquet.schema_arrow
    except DAMAGE:
        return "unusable segment: damaged Parquet"
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow says by it that a file is cut off.
        return "unusable segment: damaged Parquet"
    lacking = [name for name in schema.names if name not in found.names]
    if missing := [name for name in lacking if name not in ADDED_COLUMNS]:
        return f"unusable segment: has no column {', '.join(missing)}"
    for field in (one for one in schema if one.name not in lacking):
        own = found.field(field.name).type
        if not _is_readable(own, field.type):
            return f"unusable segment: column {field.name} is {own}, expected {field.type}"
    return parquet


def _is_readable(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether every reader accepts a type instead of another one.

    These are narrower numbers, other texts, and timestamps in milliseconds.
    """
    types: Any = pa.types
    if types.is_dictionary(found):
        found = found.value_type
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(found) and found.unit in _UNITS)
    if types.is_string(wanted):
        return bool(types.is_string(found) or types.is_large_string(found))
    if types.is_integer(wanted):
        return bool(types.is_signed_integer(found) and found.bit_width <= wanted.bit_width)
    if types.is_floating(wanted):
        return bool(types.is_floating(found) and found.bit_width <= wanted.bit_width)
    if types.is_map(wanted):
        return bool(
            types.is_map(found)
            and _is_readable(found.key_type, wanted.key_type)
            and _is_readable(found.item_type, wanted.item_type)
        )
    return bool(found.equals(wanted))


def in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with all columns of a schema in its order; those that older segments lack are null.

    Raises:
        KeyError: another column is missing.
    """
    for name in ADDED_COLUMNS.intersection(schema.names).difference(rows.column_names):
        rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    return rows.select(schema.names)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say of a segment whose data is damaged, which its footer does not tell, what `check` says of others.

    Raises:
        SegmentUnusableError: Arrow cannot read it.
    """
    try:
        yield
    except DAMAGE:
        raise SegmentUnusableError(f"{path}: unusable segment: damaged Parquet") from None
    except OSError as error:
        why = error.strerror or "damaged Parquet"
        raise SegmentUnusableError(f"{path}: unusable segment: {why}") from None


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, in order; empty if it is not a folder."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
