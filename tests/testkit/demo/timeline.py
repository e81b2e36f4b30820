"""From what the controllers, the canary and the load client wrote down to one line a phase, in milliseconds.

Each row names its clock: all processes of the demo run on one machine and read one UTC clock, so differences between
rows are exact to well under a millisecond. On several machines they are not; there the report says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NS_PER_MS = 1_000_000
_LOOKAHEAD_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledged send of the load client: when it was called and when it returned, UTC nanoseconds."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest time without an acknowledgement around a fault."""

    start_ns: int
    end_ns: int

    @property
    def length_ms(self) -> float:
        """Length in milliseconds."""
        return (self.end_ns - self.start_ns) / _NS_PER_MS


@dataclass(frozen=True, slots=True)
class Phase:
    """One moment of a failover; `at_ns` is None when nobody recorded it."""

    name: str
    at_ns: int | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """A fault and what followed, ordered as it must happen."""

    title: str
    fault_ns: int
    phases: Sequence[Phase]
    gap: Gap | None

    def lines(self) -> list[str]:
        """Return the printed form: milliseconds since the fault, a phase a line."""
        rows = [self.title, f"  {'fault':<26}{0:>10.1f} ms"]
        for phase in self.phases:
            value = "not seen" if phase.at_ns is None else f"{(phase.at_ns - self.fault_ns) / _NS_PER_MS:.1f} ms"
            rows.append(f"  {phase.name:<26}{value:>13}")
        if self.gap is not None:
            rows.append(f"  {'longest gap between acks':<26}{self.gap.length_ms:>10.1f} ms")
        return rows


def longest_gap(acks: Iterable[Ack], fault_ns: int, until_ns: int | None = None) -> Gap | None:
    """Return the longest gap between successive acknowledgements that ends after the fault.

    Args:
        acks: in any order.
        fault_ns: UTC nanoseconds of the fault; the last acknowledgement before it opens the first gap.
        until_ns: where to stop looking; a minute after the fault unless given.
    """
    until_ns = until_ns if until_ns is not None else fault_ns + _LOOKAHEAD_NS
    ends = sorted(ack.end_ns for ack in acks if ack.end_ns <= until_ns)
    pairs = [(before, after) for before, after in zip(ends, ends[1:], strict=False) if after > fault_ns]
    if not pairs:
        return None
    start_ns, end_ns = max(pairs, key=lambda pair: pair[1] - pair[0])
    return Gap(start_ns, end_ns)
