"""Find where records end by a walk over their heads, so that what a slave receives is cut between messages.

Only sizes and magic numbers are read: the bytes were checked when they came in, or by recovery. A walk goes
on where the last one ended, so that serving a log from one end to the other walks it once; going back starts
at the file's first record again, since heads can only be followed forward.

Files are read, never mapped: a truncation shortens them for a moment, which would kill a process that looks
at a mapping then.

Source: MessageExtEncoder.java 5.4.0 (total size and magic lead every record).
"""

import struct
from typing import Final

from ha_sidecar.commitlog.disk import DiskFile
from ha_sidecar.commitlog.layout import Layout
from ha_sidecar.commitlog.records import BLANK_BYTES_MIN, MAGIC_BLANK, MAGIC_V1, MAGIC_V2

BLOCK_BYTES: Final = 64 << 10
_HEAD: Final = struct.Struct(">II")
_MAGICS: Final = frozenset((MAGIC_V1, MAGIC_V2, MAGIC_BLANK))


class RecordEnds:
    """Finds ends of records in one log; for one thread at a time."""

    def __init__(self, layout: Layout, known_offset: int | None = None) -> None:
        """Walk the log of `layout`; a record starts at `known_offset`, or at its file's start if None."""
        self._layout: Final = layout
        self._known_offset = known_offset
        self._file: tuple[int, DiskFile] | None = None

    def record_end(self, from_offset: int, limit_offset: int) -> int:
        """Return the last record end in (from, limit], or `from_offset` if it finds none.

        Both lie in one file; `from_offset` need not be a record's start. Bytes that do not form a record end
        the walk.
        """
        if limit_offset <= from_offset:
            return from_offset
        start_offset = self._layout.start_of(from_offset)
        known = self._known_offset
        at = known if known is not None and start_offset <= known <= from_offset else start_offset
        at = self._walk(start_offset, at, limit_offset)
        self._known_offset = at
        return max(at, from_offset)

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file[1].close()
            self._file = None

    def _walk(self, start_offset: int, at: int, limit_offset: int) -> int:
        file = self._open(start_offset)
        while at < limit_offset:
            left_bytes = limit_offset - at
            whole_bytes = _whole_bytes(
                file.read_at(min(BLOCK_BYTES, left_bytes), at - start_offset), left_bytes
            )
            if not whole_bytes:
                break
            at += whole_bytes
        return at

    def _open(self, start_offset: int) -> DiskFile:
        if self._file is not None and self._file[0] == start_offset:
            return self._file[1]
        self.close()
        file = self._layout.disk.open(self._layout.path(start_offset))
        self._file = (start_offset, file)
        return file


def _whole_bytes(block: bytes, left_bytes: int) -> int:
    """Return the end of the records with heads in `block`; the last may end behind it, not behind the limit.

    Its loop is most of the CPU cost of serving a log: it looks up neither an attribute nor a method.
    """
    unpack, head_max, at = _HEAD.unpack_from, len(block) - _HEAD.size, 0
    while at <= head_max:
        total, magic = unpack(block, at)
        if magic not in _MAGICS or total < BLANK_BYTES_MIN or at + total > left_bytes:
            break
        at += total
    return at
