"""The window of append messages a follower has not yet acknowledged, bounded by count and by bytes.

Each message is remembered by the index of its last entry; an acknowledgement of an index frees every message
up to it. The bound keeps a slow follower from piling up messages in memory and on the wire.
"""

from collections import deque

from controller_core.raft.errors import invariant


class Inflights:
    """A first-in, first-out window of (last index, bytes)."""

    __slots__ = ("_bytes", "_window", "bytes_max", "count_max")

    def __init__(self, count_max: int, bytes_max: int = 0) -> None:
        """Make an empty window; `bytes_max` 0 means no limit in bytes."""
        self.count_max = count_max
        self.bytes_max = bytes_max
        self._bytes = 0
        self._window: deque[tuple[int, int]] = deque()

    def add(self, last_index: int, size_bytes: int) -> None:
        """Remember a message just sent; the window must not be full."""
        invariant(not self.full(), "cannot add into a full window of messages in flight", index=last_index)
        self._window.append((last_index, size_bytes))
        self._bytes += size_bytes

    def free_up_to(self, index: int) -> None:
        """Forget the messages whose last index is at most `index`; nothing is freed by a stale one."""
        window = self._window
        while window and window[0][0] <= index:
            self._bytes -= window.popleft()[1]

    def full(self) -> bool:
        """Return whether no message may be added: by count, or by bytes already at or over the limit."""
        return len(self._window) >= self.count_max or (0 < self.bytes_max <= self._bytes)

    def count(self) -> int:
        """Return the number of messages in flight."""
        return len(self._window)

    def reset(self) -> None:
        """Forget all messages."""
        self._window.clear()
        self._bytes = 0
