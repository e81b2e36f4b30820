"""Simulated time: events in a heap, run in order of time and, at equal times, of their making."""

import heapq
from collections.abc import Callable
from itertools import count


class Scheduler:
    """A clock that jumps from event to event."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Run `action` when `delay` more time units have passed."""
        heapq.heappush(self._heap, (self.now + delay, next(self._sequence), action))

    def run_until(self, end: float) -> None:
        """Run all events before `end` and set the clock to it."""
        while self._heap and self._heap[0][0] <= end:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = end
