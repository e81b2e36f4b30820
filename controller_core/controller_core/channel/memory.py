"""The memory that all connections of a port may hold together: unfinished frames, waiting requests, answers.

A connection reports what it holds now. When the sum passes the bound, the connection that holds most is
closed, first of those that carry no living member. So many small holders cannot end the process, and a
client that holds little keeps its connection.

A report costs O(1). Choosing a connection to close costs O(connections that hold something), and each choice
ends one of them.
"""

from collections.abc import Collection
from typing import Final, Protocol

from controller_core.channel.errors import ConnectionClosedError


class Holder(Protocol):
    """A connection, as the budget knows it."""

    is_kept: bool
    """Whether other connections are closed first."""
    peer: str

    def abort(self, reason: Exception | None = None) -> None:
        """End at once; report that nothing is held any more."""
        ...


class MemoryBudget:
    """Sums what connections hold and closes the largest holder beyond the bound.

    Attributes:
        held_bytes: the sum now.
        closed: how many connections were closed for it.
    """

    def __init__(self, bytes_max: int) -> None:
        self.held_bytes = 0
        self.closed = 0
        self._bytes_max: Final = bytes_max
        self._holders: Final[dict[Holder, int]] = {}

    @property
    def holders(self) -> Collection[object]:
        """Those that hold something."""
        return self._holders.keys()

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """Learn what a connection holds now; 0 when it has ended."""
        self.held_bytes += held_bytes - self._holders.get(holder, 0)
        if held_bytes:
            self._holders[holder] = held_bytes
        else:
            self._holders.pop(holder, None)
        while self.held_bytes > self._bytes_max:
            self._close_largest()

    def _close_largest(self) -> None:
        largest = max(self._holders, key=lambda holder: (not holder.is_kept, self._holders[holder]))
        self.closed += 1
        reason = ConnectionClosedError(
            f"all connections together hold {self.held_bytes} bytes, at most {self._bytes_max} are allowed; "
            f"{largest.peer} holds {self._holders[largest]}"
        )
        largest.abort(reason)
        self.held_bytes -= self._holders.pop(largest, 0)
