"""The few things the log asks of a file system, and nothing else, so that a test can stand in for the disk.

Every call is one step at which a machine may lose power: `create`, `write`, `sync`, `rename`,
`sync_directory` and so on. The crash tests replace this layer by one that counts steps, forgets unsynced
bytes and fails on demand. The layer adds no policy: errors are `OSError` as the system gave them, and
`durable_write` alone knows the one safe order for a whole file.
"""

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol

from controller_core.log.errors import LogFullError, LogLockedError

TEMPORARY_SUFFIX = ".tmp"
"""Ends the name of a file that is not whole yet; opening a store removes such files."""


class File(Protocol):
    """An open file that only grows, except for `truncate`."""

    def write(self, data: bytes) -> None:
        """Append all of `data`; on an error any part of it may be in the file."""
        ...

    def sync(self) -> None:
        """Return once everything written is on disk."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file; later writes append there."""
        ...

    def close(self) -> None:
        """Close without syncing; closing twice is allowed."""
        ...


class Lock(Protocol):
    """A lock held until closed."""

    def close(self) -> None:
        """Give the lock up."""
        ...


class Files(Protocol):
    """A file system, one step a call."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and those above it, durably; existing is fine."""
        ...

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def read(self, path: Path) -> bytes:
        """Return a file whole."""
        ...

    def create(self, path: Path) -> File:
        """Open a new or emptied file for writing."""
        ...

    def append(self, path: Path) -> File:
        """Open an existing file for writing at its end."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give a file its final name, replacing an existing file."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory are on disk."""
        ...

    def lock(self, path: Path) -> Lock:
        """Take the lock file.

        Raises:
            LogLockedError: another holder has it.
        """
        ...


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        """Append all of `data`, going on after short writes."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        """Flush data and the size (fdatasync writes metadata that is needed to read the data back)."""
        os.fdatasync(self._descriptor)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file; the descriptor is in append mode, so no seek is needed."""
        os.ftruncate(self._descriptor, size_bytes)

    def close(self) -> None:
        """Close the descriptor once."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFiles:
    """The file system of the operating system."""

    def make_directory(self, path: Path) -> None:
        """Create missing directories from the top and sync each parent."""
        missing = [directory for directory in (path, *path.parents) if not directory.exists()]
        for directory in reversed(missing):
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
            self.sync_directory(directory.parent)

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def read(self, path: Path) -> bytes:
        """Return a file whole."""
        return path.read_bytes()

    def create(self, path: Path) -> File:
        """Open a new or emptied file, readable by its owner and group only."""
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        return OsFile(os.open(path, flags, 0o640))

    def append(self, path: Path) -> File:
        """Open an existing file for writing at its end."""
        return OsFile(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))

    def rename(self, source: Path, target: Path) -> None:
        """Rename atomically."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Fsync a directory through a descriptor of its own."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> Lock:
        """Take an flock, which the kernel releases when the process ends in any way."""
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise LogLockedError(f"{path} is held by another process") from error
        return OsFile(descriptor)


def is_full(error: OSError) -> bool:
    """Return whether an error means that space or quota is exhausted, which may pass."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def durable_write(files: Files, path: Path, data: bytes) -> None:
    """Put a whole file in place so that a crash leaves either none (or the old one) or all of it.

    Trying again after a failed sync is right here, and only here: the next try writes a new file from memory.

    Raises:
        LogFullError: no space; nothing has changed.
        OSError: another error; whether the file is in place is not known.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        file = files.create(temporary)
        try:
            file.write(data)
            file.sync()
        finally:
            file.close()
        files.rename(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            files.remove(temporary)
        if is_full(error):
            raise LogFullError(f"no space for {path}") from error
        raise
    files.sync_directory(path.parent)
