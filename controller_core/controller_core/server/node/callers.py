"""The callers that wait for a node: for a command to be applied, or for permission to read.

Joins `proposals` and `read_rounds` to the core: hands over waiting requests once before each Ready, and
answers all callers when leadership or the node ends.
"""

from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.raw_node import RawNode
from controller_core.server.node.proposals import Proposals, fail
from controller_core.server.node.read_rounds import ReadRounds
from controller_core.server.node.types import CommandDroppedError, NotLeaderError


class Callers:
    """The callers of one node."""

    __slots__ = ("_raw", "proposals", "reads")

    def __init__(self, raw: RawNode, nonce: bytes) -> None:
        self._raw = raw
        self.proposals = Proposals()
        self.reads = ReadRounds(nonce)

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

    def check_leadership(self) -> None:
        """Fail the callers if leadership was lost; call this after every step that may change the leader."""
        leads = self._raw.is_leader
        if self.proposals.term and not (leads and self._raw.term == self.proposals.term):
            self.proposals.lose("leadership was lost; the outcome of the command is unknown")
        if not leads:
            self.reads.fail(self._not_leader())

    def close(self) -> None:
        """Fail all waiting callers, because the node ends."""
        fail([waiter for _, waiter in self.proposals.take_queue()], NotLeaderError(None))
        self.proposals.lose("the node has ended; the outcome of the command is unknown")
        self.reads.close(NotLeaderError(None))

    def _not_leader(self) -> NotLeaderError:
        return NotLeaderError(self._raw.leader_id or None)
