"""Reads that wait for a quorum's word: all that arrive while one round is under way share the next.

    waiting --next round starts--> in the round --confirmed at an index--> until it is applied --> done

A round that finds no quorum ends with the leadership (check-quorum), and its reads fail then.
"""

import asyncio

from controller_core.raft.types import ReadState
from controller_core.server.node.proposals import fail

_CONTEXT_NUMBER_BYTES = 8


class ReadRounds:
    """The reads of one node."""

    __slots__ = ("_applying", "_context", "_nonce", "_number", "_round", "_waiting")

    def __init__(self, nonce: bytes) -> None:
        """Take a nonce that no other run of any node has, so that contexts are unique."""
        self._nonce = nonce
        self._number = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._round: list[asyncio.Future[None]] = []
        self._context = b""
        self._applying: list[tuple[int, list[asyncio.Future[None]]]] = []

    def add(self) -> asyncio.Future[None]:
        """Queue a read for the next round."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def begin(self) -> bytes:
        """Start a round if reads wait and none is under way; return its context, b"" otherwise."""
        if not self._waiting or self._round:
            return b""
        self._round, self._waiting = self._waiting, []
        self._number += 1
        self._context = self._nonce + self._number.to_bytes(_CONTEXT_NUMBER_BYTES, "big")
        return self._context

    def confirmed(self, state: ReadState) -> None:
        """Take the core's answer to a round."""
        if state.context == self._context and self._round:
            self._applying.append((state.index, self._round))
            self._round = []

    def applied(self, index: int) -> None:
        """Let the reads go whose index is applied."""
        if not self._applying:
            return
        for needed, futures in self._applying:
            if needed <= index:
                for future in futures:
                    if not future.done():
                        future.set_result(None)
        self._applying = [(needed, futures) for needed, futures in self._applying if needed > index]

    def fail(self, error: Exception) -> None:
        """Fail all reads that wait for a quorum; those that only wait for the state machine are good."""
        fail(self._waiting, error)
        fail(self._round, error)
        self._waiting, self._round = [], []

    def close(self, error: Exception) -> None:
        """Fail every read."""
        self.fail(error)
        for _, futures in self._applying:
            fail(futures, error)
        self._applying = []
