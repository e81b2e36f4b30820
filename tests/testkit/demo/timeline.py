"""From what the controllers, the canary and the load client wrote down to one line a phase, in milliseconds.

All processes of the demo run on one machine and read one UTC clock, so rows of different processes can be
subtracted. On several machines they cannot without an error bound; there the report says so.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from testkit.rocketmq.load import Send

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class SendGap:
    """A time without an acknowledged send, between two acknowledgements; UTC nanoseconds."""

    start_ns: int
    end_ns: int

    @property
    def length_ms(self) -> float:
        """Length in milliseconds."""
        return (self.end_ns - self.start_ns) / _NS_PER_MS


@dataclass(frozen=True, slots=True)
class FailoverMoment:
    """One moment of a failover; `at_ns` is `None` without a record."""

    name: str
    at_ns: int | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """A fault and what followed it."""

    title: str
    fault_ns: int
    phases: Sequence[FailoverMoment]
    gap: SendGap | None
    sends_failed: int

    def lines(self) -> list[str]:
        """Return the printed form: milliseconds since the fault, a phase a line."""
        rows = [self.title, f"  {'fault':<28}{'0.0 ms':>12}"]
        for phase in self.phases:
            value = (
                "not seen" if phase.at_ns is None else f"{(phase.at_ns - self.fault_ns) / _NS_PER_MS:.1f} ms"
            )
            rows.append(f"  {phase.name:<28}{value:>12}")
        if self.gap is not None:
            value = f"{self.gap.length_ms:.1f} ms"
            rows.append(f"  {'longest gap between acks':<28}{value:>12}")
        rows.append(f"  {'sends failed for the client':<28}{self.sends_failed:>12}")
        return rows


def longest_gap(sends: Sequence[Send], fault_ns: int, until_ns: int) -> SendGap | None:
    """Return the longest gap between successive acknowledgements that ends within (fault, until]."""
    ends = sorted(send.end_ns for send in sends if send.acknowledged and send.end_ns <= until_ns)
    gaps = [SendGap(before, after) for before, after in itertools.pairwise(ends) if after > fault_ns]
    return max(gaps, key=lambda gap: gap.end_ns - gap.start_ns, default=None)


def sends_failed(sends: Sequence[Send], fault_ns: int, until_ns: int) -> int:
    """Count the unacknowledged sends that ended within (fault, until], the client's retries used up."""
    return sum(not send.acknowledged and fault_ns < send.end_ns <= until_ns for send in sends)
