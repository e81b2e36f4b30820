"""Report at once how long writes failed and which messages were lost.

Problem: whoever keeps the record of a failover wants to know within seconds what it cost, and the reports
come later. Shape: every acknowledgement and every loss is noted; a stretch between two acknowledgements that
is long enough is a gap, and so is one that has not ended. The report is complete from `since` on: it begins
with the first acknowledgement, and whatever must be forgotten (too old, too many, not read) moves it on. Up
to `until`, exclusively, every acknowledged send has its verdict, so that "nothing is lost" is said only of
messages that the canary read.

```
 ack ack ack          ack ack ...                          ack ack ...      now
  |---|---|----gap-----|---|   ...   read back, judged      |---|    not yet
 since                                                    until
```

A message that was read from the old master is requested again from the new one, and until it was, `until` is
before it. The canary learns of the new master within its route poll; so an `until` after an acknowledgement
by the new master is proof. Never: a gap without an acknowledgement before it, and no gap shorter than the
schedule makes by itself.

Pure: time is a parameter (monotonic nanoseconds).
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

GAP_NS_MIN = 50_000_000
GAP_INTERVALS_MIN = 2
"""A gap in which no send was due is the schedule's, not the group's."""
GAPS_MAX = 4_000
LOST_MAX = 20_000
KEPT_NS = 3_600_000_000_000
_NS_PER_MS = 1_000_000
_NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch without an acknowledgement, from one to the next; `end_ns` None while none came."""

    start_ns: int
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class GapState:
    """The current state; times are monotonic nanoseconds.

    Attributes:
        since_ns: from when on it is complete, None before the first acknowledgement.
        until_ns: every send that was acknowledged before it has its verdict.
        gap_ns_min: shorter gaps are not told.
        gaps: oldest first.
        lost_ns: when each lost message was acknowledged, oldest first.
    """

    since_ns: int | None
    until_ns: int
    gap_ns_min: int
    gaps: tuple[Gap, ...] = ()
    lost_ns: tuple[int, ...] = ()

    def as_json(self, group: str, utc_ns_of: Callable[[int], int]) -> dict[str, object]:
        """Return the body of `GET /v1/gaps`; `utc_ns_of` turns a monotonic time into UTC nanoseconds."""

        def text(monotonic_ns: int) -> str:
            utc = datetime.fromtimestamp(0, UTC) + timedelta(
                microseconds=utc_ns_of(monotonic_ns) // _NS_PER_US
            )
            return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")

        return {
            "group": group,
            "since": None if self.since_ns is None else text(self.since_ns),
            "until": None if self.since_ns is None else text(self.until_ns),
            "gap_min_ms": -(-self.gap_ns_min // _NS_PER_MS),
            "gaps": [
                {"start": text(gap.start_ns), "end": None if gap.end_ns is None else text(gap.end_ns)}
                for gap in self.gaps
            ],
            "lost": [text(one_ns) for one_ns in self.lost_ns],
        }


class WriteGaps:
    """Records acknowledgements and losses of one group, and forgets entries older than `KEPT_NS`."""

    def __init__(self, interval_ns: int, *, gaps_max: int = GAPS_MAX, lost_max: int = LOST_MAX) -> None:
        """Take the time between two sends, and how much to keep at most."""
        self._gap_ns_min = max(GAP_NS_MIN, GAP_INTERVALS_MIN * interval_ns)
        self._gaps_max = gaps_max
        self._lost_max = lost_max
        self._since_ns: int | None = None
        self._last_ns = 0
        self._gaps: deque[tuple[int, int]] = deque()
        # A heap: losses are found in no order, and the oldest is the one to forget.
        self._lost: list[int] = []

    def acknowledged(self, end_ns: int) -> None:
        """Note that a send was acknowledged."""
        if self._since_ns is None:
            self._since_ns = end_ns
        elif end_ns - self._last_ns >= self._gap_ns_min:
            self._gaps.append((self._last_ns, end_ns))
            if len(self._gaps) > self._gaps_max:
                self._begin_at(self._gaps.popleft()[1])
        self._last_ns = max(self._last_ns, end_ns)

    def lost(self, acknowledged_ns: int) -> None:
        """Note that a message which was acknowledged then is gone."""
        heapq.heappush(self._lost, acknowledged_ns)
        if len(self._lost) > self._lost_max:
            self._begin_at(heapq.heappop(self._lost) + 1)

    def unread(self, acknowledged_ns: int) -> None:
        """Note that a message which was acknowledged then will never be read."""
        self._begin_at(acknowledged_ns + 1)

    def told(self, now_ns: int, unjudged_ns: int | None) -> GapState:
        """Return the current state.

        Args:
            now_ns: monotonic nanoseconds.
            unjudged_ns: acknowledgement of the oldest message not read yet; None if all were read.
        """
        until_ns = now_ns if unjudged_ns is None else unjudged_ns
        if self._since_ns is None:
            return GapState(None, until_ns, self._gap_ns_min)
        self._begin_at(now_ns - KEPT_NS)
        gaps = [Gap(*gap) for gap in self._gaps]
        if now_ns - self._last_ns >= self._gap_ns_min:
            gaps.append(Gap(self._last_ns, None))
        return GapState(self._since_ns, until_ns, self._gap_ns_min, tuple(gaps), tuple(sorted(self._lost)))

    def _begin_at(self, since_ns: int) -> None:
        """Forget everything so far; claim nothing about earlier times."""
        if self._since_ns is None or since_ns <= self._since_ns:
            return
        self._since_ns = since_ns
        while self._gaps and self._gaps[0][1] <= since_ns:
            self._gaps.popleft()
        while self._lost and self._lost[0] < since_ns:
            heapq.heappop(self._lost)
