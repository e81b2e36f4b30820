"""What push consumers received, and how long they waited for messages that were there.

A stall is a time in which a consumer receives nothing although an acknowledged message waits for it:

    acknowledged        a      b
    received          x    x                     x
                             |------ stall ------|      from the acknowledgement of b, or the last receipt
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from testkit.rocketmq.load import Send


@dataclass(frozen=True, slots=True)
class Received:
    """One message as a consumer received it; the time is UTC nanoseconds."""

    ts_ns: int
    ordered: bool
    key: str
    queue: int
    offset: int

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """Read a line that the Java program wrote."""
        return cls(line["ts_ns"], line["ordered"], line["key"], line["queue"], line["offset"])


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """A transaction that was committed, or its message as it was received; the time is UTC nanoseconds."""

    ts_ns: int
    key: str
    received: bool

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """Read a line that the Java program wrote."""
        return cls(line["ts_ns"], line["key"], line["received"])


@dataclass(frozen=True, slots=True)
class ConsumerCost:
    """What consumers noticed of a fault.

    Attributes:
        stall_ms: the longest stall of the consumer that takes messages as they come.
        ordered_stall_ms: the longest stall of the ordered consumer.
        duplicates: receipts of a key that the same consumer had received before.
        disordered: messages that the ordered consumer received after a later one of their queue.
        transaction_ms: the longest time from the commit of a transaction to its receipt.
        open_transactions: those that were committed and not received.
        latest_ms: the longest time from a promise to its receipt, of both consumers. A queue without a
            reader shows here, and not in a stall.
        unreceived: promised messages that a consumer has not received, of both consumers together.
    """

    stall_ms: float
    ordered_stall_ms: float
    duplicates: int
    disordered: int
    transaction_ms: float = 0.0
    open_transactions: int = 0
    latest_ms: float = 0.0
    unreceived: int = 0


def consumer_cost(
    sends: Iterable[Send],
    received: Iterable[Received],
    after_ns: int = 0,
    transactions: Iterable[TransactionMark] = (),
) -> ConsumerCost:
    """Compare what two consumers received with what was acknowledged.

    Args:
        sends: of the producer.
        received: of both consumers.
        after_ns: stalls and commits that began earlier do not count, since a consumer first has to get its
            queues.
        transactions: what became of them.
    """
    promised = [send for send in sends if send.acknowledged]
    everything = sorted(received, key=lambda one: one.ts_ns)
    concurrent = [one for one in everything if not one.ordered]
    ordered = [one for one in everything if one.ordered]
    latest = [_latest(promised, some, after_ns) for some in (concurrent, ordered)]
    return ConsumerCost(
        longest_stall_ms(promised, concurrent, after_ns),
        longest_stall_ms(promised, ordered, after_ns),
        sum(len(some) - len({one.key for one in some}) for some in (concurrent, ordered)),
        _disordered(ordered),
        *_transactions([mark for mark in transactions if mark.received or mark.ts_ns >= after_ns]),
        latest_ms=max(ms for ms, _ in latest),
        unreceived=sum(count for _, count in latest),
    )


def open_transactions(marks: Sequence[TransactionMark]) -> frozenset[str]:
    """Return the keys of transactions that were committed and not received."""
    seen = {received: {mark.key for mark in marks if mark.received is received} for received in (False, True)}
    return frozenset(seen[False] - seen[True])


def _transactions(marks: Sequence[TransactionMark]) -> tuple[float, int]:
    """Return the longest time from a commit to its receipt in milliseconds, and how many are open."""
    received: dict[str, int] = {}
    for mark in marks:
        if mark.received:
            received.setdefault(mark.key, mark.ts_ns)
    committed = [mark for mark in marks if not mark.received and mark.key in received]
    longest_ns = max((received[mark.key] - mark.ts_ns for mark in committed), default=0)
    return max(longest_ns, 0) / 1e6, len(open_transactions(marks))


def longest_stall_ms(promised: Iterable[Send], received: Sequence[Received], after_ns: int = 0) -> float:
    """Return the longest stall in milliseconds; `received` is in order of time."""
    first_ns: dict[str, int] = {}
    for one in received:
        first_ns.setdefault(one.key, one.ts_ns)
    waiting = sorted((send.end_ns, send.key) for send in promised)
    place, previous_ns, longest_ns = 0, 0, 0
    for one in received:
        while place < len(waiting) and first_ns.get(waiting[place][1], one.ts_ns) < one.ts_ns:
            place += 1
        since_ns = max(previous_ns, waiting[place][0]) if place < len(waiting) else one.ts_ns
        if since_ns >= after_ns:
            longest_ns = max(longest_ns, one.ts_ns - since_ns)
        previous_ns = one.ts_ns
    never = [end_ns for end_ns, key in waiting if key not in first_ns]
    if never and (since_ns := max(previous_ns, never[0])) >= after_ns:
        longest_ns = max(longest_ns, waiting[-1][0] - since_ns)
    return longest_ns / 1e6


def _latest(promised: Iterable[Send], received: Iterable[Received], after_ns: int) -> tuple[float, int]:
    """Return the longest time from a promise to the first receipt in milliseconds, and how many lack one."""
    first_ns: dict[str, int] = {}
    for one in received:
        first_ns.setdefault(one.key, one.ts_ns)
    chosen = [send for send in promised if send.end_ns >= after_ns]
    longest_ns = max((first_ns[send.key] - send.end_ns for send in chosen if send.key in first_ns), default=0)
    return max(longest_ns, 0) / 1e6, sum(send.key not in first_ns for send in chosen)


def _disordered(received: Iterable[Received]) -> int:
    """Count first receipts of a message after a later one of the same queue."""
    newest: dict[int, int] = {}
    seen: set[str] = set()
    late = 0
    for one in received:
        if one.key not in seen:
            late += one.offset < newest.get(one.queue, -1)
            newest[one.queue] = max(one.offset, newest.get(one.queue, -1))
        seen.add(one.key)
    return late
