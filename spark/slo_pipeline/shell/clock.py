"""One process's clock: monotonic inside, UTC at the border.

Problem: a wall clock may be stepped while a failover is being measured, and then a gap between two operations
is the step and not the gap. A monotonic clock never jumps and means nothing to anybody else. Shape: at the
start both clocks are read together; from then on UTC is the anchor plus monotonic time. Both are slewed alike
by time synchronisation, so they part only when the wall clock is stepped; `resync` notices that and moves the
anchor, telling by how much. Never: no duration is computed from two wall clock readings.
"""

import os
import socket
import time
from collections.abc import Callable

STEP_NS_MIN = 100_000_000
"""A difference that slewing and scheduling cannot make; below it the anchor stays, so that UTC never
jitters."""

NS_PER_S = 1_000_000_000
NS_PER_US = 1_000


class AnchoredClock:
    """Monotonic nanoseconds, and the UTC nanoseconds that belong to them.

    Attributes:
        clock_id: names this clock in rows and events: host, process id and start; two of them are never the
            same.
    """

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._offset_ns = wall_ns() - monotonic_ns()
        self.clock_id = f"{socket.gethostname()}:{os.getpid()}:{self.utc_ns() // NS_PER_S}"

    def monotonic_ns(self) -> int:
        """Return monotonic nanoseconds now."""
        return self._monotonic_ns()

    def utc_ns(self) -> int:
        """Return UTC nanoseconds now, by the anchor."""
        return self._monotonic_ns() + self._offset_ns

    def utc_ns_of(self, monotonic_ns: int) -> int:
        """Return the UTC nanoseconds of a monotonic reading of this process."""
        return monotonic_ns + self._offset_ns

    def resync(self) -> int:
        """Move the anchor if the wall clock was stepped; return the step in nanoseconds, 0 for none."""
        step_ns = self._wall_ns() - self.utc_ns()
        if abs(step_ns) < STEP_NS_MIN:
            return 0
        self._offset_ns += step_ns
        return step_ns
