"""A store as its slaves see it: views of the servable log, and bytes from its files straight to a socket.

Slaves are served up to the last whole record that is durable. A replica receives messages in pieces, and a
slave that ended on one could not be promoted; and a slave must never have more of an epoch than we have after
a crash, or it would have to cut what it acknowledged.
"""

import os
import threading
from collections.abc import Callable
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.commitlog.cuts import LogCutError
from ha_sidecar.commitlog.record_ends import RecordEnds
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.transfer.served_log import LogExtent


class ServedStore:
    """Views of a store; for any thread."""

    def __init__(
        self, store: ReplicaStore, confirm_offset: Callable[[], int], *, after_sync: bool = True
    ) -> None:
        """Take the store.

        Args:
            store: the store that is served.
            confirm_offset: tells the confirm offset, any byte position; -1 if it is not known.
            after_sync: serve durable bytes only; without it, as with acks after writing, all written bytes.
        """
        self._store: Final = store
        self._after_sync: Final = after_sync
        self._confirm_offset: Final = confirm_offset
        self._lock: Final = threading.Lock()
        self._walked_generation = -1
        self._end_walk = RecordEnds(store.log.layout)
        self._confirm_walk = RecordEnds(store.log.layout)
        self._end_offset = self._confirmed_offset = 0

    def view(self) -> LogExtent:
        """Return the log as it is now.

        Raises:
            LogCutError: it is being cut; look again with a new connection.
        """
        with self._lock:
            # The end is read before the epochs: an epoch is adopted before the bytes behind its start.
            log = self._store.log
            generation = log.cuts.generation
            if generation != self._walked_generation:
                self._restart_walk(generation)
            limit_offset = log.synced_offset if self._after_sync else log.max_offset
            min_offset, confirm_offset = log.min_offset, self._confirm_offset()
            self._end_offset = self._last_end(self._end_walk, self._end_offset, min_offset, limit_offset)
            confirm_offset = max(min_offset, min(confirm_offset, self._end_offset))
            if confirm_offset >= self._end_offset:
                self._confirmed_offset = self._end_offset
            elif confirm_offset > self._confirmed_offset:
                self._confirmed_offset = self._last_end(
                    self._confirm_walk, self._confirmed_offset, min_offset, confirm_offset
                )
            view = LogExtent(
                min_offset,
                LogOffset(self._end_offset),
                LogOffset(self._confirmed_offset),
                self._store.epochs,
                generation,
            )
            if log.cuts.generation != generation or generation % 2:
                self._walked_generation = -1
                raise LogCutError(f"the log is being cut, generation {log.cuts.generation}")
            return view

    def _restart_walk(self, generation: int) -> None:
        log = self._store.log
        self._end_walk.close()
        self._confirm_walk.close()
        self._end_walk = RecordEnds(log.layout, log.record_offset)
        self._confirm_walk = RecordEnds(log.layout)
        self._end_offset, self._confirmed_offset = log.record_offset, 0
        self._walked_generation = generation

    def _last_end(self, walk: RecordEnds, known_offset: int, min_offset: int, limit_offset: int) -> int:
        """Return the last record end up to the limit, going on from a known one."""
        layout = self._store.log.layout
        # A file's start is an end of a record too; whatever lies before the last one need not be walked.
        from_offset = max(known_offset, min_offset)
        if layout.start_of(from_offset) != layout.start_of(limit_offset):
            from_offset = layout.start_of(limit_offset)
        return walk.record_end(from_offset, limit_offset)


class FileSender:
    """Sends parts of a store's log from the page cache to sockets, or reads them; for one thread."""

    def __init__(self, store: ReplicaStore) -> None:
        """Open nothing yet."""
        self._store: Final = store
        self._file: tuple[int, int] | None = None

    def send(self, out_fd: int, offset: int, length: int, generation: int) -> int:
        """Send some of the log's bytes [offset, offset + length), which lie in one file; return how many.

        Raises:
            LogCutError: the log was cut since `generation`.
            BlockingIOError: the socket's buffer is full.
        """
        with self._store.log.cuts.reading(generation):
            fd, start_offset = self._open(offset)
            return os.sendfile(out_fd, fd, offset - start_offset, length)

    def read(self, offset: int, length: int, generation: int) -> bytes:
        """Return some of the log's bytes [offset, offset + length), which lie in one file.

        Raises:
            LogCutError: the log was cut since `generation`.
        """
        with self._store.log.cuts.reading(generation):
            fd, start_offset = self._open(offset)
            return os.pread(fd, length, offset - start_offset)

    def _open(self, offset: int) -> tuple[int, int]:
        """Return the open file of an offset, and where it starts."""
        layout = self._store.log.layout
        start_offset = layout.start_of(offset)
        if self._file is None or self._file[0] != start_offset:
            self.close()
            self._file = (start_offset, os.open(layout.path(start_offset), os.O_RDONLY))
        return self._file[1], start_offset

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            os.close(self._file[1])
            self._file = None
