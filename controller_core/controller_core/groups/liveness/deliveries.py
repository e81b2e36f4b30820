"""Which connections deliver late: their requests may have been under way for seconds.

A node that stood still, or was cut off, receives all requests of that time afterwards. The sender of a
request may have given up long ago, and closed its connection: its kernel sends the request all the same. A
new master asks to take the log replica out of the SyncStateSet before the replica has joined it. Such a
request came 12 s later, and for a moment the master refused every send.

Heartbeats tell. A connection delivers late

    while its last heartbeat is `LATE_AFTER_MS` old
    for `BURST_MS` after a heartbeat that ended such a silence

A broker that sends heartbeats less often has twice its interval instead of `LATE_AFTER_MS`. A connection
without heartbeats never delivers late: nothing tells how often it should have said something.

Times are milliseconds of one monotonic clock, given by the caller. No clock is read here.
"""

from typing import Final

LATE_AFTER_MS: Final = 3_000
"""How long a broker waits for the answer to request 1001 (BrokerOuterAPI.alterSyncStateSet of 5.5.0)."""
BURST_MS: Final = 1_000
INTERVALS: Final = 2


class _Channel:
    """The heartbeats of one connection."""

    __slots__ = ("interval_ms", "last_ms", "late_until_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_ms = now_ms
        self.interval_ms = 0
        self.late_until_ms = 0

    def is_silent(self, now_ms: int) -> bool:
        """Return whether the next heartbeat is so late that a request may be old."""
        return now_ms - self.last_ms > max(LATE_AFTER_MS, INTERVALS * self.interval_ms)


class Deliveries:
    """The connections of one controller that carry heartbeats."""

    def __init__(self) -> None:
        self._channels: Final[dict[int, _Channel]] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def beat(self, channel_id: int, now_ms: int) -> None:
        """Take a heartbeat of whichever member."""
        channel = self._channels.get(channel_id)
        if channel is None:
            self._channels[channel_id] = _Channel(now_ms)
            return
        if channel.is_silent(now_ms):
            channel.late_until_ms = now_ms + BURST_MS
        channel.interval_ms = now_ms - channel.last_ms
        channel.last_ms = now_ms

    def is_late(self, channel_id: int, now_ms: int) -> bool:
        """Return whether a request that a connection delivers now may be old."""
        channel = self._channels.get(channel_id)
        return channel is not None and (now_ms < channel.late_until_ms or channel.is_silent(now_ms))

    def channel_closed(self, channel_id: int) -> None:
        """Forget a connection."""
        self._channels.pop(channel_id, None)
