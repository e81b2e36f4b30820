"""Finds the checkpoints of a revive log that a master could not revive because it refused its own puts.

The broker counts refused puts by topic and consumer group, and its offset in the revive log only grows. Each
look reads the offsets first and the counters second:

    counters unchanged     the broker refused nothing up to these offsets: they are safe
    counters grew          the checkpoints of these topics and groups after the safe offsets are owed
    counters fell          the broker restarted; it counts from zero

A debt stays open until its checkpoints are sent again, also after a change of master: all members have the
same log. Checkpoints in that range that the broker did revive come twice. These are at most the ones that
became due between two looks.

Source: PopReviveService.mergeAndRevive (commits the offset after the put), PopMetricsManager.java (5.2.0 to
5.5.0).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ha_sidecar.decisions.revive_log import Consumer

Offsets = Mapping[int, int]
"""Offset of the last revived checkpoint, by revive queue; a queue without one is left out."""


@dataclass(frozen=True, slots=True)
class OwedCheckpoints:
    """Checkpoints of some consumers in one revive queue: beyond `after`, up to `through`."""

    queue: int
    after: int
    through: int
    consumers: frozenset[Consumer]


@dataclass(frozen=True, slots=True)
class DebtRecord:
    """An open debt, and the look that the next one is compared with.

    Attributes:
        after: offset of the last checkpoint that is not owed any more, by revive queue.
        through: offset of the last owed checkpoint, by revive queue.
        safe: offsets of the last look before the refusals.
        consumers: topics and consumer groups of the owed checkpoints.
        counts: refused messages by consumer, since the broker started.
        refused: number of messages that the broker refused to put, since the first look.
    """

    after: Offsets
    through: Offsets
    safe: Offsets
    consumers: frozenset[Consumer]
    counts: Mapping[Consumer, int]
    refused: int


class ReviveDebt:
    """The checkpoints that one broker owes to POP consumers.

    Attributes:
        refused: number of messages that the broker refused to put, since the first look.
    """

    def __init__(self) -> None:
        """Start without a debt; refusals before the first look do not count."""
        self.refused = 0
        self._counts: Mapping[Consumer, int] | None = None
        self._seen: Offsets = {}
        self._safe: Offsets = {}
        self._after: Final[dict[int, int]] = {}
        self._through: Final[dict[int, int]] = {}
        self._consumers: frozenset[Consumer] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether checkpoints are owed."""
        return bool(self._consumers)

    def record(self) -> DebtRecord | None:
        """Return what a later process needs to go on with the debt; None without a debt."""
        if not self.is_open:
            return None
        return DebtRecord(
            dict(self._after),
            dict(self._through),
            dict(self._safe),
            self._consumers,
            dict(self._counts or {}),
            self.refused,
        )

    def resume(self, record: DebtRecord) -> None:
        """Go on with the debt of an earlier process; compare the next look with that process's last one."""
        self._after.update(record.after)
        self._through.update(record.through)
        self._seen = self._safe = dict(record.safe)
        self._consumers = record.consumers
        self._counts = dict(record.counts)
        self.refused = record.refused

    def begin(self) -> None:
        """Ignore the counters and offsets from before the next look.

        The broker became master. Open debts stay.
        """
        self._counts = None

    def look(self, offsets: Offsets, counts: Mapping[Consumer, int]) -> bool:
        """Record a look at the master; return whether it refused nothing since the last look.

        The broker may move its offset on shortly after a refusal: put checkpoints back only after a look that
        returned true.

        Args:
            offsets: committed offsets, read before the counters.
            counts: refused messages since the broker started.
        """
        before, self._counts = self._counts, dict(counts)
        self._seen = dict(offsets)
        if before is None:
            self._safe = self._seen
            return True
        if any(counts.get(consumer, 0) < count for consumer, count in before.items()):
            before = {}
        grown = {consumer: count - before.get(consumer, 0) for consumer, count in counts.items()}
        refused = frozenset(consumer for consumer, count in grown.items() if count > 0)
        if refused:
            self.refused += sum(grown[consumer] for consumer in refused)
            self._consumers |= refused
        if self.is_open:
            for queue, offset in offsets.items():
                self._after.setdefault(queue, self._safe.get(queue, -1))
                self._through[queue] = max(offset, self._through.get(queue, offset))
        else:
            self._safe = self._seen
        return not refused

    def owed(self) -> list[OwedCheckpoints]:
        """Return the owed ranges, ascending by queue."""
        return [
            OwedCheckpoints(queue, after, self._through[queue], self._consumers)
            for queue, after in sorted(self._after.items())
            if self._through.get(queue, -1) > after
        ]

    def mark_put_back(self, queue: int, through: int) -> None:
        """Record that a queue's checkpoints up to this offset were sent again."""
        self._after[queue] = max(through, self._after.get(queue, -1))

    def settle(self) -> None:
        """Close the debt: all that `owed` returned was sent again."""
        self._safe = self._seen
        self._after.clear()
        self._through.clear()
        self._consumers = frozenset()
