"""The parts of a cluster on this machine as processes that tests start again with other options.

The tool that made the cluster keeps their process ids and logs in a folder that `RMQHA_KUBE_STATE` names.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testkit.kube.kubectl import KubeError, run

STATE: Final = "RMQHA_KUBE_STATE"
ENDED_WITHIN_S: Final = 15.0
_START: Final = 'log=$1; shift; setsid nohup "$@" >>"$log" 2>&1 </dev/null & echo $!'


def why_not(part: str) -> str:
    """Return why a part cannot be started again, empty if it can."""
    if not os.environ.get(STATE):
        return f"{STATE} does not name a cluster of this machine: the tests cannot restart {part}"
    try:
        (Path("/proc") / str(process_id(part)) / "exe").readlink()
    except OSError as error:
        return f"the tests cannot restart {part}, its process was not found: {error}"
    return ""


def process_id(part: str) -> int:
    """Return the process id of a part."""
    return int(_pid_file(part).read_text())


def parts(prefix: str) -> list[str]:
    """Return the parts whose names begin so."""
    return sorted(path.name for path in (Path(os.environ[STATE]) / "pid").glob(f"{prefix}*"))


def command(part: str) -> list[str]:
    """Return the command line of a part, with the path of its program."""
    process = Path("/proc") / str(process_id(part))
    words = (process / "cmdline").read_bytes().decode().split("\0")[:-1]
    return [str((process / "exe").readlink()), *words[1:]]


async def start_anew(part: str, words: Sequence[str]) -> None:
    """End a part and start it with another command line.

    Raises:
        KubeError: it does not end.
    """
    await _end(part, process_id(part))
    # As the cluster's own tool does: a session of its own, which outlives the tests.
    log = Path(os.environ[STATE]) / "log" / f"{part}.log"
    pid = await run(["sh", "-c", _START, "sh", str(log), *words])
    _pid_file(part).write_text(pid.decode())


def _pid_file(part: str) -> Path:
    return Path(os.environ[STATE]) / "pid" / part


async def _end(part: str, pid: int) -> None:
    """End a process once its requests finish; kill it if that takes long, because open watches delay it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        try:
            async with asyncio.timeout(ENDED_WITHIN_S):
                while not _is_over(pid):  # noqa: ASYNC110 - it is not our child process
                    await asyncio.sleep(0.1)
        except TimeoutError:
            continue
        return
    raise KubeError(f"{part}, process {pid}, does not end")


def _is_over(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
