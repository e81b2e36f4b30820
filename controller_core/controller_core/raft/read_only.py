"""Reads that wait until a quorum has confirmed that this node still leads.

Each request is noted with the commit index of its moment and goes out as the context of a heartbeat. When a
quorum has answered that heartbeat, no newer leader can have committed anything before the request came in, so
the noted index is good for it and for all requests before it.

A context names its request: two requests of the same context are one. The caller makes them unique.

Source: Raft thesis 6.4.
"""

from dataclasses import dataclass, field

from controller_core.raft.types import Message


@dataclass(slots=True)
class PendingRead:
    """One request, the commit index at its arrival, and the nodes that confirmed since."""

    request: Message
    index: int
    acks: dict[int, bool] = field(default_factory=dict)


class ReadOnly:
    """The queue of pending reads, oldest first (a dict keeps the order of insertion)."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[bytes, PendingRead] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, index: int, request: Message) -> None:
        """Note a request at commit index `index`."""
        context = request.entries[0].data
        if context not in self._pending:
            self._pending[context] = PendingRead(request, index)

    def record_ack(self, node: int, context: bytes) -> dict[int, bool]:
        """Note that `node` answered the heartbeat of `context`.

        Return the nodes that did; {} for an unknown context.
        """
        pending = self._pending.get(context)
        if pending is None:
            return {}
        pending.acks[node] = True
        return pending.acks

    def confirm(self, context: bytes) -> list[PendingRead]:
        """Take out and return the request of `context` and all before it."""
        confirmed: list[PendingRead] = []
        if context in self._pending:
            for pending in list(self._pending):
                confirmed.append(self._pending.pop(pending))
                if pending == context:
                    break
        return confirmed

    def last_context(self) -> bytes:
        """Return the context of the newest request, b"" without one: its confirmation confirms all."""
        return next(reversed(self._pending), b"")
