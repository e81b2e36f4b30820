"""Strangers who flood the ports of a process, each within a bound of its own: for tests of real processes."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

HostPort = tuple[str, int]
_CONNECT_S: Final = 20.0


@contextlib.asynccontextmanager
async def connections(address: HostPort, count: int, says: bytes = b"") -> AsyncIterator[None]:
    """Hold `count` connections that say the same and read nothing, while the context lasts."""
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_S):
                    reader, writer = await asyncio.open_connection(*address, limit=1)
                # The buffer of one byte is full at once, so that nothing more is read.
                readers.append(reader)
                writers.append(writer)
                writer.write(says)
        await asyncio.sleep(0)
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


def unfinished_frame(bytes_sent: int, bytes_told: int = 60_000) -> bytes:
    """Return the beginning of a frame."""
    return struct.pack(">II", bytes_told, bytes_told - 4) + b"{" * bytes_sent


def frame(code: int, ext: dict[str, str], *, oneway: bool = False) -> bytes:
    """Return a request as a Java client writes it."""
    header = {"code": code, "extFields": ext, "flag": 2 if oneway else 0, "language": "JAVA", "opaque": 1}
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text), len(text)) + text


def tiny_fields(code: int, count: int = 6_000) -> bytes:
    """Return a request whose header is many fields of a few letters."""
    return frame(code, {format(number, "x"): "" for number in range(count)})


def page_request(path: str) -> bytes:
    """Return an HTTP request."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def endless_header() -> bytes:
    """Return the beginning of an HTTP header."""
    return b"GET / HTTP/1.1\r\nX-A: " + b"a" * 4_000


def memory_max_mib(pid: int) -> int:
    """Return the most memory that a process has had, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    raise AssertionError(f"no process {pid}")


async def flood(address: HostPort, says: Sequence[bytes], count: int, hold_s: float) -> None:
    """Hold connections that say one thing after another, and end them together."""
    async with contextlib.AsyncExitStack() as held:
        for what in says:
            await held.enter_async_context(connections(address, count, what))
        await asyncio.sleep(hold_s)
