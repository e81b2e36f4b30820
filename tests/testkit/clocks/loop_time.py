"""Clocks of the running loop that a test changes.

One can be moved ahead, one leaves out the machine's pauses.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, Self, TypeVarTuple

import uvloop

from testkit.clocks.patient_loop import STALL_MAX_S

_Ts = TypeVarTuple("_Ts")
_BEAT_S: Final = 0.01
_EARLY_MAX_S: Final = 0.001
"""uvloop counts in whole milliseconds."""


class LoopTime:
    """Run the loop's clock `ahead_s` ahead inside the context; timers due by then fire at the next turn."""

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


class PatientUvloop(uvloop.Loop):
    """A uvloop on which a stall of the machine does not advance the time, as on a `patient_loop.PatientLoop`.

    Nodes and brokers that share a process share its stalls: after one of a second all of them have been
    silent for longer than any of them waits, and a healthy leader loses its office.
    """

    _seen_s = 0.0
    _lost_s = 0.0

    def time(self) -> float:
        """Return seconds that never grow by more than `STALL_MAX_S` from one look to the next."""
        seen_s = super().time()
        self._lost_s += max(0.0, seen_s - self._seen_s - STALL_MAX_S)
        self._seen_s = seen_s
        return seen_s - self._lost_s

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Have something called when this clock is so much later."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Have something called when it is that late by this clock."""
        timer = _Timer(when, callback, args, self, context)
        timer.arm()
        return timer

    def real_later(self, delay_s: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Have something called when the machine's clock is so much later."""
        return super().call_later(delay_s, callback)

    def run_forever(self) -> None:
        """Run, and look at the clock all the time, so that waiting does not count as a stall."""
        self._beat()
        try:
            super().run_forever()
        finally:
            self._beating.cancel()

    def _beat(self) -> None:
        self.time()
        self._beating = self.real_later(_BEAT_S, self._beat)


class _Timer(asyncio.TimerHandle):
    """Waits on when it fires and its time has not come."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: PatientUvloop,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._patient = loop

    def arm(self) -> None:
        """Wait for the rest."""
        self._waiting = self._patient.real_later(self.when() - self._patient.time(), self._fire)

    def cancel(self) -> None:
        """Wait no more."""
        self._waiting.cancel()
        asyncio.Handle.cancel(self)

    def _fire(self) -> None:
        if self._patient.time() < self.when() - _EARLY_MAX_S:
            self.arm()
        elif not self.cancelled():
            self._run()
