"""A TCP relay that a test can stop: what comes in waits, in both directions, and the connections stay open.

For a process that is alive and well for everybody but one: the one whom it reaches only through here.
"""

import asyncio
import contextlib

from testkit.ports import free_port

_CHUNK_BYTES = 65_536


class Relay:
    """Listens on a free port of loopback and passes on to `target`, host:port."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    def hold(self) -> None:
        """Pass nothing on any more."""
        self._open.clear()

    def release(self) -> None:
        """Pass on again, beginning with what was held."""
        self._open.set()

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host, _, port = self._target.rpartition(":")
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        ways = [self._pass_on(reader, there_writer), self._pass_on(there_reader, writer)]
        try:
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for way in tasks:
                way.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            writer.close()
            there_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
