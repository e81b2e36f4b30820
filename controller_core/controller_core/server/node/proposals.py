"""Commands under way: from `propose` until the state machine answers, or leadership is lost.

    waiting  --placed in the log at an index-->  placed  --applied there, same term-->  answered
       |                                            |
       +--- not leader, or dropped: nothing happened |
       +--- leadership lost: outcome unknown <-------+--- another entry was applied at that index

The core appends what a leader proposes in order, so a command is found again in the next Ready's entries by
being the very same bytes object at the head of the queue. Waiters that are done already (their callers gave
up) are passed over.

A waiter is a future, or anything else with its three methods: a request of the remoting port gets its answer
within the turn of the loop that applies the command, and needs neither a task nor a future for that.

This module keeps waiters and does no I/O.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from controller_core.raft.types import Entry
from controller_core.server.node.types import ENTRY_BYTES_MAX, ProposalLostError


class Waiter(Protocol):
    """A future or a request that waits for a command; its methods do not raise."""

    def done(self) -> bool:
        """Whether nothing waits any more."""
        ...

    def set_result(self, result: object, /) -> None:
        """Learn what applying the command gave."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Learn that the command was not proposed, or that its outcome is unknown."""
        ...


Waiting = tuple[bytes, Waiter]


class Proposals:
    """The commands of one node."""

    __slots__ = ("_placed", "_queue", "_unplaced", "term")

    def __init__(self) -> None:
        self._queue: list[Waiting] = []
        self._unplaced: deque[Waiting] = deque()
        self._placed: dict[int, tuple[int, Waiter]] = {}
        self.term = 0
        """The term in which commands were handed to the core; 0 while none are under way."""

    def __len__(self) -> int:
        return len(self._queue) + len(self._unplaced) + len(self._placed)

    def add(self, data: bytes, waiter: Waiter) -> None:
        """Queue a command for the next batch.

        Raises:
            ValueError: the command is empty, which Raft keeps for itself, or larger than `ENTRY_BYTES_MAX`.
        """
        if not 0 < len(data) <= ENTRY_BYTES_MAX:
            raise ValueError(f"a command of {len(data)} bytes, expected 1 to {ENTRY_BYTES_MAX}")
        self._queue.append((data, waiter))

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
        term, waiter = found
        if waiter.done():
            return
        if term == entry.term:
            waiter.set_result(result)
        else:
            waiter.set_exception(ProposalLostError(f"another command was committed at index {entry.index}"))

    def lose(self, reason: str) -> None:
        """Tell everybody whose command is under way that its outcome is unknown."""
        lost = [waiter for _, waiter in self._unplaced] + [waiter for _, waiter in self._placed.values()]
        self._unplaced.clear()
        self._placed.clear()
        self.term = 0
        fail(lost, ProposalLostError(reason))


class Fails(Protocol):
    """A waiter, or a future of another type."""

    def done(self) -> bool:
        """Whether nothing waits any more."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Learn of the failure."""
        ...


def fail(waiters: Iterable[Fails], error: Exception) -> None:
    """Fail waiters that still wait."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)
