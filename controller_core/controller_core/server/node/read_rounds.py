"""Reads that wait for a quorum's word: all that arrive while one round is under way share the next.

    waiting --next round starts--> in the round --confirmed at an index--> until it is applied --> done

A read never joins a round that is under way: its index may be older than the read. A leader's round that
finds no quorum ends with the leadership (check-quorum), and its reads fail then. A follower's round may get
no answer at all; `follower_reads` ends it.
"""

import asyncio

from controller_core.raft.types import ReadState
from controller_core.server.node.proposals import Waiter, fail

_CONTEXT_NUMBER_BYTES = 8


class ReadRounds:
    """The reads of one node."""

    __slots__ = ("_applying", "_context", "_nonce", "_number", "_round", "_waiting")

    def __init__(self, nonce: bytes) -> None:
        """Take a nonce that no other run of any node has, so that contexts are unique."""
        self._nonce = nonce
        self._number = 0
        self._waiting: list[Waiter] = []
        self._round: list[Waiter] = []
        self._context = b""
        self._applying: list[tuple[int, list[Waiter]]] = []

    def add(self) -> asyncio.Future[object]:
        """Queue a read for the next round."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def add_for(self, waiter: Waiter) -> None:
        """Queue a read for the next round, and tell `waiter` when it may be served."""
        self._waiting.append(waiter)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._round) + sum(len(waiters) for _, waiters in self._applying)

    @property
    def is_waited_for(self) -> bool:
        """Whether reads wait for a round that is not under way yet."""
        return bool(self._waiting)

    @property
    def is_unconfirmed(self) -> bool:
        """Whether a round has begun and is not confirmed."""
        return bool(self._round)

    @property
    def is_unserved(self) -> bool:
        """Whether a round has begun whose reads are not served yet."""
        return bool(self._round or self._applying)

    def begin(self) -> bytes:
        """Start a round if reads wait and none is under way; return its context, b"" otherwise."""
        if not self._waiting or self._round:
            return b""
        self._round, self._waiting = self._waiting, []
        self._number += 1
        self._context = self._nonce + self._number.to_bytes(_CONTEXT_NUMBER_BYTES, "big")
        return self._context

    def is_of_round(self, state: ReadState) -> bool:
        """Say whether an answer of the core is to the round under way."""
        return bool(self._round) and state.context == self._context

    def confirmed(self, state: ReadState) -> None:
        """Take the core's answer to a round."""
        if self.is_of_round(state):
            self._applying.append((state.index, self._round))
            self._round = []

    def applied(self, index: int) -> None:
        """Let the reads go whose index is applied."""
        if not self._applying:
            return
        ready = [waiters for needed, waiters in self._applying if needed <= index]
        self._applying = [(needed, waiters) for needed, waiters in self._applying if needed > index]
        for waiters in ready:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """Fail all reads that wait for a quorum; those that only wait for the state machine are good."""
        waiting, self._waiting = self._waiting, []
        self.fail_round(error)
        fail(waiting, error)

    def fail_round(self, error: Exception) -> None:
        """Fail the reads of the round under way."""
        in_round, self._round = self._round, []
        fail(in_round, error)

    def fail_unserved(self, error: Exception) -> None:
        """Fail the reads of all rounds that have begun."""
        applying, self._applying = self._applying, []
        self.fail_round(error)
        for _, waiters in applying:
            fail(waiters, error)

    def close(self, error: Exception) -> None:
        """Fail every read."""
        self.fail(error)
        self.fail_unserved(error)
