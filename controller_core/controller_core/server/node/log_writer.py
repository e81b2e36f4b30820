"""The threads that write a node's log: one for batches, in order, and one for a snapshot now and then.

Why two: a snapshot of megabytes takes the disk some 20 ms, and every command that came meanwhile would wait.

A full disk is waited out here: nothing of a batch is in the log then, and the same batch is written again
until it fits. A snapshot that finds no space is given up; the log is whole without it, and the next one
covers more.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from controller_core.log.errors import LogFailedError, LogFullError, LogMisuseError
from controller_core.log.view import Batch
from controller_core.raft.types import ConfState, LogIndex, Snapshot
from controller_core.server.node.types import Store

FULL_RETRY_S = 0.1
"""Pause before a batch that found no space is written again."""

_log = logging.getLogger(__name__)


class LogWriter:
    """Writes to a store, off the event loop."""

    def __init__(self, store: Store, entries_kept: int) -> None:
        self._store = store
        self._entries_kept = entries_kept
        self.is_full = False
        """Whether a batch waits for space."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="raft-log")
        self._snapshot_thread = ThreadPoolExecutor(1, thread_name_prefix="raft-snapshot")

    async def write(self, batch: Batch, stopped: Callable[[], bool]) -> bool:
        """Write a batch that needs it, waiting for space until `stopped`.

        Return whether the batch may be committed.

        A batch that only moves the commit index is not written: the hard state rides along with the next one.

        Raises:
            LogFailedError: the disk failed.
        """
        if not (batch.entries or batch.snapshot is not None or batch.must_sync):
            return True
        if batch.hard_state is None:
            batch = replace(batch, hard_state=self._store.initial_state()[0])
        loop = asyncio.get_running_loop()
        while not stopped():
            try:
                await loop.run_in_executor(self._thread, self._store.write, batch)
            except LogFullError as error:
                if not self.is_full:
                    _log.error("the log waits for space: %s", error)
                self.is_full = True
                await asyncio.sleep(FULL_RETRY_S)
            else:
                if self.is_full:
                    _log.warning("the log has space again")
                self.is_full = False
                return True
        return False

    async def keep_snapshot(self, index: int, conf_state: ConfState, data: bytes) -> int:
        """Put a snapshot of `index` on disk, forget entries far behind it, and return its index.

        Raises:
            LogFullError: no space; nothing changed.
            LogFailedError: the disk failed.
        """
        made: Snapshot = self._store.build_snapshot(LogIndex(index), conf_state, data)
        await asyncio.get_running_loop().run_in_executor(
            self._snapshot_thread, self._store.write_snapshot, made
        )
        self._store.publish_snapshot(made)
        behind = LogIndex(index - self._entries_kept)
        if behind >= self._store.first_index():
            self._store.compact(behind)
        return index

    def close(self) -> None:
        """Finish the write under way, save the newest commit index if that is easy, and close the store."""
        self._thread.shutdown(wait=True)
        self._snapshot_thread.shutdown(wait=True)
        with contextlib.suppress(LogFailedError, LogFullError, LogMisuseError):
            self._store.write(Batch(hard_state=self._store.initial_state()[0]))
        self._store.close()
