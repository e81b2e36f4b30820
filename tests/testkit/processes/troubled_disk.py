"""The real file system with a disk that can be made full, stuck, broken or unreadable while a test runs.

Writes here are not synced. A process that ends loses nothing by that, only a machine does, which
is what the simulated disk is for; and a real disk that is busy with other things may take longer
over it than an election takes.
"""

import errno
import threading
from pathlib import Path

from controller_core.log.files import File, OsFiles


class UnsyncedFile:
    """A real file whose disk needs zero time."""

    def __init__(self, inner: File) -> None:
        self._inner = inner

    def write(self, data: bytes) -> None:
        """Append."""
        self._inner.write(data)

    def sync(self) -> None:
        """Leave it to the operating system."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        self._inner.truncate(size_bytes)

    def close(self) -> None:
        """Close the file."""
        self._inner.close()


class UnsyncedFiles(OsFiles):
    """The real file system, with a disk that needs zero time."""

    def create(self, path: Path) -> File:
        """Open a new file on this disk."""
        return UnsyncedFile(super().create(path))

    def append(self, path: Path) -> File:
        """Open an old file on this disk."""
        return UnsyncedFile(super().append(path))

    def sync_directory(self, path: Path) -> None:
        """Leave it to the operating system."""


class TroubledFile(UnsyncedFile):
    """A real file whose disk does what `TroubledFiles` says."""

    def __init__(self, files: "TroubledFiles", inner: File) -> None:
        super().__init__(inner)
        self._files = files

    def write(self, data: bytes) -> None:
        """Append, or find no space after half of it."""
        if self._files.full:
            self._inner.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full")
        self._inner.write(data)

    def sync(self) -> None:
        """Say that it is synced, when and if the disk does."""
        self._files.unstuck.wait()
        if self._files.broken:
            raise OSError(errno.EIO, "broken")


class TroubledFiles(UnsyncedFiles):
    """The real file system with a disk that can be made full, stuck or broken."""

    def __init__(self) -> None:
        self.full = False
        self.broken = False
        self.unreadable = False
        self.unstuck = threading.Event()
        self.unstuck.set()

    def read(self, path: Path) -> bytes:
        """Return a file, if the disk does."""
        if self.unreadable:
            raise OSError(errno.EIO, "unreadable")
        return super().read(path)

    def create(self, path: Path) -> TroubledFile:
        """Open a new file on this disk."""
        return TroubledFile(self, super().create(path))

    def append(self, path: Path) -> TroubledFile:
        """Open an old file on this disk."""
        return TroubledFile(self, super().append(path))
