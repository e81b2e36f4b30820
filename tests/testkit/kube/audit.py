"""The API server's audit log of a namespace's accounts, where the API server runs on this machine.

The run restarts it with its own command line and two more options, and at the end once more without them.
Open connections end, as when an API server is upgraded: everything that runs on the cluster has to bear that.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from testkit.kube.kubectl import Cluster, KubeError, run, until

_STATE: Final = "RMQHA_KUBE_STATE"
_NAME: Final = "kube-apiserver"
ENDED_WITHIN_S: Final = 15.0
ANSWERS_WITHIN_S: Final = 90.0


def why_not() -> str:
    """Return why this cluster's API server cannot be made to keep a log; empty if it can."""
    if not os.environ.get(_STATE):
        return f"{_STATE} does not name a cluster of this machine: the tests cannot restart its API server"
    try:
        process = Path("/proc") / (Path(os.environ[_STATE]) / "pid" / _NAME).read_text().strip()
        (process / "exe").readlink()
    except OSError as error:
        return f"the tests cannot restart the API server, its process was not found: {error}"
    return ""


def policy(namespace: str) -> dict[str, Any]:
    """Return the policy that logs only requests of a namespace's accounts: account and request, no bodies."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "Panic"],
        "rules": [
            {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{namespace}"]},
            {"level": "None"},
        ],
    }


@asynccontextmanager
async def audited(cluster: Cluster, folder: Path) -> AsyncIterator[Path]:
    """Keep an audit log of the accounts of the cluster's namespace inside the context; yield its path.

    Raises:
        KubeError: the API server does not answer after its restart.
    """
    log, rules = folder / "audit.jsonl", folder / "audit-policy.yaml"
    rules.write_text(yaml.safe_dump(policy(cluster.namespace)))
    plain = _command()
    options = [f"--audit-policy-file={rules}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
    try:
        await _start_anew(cluster, [*plain, *options])
        yield log
    finally:
        await _start_anew(cluster, plain)


def events(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the log's events; a last line that is still being written is left out."""
    with log.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def _pid_file() -> Path:
    return Path(os.environ[_STATE]) / "pid" / _NAME


def _command() -> list[str]:
    process = Path("/proc") / _pid_file().read_text().strip()
    words = (process / "cmdline").read_bytes().decode().split("\0")[:-1]
    return [str((process / "exe").readlink()), *words[1:]]


async def _start_anew(cluster: Cluster, command: list[str]) -> None:
    await _end(int(_pid_file().read_text()))
    # As the cluster's own tool does: a session of its own, which outlives the tests.
    log = Path(os.environ[_STATE]) / "log" / f"{_NAME}.log"
    script = 'log=$1; shift; setsid nohup "$@" >>"$log" 2>&1 </dev/null & echo $!'
    pid = await run(["sh", "-c", script, "sh", str(log), *command])
    _pid_file().write_text(pid.decode())

    async def answers() -> bool:
        return await cluster.kubectl("get", "--raw=/readyz") == "ok"

    await until("the API server answers again", answers, ANSWERS_WITHIN_S)


async def _end(pid: int) -> None:
    """End the process once its requests finish; kill it if that takes long, because open watches delay it."""
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
    raise KubeError(f"the API server, process {pid}, does not end")


def _is_over(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
