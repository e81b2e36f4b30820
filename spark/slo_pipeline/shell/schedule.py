"""A fixed schedule: slot k is due at start + k * interval, whatever happened to the slots before.

Problem: "sleep for the rest of the interval" drifts, and a loop that waits for an answer before it counts the
next operation hides exactly the time in which nothing answered (coordinated omission). Shape: pure arithmetic
over monotonic nanoseconds. A caller asks which slots are due now and how long to wait for the next; slots
that are too old to mean anything are named as missed and not bunched up. Never: it holds no clock and never
sleeps.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Due:
    """The work due at one moment.

    Attributes:
        slots: numbers of the slots to carry out now, oldest first.
        missed: how many slots were given up because they were later than `late_max_ns`.
    """

    slots: range
    missed: int


@dataclass(slots=True)
class Schedule:
    """Slots on a fixed grid of monotonic time.

    Attributes:
        start_ns: when slot 0 is due.
        interval_ns: distance of two slots; at least 1.
        late_max_ns: a slot later than this is missed.
        next_slot: the first slot that was not handed out yet.
    """

    start_ns: int
    interval_ns: int
    late_max_ns: int
    next_slot: int = 0

    def __post_init__(self) -> None:
        if self.interval_ns < 1:
            raise ValueError(f"interval_ns must be at least 1, not {self.interval_ns}")

    def due_ns(self, slot: int) -> int:
        """Return when a slot is due, in monotonic nanoseconds."""
        return self.start_ns + slot * self.interval_ns

    def wait_ns(self, now_ns: int) -> int:
        """Return how long it is until the next slot; 0 if one is due."""
        return max(0, self.due_ns(self.next_slot) - now_ns)

    def take(self, now_ns: int) -> Due:
        """Hand out every slot that is due and was not handed out before."""
        end = (now_ns - self.start_ns) // self.interval_ns + 1
        if end <= self.next_slot:
            return Due(range(0), 0)
        oldest = -((self.start_ns + self.late_max_ns - now_ns) // self.interval_ns)
        first = min(max(self.next_slot, oldest), end)
        due = Due(range(first, end), first - self.next_slot)
        self.next_slot = end
        return due
