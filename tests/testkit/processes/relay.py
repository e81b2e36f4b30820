"""A TCP relay that a test can stop: incoming bytes wait, in both directions, and the connections stay open.

For a process that is alive and well for everybody but one: the one whom it reaches only through here. It can
tear what it passes on into pieces, too, to test readers that expect a whole message in one read.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence

from testkit.processes.ports import LOOPBACK, free_port

_CHUNK_BYTES = 65_536
_PIECE_PAUSE_S = 0.001


class Relay:
    """Listens on a free port and passes on to `target`, host:port.

    Attributes:
        address: its own, host:port.
        accepted: connections so far.
        first_bytes: the first byte that each client sent.
        holds_bytes: set once bytes wait because of `hold`.
    """

    def __init__(self, target: str, pieces: Sequence[int] = (), host: str = LOOPBACK) -> None:
        """Describe it.

        Args:
            target: host:port.
            pieces: it passes bytes on in parts of these lengths (bytes), repeated; whole if empty.
            host: where it listens.
        """
        self.accepted = 0
        self.first_bytes: list[bytes] = []
        self._pieces = pieces
        self._target = target
        self._port = free_port()
        self._host = host
        self.address = f"{host}:{self._port}"
        self._open = asyncio.Event()
        self._open.set()
        self.holds_bytes = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port)

    def hold(self) -> None:
        """Pass nothing on any more."""
        self.holds_bytes.clear()
        self._open.clear()

    def release(self) -> None:
        """Pass on again, beginning with the held bytes."""
        self._open.set()

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.ensure_future(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            host, _, port = self._target.rpartition(":")
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(there_writer):
                ways = [
                    self._pass_on(reader, there_writer, self.first_bytes),
                    self._pass_on(there_reader, writer, []),
                ]
                tasks = [asyncio.ensure_future(way) for way in ways]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in tasks:
                        way.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first_bytes: list[bytes]
    ) -> None:
        with contextlib.suppress(OSError):
            lengths = itertools.cycle(self._pieces or [_CHUNK_BYTES])
            is_first = True
            while data := await reader.read(next(lengths)):
                if is_first:
                    first_bytes.append(data[:1])
                is_first = False
                if not self._open.is_set():
                    self.holds_bytes.set()
                await self._open.wait()
                writer.write(data)
                await writer.drain()
                if self._pieces:
                    await asyncio.sleep(_PIECE_PAUSE_S)  # apart, or they would be one again
