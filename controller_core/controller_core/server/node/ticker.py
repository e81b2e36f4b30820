"""Turns the loop's monotonic clock into Raft's ticks without ever losing count.

Raft's lease counts ticks, so a tick that comes late must still come. But after a pause of the process (a stop
signal, a busy machine) all of them at once would depose a healthy leader: it would count the time of its own
pause as silence of the others, whose answers it had no time to read. So a pause is paid off in portions, with
the loop's I/O between them. While it is not paid off, `catch_up` says so, and callers that ask about the
lease must take that for "no".

Most ticks only count. So the timer sleeps until one is due that does more (`until_due`), for a portion at
most, and whoever feeds the core calls `catch_up` first. An idle node then wakes for its heartbeats alone.

A follower's count has no use, so its pause is `forgiven`: it must not count as the leader's silence.
"""

import asyncio
from collections.abc import Callable
from typing import Final

_ROUNDING_TICKS: Final = 1e-6
"""Counts a tick that is due now as due, however the division rounds.

Why: uvloop's clock has whole milliseconds, so timers fire exactly at a tick; taking it for a hair too early
would arm the timer again for now, and again until the next millisecond.
"""


class Ticker:
    """Calls back with the number of ticks that are due."""

    __slots__ = (
        "_armed_tick",
        "_given",
        "_handle",
        "_interval_s",
        "_on_ticks",
        "_portion_ticks",
        "_started_s",
        "_until_due",
    )

    def __init__(
        self,
        interval_s: float,
        portion_ticks: int,
        on_ticks: Callable[[int], None],
        until_due: Callable[[], int] = lambda: 1,
    ) -> None:
        """Do not count yet.

        Args:
            interval_s: length of a tick.
            portion_ticks: how many to give at most before the loop's I/O has its turn.
            on_ticks: takes the number of ticks that are due.
            until_due: returns after how many ticks one does more than count, at least 1.
        """
        self._portion_ticks = portion_ticks
        self._interval_s = interval_s
        self._on_ticks = on_ticks
        self._until_due = until_due
        self._armed_tick = 0
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

    def catch_up(self) -> bool:
        """Give ticks that are due, at most a portion; say whether none is owed any more."""
        if self._handle is None:
            return False
        due = self._owed()
        portion = min(due, self._portion_ticks)
        if portion > 0:
            self._given += portion
            self._on_ticks(portion)
        return due == portion

    def forgive(self) -> None:
        """Let the ticks go that are owed."""
        self._given += self._owed()

    def rearm(self) -> None:
        """Wake earlier, if the tick that is due has come nearer."""
        if self._handle is not None and self._next_tick() < self._armed_tick:
            self._handle.cancel()
            self._schedule()

    def _next_tick(self) -> int:
        return self._given + min(self._portion_ticks, self._until_due())

    def _owed(self) -> int:
        elapsed_s = asyncio.get_running_loop().time() - self._started_s
        return int(elapsed_s / self._interval_s + _ROUNDING_TICKS) - self._given

    def _fire(self) -> None:
        self.catch_up()
        if self._handle is not None:  # a callback may have stopped us
            self._schedule()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._armed_tick = self._next_tick()
        self._handle = loop.call_at(self._started_s + self._armed_tick * self._interval_s, self._fire)
