"""A program that is called ends with its call."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from testkit.kube.kubectl import KubeError, run

WITHIN_S = 20.0


async def _started_pid(file: Path) -> int:
    async with asyncio.timeout(WITHIN_S):
        while not (file.exists() and file.read_text().strip()):  # noqa: ASYNC110, ASYNC240 - of a process
            await asyncio.sleep(0.01)
    return int(file.read_text())  # noqa: ASYNC240 - a line


def _sleeper(file: Path) -> list[str]:
    return ["sh", "-c", f"echo $$ > {file}; exec sleep 600"]


async def test_a_program_ends_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    calling = asyncio.create_task(run(_sleeper(tmp_path / "pid")))
    pid = await _started_pid(tmp_path / "pid")
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with pytest.raises(KubeError, match=r"not done in 0\.5 s"):
        await run(_sleeper(tmp_path / "pid"), timeout_s=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(await _started_pid(tmp_path / "pid"), 0)
