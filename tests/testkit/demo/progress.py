"""What the demo says while it runs: one line a step, with the time since the start."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StepPrinter:
    """Prints steps as they begin and end, on one stream, flushed at once."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the seconds since the demo started."""
        print(f"[{time.monotonic() - self._start_s:6.1f} s] {text}", flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print that a step begins, and how long it took when it ends well."""
        self.say(f"{text} ...")
        started_s = time.monotonic()
        yield
        self.say(f"{text}: done in {time.monotonic() - started_s:.1f} s")

    def fail(self, text: str) -> None:
        """Print what went wrong."""
        self.say(f"FAILED: {text}")
