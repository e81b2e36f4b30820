"""A cluster that was left running (`make demo KEEP=1`).

Its processes are written down; a later call ends them.

A pid may be another process's by then, so one is only signalled while its command line
still names the demo's folder.
"""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

_FILE = "kept.json"
_STOP_TIMEOUT_S = 20.0
_POLL_S = 0.05


def write_down(directory: Path, pids: list[int]) -> None:
    """Remember the processes that run on below `directory`."""
    (directory / _FILE).write_text(json.dumps(pids))


def end_kept(directory: Path) -> int:
    """End what an earlier run left below `directory`; return how many processes were ended."""
    file = directory / _FILE
    if not file.exists():
        return 0
    pids = [pid for pid in json.loads(file.read_text()) if _is_ours(pid, directory)]
    for pid in pids:
        _signal(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + _STOP_TIMEOUT_S
    while any(_is_ours(pid, directory) for pid in pids) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    for pid in pids:
        if _is_ours(pid, directory):
            _signal(pid, signal.SIGKILL)
    file.unlink()
    return len(pids)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may end at any moment
        os.kill(pid, number)


def _is_ours(pid: int, directory: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return str(directory).encode() in command
