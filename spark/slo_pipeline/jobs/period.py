"""The stretch of time that a report is on, and the stretches that its plots show."""

from dataclasses import dataclass
from typing import Final

US_PER_S: Final = 1_000_000
# How many stretches a series over the whole period has at most, about.
STRETCHES_MAX: Final = 240
STRETCH_STEPS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


@dataclass(frozen=True)
class Period:
    """The half-open stretch of time that is reported on, microseconds, and its stretches' width.

    Attributes:
        around_us: how far beyond it is read, for a period that is cut out of a longer one: what crosses its
            borders (a failover, a message's way back) is then judged as it is in the longer one.
    """

    start_us: int
    end_us: int
    around_us: int = 0

    @property
    def wide(self) -> "Period":
        """Return the period widened by the margins that are read around it."""
        return Period(self.start_us - self.around_us, self.end_us + self.around_us)

    @property
    def stretch_us(self) -> int:
        """Return the width of a stretch: a round number of seconds, STRETCHES_MAX of them at most."""
        span_s = (self.end_us - self.start_us) / US_PER_S
        fitting = (step for step in STRETCH_STEPS_S if span_s / step <= STRETCHES_MAX)
        return next(fitting, STRETCH_STEPS_S[-1]) * US_PER_S
