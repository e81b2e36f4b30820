"""The observers of a node: what they are told of its leadership, members and end, and what they see of it."""

from collections.abc import Callable

from controller_core.raft.raw_node import RawNode
from controller_core.server.node.types import ROLE_NUMBERS, NodeStatus, Store


class NodeObservers:
    """The observers of one node.

    Attributes:
        term: of the leadership that they know of; 0 without one.
    """

    __slots__ = ("fatal", "leadership", "members", "term")

    def __init__(self) -> None:
        self.term = 0
        self.leadership: list[Callable[[bool, int], None]] = []
        self.fatal: list[Callable[[BaseException], None]] = []
        self.members: list[Callable[[], None]] = []

    def tell_leadership(self, term: int) -> None:
        """Tell that leading has begun in `term`, or ended (0), if that is news."""
        if term == self.term:
            return
        ended, self.term = self.term, term
        for callback in self.leadership:
            callback(term != 0, term or ended)

    def tell_members(self) -> None:
        """Tell that the membership has changed."""
        for callback in self.members:
            callback()

    def tell_end(self, error: BaseException) -> None:
        """Tell that the node cannot go on."""
        for callback in self.fatal:
            callback(error)


def status_of(
    raw: RawNode, store: Store, applied_index: int, leader_id: int | None, *, is_leader: bool, has_ended: bool
) -> NodeStatus:
    """Return a copy of a node's state."""
    status = raw.status()
    return NodeStatus(
        node_id=status.id,
        role=0 if has_ended else ROLE_NUMBERS[status.role],
        term=status.term,
        leader_id=leader_id,
        is_leader=is_leader,
        first_index=store.first_index(),
        last_index=status.last_index,
        commit_index=status.commit,
        applied_index=applied_index,
        snapshot_index=store.snapshot().index,
        conf_state=status.conf_state,
        progress=status.progress,
    )
