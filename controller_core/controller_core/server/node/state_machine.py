"""The state machine as the node drives it.

Log bytes in, outcomes out, and an event for callers that wait for changes.

The state is replicated and pure; this adapter decodes entries, hands them to it, and tells local observers
afterwards.

A committed entry stays in the log for ever, so an entry that ends a node ends it again at each start, and
ends all the others too. Whether the node passes over such an entry or ends depends on one question: does
every node come to the same result from the same log?

| what happens | depends on | the node |
|---|---|---|
| the entry is not a command of any release (`CommandDecodeError`) | its bytes | passes over it |
| the command does not fit the state (`CommandApplyError`) | its bytes and the state | passes over it |
| the entry looks like a command of a later release (`NewerCommandError`) | this node's release | ends |
| no memory, too deep a recursion, a failed disk or observer, any other exception | this process | ends |

Where it ends, the other nodes apply the entry.

Passing over an entry changes nothing but the applied index, so all nodes keep the same digest, also through
snapshots. It is logged as an error with index and term and counted (`skipped`). The counts of nodes that
started at the same time must be equal; if they differ, one release applies what another does not. A caller
that waits for the entry gets code 1.
"""

import asyncio
import logging
from collections.abc import Callable

from controller_core.groups import commands
from controller_core.groups.errors import (
    CommandApplyError,
    CommandDecodeError,
    NewerCommandError,
    SnapshotDecodeError,
)
from controller_core.groups.replies import GroupReply, Outcome
from controller_core.groups.snapshots import decode_image
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from controller_core.server.logs import bind

_log = logging.getLogger(__name__)


class GroupsMachine:
    """Applies the log to a `GroupsState`; `state` is for reading only."""

    def __init__(self) -> None:
        self.state = GroupsState()
        self.skipped = 0
        """Entries that this process has passed over."""
        self._observers: list[Callable[[Outcome], None]] = []
        self._bell: asyncio.Event | None = None
        """Set while a caller waits: most entries are applied without a waiting caller."""

    def observe(self, observer: Callable[[Outcome], None]) -> None:
        """Call `observer` after each applied command, on every node."""
        self._observers.append(observer)

    def apply(self, index: int, term: int, data: bytes) -> Outcome:
        """Apply one entry, or pass over it if no node can.

        Raises:
            NewerCommandError: the entry is of a later release; the node must stop.
        """
        try:
            command = commands.decode(data)
        except NewerCommandError:
            raise
        except CommandDecodeError as error:
            self.state.skip(index, term)
            return self._skipped(index, term, len(data), error)
        try:
            outcome = self.state.apply(command, index, term)
        except CommandApplyError as error:
            return self._skipped(index, term, len(data), error)
        for observer in self._observers:
            observer(outcome)
        if outcome.events:
            self._ring()
        return outcome

    def _skipped(self, index: int, term: int, size_bytes: int, error: Exception) -> Outcome:
        self.skipped += 1
        _log.error(
            "a log entry was skipped: %s", error, extra=bind(index=index, term=term, size_bytes=size_bytes)
        )
        return Outcome(GroupReply(ResponseCode.SYSTEM_ERROR, None, f"log entry {index} was skipped: {error}"))

    def snapshot(self) -> bytes:
        """Return the state as bytes."""
        return self.state.snapshot()

    def restore(self, data: bytes) -> None:
        """Replace the state by a snapshot's."""
        self.state.restore(data)
        self._ring()

    def problem_with(self, index: int, data: bytes) -> str | None:
        """Say why the state in a snapshot at `index` cannot replace this one; None if it can."""
        try:
            image = decode_image(data)
        except SnapshotDecodeError as error:
            return str(error)
        state = self.state
        if not state.applied_index <= image.applied_index <= index:
            return f"its state is of index {image.applied_index}, expected {state.applied_index} to {index}"
        if image.last_sequence < state.history.last_sequence:
            return f"its last event is {image.last_sequence}, this node has {state.history.last_sequence}"
        return None

    async def news(self) -> None:
        """Wait until events were added after this call."""
        if self._bell is None:
            self._bell = asyncio.Event()
        await self._bell.wait()

    def _ring(self) -> None:
        # Why a new event: it wakes present waiters only, and later ones wait for the next change.
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.set()
