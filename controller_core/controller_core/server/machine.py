"""The state machine as the node drives it: log bytes in, outcomes out, and a bell for those who wait for news.

The state is replicated and pure; this adapter decodes entries, hands them to it, and tells local observers afterwards.
An entry that cannot be decoded ends the node: skipping what others apply would make the states differ for ever.
"""

import asyncio
from collections.abc import Callable

from controller_core.groups import commands
from controller_core.groups.errors import SnapshotDecodeError
from controller_core.groups.replies import Outcome
from controller_core.groups.snapshots import decode_image
from controller_core.groups.state import GroupsState


class GroupsMachine:
    """Applies the log to a `GroupsState`; `state` is for reading only."""

    def __init__(self) -> None:
        self.state = GroupsState()
        self._observers: list[Callable[[Outcome], None]] = []
        self._bell: asyncio.Event | None = None
        """There while somebody waits: most entries are applied with nobody listening."""

    def observe(self, observer: Callable[[Outcome], None]) -> None:
        """Call `observer` after each applied command, on every node."""
        self._observers.append(observer)

    def apply(self, index: int, term: int, data: bytes) -> Outcome:
        """Apply one entry.

        Raises:
            CommandDecodeError: the entry is none that this version knows; the node must stop.
        """
        outcome = self.state.apply(commands.decode(data), index, term)
        for observer in self._observers:
            observer(outcome)
        if outcome.events:
            self._ring()
        return outcome

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
        # Why it is forgotten: those who wait now wake, those who come later wait for the next news.
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.set()
