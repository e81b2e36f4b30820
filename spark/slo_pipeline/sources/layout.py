"""Which files of a data directory are segments, and whether each can be read.

Problem: people and programs leave other files beside segments, and a segment that is empty or damaged makes one reader fail, another
one skip it, and a third one take its columns for nulls.
Shape: `day_folders` and `segment_files` say which names are ours; `ignored` lists the others. `check` opens the footer of each segment
before anything is computed, and refuses with the same words for every caller.
Never: Spark is not needed here, and a path is never a pattern.

Source: docs/reference/segments.md.
"""

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.schemas.names import SUFFIX

NAMED_MAX: Final = 5
"""Of paths in one line."""
_DAY: Final = re.compile(r"day=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_HIDDEN: Final = (".", "_")
_MAGIC: Final = b"PAR1"


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
    """Return what lies among days and segments and is neither; names that begin with `.` or `_` are left out."""
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
    reasons = ((path, why) for path in paths if (why := unusable(path, schema)) is not None)
    first = next(reasons, None)
    if first is None:
        return
    others = sum(1 for _ in reasons)
    also = f" (and {others} segments more)" if others else ""
    raise SegmentUnusableError(f"{first[0]}: {first[1]}{also}")


def unusable(path: Path, schema: pa.Schema) -> str | None:
    """Return why a segment cannot be read; None if it can, as far as its footer says."""
    try:
        if not path.is_file():
            return "unusable segment: not a file"
        if path.stat().st_size == 0:
            return "unusable segment: empty (0 bytes)"
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return "unusable segment: not Parquet"
        found = pq.ParquetFile(path).schema_arrow
    except OSError as error:
        # Arrow says by it too that a file is cut off.
        return f"unusable segment: {error.strerror or 'damaged Parquet'}"
    except pa.ArrowException:
        return "unusable segment: damaged Parquet"
    lacking = [name for name in schema.names if name not in found.names]
    if lacking:
        return f"unusable segment: has no column {', '.join(lacking)}"
    return None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say of a segment whose data is damaged, which its footer does not tell, what `check` says of others.

    Raises:
        SegmentUnusableError: Arrow cannot read it.
    """
    try:
        yield
    except pa.ArrowException:
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
