"""The writing end of the write-ahead log: appends batches, starts new segments, drops old ones.

One thread writes; only `drop_through` comes from another. A batch is one `write` call and, when it must be
durable, one sync, after which a DURABLE record follows unsynced: it reaches the disk with the next batch at
the latest and tells recovery that damage before it is not a torn write. A segment that is full is synced
whole before the next one appears under its name, so only the last segment of a store can be torn.

Running out of space leaves the log as it was before the batch: the part that was written is cut off, and the
same batch may come again. Any other failure leaves this object unusable; `store` sees to that.
"""

import contextlib
import threading
from pathlib import Path

from controller_core.log.errors import LogFullError
from controller_core.log.files import File, Files, durable_write, is_full
from controller_core.log.records import (
    FORMAT_VERSION,
    RecordType,
    SegmentHead,
    encode_entry,
    encode_hard_state,
    encode_record,
    encode_segment_head,
)
from controller_core.log.recovery import Recovered, Segment, Tail, segment_name
from controller_core.log.view import Batch
from controller_core.raft.types import Snapshot

SEGMENT_BYTES_MAX = 8 * 1024 * 1024
"""A segment that reached this size is followed by a new one; a single batch may pass it."""


class WalWriter:
    """Appends to the last segment of a store."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        owner: str,
        segments: list[Segment],
        tail: Tail,
        segment_bytes_max: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._owner = owner
        self._segments = segments
        self._segments_lock = threading.Lock()
        self._tail = tail
        self._segment_bytes_max = segment_bytes_max
        self._file: File = files.append(directory / segments[-1].name)

    @classmethod
    def create(
        cls, files: Files, directory: Path, owner: str, tail: Tail, segment_bytes_max: int = SEGMENT_BYTES_MAX
    ) -> "WalWriter":
        """Start a log whose first entry follows `tail.last_index`."""
        segment, started = _start_segment(files, directory, owner, 1, tail)
        return cls(files, directory, owner, [segment], started, segment_bytes_max)

    @classmethod
    def resume(
        cls, files: Files, directory: Path, recovered: Recovered, segment_bytes_max: int = SEGMENT_BYTES_MAX
    ) -> "WalWriter":
        """Continue a log where recovery found its end.

        The last segment is rewritten without the part that was cut. Why: bytes that a dead process left in
        the page cache were perhaps never synced, or a sync of them failed and the kernel marked them clean;
        reading them proves nothing about the disk, and from here on they count.
        """
        mark, checksum = encode_record(RecordType.DURABLE, recovered.tail.checksum)
        whole = recovered.tail_bytes + mark
        durable_write(files, directory / recovered.segments[-1].name, whole)
        tail = recovered.tail
        tail = Tail(len(whole), checksum, tail.last_index, tail.last_term, tail.hard_state)
        writer = cls(files, directory, recovered.owner, list(recovered.segments), tail, segment_bytes_max)
        if recovered.needs_reset:
            writer.append(
                Batch(recovered.stored.hard_state, snapshot=recovered.stored.snapshot, must_sync=True)
            )
        return writer

    def append(self, batch: Batch) -> None:
        """Write a batch, and return once it is durable if it must be.

        Raises:
            LogFullError: no space; the log is as before.
            OSError: anything else; what the disk holds is unknown.
        """
        if self._tail.size_bytes >= self._segment_bytes_max:
            self._roll()
        data, tail = encode_batch(batch, self._tail)
        self._write(data)
        self._tail = tail
        if batch.must_sync:
            self._file.sync()
            self._mark_durable()

    def drop_through(self, index: int) -> None:
        """Remove segments whose entries all lie at or before `index`.

        One that will not go is tried the next time.
        """
        with self._segments_lock, contextlib.suppress(OSError):
            while len(self._segments) > 1 and self._segments[1].previous_index <= index:
                self._files.remove(self._directory / self._segments[0].name)
                del self._segments[0]

    def close(self) -> None:
        """Close the file without another sync."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        """Append bytes; without space, cut off the part that went in."""
        try:
            self._file.write(data)
        except OSError as error:
            if not is_full(error):
                raise
            self._file.truncate(self._tail.size_bytes)
            raise LogFullError(f"no space for {len(data)} bytes in {self._directory}") from error

    def _mark_durable(self) -> None:
        """Write that everything so far is durable; without space the mark is left out."""
        mark, checksum = encode_record(RecordType.DURABLE, self._tail.checksum)
        with contextlib.suppress(LogFullError):
            self._write(mark)
            tail = self._tail
            self._tail = Tail(
                tail.size_bytes + len(mark), checksum, tail.last_index, tail.last_term, tail.hard_state
            )

    def _roll(self) -> None:
        """Finish this segment and start the next."""
        self._file.sync()
        sequence = self._segments[-1].sequence + 1
        segment, tail = _start_segment(self._files, self._directory, self._owner, sequence, self._tail)
        file = self._files.append(self._directory / segment.name)
        self._file.close()
        self._file, self._tail = file, tail
        with self._segments_lock:
            self._segments.append(segment)


def encode_batch(batch: Batch, tail: Tail) -> tuple[bytes, Tail]:
    """Return a batch's records, in the order snapshot, entries, hard state, and the tail after them."""
    parts: list[bytes] = []
    checksum, last_index, last_term = tail.checksum, tail.last_index, tail.last_term
    if batch.snapshot is not None:
        part, checksum = encode_reset(batch.snapshot, checksum)
        last_index, last_term = batch.snapshot.index, batch.snapshot.term
        parts.append(part)
    for entry in batch.entries:
        part, checksum = encode_entry(entry, checksum)
        last_index, last_term = entry.index, entry.term
        parts.append(part)
    hard_state = batch.hard_state or tail.hard_state
    if batch.hard_state is not None:
        part, checksum = encode_hard_state(hard_state, checksum)
        parts.append(part)
    data = b"".join(parts)
    return data, Tail(tail.size_bytes + len(data), checksum, last_index, last_term, hard_state)


def encode_reset(snapshot: Snapshot, previous: int) -> tuple[bytes, int]:
    """Return the RESET record for a snapshot that replaced the log, and its checksum."""
    return encode_record(RecordType.RESET, previous, index=snapshot.index, term=snapshot.term)


def _start_segment(
    files: Files, directory: Path, owner: str, sequence: int, tail: Tail
) -> tuple[Segment, Tail]:
    """Put a new segment in place, whose head and hard state make older segments unnecessary."""
    head, checksum = encode_segment_head(
        SegmentHead(FORMAT_VERSION, sequence, owner), tail.checksum, tail.last_index, tail.last_term
    )
    state, checksum = encode_hard_state(tail.hard_state, checksum)
    mark, checksum = encode_record(RecordType.DURABLE, checksum)
    data = head + state + mark
    name = segment_name(sequence, tail.last_index + 1)
    durable_write(files, directory / name, data)
    segment = Segment(name, sequence, tail.last_index)
    return segment, Tail(len(data), checksum, tail.last_index, tail.last_term, tail.hard_state)
