"""Carries retention out for a replica.

Looks at files and disks now and then, drops the oldest files, and says when a disk is full.

The log's directory may be on a disk of its own, beside that of the store's other files: epochs, identity,
metadata. Then two shares count, as for a DLedger store:

    the log's disk is above the mark for dropping      the oldest files go
    either disk is above the mark for refusing         nothing more is received

Why the share of the store's disk drops nothing: no file of the log would make room there.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ha_sidecar.commitlog.retention import LogFile, RetentionRule, must_refuse, new_min_offset
from ha_sidecar.commitlog.store import ReplicaStore

DiskUsage = Callable[[Path], tuple[int, int]]
"""Returns (used, all) bytes of a directory's disk."""


class LogRetention:
    """Retention of one store; calls block on the disk."""

    def __init__(
        self,
        store: ReplicaStore,
        rule: RetentionRule,
        slaves_offset: Callable[[], int | None],
        usage: DiskUsage | None = None,
    ) -> None:
        """Take the store; `slaves_offset` tells the least position of a slave, None without slaves."""
        self._store: Final = store
        self._rule: Final = rule
        self._slaves_offset: Final = slaves_offset
        self._usage: Final = usage or store.log.layout.disk.usage

    def look(self) -> tuple[int, bool]:
        """Drop the files that may go; return how many bytes went, and whether to receive nothing more."""
        log = self._store.log
        used_bytes, disk_bytes = self._usage(log.layout.directory)
        wanted_bytes = 0 if log.room is None else log.room.wanted_bytes
        slaves_offset = self._slaves_offset()
        needed_offset = log.synced_offset if slaves_offset is None else min(slaves_offset, log.synced_offset)
        before_offset = log.min_offset
        keep_from = new_min_offset(
            self._files(),
            self._rule,
            time.time_ns() // 1_000_000,
            used_bytes,
            disk_bytes,
            needed_offset,
            wanted_bytes,
        )
        if keep_from is not None:
            log.drop_before(keep_from)
            used_bytes -= log.min_offset - before_offset
        refuses = must_refuse(self._rule, used_bytes, disk_bytes, wanted_bytes) or self._store_disk_is_full()
        return max(0, log.min_offset - before_offset), refuses

    def _store_disk_is_full(self) -> bool:
        """Say whether the disk of the store's other files is another one, and is above the mark."""
        root, log = self._store.directory, self._store.log.layout
        if log.disk.volume(root) == log.disk.volume(log.directory):
            return False
        return must_refuse(self._rule, *self._usage(root))

    def _files(self) -> list[LogFile]:
        layout = self._store.log.layout
        return [
            LogFile(start, layout.file_bytes, layout.path(start).stat().st_mtime_ns // 1_000_000)
            for start in layout.starts()
        ]
