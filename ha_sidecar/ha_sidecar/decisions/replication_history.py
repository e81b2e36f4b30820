"""Values that take two looks at a broker: a slave's lag in seconds, cut tails, connections that ended.

An unmodified broker says where its log ends and what each slave has acknowledged, in bytes and as of now.
From looks a second apart follow the rest:

- a slave's lag in seconds: for how long the master's log has reached beyond what the slave acknowledged, as
  far as looks tell;
- a cut of the log's tail: the common part of the log before and the log now ends before the last known end.
  The starts of the epochs tell that even when the log has grown beyond that end again;
- a connection that ended: one that was listed and is not any more, told apart by the slave's port.

Counts cover what the looks showed: a tail that was cut within a second of being written may be missed.

Never: asks anybody; keeps more than `ENDS_MAX` ends.
"""

import bisect
from collections.abc import Mapping
from typing import Final

from ha_sidecar.decisions.broker_facts import BrokerFacts

ENDS_MAX: Final = 3600
"""Looks at a log that grew.

A slave that acknowledged none of them is at least as far behind as they reach back.
"""


class ReplicationHistory:
    """The history of one broker, told look by look.

    Attributes:
        truncations: cuts of the log's tail that were seen.
        ended_connections: HA connections of slaves that were seen to be gone while the broker was master.
    """

    def __init__(self) -> None:
        """Start without a look."""
        self.truncations = 0
        self.ended_connections = 0
        self._before: BrokerFacts | None = None
        self._ends: Final[list[int]] = []
        self._ends_seen_s: Final[list[float]] = []

    def learn(self, now_s: float, found: BrokerFacts) -> None:
        """Take in a look; `now_s` is of any clock that never goes back."""
        before, self._before = self._before, found
        if before is not None:
            self.truncations += _common_end(before, found) < before.max_offset
            if before.is_master:
                now = {slave.address for slave in found.slaves}
                self.ended_connections += sum(slave.address not in now for slave in before.slaves)
        if self._ends and found.max_offset < self._ends[-1]:
            self._ends.clear()
            self._ends_seen_s.clear()
        if not self._ends or found.max_offset > self._ends[-1]:
            self._ends.append(found.max_offset)
            self._ends_seen_s.append(now_s)
            del self._ends[:-ENDS_MAX], self._ends_seen_s[:-ENDS_MAX]

    def slave_lags_s(self, now_s: float) -> Mapping[str, float]:
        """Return by address for how many seconds each slave of the last look has lacked something.

        0 if it lacks nothing.
        """
        slaves = () if self._before is None else self._before.slaves
        return {slave.address: self._lag_s(now_s, slave.ack_offset) for slave in slaves}

    def _lag_s(self, now_s: float, ack_offset: int) -> float:
        first = bisect.bisect_right(self._ends, ack_offset)
        return now_s - self._ends_seen_s[first] if first < len(self._ends) else 0.0


def _common_end(before: BrokerFacts, found: BrokerFacts) -> int:
    """Return where what both logs hold can end at most."""
    newer_starts = [start for epoch, start in found.epoch_starts if epoch > before.last_epoch]
    return min([found.max_offset, *newer_starts])
