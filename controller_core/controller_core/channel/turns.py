"""The turns of the event loop, shared among the connections of a port.

A connection that sends as fast as it can would fill turn after turn: the loop reads on while more comes in,
and Raft's ticks, HTTP and all other connections wait. Here all connections together get `TURN_S` of each
turn, and take up their bytes in pieces of `PIECE_BYTES`:

    there is time left in this turn  ->  the next piece is taken up at once
    no time is left in it            ->  the rest waits, and nothing more is read from this connection
    the next turn begins             ->  waiting connections in order, one piece each, kept ones first

Bytes that wait count in the memory budget. A connection that sends little never waits unless others flood,
and then only for the connections before it.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

TURN_S: Final = 0.01
PIECE_BYTES: Final = 16 * 1024


class TurnTaker(Protocol):
    """A connection, as this module sees it."""

    is_kept: bool

    @property
    def is_closed(self) -> bool:
        """Whether its bytes are not taken up any more."""
        ...

    def take(self, data: bytes) -> None:
        """Take up bytes of the peer."""
        ...

    def wait_turn(self, waiting_bytes: int) -> None:
        """Learn how many bytes wait; read no more from the peer until it is 0."""
        ...


class Turns:
    """Gives connections their pieces of each turn."""

    def __init__(self) -> None:
        """Begin with a turn that is unused; the running loop's."""
        self._loop: Final = asyncio.get_running_loop()
        self._kept: Final[deque[TurnTaker]] = deque()
        self._others: Final[deque[TurnTaker]] = deque()
        self._waiting: Final[dict[TurnTaker, bytes]] = {}
        self._used_s = 0.0
        self._is_scheduled = False

    def take(self, reader: TurnTaker, data: bytes) -> None:
        """Take up bytes that came in, now or in a later turn."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)
        before = self._waiting.get(reader)
        if before is not None:
            self._wait(reader, before + data)
            return
        while data and self._used_s < TURN_S:
            data = self._take_piece(reader, data)
        if data:
            self._queue(reader)
            self._wait(reader, data)

    def _next_turn(self) -> None:
        self._used_s = 0.0
        while (self._kept or self._others) and self._used_s < TURN_S:
            reader = (self._kept or self._others).popleft()
            rest = self._take_piece(reader, self._waiting.pop(reader))
            if rest:
                self._queue(reader)
                self._wait(reader, rest)
            elif not reader.is_closed:
                reader.wait_turn(0)
        if self._kept or self._others:
            self._loop.call_soon(self._next_turn)
        else:
            self._is_scheduled = False

    def _queue(self, reader: TurnTaker) -> None:
        (self._kept if reader.is_kept else self._others).append(reader)

    def _wait(self, reader: TurnTaker, data: bytes) -> None:
        self._waiting[reader] = data
        reader.wait_turn(len(data))

    def _take_piece(self, reader: TurnTaker, data: bytes) -> bytes:
        """Take up one piece; return the rest."""
        if reader.is_closed:
            return b""
        begun_s = self._loop.time()
        reader.take(data if len(data) <= PIECE_BYTES else data[:PIECE_BYTES])
        self._used_s += self._loop.time() - begun_s
        return b"" if reader.is_closed else data[PIECE_BYTES:]
