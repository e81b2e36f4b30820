"""Faults of whole nodes, where the cluster is one of namespaces on this machine and its tool can do them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from testkit.kube.kubectl import KubeError, run

VARIABLE: Final = "RMQHA_KUBE_STACK"
"""Names the tool; `make e2e` sets it when it is there."""
_UNDOING: Final = {"cut": "heal", "freeze": "thaw"}


def tool() -> str:
    """Return the tool's path, empty where nodes cannot be harmed."""
    return os.environ.get(VARIABLE, "")


@asynccontextmanager
async def harmed(fault: str, node: str) -> AsyncIterator[None]:
    """Cut a node off (`cut`) or stop all its processes (`freeze`) for as long as the context lasts.

    Raises:
        KubeError: there is no tool, or it failed.
    """
    if not tool():
        raise KubeError(f"{VARIABLE} names no tool that can {fault} a node")
    number = node.removeprefix("node")
    await run([tool(), fault, number])
    try:
        yield
    finally:
        await run([tool(), _UNDOING[fault], number])
