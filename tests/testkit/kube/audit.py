"""The API server's audit log of a namespace's accounts, where the API server runs on this machine.

The run restarts it with its own command line and two more options, and at the end once more without them.
Open connections end, as when an API server is upgraded: everything that runs on the cluster has to bear that.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from testkit.kube.kubectl import Cluster, until
from testkit.nodes import stack_processes
from testkit.nodes.stack_processes import start_anew

_NAME: Final = "kube-apiserver"
ANSWERS_WITHIN_S: Final = 90.0


def why_not() -> str:
    """Return why this cluster's API server cannot be made to keep a log; empty if it can."""
    return stack_processes.why_not(_NAME)


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
    plain = stack_processes.command(_NAME)
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


async def _start_anew(cluster: Cluster, words: list[str]) -> None:
    await start_anew(_NAME, words)

    async def answers() -> bool:
        return await cluster.text("/readyz") == "ok"

    await until("the API server answers again", answers, ANSWERS_WITHIN_S)
