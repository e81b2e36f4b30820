"""Run a command and return its cost: wall time, and peak memory of it and its children together."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_POLL_S = 0.1
_KIB = 1_024


class CommandCost(NamedTuple):
    """What a command cost; `output` is what it printed on standard output."""

    wall_s: float
    peak_bytes: int
    output: str


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
    peak_bytes = 0
    try:
        while True:
            try:
                output, errors = process.communicate(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                peak_bytes = max(peak_bytes, _resident_bytes(process.pid))
                if time.monotonic() - begin_s > timeout_s:
                    raise CommandFailedError(f"{command}: longer than {timeout_s} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        raise CommandFailedError(f"{command}: status {process.returncode}: {errors[-1_000:]}")
    return CommandCost(time.monotonic() - begin_s, peak_bytes, output)


def _resident_bytes(session: int) -> int:
    """Add up what the processes of one session hold now."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, group, session.
            after_name = (path / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) == session:
                lines = (path / "status").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * _KIB
        except (OSError, StopIteration, IndexError, ValueError):
            continue  # It ended while we looked.
    return total
