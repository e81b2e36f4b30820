"""Quorums against second implementations that count in the most naive way."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from controller_core.raft.quorum.joint import joint_index, joint_vote
from controller_core.raft.quorum.majority import INFINITE_INDEX, VoteResult, quorum_index, vote_result

NODES = st.frozensets(st.integers(1, 9), max_size=7)
INDEXES = st.dictionaries(st.integers(1, 9), st.integers(1, 12), max_size=9)
BALLOTS = st.dictionaries(st.integers(1, 9), st.booleans(), max_size=9)


def naive_index(voters: frozenset[int], known: Mapping[int, int]) -> int:
    reached = [i for i in range(13) if sum(known.get(v, 0) >= i for v in voters) * 2 > len(voters)]
    return max(reached) if voters else INFINITE_INDEX


def naive_vote(voters: frozenset[int], votes: Mapping[int, bool]) -> VoteResult:
    """Try both ways for the missing ballots: it is decided if they cannot change it."""
    if not voters:
        return VoteResult.WON
    worst = sum(votes.get(v, False) for v in voters) * 2 > len(voters)
    best = sum(votes.get(v, True) for v in voters) * 2 > len(voters)
    if worst == best:
        return VoteResult.WON if worst else VoteResult.LOST
    return VoteResult.PENDING


@given(NODES, INDEXES)
def test_a_majority_has_the_index_that_counting_finds(voters: frozenset[int], known: dict[int, int]) -> None:
    assert quorum_index([known.get(v, 0) for v in voters]) == naive_index(voters, known)


@given(NODES, NODES, INDEXES)
def test_a_joint_quorum_has_what_both_halves_have(
    first: frozenset[int], second: frozenset[int], known: dict[int, int]
) -> None:
    found = joint_index(first, second, lambda voter: known.get(voter, 0))
    assert found == min(naive_index(first, known), naive_index(second, known))


@given(NODES, BALLOTS)
def test_a_vote_is_decided_when_missing_ballots_cannot_change_it(
    voters: frozenset[int], votes: dict[int, bool]
) -> None:
    assert vote_result(voters, votes) == naive_vote(voters, votes)


@given(NODES, NODES, BALLOTS)
def test_a_joint_vote_is_won_in_both_halves_and_lost_in_either(
    first: frozenset[int], second: frozenset[int], votes: dict[int, bool]
) -> None:
    halves = {naive_vote(first, votes), naive_vote(second, votes)}
    result = joint_vote(first, second, votes)
    if VoteResult.LOST in halves:
        assert result == VoteResult.LOST
    elif VoteResult.PENDING in halves:
        assert result == VoteResult.PENDING
    else:
        assert result == VoteResult.WON


def test_an_empty_majority_decides_everything_in_favour() -> None:
    assert quorum_index([]) == INFINITE_INDEX
    assert vote_result((), {}) == VoteResult.WON
