"""The few calls that a log makes to a file system, so that a simulation can stand in for the disk.

Every call is one step at which a machine may lose power. What a step wrote is volatile until the file is
synced, and a name until its directory is. The layer adds no policy: errors are `OSError` as the system gave
them, and two functions alone know a safe order, `write_atomically` for a whole file and `remove_durably`.

Bodies that are served leave by sendfile and pass this layer by.
"""

import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

Bytes = bytes | bytearray | mmap.mmap

WRITE_PARTS_MAX: Final = 512
"""Parts of one pwritev; the kernel takes 1024."""


class DiskFile(Protocol):
    """An open file."""

    def write_at(self, parts: Sequence[memoryview], at: int) -> None:
        """Write the parts one after another from byte `at`; on an error any part of them may be there."""
        ...

    def read_at(self, length: int, at: int) -> bytes:
        """Return the bytes from `at`, fewer where the file ends."""
        ...

    def resize(self, size_bytes: int) -> None:
        """Cut the file, or lengthen it with zeros."""
        ...

    def sync_data(self) -> None:
        """Return once the bytes written are on disk, of a file whose size stays."""
        ...

    def sync(self) -> None:
        """Return once all that was written, and the size, are on disk."""
        ...

    def close(self) -> None:
        """Close without syncing."""
        ...


class Disk(Protocol):
    """A file system, one step a call."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and those above it; existing is fine."""
        ...

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted; empty if the directory does not exist."""
        ...

    def size(self, path: Path) -> int | None:
        """Return a file's length in bytes, None if it is not there."""
        ...

    def open(self, path: Path, *, create: bool = False) -> DiskFile:
        """Open a file to read and write; without `create` it must be there."""
        ...

    def content(self, path: Path) -> AbstractContextManager[Bytes]:
        """Return a file whole, to be read inside a `with`."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or directory another name, replacing a file that has it."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory are on disk."""
        ...

    def usage(self, path: Path) -> tuple[int, int]:
        """Return (used, all) bytes of the volume of a directory, without the part reserved for root."""
        ...

    def volume(self, path: Path) -> int:
        """Return a number that the directories of one volume have in common."""
        ...


class OsDiskFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        """Take an open descriptor."""
        self._descriptor: Final = descriptor

    def write_at(self, parts: Sequence[memoryview], at: int) -> None:
        """Write the parts one after another, however many calls it takes."""
        for index in range(0, len(parts), WRITE_PARTS_MAX):
            at += self._write_all(parts[index : index + WRITE_PARTS_MAX], at)

    def read_at(self, length: int, at: int) -> bytes:
        """Return the bytes from `at`."""
        return os.pread(self._descriptor, length, at)

    def resize(self, size_bytes: int) -> None:
        """Cut the file, or lengthen it with zeros."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync_data(self) -> None:
        """Flush the data, and the metadata that is needed to read it back."""
        os.fdatasync(self._descriptor)

    def sync(self) -> None:
        """Flush data and metadata."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def _write_all(self, parts: Sequence[memoryview], at: int) -> int:
        length = sum(len(part) for part in parts)
        written = os.pwritev(self._descriptor, parts, at)
        if written < length:
            joined = memoryview(b"".join(parts))
            while written < length:
                written += os.pwrite(self._descriptor, joined[written:], at + written)
        return length


class OsDisk:
    """The operating system's file system."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and those above it."""
        path.mkdir(parents=True, exist_ok=True)

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path)) if path.is_dir() else []

    def size(self, path: Path) -> int | None:
        """Return a file's length in bytes."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def open(self, path: Path, *, create: bool = False) -> OsDiskFile:
        """Open a file to read and write."""
        return OsDiskFile(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644))

    @contextmanager
    def content(self, path: Path) -> Iterator[Bytes]:
        """Return a file whole, as a mapping; an empty file, which cannot be mapped, as empty bytes."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if not os.fstat(descriptor).st_size:
                yield b""
                return
            mapping = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        with mapping:
            yield mapping

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or directory another name."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory are on disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def usage(self, path: Path) -> tuple[int, int]:
        """Return (used, all) bytes of a volume; both leave out the bytes that are reserved for root."""
        usage = shutil.disk_usage(path)
        return usage.used, usage.used + usage.free

    def volume(self, path: Path) -> int:
        """Return the number of the device."""
        return path.stat().st_dev


OS_DISK: Final = OsDisk()


def write_atomically(path: Path, data: bytes, disk: Disk = OS_DISK) -> None:
    """Replace the file's content durably: after a crash it holds the old bytes or the new ones."""
    temporary = path.with_name(path.name + ".tmp")
    file = disk.open(temporary, create=True)
    try:
        file.resize(0)
        file.write_at([memoryview(data)], 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


def remove_durably(path: Path, disk: Disk = OS_DISK) -> None:
    """Remove the file if it is there, durably."""
    if disk.size(path) is not None:
        disk.remove(path)
        disk.sync_directory(path.parent)
