"""Changes of membership: their bytes, their effect on any membership, and overlapping quorums."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.raft.confchange.changer import Changer, ConfChangeError
from controller_core.raft.confchange.changes import (
    ConfChange,
    ConfChangeDecodeError,
    ConfChangeSingle,
    ConfChangeTransition,
    ConfChangeType,
    ConfChangeV2,
    decode_conf_change,
    encode_conf_change,
)
from controller_core.raft.confchange.restore import restore
from controller_core.raft.quorum.majority import VoteResult, vote_result
from controller_core.raft.tracker.tracker import Membership, ProgressTracker
from controller_core.raft.types import ConfState, Entry, EntryType, LogIndex, NodeId, Term

SINGLES = st.builds(ConfChangeSingle, st.sampled_from(ConfChangeType), st.integers(0, 6).map(NodeId))
CHANGES = st.lists(SINGLES, max_size=4).map(tuple)
MOVES = st.lists(st.tuples(st.sampled_from(["simple", "enter", "leave"]), CHANGES), max_size=12)


def move(tracker: ProgressTracker, name: str, changes: tuple[ConfChangeSingle, ...]) -> None:
    changer = Changer(tracker, last_index=10)
    if name == "simple":
        changed = changer.simple(changes)
    elif name == "enter":
        changed = changer.enter_joint(changes, auto_leave=True)
    else:
        changed = changer.leave_joint()
    tracker.membership, tracker.progress = changed


def wins(membership: Membership, nodes: frozenset[int]) -> bool:
    votes = {node: node in nodes for node in membership.all_voters}
    halves = (membership.voters, membership.outgoing)
    return all(vote_result(half, votes) == VoteResult.WON for half in halves)


@given(MOVES)
def test_every_change_leaves_a_valid_membership_and_a_refused_one_none_at_all(
    moves: list[tuple[str, tuple[ConfChangeSingle, ...]]],
) -> None:
    tracker = ProgressTracker(1, 0)
    for name, changes in moves:
        before = tracker.membership, tracker.progress
        try:
            move(tracker, name, changes)
        except ConfChangeError:
            assert (tracker.membership, tracker.progress) == before
        now = tracker.membership
        assert set(tracker.progress) == now.all_voters | now.learners
        assert list(tracker.progress) == sorted(tracker.progress)
        assert not now.learners & now.all_voters
        assert now.learners_next <= now.outgoing
        assert now.is_joint() or not (now.learners_next or now.auto_leave)
        for node, progress in tracker.progress.items():
            assert progress.is_learner == (node in now.learners)


@given(MOVES)
def test_a_quorum_before_a_change_and_one_after_always_share_a_voter(
    moves: list[tuple[str, tuple[ConfChangeSingle, ...]]],
) -> None:
    tracker = ProgressTracker(1, 0)
    for name, changes in moves:
        before = tracker.membership
        try:
            move(tracker, name, changes)
        except ConfChangeError:
            continue
        if not before.voters:
            continue
        after = tracker.membership
        everyone = before.all_voters | after.all_voters
        for size in range(len(everyone) + 1):
            for nodes in itertools.combinations(everyone, size):
                winners = frozenset(nodes)
                assert not (wins(before, winners) and wins(after, everyone - winners))


@given(MOVES)
def test_a_membership_is_rebuilt_from_what_a_snapshot_carries(
    moves: list[tuple[str, tuple[ConfChangeSingle, ...]]],
) -> None:
    tracker = ProgressTracker(1, 0)
    for name, changes in moves:
        try:
            move(tracker, name, changes)
        except ConfChangeError:
            continue
    membership, progress = restore(tracker, 10, tracker.membership.conf_state())
    assert membership == tracker.membership
    assert set(progress) == set(tracker.progress)


def test_an_empty_conf_state_is_the_empty_membership() -> None:
    membership, progress = restore(ProgressTracker(1, 0), 0, ConfState())
    assert membership == Membership()
    assert progress == {}


@given(
    st.one_of(
        st.builds(
            ConfChange, st.sampled_from(ConfChangeType), st.integers(0, 2**64 - 1).map(NodeId), st.binary()
        ),
        st.builds(ConfChangeV2, CHANGES, st.sampled_from(ConfChangeTransition), st.binary()),
    )
)
def test_a_change_comes_back_from_its_bytes(change: ConfChange | ConfChangeV2) -> None:
    kind, data = encode_conf_change(change)
    assert decode_conf_change(Entry(Term(1), LogIndex(1), kind, data)) == change


def test_leaving_a_joint_configuration_takes_no_bytes() -> None:
    assert encode_conf_change(ConfChangeV2()) == (EntryType.CONF_CHANGE_V2, b"")


@given(st.sampled_from(EntryType), st.binary(max_size=40))
def test_rubbish_is_decoded_or_refused_as_such(kind: EntryType, data: bytes) -> None:
    try:
        change = decode_conf_change(Entry(Term(1), LogIndex(1), kind, data))
    except ConfChangeDecodeError:
        return
    assert encode_conf_change(change) in ((kind, data), (EntryType.CONF_CHANGE_V2, b""))


@pytest.mark.parametrize(
    ("change", "enters", "auto_leaves"),
    [
        (ConfChangeV2((ConfChangeSingle(ConfChangeType.ADD_NODE, NodeId(1)),)), False, True),
        (ConfChangeV2((ConfChangeSingle(ConfChangeType.ADD_NODE, NodeId(1)),) * 2), True, True),
        (ConfChangeV2((), ConfChangeTransition.JOINT_IMPLICIT), True, True),
        (ConfChangeV2((), ConfChangeTransition.JOINT_EXPLICIT), True, False),
    ],
)
def test_more_than_one_change_or_a_wish_goes_through_a_joint(
    change: ConfChangeV2, enters: bool, auto_leaves: bool
) -> None:
    assert change.enters_joint() is enters
    assert change.auto_leaves() is auto_leaves
