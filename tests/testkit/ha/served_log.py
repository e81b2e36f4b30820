"""A log in memory that a master's machine can serve.

It has records with known ends, epochs, and a view of the moment.
"""

from bisect import bisect_right

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import EpochEntry, EpochList
from ha_sidecar.transfer.served_log import LogExtent
from testkit.ha.messages import boundaries, log_bytes


class ServedLog:
    """Bytes from `min_offset` on, made of whole records.

    Attributes:
        data: the bytes; the first one stands at `min_offset`.
        epochs: the epoch list.
    """

    def __init__(self, file_bytes: int, min_offset: int = 0) -> None:
        """Start without a byte."""
        self.file_bytes = file_bytes
        self.min_offset = min_offset
        self.data = b""
        self.epochs = EpochList()
        self.generation = 0
        self._ends = [min_offset]

    @property
    def end_offset(self) -> int:
        """Where the log ends."""
        return self.min_offset + len(self.data)

    def open_epoch(self, epoch: int) -> None:
        """Begin an epoch at the end, as a new master does."""
        self.epochs = self.epochs.appended(EpochEntry(epoch, LogOffset(self.end_offset)))

    def append(self, count: int, body_bytes: int = 20, mark: bytes = b"m") -> None:
        """Append messages, with a BLANK wherever a file could not take the next one."""
        more = log_bytes(count, self.file_bytes, self.end_offset, body_bytes, mark)
        self._ends.extend(boundaries(more, self.file_bytes, self.end_offset)[1:])
        self.data += more

    def record_end(self, from_offset: int, limit_offset: int) -> int:
        """Return the last record end in (from, limit], or `from_offset`."""
        assert from_offset // self.file_bytes >= (limit_offset - 1) // self.file_bytes or limit_offset == 0
        assert limit_offset <= self.end_offset
        return max(self._ends[bisect_right(self._ends, limit_offset) - 1], from_offset)

    def ends(self) -> list[int]:
        """Return all offsets at which a record ends, the log's start included."""
        return self._ends

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the log."""
        at = offset - self.min_offset
        return self.data[at : at + length]

    def view(self, confirm_offset: int | None = None) -> LogExtent:
        """Return the log as it is now; all of it is confirmed unless said otherwise."""
        confirm = self.end_offset if confirm_offset is None else confirm_offset
        return LogExtent(
            LogOffset(self.min_offset),
            LogOffset(self.end_offset),
            LogOffset(confirm),
            self.epochs,
            self.generation,
        )
