"""Commands under way: from `propose` until the state machine answers, or leadership is lost.

    waiting  --placed in the log at an index-->  placed  --applied there, same term-->  answered
       |                                            |
       +--- not leader, or dropped: nothing happened |
       +--- leadership lost: outcome unknown <-------+--- another entry was applied at that index

The core appends what a leader proposes in order, so a command is found again in the next Ready's entries by
being the very same bytes object at the head of the queue. Futures that their callers gave up (a time-out) are
passed over.

This module keeps futures and does no I/O.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from controller_core.raft.types import Entry
from controller_core.server.node.types import ENTRY_BYTES_MAX, ProposalLostError

Waiting = tuple[bytes, asyncio.Future[object]]


class Proposals:
    """The commands of one node."""

    __slots__ = ("_placed", "_queue", "_unplaced", "term")

    def __init__(self) -> None:
        self._queue: list[Waiting] = []
        self._unplaced: deque[Waiting] = deque()
        self._placed: dict[int, tuple[int, asyncio.Future[object]]] = {}
        self.term = 0
        """The term in which commands were handed to the core; 0 while none are under way."""

    def __len__(self) -> int:
        return len(self._queue) + len(self._unplaced) + len(self._placed)

    def add(self, data: bytes) -> asyncio.Future[object]:
        """Queue a command for the next batch.

        Raises:
            ValueError: the command is empty, which Raft keeps for itself, or larger than `ENTRY_BYTES_MAX`.
        """
        if not 0 < len(data) <= ENTRY_BYTES_MAX:
            raise ValueError(f"a command of {len(data)} bytes, expected 1 to {ENTRY_BYTES_MAX}")
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._queue.append((data, future))
        return future

    def take_queue(self) -> list[Waiting]:
        """Return the commands not yet handed to the core, leaving none."""
        queue, self._queue = self._queue, []
        return queue

    def handed_over(self, taken: Iterable[Waiting], term: int) -> None:
        """Note that the core accepted these commands, in this order, as leader of `term`."""
        self._unplaced.extend(taken)
        self.term = term

    def place(self, entries: Iterable[Entry]) -> None:
        """Find the accepted commands among new entries and note their index."""
        for entry in entries:
            if not self._unplaced:
                return
            if entry.term == self.term and entry.data is self._unplaced[0][0]:
                self._placed[entry.index] = (entry.term, self._unplaced.popleft()[1])

    def answer(self, entry: Entry, result: object) -> None:
        """Answer the command that stands at the entry's index, if it is ours."""
        found = self._placed.pop(entry.index, None)
        if found is None:
            return
        term, future = found
        if future.done():
            return
        if term == entry.term:
            future.set_result(result)
        else:
            future.set_exception(ProposalLostError(f"another command was committed at index {entry.index}"))

    def lose(self, reason: str) -> None:
        """Tell everybody whose command is under way that its outcome is unknown."""
        lost = [future for _, future in self._unplaced] + [future for _, future in self._placed.values()]
        self._unplaced.clear()
        self._placed.clear()
        self.term = 0
        fail(lost, ProposalLostError(reason))


def fail(
    futures: Iterable[asyncio.Future[object]] | Iterable[asyncio.Future[None]], error: Exception
) -> None:
    """Fail futures that still wait."""
    for future in futures:
        if not future.done():
            future.set_exception(error)
