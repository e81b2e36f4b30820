"""Two majorities that must both agree.

The quorum while the membership changes from one set of voters to another.

Outside a change the second set is empty and, by the rule of the empty majority, never objects.

Source: Raft thesis 4.3 (joint consensus).
"""

from collections.abc import Callable, Collection, Mapping

from controller_core.raft.quorum.majority import VoteResult, quorum_index, vote_result


def joint_index(incoming: Collection[int], outgoing: Collection[int], index_of: Callable[[int], int]) -> int:
    """Return the largest index that both majorities have reached.

    `index_of` gives a voter's, 0 when unknown.
    """
    index = quorum_index([index_of(voter) for voter in incoming])
    if not outgoing:
        return index
    return min(index, quorum_index([index_of(voter) for voter in outgoing]))


def joint_vote(incoming: Collection[int], outgoing: Collection[int], votes: Mapping[int, bool]) -> VoteResult:
    """Return how the vote stands: won in both halves, lost in either, else pending."""
    first = vote_result(incoming, votes)
    second = vote_result(outgoing, votes)
    if first == second:
        return first
    if VoteResult.LOST in (first, second):
        return VoteResult.LOST
    return VoteResult.PENDING
