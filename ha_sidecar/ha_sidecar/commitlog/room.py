"""Whether the volume has room for what a log is about to write, so that it refuses before the disk is full.

Files are sparse: beginning one takes no space, and a small volume may fill within the seconds between two
looks of retention. So the log asks before it begins a file, and again after each step of bytes; between two
asks it spends the answer. It stays below a mark; the rest is for epoch lists, identity and metadata.

This is not a promise: others write to the volume, too. Where they took the room in between, the write itself
fails, and the log removes the bytes of that write (`CommitLog.append`).
"""

import errno
from pathlib import Path
from typing import Final

from ha_sidecar.commitlog.disk import Disk

STEP_BYTES_MAX: Final = 1 << 20
"""Written between two asks; the reserve above the mark covers what others write in between."""
GO_ON_STEPS: Final = 4
"""Room for so many steps ends a refusal, so that a log at the mark does not stop and go for every message."""
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoRoomError(Exception):
    """Nothing was written, since the volume lacks room for it; the log is as good as before."""


class Room:
    """The bytes that still fit on a volume; for the thread that appends.

    Attributes:
        wanted_bytes: bytes that must fit below the mark before a refused log goes on, 0 while it is not
            refused; for any thread.
    """

    def __init__(self, disk: Disk, directory: Path, file_bytes: int, refuse_above: float) -> None:
        """Take a directory of the volume, the length of a log file, and the mark as a share of it."""
        self.wanted_bytes = 0
        self._disk: Final = disk
        self._directory: Final = directory
        self._step_bytes: Final = min(file_bytes, STEP_BYTES_MAX)
        self._refuse_above: Final = refuse_above
        self._left_bytes = 0

    def take(self, length_bytes: int, *, begins_file: bool) -> None:
        """Spend room for a write.

        Raises:
            NoRoomError: the volume would be used beyond the mark.
        """
        if begins_file or length_bytes > self._left_bytes:
            used_bytes, disk_bytes = self._disk.usage(self._directory)
            left_bytes = int(self._refuse_above * disk_bytes) - used_bytes
            if left_bytes < length_bytes:
                raise self.refused(length_bytes, f"{used_bytes} of its {disk_bytes} bytes are used")
            self._left_bytes = min(left_bytes, max(self._step_bytes, length_bytes))
            self.wanted_bytes = 0
        self._left_bytes -= length_bytes

    def refused(self, length_bytes: int, why: str) -> NoRoomError:
        """Note that a write of this length found no room; return the error that says so."""
        self._left_bytes = 0
        self.wanted_bytes = max(length_bytes, GO_ON_STEPS * self._step_bytes)
        return NoRoomError(f"the disk lacks room for {length_bytes} bytes: {why}")
