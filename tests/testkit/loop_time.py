"""Lets a test move the running loop's clock ahead, as a stopped process sees it."""

import asyncio
from typing import Self


class LoopTime:
    """While entered, the loop's clock runs as before plus `ahead_s`; timers due by then fire at the next turn."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time

    def __enter__(self) -> Self:
        """Take the clock over."""
        self._loop.time = lambda: self._time() + self.ahead_s  # type: ignore[method-assign] # the point of this class
        return self

    def __exit__(self, *_: object) -> None:
        """Give the clock back."""
        del self._loop.time
