"""A place that has segments: a directory, or a prefix of a bucket that speaks S3.

Problem: files of a volume and objects of a bucket are listed, read and written by other calls, and differ in
what a reader sees of one that is being written. Shape: both are `folders` (`samples/day=2026-11-21`), `files`
of a folder by name and size, `read` and `put`. A file of a directory appears by being renamed, an object by
the end of its put; neither is ever seen in part. Never: anything is deleted, or written over, and a copy that
is not a usable segment does not appear.

Source: Amazon S3 user guide, "Amazon S3 data consistency model"; docs/reference/segments.md for the layout.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, ClassVar, Final, Protocol
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from slo_pipeline.schemas.names import EXTRACT_PREFIX, KINDS
from slo_pipeline.sources.layout import (
    NOT_A_FILE,
    day_folders,
    day_of_name,
    is_segment,
    schema_of,
    segment_files,
    unusable_content,
)

SCHEME: Final = "s3://"
PART_BYTES: Final = 8_388_608
CONNECT_TIMEOUT_S: Final = 5.0
ATTEMPTS_MAX: Final = 5
TABLES: Final = (*KINDS, *(f"{EXTRACT_PREFIX}{kind}" for kind in KINDS))
_REGION: Final = "us-east-1"
"""What servers that are not Amazon's take every signature for, unless the environment says otherwise."""


class PlaceError(Exception):
    """An invalid place; the text names it and the reason."""


class FileGoneError(Exception):
    """A file was there when it was listed, and is not when it is read."""


class UnusableError(Exception):
    """A file is not a segment that a job can read; the text says why."""


class SegmentPlace(Protocol):
    """Somewhere with segments; paths are relative to it.

    Attributes:
        puts_at_once: how many files are written to it at the same time.
    """

    puts_at_once: ClassVar[int]

    def folders(self) -> list[str]:
        """Return the folders of days, in order."""
        ...

    def files(self, folder: str) -> dict[str, int]:
        """Return the size in bytes of each finished file of a folder by its name.

        The result is empty if the folder does not exist.
        """
        ...

    def read(self, path: str) -> Iterator[pa.Buffer]:
        """Yield a file part by part.

        Raises:
            FileGoneError: it no longer exists.
            UnusableError: it is not a file.
        """
        ...

    def put(self, path: str, parts: Iterator[pa.Buffer], size_bytes: int) -> None:
        """Write a file whole.

        Raises:
            OSError: it cannot be written, or the parts are not so many bytes together; nothing is visible
                then.
            UnusableError: it is not a segment that a job can read; nothing is visible then.
        """

    def held(self) -> AbstractContextManager[None]:
        """Prevent another mirror from writing there at the same time, where the place can."""
        ...


def place(text: str, endpoint: str | None = None) -> SegmentPlace:
    """Return the place that a person named: `s3://bucket/prefix`, or a directory.

    Args:
        text: its name.
        endpoint: URL of the server of a bucket; None: Amazon's.

    Raises:
        PlaceError: no bucket, or no endpoint.
    """
    return BucketPlace(text, endpoint) if text.startswith(SCHEME) else DirectoryPlace(Path(text))


class DirectoryPlace:
    """A directory."""

    # A small object that is read is mostly waiting for its server.
    puts_at_once: ClassVar[int] = 8

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def folders(self) -> list[str]:
        """Return the folders of days, in order."""
        found = (path for table in TABLES for path in day_folders(self._root, table))
        return sorted(f"{path.parent.name}/{path.name}" for path in found)

    def files(self, folder: str) -> dict[str, int]:
        """Return the size in bytes of each finished file of a folder by its name.

        The result is empty if the folder does not exist.
        """
        sizes = {}
        for path in segment_files(self._root / folder):
            try:
                found = path.stat()
            except FileNotFoundError:
                if not path.is_symlink():
                    continue  # deleted between the two looks
                sizes[path.name] = 0
            else:
                # `read` refuses a folder or a pipe by name.
                sizes[path.name] = found.st_size if stat.S_ISREG(found.st_mode) else 0
        return sizes

    def read(self, path: str) -> Iterator[pa.Buffer]:
        """Yield a file part by part."""
        own = self._root / path
        # A named pipe would wait for its writer.
        if not own.is_file() and (own.exists() or own.is_symlink()):
            raise UnusableError(NOT_A_FILE)
        try:
            file = own.open("rb")
        except FileNotFoundError as error:
            raise FileGoneError(path) from error
        with file:
            while part := file.read(PART_BYTES):
                yield pa.py_buffer(part)

    def put(self, path: str, parts: Iterator[pa.Buffer], size_bytes: int) -> None:
        """Write a file under another name, and give it its own when it is on the disk."""
        final = self._root / path
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_name(f".{final.name}.tmp")
        try:
            with temporary.open("wb") as file:
                written = sum(file.write(part) for part in parts)
                file.flush()
                os.fsync(file.fileno())
            _check_size(path, written, size_bytes)
            with temporary.open("rb") as file:
                _check_usable(path, file)
            temporary.rename(final)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Prevent another mirror from writing there at the same time.

        It would use the same temporary names.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / ".mirror.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class BucketPlace:
    """A prefix of a bucket.

    Credentials and region are those of the usual AWS variables of the environment.
    """

    # An object is in memory whole while it is put, and its client takes buffers of 10 MB beside, however
    # small it is.
    puts_at_once: ClassVar[int] = 2

    def __init__(self, url: str, endpoint: str | None = None) -> None:
        """Describe the place, without a request yet.

        Args:
            url: s3://bucket/prefix.
            endpoint: URL of the server; None: Amazon's.

        Raises:
            PlaceError: no bucket, or no endpoint.
        """
        bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        if not bucket:
            raise PlaceError(f"{url}: names no bucket (expected s3://bucket/prefix)")
        self._url = url
        self._base = "/".join((bucket, *filter(None, prefix.split("/"))))
        server = urlsplit(endpoint or "")
        bare = server.netloc and server.path in {"", "/"} and not server.query
        if endpoint is not None and (server.scheme not in {"http", "https"} or not bare):
            raise PlaceError(f"invalid endpoint {endpoint!r} (expected http://host:port or https://host)")
        self._bucket, self._scheme, self._server = bucket, server.scheme, server.netloc
        self._opened: fs.S3FileSystem | None = None

    def __str__(self) -> str:
        return self._url

    @property
    def _store(self) -> fs.S3FileSystem:
        if self._opened is None:
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            server = {"endpoint_override": self._server, "scheme": self._scheme} if self._server else {}
            if not region:
                region = _REGION if server else fs.resolve_s3_region(self._bucket)
            self._opened = fs.S3FileSystem(
                region=region,
                connect_timeout=CONNECT_TIMEOUT_S,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
                # A small object is one request then.
                allow_delayed_open=True,
                **server,
            )
        return self._opened

    def folders(self) -> list[str]:
        """Return the folders of days, in order.

        Raises:
            PlaceError: the bucket does not exist: its server lists it as if it were empty.
        """
        found = [(table, info) for table in TABLES for info in self._listed(table)]
        if not found and self._store.get_file_info(self._bucket).type == fs.FileType.NotFound:
            raise PlaceError(f"{self._url}: no such bucket")
        return sorted(f"{table}/{info.base_name}" for table, info in found if day_of_name(info.base_name))

    def files(self, folder: str) -> dict[str, int]:
        """Return the size in bytes of each finished file of a folder by its name.

        The result is empty if the folder does not exist.
        """
        return {
            info.base_name: info.size
            for info in self._listed(folder)
            if info.type == fs.FileType.File and is_segment(info.base_name)
        }

    def _listed(self, folder: str) -> list[fs.FileInfo]:
        where = fs.FileSelector(f"{self._base}/{folder}", allow_not_found=True)
        found: list[fs.FileInfo] = self._store.get_file_info(where)
        return found

    def read(self, path: str) -> Iterator[pa.Buffer]:
        """Yield an object part by part."""
        try:
            file = self._store.open_input_file(f"{self._base}/{path}")
        except FileNotFoundError as error:
            raise FileGoneError(path) from error
        with file:
            while len(part := file.read_buffer(PART_BYTES)):
                yield part

    def put(self, path: str, parts: Iterator[pa.Buffer], size_bytes: int) -> None:
        """Put an object.

        It is gathered first: a stream that is closed early would be an object that is too short.
        """
        gathered = bytearray()
        for part in parts:
            gathered += part
        _check_size(path, len(gathered), size_bytes)
        _check_usable(path, pa.BufferReader(gathered))
        with self._store.open_output_stream(f"{self._base}/{path}") as file:
            file.write(gathered)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do nothing: two who put the same object put the same bytes."""
        yield


def _check_usable(path: str, content: IO[bytes] | pa.NativeFile) -> None:
    reason = unusable_content(content, schema_of(path))
    if reason is not None:
        raise UnusableError(reason)


def _check_size(path: str, found_bytes: int, size_bytes: int) -> None:
    if found_bytes != size_bytes:
        raise OSError(f"{path}: {found_bytes} bytes were read of {size_bytes}")
