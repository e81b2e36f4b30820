"""One majority: which index more than half of the voters have, and how a vote stands.

An empty set of voters decides everything in favour (infinite index, vote won). That is what makes it the
neutral element of a joint quorum, where the other half then decides alone. Nothing here knows logs, terms or
messages.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum

INFINITE_INDEX = 2**64 - 1


class VoteResult(IntEnum):
    """How a vote stands, given the ballots known so far."""

    PENDING = 1
    LOST = 2
    WON = 3


def quorum_index(indexes: Collection[int]) -> int:
    """Return the largest index that a majority has reached.

    `indexes` holds one number a voter, 0 when unknown.

    Sorted upwards, the number at position n - (n // 2 + 1) is reached by exactly the last n // 2 + 1 voters.
    """
    count = len(indexes)
    if count == 0:
        return INFINITE_INDEX
    return sorted(indexes)[count - (count // 2 + 1)]


def vote_result(voters: Collection[int], votes: Mapping[int, bool]) -> VoteResult:
    """Return how the vote stands.

    A voter absent from `votes` has not answered, others' ballots do not count.
    """
    if not voters:
        return VoteResult.WON
    granted = 0
    missing = 0
    for voter in voters:
        vote = votes.get(voter)
        if vote is None:
            missing += 1
        elif vote:
            granted += 1
    needed = len(voters) // 2 + 1
    if granted >= needed:
        return VoteResult.WON
    if granted + missing >= needed:
        return VoteResult.PENDING
    return VoteResult.LOST
