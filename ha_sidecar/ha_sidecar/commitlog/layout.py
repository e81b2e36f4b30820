"""Where the bytes of a log lie: file names, offsets, and files that change as a whole or not at all.

A log is a row of files in one directory, each named by the 20 digits of its first offset and each exactly as long as
the broker's mappedFileSizeCommitLog, whatever it holds. Other names in the directory are not part of the log.

Source: MappedFileQueue.java (load, names) 5.4.0.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME_DIGITS: Final = 20
MAPPED_FILE_BYTES_DEFAULT: Final = 1 << 30


class LogLayoutError(Exception):
    """The files of the directory do not make a log; a person has to look."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A log's directory and the length of each of its files."""

    directory: Path
    file_bytes: int

    def path(self, start_offset: int) -> Path:
        """Return the file that starts at this offset."""
        return self.directory / f"{start_offset:0{NAME_DIGITS}d}"

    def start_of(self, offset: int) -> int:
        """Return the start of the file that holds the byte at `offset`."""
        return offset - offset % self.file_bytes

    def starts(self) -> list[int]:
        """Return the starts of all files there, ascending.

        Raises:
            LogLayoutError: a gap, a start that is no multiple of the length, or a file of another length; the newest
                may be shorter, since a truncation that was cut short leaves it so.
        """
        if not self.directory.is_dir():
            return []
        names = sorted(name for name in os.listdir(self.directory) if _is_log_name(name))
        starts = [int(name) for name in names]
        for index, start_offset in enumerate(starts):
            self._check(start_offset, starts[0] + index * self.file_bytes, start_offset == starts[-1])
        return starts

    def _check(self, start_offset: int, expected_offset: int, is_last: bool) -> None:
        path = self.path(start_offset)
        size = path.stat().st_size
        if size != self.file_bytes and not (is_last and size < self.file_bytes):
            raise LogLayoutError(f"{path} has {size} bytes, the log's files have {self.file_bytes}")
        if start_offset != expected_offset or start_offset % self.file_bytes:
            raise LogLayoutError(f"{path} where the file of {expected_offset} is due")


def guess_file_bytes(directory: Path) -> int | None:
    """Return the length of the oldest log file there, None if there is none."""
    names = sorted(name for name in os.listdir(directory) if _is_log_name(name)) if directory.is_dir() else []
    return (directory / names[0]).stat().st_size if names else None


def _is_log_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()


def sync_directory(directory: Path) -> None:
    """Make the directory's names durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file's content durably: after a crash it holds the old bytes or the new ones."""
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        written = 0
        while written < len(data):
            written += os.write(fd, data[written:])
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_directory(path.parent)


def remove_durably(path: Path) -> None:
    """Remove the file if it is there, durably."""
    if path.exists():
        path.unlink()
        sync_directory(path.parent)
