"""Run a command and return its cost: wall time, and CPU time and peak memory of all processes of its session.

Both are looked up ten times per second, so that the last tenth of a second of each process is not counted.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_POLL_S = 0.1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_A_S = os.sysconf("SC_CLK_TCK")


class CommandCost(NamedTuple):
    """What a command cost, and what it printed on standard output and on standard error."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str
    errors: str = ""


class CommandFailedError(Exception):
    """The command ended with a status other than 0; the text holds the end of its standard error."""


def measure(command: Sequence[str], *, timeout_s: float) -> CommandCost:
    """Run a command to its end.

    Raises:
        CommandFailedError: it failed, or ran longer than `timeout_s`.
    """
    begin_s = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    peak_bytes, cpu_s = 0, dict[str, float]()
    try:
        while True:
            try:
                output, errors = process.communicate(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                peak_bytes = max(peak_bytes, _looked_at(process.pid, cpu_s))
                if time.monotonic() - begin_s > timeout_s:
                    raise CommandFailedError(f"{command}: longer than {timeout_s} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        raise CommandFailedError(f"{command}: status {process.returncode}: {errors[-1_000:]}")
    return CommandCost(time.monotonic() - begin_s, sum(cpu_s.values()), peak_bytes, output, errors)


def _looked_at(session: int, cpu_s: dict[str, float]) -> int:
    """Add up what the processes of one session hold now, and note the CPU time of each so far."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, group, session; user and system time
            # are the 12th and 13th, pages in memory the 22nd.
            after_name = (path / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) == session:
                cpu_s[path.name] = (int(after_name[11]) + int(after_name[12])) / _TICKS_A_S
                total += int(after_name[21]) * _PAGE_BYTES
        except (OSError, IndexError, ValueError):
            continue  # It ended while we looked.
    return total
