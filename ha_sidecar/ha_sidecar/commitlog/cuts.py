"""Keep readers of a log and cuts of it apart, without a reader ever waiting for a slow socket.

A server of the log reads files that a truncation may shorten and fill again with other bytes. So each cut
makes a new generation, and a reader says for which generation it reads: while a cut is under way, or after
it, readers of the old one are turned away and start over. A cut waits for the readers that are inside, which
hold on for one system call on a socket that never blocks.

An odd generation means that a cut is under way, or that it failed half-way: nothing is read then.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class LogCutError(Exception):
    """The log was cut since the reader looked at it; what it wants to read may be gone."""


class CutGuard:
    """Counts cuts and readers of one log; for any thread.

    Attributes:
        generation: even between cuts, odd during one; never the same again after a cut.
    """

    def __init__(self) -> None:
        """Start before the first cut."""
        self.generation = 0
        self._condition: Final = threading.Condition()
        self._readers = 0

    @contextmanager
    def reading(self, generation: int) -> Iterator[None]:
        """Block cuts inside the block; raise `LogCutError` if there was one since `generation`."""
        with self._condition:
            if generation != self.generation or generation % 2:
                raise LogCutError(f"generation {generation} of the log is over, it is {self.generation} now")
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextmanager
    def cutting(self) -> Iterator[None]:
        """Block readers inside the block; if the cut fails, block them for good."""
        with self._condition:
            self.generation += 1
            self._condition.wait_for(lambda: self._readers == 0)
        yield
        with self._condition:
            self.generation += 1
