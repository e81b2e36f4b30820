"""What happened to this replica, as a bounded stream that others read by sequence number.

One event is one JSON object, the same in every source of this project: `sequence` counts within this process,
and a reader that asks for everything after the last number it saw misses nothing unless more than
`EVENTS_MAX` happened in between. Both clocks are on it: `monotonic_ns` with `clock_id` orders events of one
process whatever is done to the wall clock, `ts_ns` (UTC) compares processes.
"""

import asyncio
import os
import time
import uuid
from collections import deque
from itertools import islice
from typing import Any, Final

from controller_core.remoting.numbers import BrokerId

EVENTS_MAX: Final = 10_000


class EventLog:
    """The newest events of this process; to be used on the event loop's thread only."""

    def __init__(self, cluster: str, group: str, namespace: str = "", process: str = "replica") -> None:
        """Start an empty log for one replica of a broker group.

        `process` is the process that reads the clock.
        """
        self.clock_id: Final = f"{process}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self.broker_id: BrokerId | None = None
        self._common: Final = {
            "source": "replica",
            "namespace": namespace,
            "cluster": cluster,
            "group": group,
        }
        self._events: Final[deque[dict[str, Any]]] = deque(maxlen=EVENTS_MAX)
        self._sequence = 0
        self._changed = asyncio.Event()

    def add(
        self, kind: str, epoch: int | None, attrs: dict[str, str], at_ns: tuple[int, int] | None = None
    ) -> None:
        """Record an event.

        Args:
            kind: HandshakeDone, Truncated, RoleChanged or Disconnected; of a companion RoleChanged or
                InSyncChanged.
            epoch: master epoch it belongs to, None if none.
            attrs: further facts, texts only.
            at_ns: (UTC, monotonic) nanoseconds at which it happened; now if None.
        """
        self._sequence += 1
        ts_ns, monotonic_ns = at_ns or now_ns()
        cluster, group = self._common["cluster"], self._common["group"]
        self._events.append(
            {
                **self._common,
                "sequence": self._sequence,
                "event_id": f"{self.clock_id}/{self._sequence}",
                "ts_ns": ts_ns,
                "monotonic_ns": monotonic_ns,
                "clock_id": self.clock_id,
                "kind": kind,
                "broker_id": self.broker_id,
                "epoch": epoch,
                "term": None,
                "index": None,
                "correlation_id": None if epoch is None else f"{cluster}/{group}/{epoch}",
                "attrs": attrs,
            }
        )
        self._changed.set()
        self._changed = asyncio.Event()

    def after(self, sequence: int, count_max: int = EVENTS_MAX) -> list[dict[str, Any]]:
        """Return the first kept events with a greater sequence number, ascending."""
        oldest = self._sequence - len(self._events)
        first = max(0, sequence - oldest)
        return list(islice(self._events, first, first + count_max))

    async def wait_change(self) -> None:
        """Return when the next event has been added."""
        await self._changed.wait()


def now_ns() -> tuple[int, int]:
    """Return (UTC, monotonic) nanoseconds."""
    return time.time_ns(), time.monotonic_ns()
