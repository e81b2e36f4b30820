"""Carries retention out for a replica.

Looks at files and disk now and then, drops the oldest, and says when it is full.
"""

import time
from collections.abc import Callable
from typing import Final

from ha_sidecar.commitlog.retention import LogFile, RetentionRule, must_refuse, new_min_offset
from ha_sidecar.commitlog.store import ReplicaStore

DiskUsage = Callable[[], tuple[int, int]]
"""Returns (used, all) bytes of the store's disk."""


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
        self._usage: Final = usage or (lambda: store.log.layout.disk.usage(store.directory))

    def look(self) -> tuple[int, bool]:
        """Drop the files that may go; return how many bytes went, and whether to receive nothing more."""
        log = self._store.log
        used_bytes, disk_bytes = self._usage()
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
        return max(0, log.min_offset - before_offset), must_refuse(
            self._rule, used_bytes, disk_bytes, wanted_bytes
        )

    def _files(self) -> list[LogFile]:
        layout = self._store.log.layout
        return [
            LogFile(start, layout.file_bytes, layout.path(start).stat().st_mtime_ns // 1_000_000)
            for start in layout.starts()
        ]
