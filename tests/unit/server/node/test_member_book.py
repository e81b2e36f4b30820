"""Who the members are: the book that changes of membership write, and how a snapshot carries it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.raft.confchange.changes import (
    ConfChange,
    ConfChangeSingle,
    ConfChangeType,
    ConfChangeV2,
)
from controller_core.raft.types import ConfState, NodeId
from controller_core.server.node.member_book import (
    ControllerMember,
    MemberBook,
    MemberBookError,
    encode_member,
    unwrap,
    wrap,
)

ONE = ControllerMember("n0", "host0:9878", "a1")
TWO = ControllerMember("n1", "host1:9878")
MEMBERS = st.builds(ControllerMember, st.text(max_size=9), st.text(max_size=20), st.text(max_size=9))


def change(kind: ConfChangeType, node_id: int, member: ControllerMember | None = None) -> ConfChange:
    return ConfChange(kind, NodeId(node_id), b"" if member is None else encode_member(member))


def state(*voters: int) -> ConfState:
    return ConfState(voters=tuple(NodeId(voter) for voter in voters))


def test_an_added_member_is_written_and_a_removed_one_struck_out() -> None:
    book = MemberBook({1: ONE}).changed(change(ConfChangeType.ADD_LEARNER_NODE, 2, TWO), state(1, 2))
    assert dict(book.items()) == {1: ONE, 2: TWO}
    assert dict(book.changed(change(ConfChangeType.REMOVE_NODE, 1), state(2)).items()) == {2: TWO}


def test_who_is_removed_in_a_joint_change_stays_written_until_that_is_left() -> None:
    singles = (
        ConfChangeSingle(ConfChangeType.ADD_NODE, NodeId(2)),
        ConfChangeSingle(ConfChangeType.REMOVE_NODE, NodeId(1)),
    )
    book = MemberBook({1: ONE, 2: TWO})
    joint = ConfState(voters=(NodeId(2),), voters_outgoing=(NodeId(1),))
    entered = book.changed(ConfChangeV2(singles), joint)
    assert entered == book
    assert dict(entered.changed(ConfChangeV2(), state(2)).items()) == {2: TWO}


def test_a_promotion_without_context_leaves_the_book() -> None:
    book = MemberBook({1: ONE, 2: TWO})
    assert book.changed(change(ConfChangeType.ADD_NODE, 2), state(1, 2)) == book


def test_an_update_writes_a_member_anew() -> None:
    moved = ControllerMember("n0", "elsewhere:9878", "a1")
    book = MemberBook({1: ONE}).changed(change(ConfChangeType.UPDATE_NODE, 1, moved), state(1))
    assert book.get(1) == moved


@given(st.dictionaries(st.integers(1, 2**40), MEMBERS, max_size=9), st.binary(max_size=50))
def test_a_snapshot_gives_back_book_and_state(members: dict[int, ControllerMember], data: bytes) -> None:
    book = MemberBook(members)
    assert unwrap(wrap(book, data)) == (book, data)


def test_the_same_members_are_the_same_bytes_whatever_order_they_came_in() -> None:
    assert wrap(MemberBook({2: TWO, 1: ONE}), b"") == wrap(MemberBook({1: ONE, 2: TWO}), b"")


def test_a_snapshot_without_a_book_is_all_state() -> None:
    assert unwrap(b"anything") == (MemberBook(), b"anything")
    assert unwrap(b"") == (MemberBook(), b"")


def test_bytes_that_hold_no_members_are_refused() -> None:
    with pytest.raises(MemberBookError, match="unreadable members"):
        unwrap(wrap(MemberBook(), b"")[:-1] + b"\xc1")
    with pytest.raises(MemberBookError, match="hold no member"):
        MemberBook().changed(ConfChange(ConfChangeType.ADD_NODE, NodeId(1), b"\xc1"), state(1))
