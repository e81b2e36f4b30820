"""The members of the cluster as one node sees them: who they are, how far each is, and how it voted.

`Membership` is a value: a change of membership makes a new one (see `confchange`). The progress map is in the
order of ids, so that a walk over it sends messages in the same order on every run.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller_core.raft.quorum.joint import joint_index, joint_vote
from controller_core.raft.quorum.majority import VoteResult
from controller_core.raft.tracker.inflights import Inflights
from controller_core.raft.tracker.progress import Progress
from controller_core.raft.types import ConfState, NodeId

NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Membership:
    """Who votes and who learns.

    Invariant: `outgoing` is not empty only in a joint configuration; `learners_next`, voters of the outgoing
    half that become learners when it is left, and `auto_leave` exist only then.
    """

    voters: frozenset[int] = NOBODY
    outgoing: frozenset[int] = NOBODY
    learners: frozenset[int] = NOBODY
    learners_next: frozenset[int] = NOBODY
    auto_leave: bool = False
    all_voters: frozenset[int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "all_voters", self.voters | self.outgoing)

    def is_joint(self) -> bool:
        """Return whether two majorities must agree."""
        return bool(self.outgoing)

    def conf_state(self) -> ConfState:
        """Return the membership in the form that snapshots carry."""
        return ConfState(
            voters=_node_ids(self.voters),
            voters_outgoing=_node_ids(self.outgoing),
            learners=_node_ids(self.learners),
            learners_next=_node_ids(self.learners_next),
            auto_leave=self.auto_leave,
        )


class ProgressTracker:
    """The membership with each member's progress and vote."""

    __slots__ = ("inflight_bytes_max", "inflight_messages_max", "membership", "progress", "votes")

    def __init__(self, inflight_messages_max: int, inflight_bytes_max: int) -> None:
        self.inflight_messages_max = inflight_messages_max
        self.inflight_bytes_max = inflight_bytes_max
        self.membership = Membership()
        self.progress: dict[int, Progress] = {}
        self.votes: dict[int, bool] = {}

    def new_inflights(self) -> Inflights:
        """Return an empty window with this tracker's bounds."""
        return Inflights(self.inflight_messages_max, self.inflight_bytes_max)

    def committed(self) -> int:
        """Return the largest index that a quorum is known to have."""
        membership = self.membership
        return joint_index(membership.voters, membership.outgoing, self._match)

    def quorum_active(self) -> bool:
        """Return whether a quorum sent messages since `recent_active` was last cleared."""
        active = {
            node: progress.recent_active
            for node, progress in self.progress.items()
            if not progress.is_learner
        }
        return joint_vote(self.membership.voters, self.membership.outgoing, active) == VoteResult.WON

    def record_vote(self, voter: int, granted: bool) -> None:
        """Remember the first answer of `voter`; later ones do not change it."""
        self.votes.setdefault(voter, granted)

    def vote_result(self) -> VoteResult:
        """Return how the vote stands."""
        return joint_vote(self.membership.voters, self.membership.outgoing, self.votes)

    def is_singleton(self) -> bool:
        """Return whether one voter alone is the quorum."""
        return len(self.membership.voters) == 1 and not self.membership.outgoing

    def _match(self, node: int) -> int:
        return self.progress[node].match


def _node_ids(ids: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(node) for node in sorted(ids))
