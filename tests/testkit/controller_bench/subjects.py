"""The controllers that are measured: three processes of one kind, their CPU and their memory."""

import contextlib
import os
import resource
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.processes.certificates import Authority, controllers_in_tls
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_controllers import JavaConsensus, JavaControllers

OURS: Final = "ours"
OURS_IN_TLS: Final = "ours-in-tls"
"""Ours on ports that speak TLS only; only requests are measured there."""
SUBJECTS: Final = (OURS, JavaConsensus.DLEDGER, JavaConsensus.JRAFT)
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RunningControllers:
    """Controllers that serve; `http_addresses` is empty for Java's, `trust` without TLS."""

    addresses: Sequence[str]
    processes: Sequence[ManagedProcess]
    http_addresses: Sequence[str] = ()
    trust: Path | None = None


@contextlib.asynccontextmanager
async def started(subject: str, version: str, directory: Path) -> AsyncIterator[RunningControllers]:
    """Run three controllers of a kind; `version` is the release of Java's."""
    if subject in {OURS, OURS_IN_TLS}:
        authority = Authority(directory) if subject == OURS_IN_TLS else None
        settings = {} if authority is None else controllers_in_tls(authority)
        async with ControllerCluster(directory, settings=settings) as cluster:
            await cluster.wait_leader()
            trust = None if authority is None else authority.trust
            yield RunningControllers(
                cluster.remoting_addresses, cluster.processes, cluster.http_addresses, trust
            )
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
