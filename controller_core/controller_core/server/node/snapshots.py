"""When a node writes snapshots: every so many entries, on request, and at once after a change of membership.

One is written at a time. Why at once after a change: a node that has just been added can be brought up only
by a snapshot that names it, and one that restarts shall know its peers of now.

A snapshot that finds no space is given up and tried again some entries later; any other failure ends the
node.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from controller_core.log.errors import LogFullError
from controller_core.raft.types import ConfState
from controller_core.server.node.log_writer import LogWriter
from controller_core.server.node.types import Store

RETRY_ENTRIES: Final = 1_000
"""Applied entries after which a snapshot that found no space is tried again."""

Moment = tuple[int, ConfState, bytes]
"""The applied index, the membership and the state machine's bytes of one moment."""

_log = logging.getLogger(__name__)


class Snapshots:
    """The snapshots of one node."""

    def __init__(
        self,
        store: Store,
        writer: LogWriter,
        every_entries: int,
        take: Callable[[], Moment],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._writer = writer
        self._every_entries = every_entries
        self._take = take
        self._failed = failed
        self._applied: int = store.snapshot().index
        self._due = self._applied + every_entries
        self._task: asyncio.Task[int] | None = None

    def applied(self, index: int, *, soon: bool = False) -> None:
        """Learn how far the node has applied, and begin a snapshot if it is time; `soon` makes it time."""
        self._applied = index
        if soon:
            self._due = index
        if index >= self._due and not self._is_writing():
            self._due = index + self._every_entries
            self._begin().add_done_callback(self._done)

    async def make(self) -> int:
        """Put a snapshot of the applied state on disk and return its index; of one under way if there is one.

        Raises:
            LogFullError: no space.
        """
        task = self._task
        if task is None or task.done():
            task = self._begin()
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for the one under way."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _is_writing(self) -> bool:
        return self._task is not None and not self._task.done()

    def _begin(self) -> asyncio.Task[int]:
        self._task = asyncio.create_task(self._write())
        return self._task

    async def _write(self) -> int:
        newest = self._store.snapshot().index
        if self._applied <= newest:
            return newest
        return await self._writer.keep_snapshot(*self._take())

    def _done(self, task: asyncio.Task[int]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LogFullError):
            _log.error("no space for a snapshot: %s", error)
            self._due = self._applied + RETRY_ENTRIES
        elif error is not None:
            self._failed(error)
        else:
            # What became due while this one was written.
            self.applied(self._applied)
