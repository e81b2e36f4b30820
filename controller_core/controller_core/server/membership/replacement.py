"""Replacing members in one step.

Which learners begin to vote and which members go, and when that makes no sense.

    learners named in `add`       become voters  |  one entry enters the joint configuration, which needs
    members named in `remove`     go             |  both majorities; then the leader leaves the old half

Why not one at a time: three nodes that are replaced by three others one by one pass through six memberships,
and a failure in the middle leaves any of them. Here it is the old one or the new one.

Pure: values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller_core.raft.confchange.changes import (
    ConfChangeSingle,
    ConfChangeTransition,
    ConfChangeType,
    ConfChangeV2,
)
from controller_core.raft.types import ConfState, NodeId


class ReplacementError(ValueError):
    """It makes no sense with these members.

    Attributes:
        field: `add` or `remove`.
        value: the name in it that is wrong, or all of them.
    """

    def __init__(self, text: str, field: str, value: str) -> None:
        super().__init__(text)
        self.field = field
        self.value = value


@dataclass(frozen=True, slots=True)
class Replacement:
    """One joint change.

    Attributes:
        promoted: Raft ids of the learners that become voters.
        voters: Raft ids of all voters afterwards, ascending.
    """

    promoted: tuple[int, ...]
    removed: tuple[int, ...]
    voters: tuple[int, ...]

    def change(self) -> ConfChangeV2:
        """Return the entry for the log."""
        singles = [ConfChangeSingle(ConfChangeType.ADD_NODE, NodeId(node)) for node in self.promoted]
        singles += [ConfChangeSingle(ConfChangeType.REMOVE_NODE, NodeId(node)) for node in self.removed]
        return ConfChangeV2(tuple(singles), ConfChangeTransition.JOINT_IMPLICIT)


def replacement(
    state: ConfState, known: Mapping[str, int], add: Sequence[str], remove: Sequence[str]
) -> Replacement:
    """Return the change that is meant.

    Args:
        state: the membership of now.
        known: Raft ids of all members by name.
        add: names of learners that shall vote.
        remove: names of members to remove, voters or learners.

    Raises:
        ReplacementError: a name stands twice or does not fit, or no voter would remain.
    """
    if not add and not remove:
        raise ReplacementError("names no member; expected names to add or to remove", "add", "")
    names = [("add", name) for name in add] + [("remove", name) for name in remove]
    for number, (field, name) in enumerate(names):
        if name in (other for _, other in names[:number]):
            raise ReplacementError("is named twice", field, name)
        if name not in known:
            advice = "; add it as a learner first" if field == "add" else ""
            raise ReplacementError(f"is not a member{advice}", field, name)
        if field == "add" and known[name] in state.voters:
            raise ReplacementError("is a voter already", field, name)
    promoted = tuple(known[name] for name in add)
    removed = tuple(known[name] for name in remove)
    voters = tuple(sorted({*state.voters, *promoted} - {*removed}))
    if not voters:
        raise ReplacementError("would leave no voter", "remove", ",".join(remove))
    return Replacement(promoted, removed, voters)
