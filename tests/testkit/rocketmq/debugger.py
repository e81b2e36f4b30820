"""Hold threads of a running JVM where a test wants them: at a method that they are about to enter.

A fault between two lines of Java needs a thread that stands still there while all others go on. The JDK's own
debugger does that with unmodified classes. Never here: which method, and why.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from testkit.processes.process import ManagedProcess

DEBUGGED: Final = ("-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0",)
"""Options of a JVM that a debugger may join later."""
_LISTENS: Final = "Listening for transport dt_socket at address: "
_WITHIN_S: Final = 60.0


@contextlib.asynccontextmanager
async def threads_held_at(method: str, jvm: ManagedProcess, directory: Path) -> AsyncIterator[None]:
    """Let each thread that enters a method stand still, and all others go on; let all go on afterwards.

    Args:
        method: its class and name, as in `org.example.Shop.sell`.
        jvm: was started with `DEBUGGED`.
        directory: gets what the debugger prints.

    Raises:
        TimeoutError: the debugger does not do it in time.
    """
    port = jvm.output().rpartition(_LISTENS)[2].split(maxsplit=1)[0]
    path = directory / "jdb.log"
    with path.open("wb") as log:
        debugger = await asyncio.create_subprocess_exec(
            "jdb", "-attach", f"127.0.0.1:{port}", stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log
        )
    assert debugger.stdin is not None
    try:
        debugger.stdin.write(f"stop thread in {method}\n".encode())
        await _printed("Set breakpoint", path)
        yield
        debugger.stdin.write(f"clear {method}\nresume\nquit\n".encode())
        async with asyncio.timeout(_WITHIN_S):
            await debugger.wait()
    finally:
        if debugger.returncode is None:
            debugger.kill()
            await debugger.wait()


async def _printed(text: str, path: Path) -> None:
    async with asyncio.timeout(_WITHIN_S):
        while (  # noqa: ASYNC110 - a file sends no notification
            text.encode() not in await asyncio.to_thread(path.read_bytes)
        ):
            await asyncio.sleep(0.01)
