"""Turns the loop's monotonic clock into Raft's ticks without ever losing count.

Raft's lease counts ticks, so a tick that comes late must still come: after a pause of the process (a stop signal, a busy
machine) the ticker gives all the ticks of that time at once. Who asks whether the lease holds calls `catch_up` first, so
that an answer never rests on a count that has fallen behind the clock.
"""

import asyncio
from collections.abc import Callable


class Ticker:
    """Calls back with the number of ticks that are due."""

    __slots__ = ("_given", "_handle", "_interval_s", "_on_ticks", "_started_s")

    def __init__(self, interval_s: float, on_ticks: Callable[[int], None]) -> None:
        self._interval_s = interval_s
        self._on_ticks = on_ticks
        self._handle: asyncio.TimerHandle | None = None
        self._started_s = 0.0
        self._given = 0

    def start(self) -> None:
        """Begin to count now, on the running loop."""
        self._started_s = asyncio.get_running_loop().time()
        self._given = 0
        self._schedule()

    def stop(self) -> None:
        """Give no more ticks."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def catch_up(self) -> None:
        """Give the ticks that are due by now."""
        if self._handle is None:
            return
        elapsed_s = asyncio.get_running_loop().time() - self._started_s
        due = int(elapsed_s / self._interval_s) - self._given
        if due > 0:
            self._given += due
            self._on_ticks(due)

    def _fire(self) -> None:
        self.catch_up()
        if self._handle is not None:  # a callback may have stopped us
            self._schedule()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._handle = loop.call_at(self._started_s + (self._given + 1) * self._interval_s, self._fire)
