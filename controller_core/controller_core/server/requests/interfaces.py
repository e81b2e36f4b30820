"""The parts of a node that the request handlers call, as the handlers see them.

Handlers are tested with small stand-ins for these; the real ones are `Node` and `CommandSubmitter`. Nothing
here has a body.
"""

from collections.abc import Coroutine
from typing import Protocol

from controller_core.groups.commands import AnyCommand
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.replies import Outcome
from controller_core.server.node.proposals import Waiter
from controller_core.server.notices.notice_order import RoleChanges


class NodeReads(Protocol):
    """What the handlers ask of the node."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied all entries of earlier terms."""
        ...

    @property
    def leader_id(self) -> int | None:
        """Raft id of the leader this node hears from."""
        ...

    def has_read_lease(self) -> bool:
        """Whether a read may be answered from the applied state now."""
        ...

    async def read_barrier(self) -> None:
        """Wait until a read may be answered from the applied state."""
        ...

    def read_for(self, waiter: Waiter) -> None:
        """Tell a waiter when a node that does not lead may answer a read, or that it may not."""
        ...


class Submitter(Protocol):
    """Puts commands into the log and follows up on elections."""

    @property
    def changes(self) -> RoleChanges:
        """Return which groups are in the middle of a change of master."""
        ...

    def submit(self, command: AnyCommand) -> Coroutine[object, object, Outcome]:
        """Propose a command and return what applying it led to."""
        ...

    def submit_for(self, command: AnyCommand, waiter: Waiter) -> Outcome | None:
        """Propose a command that is not an election for a waiter; return a refusal that needs no entry."""
        ...

    def saw_epoch(self, key: ReplicaKey, epoch: int, *, is_beat: bool) -> None:
        """Learn that a member acts in an epoch."""
        ...
