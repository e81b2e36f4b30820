"""How a change alters the membership and the progress map, and which changes are refused.

Three moves, each from one valid configuration to another:

    simple       at most one voter changes: any old and any new majority share a member, so no joint
                 configuration is needed
    enter joint  the voters of now become the outgoing half, the changes are made in the incoming half
    leave joint  the outgoing half goes; voters that were to become learners do

Every move works on a draft, checks the invariants before and after, and returns new values: a refused change
is without effect. Nothing here knows the log or sends a message.

Source: Raft thesis 4.2 and 4.3; etcd raft 3.6, confchange package.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controller_core.raft.confchange.changes import ConfChangeSingle, ConfChangeType
from controller_core.raft.errors import RaftError
from controller_core.raft.tracker.progress import Progress
from controller_core.raft.tracker.tracker import Membership, ProgressTracker

Changed = tuple[Membership, dict[int, Progress]]


class ConfChangeError(RaftError):
    """The change cannot be made from the present membership; every node refuses it alike."""


@dataclass(frozen=True, slots=True)
class Changer:
    """Makes changes on top of a tracker's membership; `last_index` places the first probe of a new member."""

    tracker: ProgressTracker
    last_index: int

    def simple(self, changes: Iterable[ConfChangeSingle]) -> Changed:
        """Return the membership after `changes`, which alter at most one voter.

        Raises:
            ConfChangeError: a joint configuration is active, or more than one voter would change, or none be
                left.
        """
        draft = _Draft(self)
        before = frozenset(draft.voters)
        if draft.outgoing:
            raise ConfChangeError("can't apply simple config change in joint config")
        draft.apply(changes)
        if len(before ^ draft.voters) > 1:
            raise ConfChangeError("more than one voter changed without entering joint config")
        return draft.finish()

    def enter_joint(self, changes: Iterable[ConfChangeSingle], *, auto_leave: bool) -> Changed:
        """Return the joint of the present voters and those after `changes`.

        Raises:
            ConfChangeError: already joint, or no voter exists before or after.
        """
        draft = _Draft(self)
        if draft.outgoing:
            raise ConfChangeError("config is already joint")
        if not draft.voters:
            raise ConfChangeError("can't make a zero-voter config joint")
        draft.outgoing = set(draft.voters)
        draft.apply(changes)
        draft.auto_leave = auto_leave
        return draft.finish()

    def leave_joint(self) -> Changed:
        """Return the incoming half alone.

        Raises:
            ConfChangeError: no joint configuration is active.
        """
        draft = _Draft(self)
        if not draft.outgoing:
            raise ConfChangeError("can't leave a non-joint config")
        draft.leave()
        return draft.finish()


class _Draft:
    """A copy of membership and progress that a change may alter freely."""

    __slots__ = (
        "auto_leave",
        "inflights_of",
        "last_index",
        "learners",
        "learners_next",
        "outgoing",
        "progress",
        "voters",
    )

    def __init__(self, changer: Changer) -> None:
        membership = changer.tracker.membership
        self.voters = set(membership.voters)
        self.outgoing = set(membership.outgoing)
        self.learners = set(membership.learners)
        self.learners_next = set(membership.learners_next)
        self.auto_leave = membership.auto_leave
        self.progress = {node: progress.clone() for node, progress in changer.tracker.progress.items()}
        self.last_index = changer.last_index
        self.inflights_of = changer.tracker.new_inflights
        self._check()

    def apply(self, changes: Iterable[ConfChangeSingle]) -> None:
        """Make the changes in their order; raise `ConfChangeError` if no voter is left."""
        for change in changes:
            node = int(change.node_id)
            if node == 0:
                continue  # A change withdrawn between its proposal and now.
            match change.type:
                case ConfChangeType.ADD_NODE:
                    self._make_voter(node)
                case ConfChangeType.ADD_LEARNER_NODE:
                    self._make_learner(node)
                case ConfChangeType.REMOVE_NODE:
                    self._remove(node)
                case ConfChangeType.UPDATE_NODE:
                    pass  # For the application's own use; the membership stays.
        if not self.voters:
            raise ConfChangeError("removed all voters")

    def leave(self) -> None:
        """End a joint configuration: nodes that only the outgoing voters have are dropped."""
        for node in self.learners_next:
            self.learners.add(node)
            self.progress[node].is_learner = True
        self.learners_next.clear()
        for node in self.outgoing - self.voters - self.learners:
            del self.progress[node]
        self.outgoing.clear()
        self.auto_leave = False

    def finish(self) -> Changed:
        """Check the result and return it."""
        self._check()
        membership = Membership(
            voters=frozenset(self.voters),
            outgoing=frozenset(self.outgoing),
            learners=frozenset(self.learners),
            learners_next=frozenset(self.learners_next),
            auto_leave=self.auto_leave,
        )
        return membership, dict(sorted(self.progress.items()))

    def _make_voter(self, node: int) -> None:
        progress = self.progress.get(node)
        if progress is None:
            self._start_progress(node, is_learner=False)
        else:
            progress.is_learner = False
            self.learners.discard(node)
            self.learners_next.discard(node)
        self.voters.add(node)

    def _make_learner(self, node: int) -> None:
        """Demote or add `node`.

        A voter of the outgoing half stays a voter there until the cluster leaves the joint configuration.
        """
        progress = self.progress.get(node)
        if progress is None:
            self._start_progress(node, is_learner=True)
            self.learners.add(node)
            return
        if progress.is_learner:
            return
        self._remove(node)
        self.progress[node] = progress
        if node in self.outgoing:
            self.learners_next.add(node)
        else:
            progress.is_learner = True
            self.learners.add(node)

    def _remove(self, node: int) -> None:
        if node not in self.progress:
            return
        self.voters.discard(node)
        self.learners.discard(node)
        self.learners_next.discard(node)
        if node not in self.outgoing:
            del self.progress[node]

    def _start_progress(self, node: int, *, is_learner: bool) -> None:
        """Begin to track `node`.

        The first probe is placed at the end of the log, where most likely a snapshot brought or will bring
        the node. It counts as recently active, lest a check of the quorum depose the leader before the node
        could answer.
        """
        self.progress[node] = Progress(
            match=0,
            next_=max(self.last_index, 1),
            inflights=self.inflights_of(),
            is_learner=is_learner,
            recent_active=True,
        )

    def _check(self) -> None:
        """Raise if the draft breaks an invariant of `Membership`."""
        for node in self.voters | self.outgoing | self.learners | self.learners_next:
            if node not in self.progress:
                raise ConfChangeError(f"no progress for {node}")
        for node in self.learners_next:
            if node not in self.outgoing:
                raise ConfChangeError(f"{node} is in LearnersNext, but not Voters[1]")
            if self.progress[node].is_learner:
                raise ConfChangeError(f"{node} is in LearnersNext, but is already marked as learner")
        for node in self.learners:
            if node in self.outgoing:
                raise ConfChangeError(f"{node} is in Learners and Voters[1]")
            if node in self.voters:
                raise ConfChangeError(f"{node} is in Learners and Voters[0]")
            if not self.progress[node].is_learner:
                raise ConfChangeError(f"{node} is in Learners, but is not marked as learner")
        if not self.outgoing and self.auto_leave:
            raise ConfChangeError("AutoLeave must be false when not joint")
