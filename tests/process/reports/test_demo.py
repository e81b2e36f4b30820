"""The demo as a person runs it: its verdict, its report, and that it leaves nothing behind."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest

from testkit.processes.process import ManagedProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

_DEMO_TIMEOUT_S = 480.0
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 120.0
_GONE_TIMEOUT_S = 20.0


def _demo(directory: Path) -> ManagedProcess:
    command = [sys.executable, "-m", "testkit.demo", "--out", str(directory / "out")]
    return ManagedProcess("demo", command, directory / "demo.log")


def _processes_below(directory: Path) -> list[str]:
    """Return the command lines of running processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found.append(command)
    return found


async def _nothing_is_left(directory: Path) -> None:
    """Wait until no process names the folder: a JVM ends a moment after the one that it served."""
    async with asyncio.timeout(_GONE_TIMEOUT_S):
        while _processes_below(directory):  # noqa: ASYNC110 - they are not our children
            await asyncio.sleep(0.1)


async def test_the_demo_loses_nothing_and_reports_both_changes_of_master(tmp_path: Path) -> None:
    async with _demo(tmp_path) as demo:
        status = await demo.wait(_DEMO_TIMEOUT_S)
    printed = demo.output()
    verdict = re.search(r"^acknowledged (\d+), lost (\d+)$", printed, re.MULTILINE)
    assert verdict is not None, printed
    acknowledged, lost = int(verdict[1]), int(verdict[2])
    assert acknowledged > 1_000
    assert (status, lost) == (0, 0), printed
    for phase in (
        "elected (committed)",
        "role taken",
        "route seen",
        "first acknowledged send",
        "redundancy back",
    ):
        assert len(re.findall(rf"^  {re.escape(phase)} +\d+\.\d ms$", printed, re.MULTILINE)) == 2, phase
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "1 failover and 1 switchover" in re.sub(r"<[^>]+>|\s+", " ", page)
    await _nothing_is_left(tmp_path)


async def test_an_interrupted_demo_ends_all_it_started(tmp_path: Path) -> None:
    async with _demo(tmp_path) as demo:
        await demo.wait_for_text("and a log replica ...", _START_TIMEOUT_S)
        demo.signal(signal.SIGINT)
        status = await demo.wait(_STOP_TIMEOUT_S)
    assert status == 130, demo.output()
    await _nothing_is_left(tmp_path)
