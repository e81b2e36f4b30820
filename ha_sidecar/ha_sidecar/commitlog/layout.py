"""Where the bytes of a log lie: file names and offsets.

A log is a row of files in one directory, each named by the 20 digits of its first offset and each exactly as
long as the broker's mappedFileSizeCommitLog, whatever it holds. Other names in the directory are not part of
the log.

Source: MappedFileQueue.java (load, names) 5.4.0.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ha_sidecar.commitlog.disk import OS_DISK, Disk

NAME_DIGITS: Final = 20
MAPPED_FILE_BYTES_DEFAULT: Final = 1 << 30


class LogLayoutError(Exception):
    """The files of the directory do not make a log; a person has to look."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A log's directory, the length of each of its files, and the disk that they lie on."""

    directory: Path
    file_bytes: int
    disk: Disk = OS_DISK

    def path(self, start_offset: int) -> Path:
        """Return the file that starts at this offset."""
        return self.directory / f"{start_offset:0{NAME_DIGITS}d}"

    def start_of(self, offset: int) -> int:
        """Return the start of the file that holds the byte at `offset`."""
        return offset - offset % self.file_bytes

    def starts(self) -> list[int]:
        """Return the starts of all files there, ascending.

        Raises:
            LogLayoutError: a gap, a start that is not a multiple of the length, or a file of another length;
                the newest may be shorter, since a truncation that was cut short leaves it so.
        """
        names = [name for name in self.disk.list(self.directory) if _is_log_name(name)]
        starts = [int(name) for name in names]
        for index, start_offset in enumerate(starts):
            self._check(start_offset, starts[0] + index * self.file_bytes, start_offset == starts[-1])
        return starts

    def _check(self, start_offset: int, expected_offset: int, is_last: bool) -> None:
        path = self.path(start_offset)
        size = self.disk.size(path)
        if size != self.file_bytes and not (is_last and size is not None and size < self.file_bytes):
            raise LogLayoutError(f"{path} has {size} bytes, the log's files have {self.file_bytes}")
        if start_offset != expected_offset or start_offset % self.file_bytes:
            raise LogLayoutError(f"{path} where the file of {expected_offset} is due")


def guess_file_bytes(directory: Path, disk: Disk = OS_DISK) -> int | None:
    """Return the length of the oldest log file, None for an empty directory."""
    names = [name for name in disk.list(directory) if _is_log_name(name)]
    return disk.size(directory / names[0]) if names else None


def _is_log_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
