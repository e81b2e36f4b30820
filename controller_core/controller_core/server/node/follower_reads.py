"""Reads at a node that does not lead: one question to the leader serves all reads that wait.

    waiting --the question leaves--> asked --the index comes--> until that much is applied --> done
       |                               |                              |
       |                               |                              +-- not within `ROUND_WITHIN_S`: failed
       |                               +-- the index is more than `LAG_ENTRIES_MAX` ahead: failed
       |                               +-- another leader or term, or no answer in time: failed
       +-- no leader is known: failed

The question is Raft's READ_INDEX. The leader answers with its commit index once it is certain that it leads
(`raft.reads`): under its lease at once, otherwise after a quorum's word. Everything that was acknowledged
before the question left is at or below that index, so a state that has applied it is new enough.

A question leaves when the reads of the last one are served, and at most one each `ROUND_EVERY_S`: this bounds
what a follower costs the leader, however many reads it serves. A failed read has read nothing; its caller
asks the leader itself.

Never here: what a read answers.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from controller_core import limits
from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.types import NodeId, ReadState
from controller_core.server.node.proposals import Waiter
from controller_core.server.node.read_rounds import ReadRounds
from controller_core.server.node.types import (
    CommandDroppedError,
    FollowerLagsError,
    NotLeaderError,
    ReadLateError,
)

ROUND_EVERY_S: Final = 0.002
ROUND_WITHIN_S: Final = 0.2
"""From a question until its reads are served; they are forwarded then, and brokers wait 3 s for an answer."""
LAG_ENTRIES_MAX: Final = 1_000
"""Entries between what is applied here and the leader's index; a node that is further behind asks it to
answer."""


class ReadingCore(Protocol):
    """What this asks of the core."""

    @property
    def term(self) -> int:
        """Raft's term."""
        ...

    @property
    def leader_id(self) -> NodeId:
        """The leader that is known; 0 if none is."""
        ...

    def read_index(self, context: bytes) -> None:
        """Ask for the index at which a read is good."""
        ...


class FollowerReads:
    """The reads of one node while another leads; event loop's thread only."""

    def __init__(self, core: ReadingCore, nonce: bytes, ring: Callable[[], None]) -> None:
        """Take the core, a nonce as `ReadRounds` does, and what wakes the task that drives the core."""
        self._core = core
        self._rounds = ReadRounds(nonce)
        self._ring = ring
        self._asked = (0, 0)
        """Term and leader when the question left."""
        self._next_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None

    def add(self, waiter: Waiter) -> None:
        """Tell `waiter` once the state here has everything that was acknowledged before this call.

        Raises:
            CommandDroppedError: too many reads wait; nothing happened.
        """
        if len(self._rounds) >= limits.REQUESTS_WAITING_MAX:
            raise CommandDroppedError(f"{limits.REQUESTS_WAITING_MAX} reads are waiting")
        self._rounds.add_for(waiter)
        self._schedule()

    def confirmed(self, state: ReadState, applied_index: int) -> None:
        """Take the leader's answer, after everything that came with it is applied."""
        if not self._rounds.is_of_round(state):
            return
        lag = state.index - applied_index
        if lag > LAG_ENTRIES_MAX:
            self._rounds.fail_round(FollowerLagsError(lag))
        else:
            self._rounds.confirmed(state)

    def applied(self, index: int) -> None:
        """Serve the reads whose index is applied, and have the next question leave."""
        if self._end is None:
            return  # no question has left
        self._rounds.applied(index)
        self._schedule()

    def check_leader(self) -> None:
        """Fail the reads whose question went to a leader that is not the leader any more."""
        if self._rounds.is_unconfirmed and (self._core.term, self._core.leader_id) != self._asked:
            self._rounds.fail_round(self._not_leader())
            self._schedule()

    def close(self, error: Exception) -> None:
        """Fail every read."""
        self._rounds.close(error)
        for timer in (self._timer, self._end):
            if timer is not None:
                timer.cancel()
        self._timer = self._end = None

    def _schedule(self) -> None:
        """Have the next question leave when it may: the last one is served, and reads wait."""
        if self._rounds.is_unserved:
            return
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._timer is None and self._rounds.is_waited_for:
            self._timer = asyncio.get_running_loop().call_at(self._next_s, self._begin)

    def _begin(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        self._asked = (self._core.term, self._core.leader_id)
        self._next_s = loop.time() + ROUND_EVERY_S
        context = self._rounds.begin()
        if not context:
            return
        try:
            self._core.read_index(context)
        except ProposalDroppedError:
            self._rounds.fail(self._not_leader())
            return
        self._end = loop.call_later(ROUND_WITHIN_S, self._too_late)
        self._ring()

    def _too_late(self) -> None:
        self._end = None
        self._rounds.fail_unserved(ReadLateError())
        self._schedule()

    def _not_leader(self) -> NotLeaderError:
        return NotLeaderError(self._core.leader_id or None)
