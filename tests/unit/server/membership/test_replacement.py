"""Which joint change is meant, and which makes no sense."""

import pytest

from controller_core.raft.confchange.changes import ConfChangeTransition, ConfChangeType
from controller_core.raft.types import ConfState, NodeId
from controller_core.server.membership.replacement import ReplacementError, replacement

STATE = ConfState(voters=(NodeId(1), NodeId(2), NodeId(3)), learners=(NodeId(4), NodeId(5)))
KNOWN = {f"n{node - 1}": node for node in (1, 2, 3, 4, 5)}


def test_learners_come_and_voters_go_in_one_joint_change_that_is_left_by_itself() -> None:
    meant = replacement(STATE, KNOWN, ["n3", "n4"], ["n0", "n1"])
    assert (meant.promoted, meant.removed, meant.voters) == ((4, 5), (1, 2), (3, 4, 5))
    change = meant.change()
    assert change.transition is ConfChangeTransition.JOINT_IMPLICIT
    assert change.enters_joint()
    assert change.auto_leaves()
    assert [(one.type, one.node_id) for one in change.changes] == [
        (ConfChangeType.ADD_NODE, 4),
        (ConfChangeType.ADD_NODE, 5),
        (ConfChangeType.REMOVE_NODE, 1),
        (ConfChangeType.REMOVE_NODE, 2),
    ]


def test_one_half_of_it_alone_is_fine_and_a_learner_may_go() -> None:
    assert replacement(STATE, KNOWN, ["n3"], []).voters == (1, 2, 3, 4)
    assert replacement(STATE, KNOWN, [], ["n0", "n4"]).voters == (2, 3)


@pytest.mark.parametrize(
    ("add", "remove", "field", "value", "text"),
    [
        ([], [], "add", "", "names no member"),
        (["n3", "n3"], [], "add", "n3", "is named twice"),
        (["n3"], ["n3"], "remove", "n3", "is named twice"),
        (["n9"], [], "add", "n9", "is not a member; add it as a learner first"),
        ([], ["n9"], "remove", "n9", "is not a member"),
        (["n0"], [], "add", "n0", "is a voter already"),
        ([], ["n0", "n1", "n2"], "remove", "n0,n1,n2", "would leave no voter"),
    ],
)
def test_what_makes_no_sense_is_refused_with_field_and_value(
    add: list[str], remove: list[str], field: str, value: str, text: str
) -> None:
    with pytest.raises(ReplacementError, match=text) as refused:
        replacement(STATE, KNOWN, add, remove)
    assert (refused.value.field, refused.value.value) == (field, value)
