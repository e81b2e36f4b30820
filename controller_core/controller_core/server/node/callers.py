"""The callers that wait for a node: for a command to be applied, or for permission to read.

Joins `proposals`, `read_rounds` and `follower_reads` to the core: hands over waiting requests once before
each Ready, and answers all callers when leadership or the node ends.
"""

from collections.abc import Callable, Iterable
from typing import Final

from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import ReadState
from controller_core.server.node.follower_reads import FollowerReads
from controller_core.server.node.proposals import Proposals, fail
from controller_core.server.node.read_rounds import ReadRounds
from controller_core.server.node.types import CommandDroppedError, NotLeaderError

_FOLLOWER_MARK: Final = b"f"
"""Behind the nonce, so that no context of a follower's read is one of a leader's."""


class Callers:
    """The callers of one node."""

    __slots__ = ("_raw", "follower_reads", "proposals", "reads")

    def __init__(self, raw: RawNode, nonce: bytes, ring: Callable[[], None] = lambda: None) -> None:
        """Take the core, a nonce as `ReadRounds` does, and what wakes the task that drives the core."""
        self._raw = raw
        self.proposals = Proposals()
        self.reads = ReadRounds(nonce)
        self.follower_reads = FollowerReads(raw, nonce + _FOLLOWER_MARK, ring)

    def hand_over(self) -> None:
        """Give waiting commands to the core as one batch, and start a round for waiting reads."""
        waiting = [proposal for proposal in self.proposals.take_queue() if not proposal[1].done()]
        if waiting and not self._raw.is_leader:
            fail([waiter for _, waiter in waiting], self._not_leader())
        elif waiting:
            try:
                self._raw.propose_many([data for data, _ in waiting])
                self.proposals.handed_over(waiting, self._raw.term)
            except ProposalDroppedError as error:
                reason = error.reason or "leadership is being handed over"
                fail([waiter for _, waiter in waiting], CommandDroppedError(reason))
        if context := self.reads.begin():
            try:
                self._raw.read_index(context)
            except ProposalDroppedError:
                self.reads.fail(self._not_leader())

    def serve_reads(self, states: Iterable[ReadState], applied_index: int) -> None:
        """Take the core's answers to reads, and serve all reads whose index is applied."""
        for state in states:
            self.reads.confirmed(state)
            self.follower_reads.confirmed(state, applied_index)
        self.reads.applied(applied_index)
        self.follower_reads.applied(applied_index)

    def check_leadership(self) -> None:
        """Fail the callers if leadership was lost; call this after every step that may change the leader."""
        leads = self._raw.is_leader
        if self.proposals.term and not (leads and self._raw.term == self.proposals.term):
            self.proposals.lose("leadership was lost; the outcome of the command is unknown")
        if not leads:
            self.reads.fail(self._not_leader())
        self.follower_reads.check_leader()

    def close(self) -> None:
        """Fail all waiting callers, because the node ends."""
        fail([waiter for _, waiter in self.proposals.take_queue()], NotLeaderError(None))
        self.proposals.lose("the node has ended; the outcome of the command is unknown")
        self.reads.close(NotLeaderError(None))
        self.follower_reads.close(NotLeaderError(None))

    def _not_leader(self) -> NotLeaderError:
        return NotLeaderError(self._raw.leader_id or None)
