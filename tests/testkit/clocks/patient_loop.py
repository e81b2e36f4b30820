"""An event loop on which a stall of the machine does not advance the time.

It is for tests whose timeouts are not what they test.

Problem: a machine that is busy elsewhere stands still for seconds, and every time-out of a test and of the
code under it is over when it goes on, although no peer had a chance to answer. Shape: the loop's clock runs
with the machine's, but between two looks at it at most `STALL_MAX_S` pass. Waiting is cut into slices below
that, so that a wait lasts as long as ever. Code that uses `loop.time` does not notice; a clock that the code
reads elsewhere may be replaced by `patient_clocks`. Never: time stands still. What hangs is found by the
time-outs as before, only not a moment too early.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Final

STALL_MAX_S: Final = 0.02
_SLICE_S: Final = 0.01
_NS_PER_S: Final = 1_000_000_000


class _Slices(selectors.DefaultSelector):
    """Waits for a slice at most; the loop comes back by itself."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(_SLICE_S if timeout is None else min(timeout, _SLICE_S))


class PatientLoop(asyncio.SelectorEventLoop):
    """See the module's text."""

    def __init__(self) -> None:
        self._seen_s = self._now_s = time.monotonic()
        super().__init__(_Slices())

    def time(self) -> float:
        """Return seconds that never grow by more than `STALL_MAX_S` from one look to the next."""
        seen_s = time.monotonic()
        self._now_s += min(seen_s - self._seen_s, STALL_MAX_S)
        self._seen_s = seen_s
        return self._now_s


def loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return what a conftest's `pytest_asyncio_loop_factories` is to return."""
    return {"patient": PatientLoop}


def patient_clocks() -> tuple[Callable[[], int], Callable[[], int]]:
    """Return a monotonic clock and one of UTC, both of nanoseconds, that go with the running loop."""
    loop = asyncio.get_running_loop()

    def monotonic_ns() -> int:
        return round(loop.time() * _NS_PER_S)

    offset_ns = time.time_ns() - monotonic_ns()
    return monotonic_ns, lambda: monotonic_ns() + offset_ns
