"""Log lines about strangers, at most so many of one kind: a stranger must not fill the disk.

The first lines of a kind are logged as they come, then at most one each second. Such a line tells how many
were left out before it.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from controller_core import limits


class LogRate:
    """Bounds one kind of line."""

    def __init__(self, log: logging.Logger, level: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """Take the logger of the module that logs, the level of its lines, and a clock."""
        self._log: Final = log
        self._level: Final = level
        self._now_s: Final = now_s
        self._left = float(limits.LOG_LINES_BURST_MAX)
        self._last_s = now_s()
        self._left_out = 0

    def __call__(self, text: str, *args: object) -> None:
        """Log a line, or count it."""
        now_s = self._now_s()
        gained = (now_s - self._last_s) / limits.LOG_LINE_INTERVAL_S
        self._last_s = now_s
        self._left = min(float(limits.LOG_LINES_BURST_MAX), self._left + gained)
        if self._left < 1:
            self._left_out += 1
            return
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        if left_out:
            self._log.log(self._level, text + " (%d such lines were left out)", *args, left_out)
        else:
            self._log.log(self._level, text, *args)
