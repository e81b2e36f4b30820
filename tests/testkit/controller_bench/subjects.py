"""The controllers that are measured: three processes of one kind, their CPU and their memory."""

import contextlib
import os
import resource
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_controllers import JavaConsensus, JavaControllers

OURS: Final = "ours"
SUBJECTS: Final = (OURS, JavaConsensus.DLEDGER, JavaConsensus.JRAFT)
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RunningControllers:
    """Controllers that serve; `http_addresses` is empty for Java's."""

    addresses: Sequence[str]
    processes: Sequence[ManagedProcess]
    http_addresses: Sequence[str] = ()


@contextlib.asynccontextmanager
async def started(subject: str, version: str, directory: Path) -> AsyncIterator[RunningControllers]:
    """Run three controllers of a kind; `version` is the release of Java's."""
    if subject == OURS:
        async with ControllerCluster(directory) as cluster:
            await cluster.wait_leader()
            yield RunningControllers(cluster.remoting_addresses, cluster.processes, cluster.http_addresses)
        return
    async with JavaControllers(await jars(version), directory, JavaConsensus(subject)) as controllers:
        yield RunningControllers(controllers.addresses, controllers.processes)


def cpu_s(process: ManagedProcess) -> float:
    """Return the CPU time that a process has used, seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(processes: Sequence[ManagedProcess]) -> float:
    """Return the largest resident memory of the nodes, MiB."""
    pages = [int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) for process in processes]
    return max(pages) * resource.getpagesize() / _MIB
