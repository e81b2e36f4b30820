"""The shell's clocks: one place that reads them, so that everything else takes times as values.

UTC goes to people and files, the monotonic clock measures; `Stamp` carries both readings and the process they
were read in, because monotonic readings of two processes must never be compared.
"""

import os
import socket
import time

from controller_core.groups.commands import Stamp

_NS_PER_MS = 1_000_000


class Clock:
    """Reads this process's clocks.

    `clock_id` tells them from those of any other process or an earlier run.
    """

    def __init__(self, name: str) -> None:
        self.clock_id = f"{name}@{socket.gethostname()}:{os.getpid()}:{time.time_ns() // _NS_PER_MS}"

    def stamp(self) -> Stamp:
        """Read both clocks now."""
        return Stamp(utc_ns=time.time_ns(), monotonic_ns=time.monotonic_ns(), clock_id=self.clock_id)

    def stamp_at(self, monotonic_ms: int) -> Stamp:
        """Return the stamp of an earlier reading of the monotonic clock (milliseconds)."""
        monotonic_ns = monotonic_ms * _NS_PER_MS
        ago_ns = time.monotonic_ns() - monotonic_ns
        return Stamp(utc_ns=time.time_ns() - ago_ns, monotonic_ns=monotonic_ns, clock_id=self.clock_id)

    def now_ms(self) -> int:
        """Read the monotonic clock in whole milliseconds: the time of the liveness table."""
        return time.monotonic_ns() // _NS_PER_MS
