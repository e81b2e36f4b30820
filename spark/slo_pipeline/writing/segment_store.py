"""Segments on disk: whole files or none.

Problem: a reader lists a folder at any moment, and a writer may be killed at any moment. A half-written
Parquet file fails the whole job that reads it; a half-written set of cursors makes events appear twice or
never. Shape: a segment is written under a name that readers skip (it starts with a dot), flushed to the disk,
renamed, and the folder flushed. Facts that must be as durable as the rows, and not more durable, travel in
the file's own key-value metadata. A lock file keeps a second writer of the same name out; leftovers of a
killed one are swept at the start. Never: a file that carries its final name is changed again.

Source: docs/reference/segments.md.
"""

import datetime as dt
import fcntl
import logging
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.schemas import SEGMENT_VERSION, SEGMENTS
from slo_pipeline.sources.layout import SegmentUnusableError, check, open_segment

_log = logging.getLogger(__name__)

# Without "@", which ends the writer's part of a file name: no writer sweeps the files of one with a longer
# name.
_WRITER = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_VERSION_KEY = "rmqha.segment_version"
_WRITER_KEY = "rmqha.writer"


class SegmentError(Exception):
    """The data directory cannot be used as asked: taken by another writer, or not writable."""


class SegmentStore:
    """Writes the segments of one writer into one data directory; use as a context manager.

    Attributes:
        root: the data directory.
        writer: name of the process's role; one process at a time may hold it in a directory.
    """

    def __init__(self, root: Path, writer: str, *, run: str | None = None) -> None:
        """Take the writer's lock and remove what a killed predecessor left unfinished.

        Args:
            root: the data directory.
            writer: see the class.
            run: part of the file names, by default unique. A writer whose rows are a function of its input
                gives the input's digest, so that a second run finds its segments written and leaves them
                alone.

        Raises:
            SegmentError: another process holds the same writer's name, or the directory cannot be written.
        """
        if not _WRITER.fullmatch(writer):
            raise SegmentError(
                f"{writer!r} cannot be part of a file name: letters, digits, '_', '-' and '.' can"
            )
        self.root = root
        self.writer = writer
        self._repeatable = run is not None
        self._run = run or uuid.uuid4().hex[:12]
        self._written = 0
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(root / f".{writer}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SegmentError(f"{root} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise SegmentError(f"{root} is being written by another {writer}") from error
        self._sweep()

    def write(
        self, table: str, day: dt.date, parts: Iterable[pa.Table], metadata: Mapping[str, str] | None = None
    ) -> Path:
        """Write one segment; when this returns it is on the disk, whole and visible.

        Args:
            table: a key of `SEGMENTS`.
            day: the UTC day all rows belong to.
            parts: the rows, in the table's schema; each part is released before the next one is requested.
            metadata: facts to keep beside the rows, read back with `read_metadata`.

        Raises:
            ValueError: the rows have another schema (our mistake).
            OSError: the disk refuses; nothing is visible then.
            SegmentUnusableError: an earlier run of the same input wrote it, and it cannot be read.
        """
        kept = {_VERSION_KEY: str(SEGMENT_VERSION), _WRITER_KEY: self.writer, **(metadata or {})}
        folder = self.root / table / f"day={day.isoformat()}"
        folder.mkdir(parents=True, exist_ok=True)
        self._written += 1
        final = folder / f"{self.writer}@{self._run}-{self._written:06d}.parquet"
        temporary = folder / f".{final.name}.tmp"
        if self._repeatable and final.exists():
            check([final], SEGMENTS[table])
            return final
        try:
            with temporary.open("wb") as file:
                _write_parts(file, table, parts, kept)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(final)
            _flush_folder(folder)
        except BaseException:
            # The caller writes these rows again, so none of them may be visible.
            temporary.unlink(missing_ok=True)
            final.unlink(missing_ok=True)
            raise
        return final

    def read_metadata(self, table: str, key: str) -> Iterator[str]:
        """Yield the value of `key` in each segment of a table that this writer's name wrote, oldest first."""
        segments = self.root.glob(f"{table}/day=*/{self.writer}@*.parquet")
        # By name too: two may be of one tick of the file system's clock.
        for path in sorted(segments, key=lambda path: (path.stat().st_mtime_ns, path.name)):
            try:
                found = open_segment(path, SEGMENTS[table]).schema_arrow.metadata
            except SegmentUnusableError as error:
                _log.warning("what a segment says of its streams is not known: %s", error)
                continue
            if key.encode() in (found or {}):
                yield found[key.encode()].decode()

    def close(self) -> None:
        """Give the writer's name free."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _sweep(self) -> None:
        for leftover in self.root.glob(f"*/day=*/.{self.writer}@*.parquet.tmp"):
            leftover.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _write_parts(file: BinaryIO, table: str, parts: Iterable[pa.Table], metadata: Mapping[str, str]) -> None:
    schema = SEGMENTS[table]
    with pq.ParquetWriter(file, schema.with_metadata(metadata), compression="zstd") as writer:
        for rows in parts:
            if not rows.schema.equals(schema):
                raise ValueError(f"rows of {table} have another schema: {rows.schema}")
            writer.write_table(rows)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
