"""Trouble of a JVM that is not a death: full collections of its heap, and too little CPU."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from testkit.processes.process import ProcessFailedError

PERIOD_S: Final = 0.1
"""Of a CPU limit of Linux: within each the process stands still when its share is used up."""


@contextlib.asynccontextmanager
async def forced_collections(
    java_pid: Callable[[], int], every_s: float, took_ms: list[float]
) -> AsyncIterator[None]:
    """Have a JVM collect its whole heap again and again; add to a list how long each took, in milliseconds.

    Raises:
        ProcessFailedError: jcmd is missing or failed.
    """
    async with _beside(_collect(java_pid, every_s, took_ms)):
        yield


@contextlib.asynccontextmanager
async def starved(java_pid: Callable[[], int], share: float) -> AsyncIterator[None]:
    """Let a process run for that share of each `PERIOD_S` only, as a CPU limit does."""
    async with _beside(_starve(java_pid, share)):
        yield
    with contextlib.suppress(ProcessLookupError):
        os.kill(java_pid(), signal.SIGCONT)


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _collect(java_pid: Callable[[], int], every_s: float, took_ms: list[float]) -> None:
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        raise ProcessFailedError("jcmd is not installed: it comes with a JDK")
    while True:
        begun_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(jcmd, str(java_pid()), "GC.run"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise ProcessFailedError(f"jcmd GC.run: {printed.decode(errors='replace')}")
        took_ms.append((time.monotonic() - begun_s) * 1_000)
        await asyncio.sleep(every_s)


async def _starve(java_pid: Callable[[], int], share: float) -> None:
    pid = java_pid()
    while True:
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(PERIOD_S * (1 - share))
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(PERIOD_S * share)
