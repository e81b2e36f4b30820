"""The real file system with a disk that can be made full, stuck, broken or unreadable while a test runs."""

import errno
import threading
from pathlib import Path

from controller_core.log.files import File, OsFiles


class TroubledFile:
    """A real file whose disk does what `TroubledFiles` says."""

    def __init__(self, files: "TroubledFiles", inner: File) -> None:
        self._files = files
        self._inner = inner

    def write(self, data: bytes) -> None:
        """Append, or find no space after half of it."""
        if self._files.full:
            self._inner.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full")
        self._inner.write(data)

    def sync(self) -> None:
        """Sync, when and if the disk does."""
        self._files.unstuck.wait()
        if self._files.broken:
            raise OSError(errno.EIO, "broken")
        self._inner.sync()

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        self._inner.truncate(size_bytes)

    def close(self) -> None:
        """Close the file."""
        self._inner.close()


class TroubledFiles(OsFiles):
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
