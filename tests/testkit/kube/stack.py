"""Faults of nodes, the API server and DNS on a cluster of namespaces on this machine.

The tool that made the cluster makes the faults.
"""

import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from testkit.kube.kubectl import Cluster, KubeError, run, until
from testkit.nodes.stack_processes import process_id

VARIABLE: Final = "RMQHA_KUBE_STACK"
"""Names the tool; `make e2e` sets it when it is there."""
DNS_CHANGED_S_MAX: Final = 60.0
_DNS: Final = "k8s-app=kube-dns"
_UNDOING: Final = {"cut": "heal", "freeze": "thaw"}


def tool() -> str:
    """Return the tool's path, empty where nodes cannot be harmed."""
    return os.environ.get(VARIABLE, "")


@asynccontextmanager
async def harmed(fault: str, node: str) -> AsyncIterator[None]:
    """Cut a node off (`cut`) or stop all its processes (`freeze`) for as long as the context lasts.

    Raises:
        KubeError: the tool is missing or failed.
    """
    if not tool():
        raise KubeError(f"{VARIABLE} names no tool that can {fault} a node")
    number = node.removeprefix("node")
    await run([tool(), fault, number])
    try:
        yield
    finally:
        await run([tool(), _UNDOING[fault], number])


@asynccontextmanager
async def api_server_stopped() -> AsyncIterator[None]:
    """Stop the API server's process inside the context: no client gets an answer or an event."""
    async with _stopped("kube-apiserver"):
        yield


@asynccontextmanager
async def without_provisioner() -> AsyncIterator[None]:
    """Stop what makes the cluster's volumes for as long as the context lasts.

    It is a script of the tool's that runs kubectl twice per second, for half of the CPU time that two cores
    have left in the second of a failover. A cluster that people use does not run such a script, and where the
    cluster is not the tool's nothing is stopped.
    """
    async with _stopped("provisioner") if tool() else contextlib.nullcontext():
        yield


@asynccontextmanager
async def _stopped(part: str) -> AsyncIterator[None]:
    pid = process_id(part)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def dns_stopped(cluster: Cluster) -> AsyncIterator[None]:
    """Take the cluster's DNS servers away for as long as the context lasts."""
    system = Cluster(cluster.kubeconfig, "kube-system")

    async def servers(count: int) -> None:
        async def holds() -> bool:
            return len(await system.find("pods", _DNS)) == count

        await system.kubectl("scale", "deployment", "coredns", f"--replicas={count}")
        await until(f"{count} DNS servers", holds, DNS_CHANGED_S_MAX)

    before = len(await system.find("pods", _DNS))
    await servers(0)
    try:
        yield
    finally:
        await servers(before)


def java_of(pod: str) -> int:
    """Return the process id, on this machine, of the broker that runs in a pod.

    Raises:
        KubeError: none or more than one exists.
    """
    found = [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and _is_broker_of(process, pod)
    ]
    if len(found) != 1:
        raise KubeError(f"{pod} has {len(found)} brokers")
    return found[0]


def kill_java_of(pod: str) -> int:
    """Kill a pod's broker with SIGKILL, from this machine; return the time of the kill, UTC nanoseconds.

    Why not by `kubectl exec`: it needs the API server, and starts a process in the pod in
    the very moment of the fault.

    Raises:
        KubeError: none or more than one exists.
    """
    java = java_of(pod)
    now_ns = time.time_ns()
    os.kill(java, signal.SIGKILL)
    return now_ns


def _is_broker_of(process: Path, pod: str) -> bool:
    try:
        if (process / "comm").read_text().strip() != "java":
            return False
        command = (process / "cmdline").read_bytes().split(b"\0")
        environment = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it ended while we looked
    is_broker = any(word.endswith(b"BrokerStartup") for word in command)
    return is_broker and f"HOSTNAME={pod}".encode() in environment
