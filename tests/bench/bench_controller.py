"""Three real controllers on loopback under a closed loop of requests, ours and RocketMQ's own in the same run.

    ours      fsync before every acknowledgement
    DLedger   RocketMQ's default: its log is never synced
    JRaft     RocketMQ's other choice: synced

Run it: `make bench`, or `python tests/bench/bench_controller.py [--only ours] [--seconds 5] [--groups 100]`. The load
generator has a process of its own and shares the machine's processors with the nodes, so a figure is a lower bound of
what the nodes can do; `generator` says which share of one processor it took itself.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller_core.server.bench import WORKLOADS
from testkit.controllers import ControllerCluster, command_path
from testkit.jars import jars
from testkit.java_controllers import JavaControllers, Kind
from testkit.process import ManagedProcess

OURS = "ours"
SUBJECTS = (OURS, Kind.DLEDGER, Kind.JRAFT)


@dataclass(frozen=True, slots=True)
class Running:
    """Controllers that serve."""

    addresses: Sequence[str]
    processes: Sequence[ManagedProcess]


@contextlib.asynccontextmanager
async def started(subject: str, version: str, directory: Path) -> AsyncIterator[Running]:
    """Run three controllers of a kind."""
    if subject == OURS:
        async with ControllerCluster(directory) as cluster:
            await cluster.wait_leader()
            yield Running(cluster.remoting_addresses, cluster.processes)
        return
    async with JavaControllers(await jars(version), directory, Kind(subject)) as controllers:
        yield Running(controllers.addresses, controllers.processes)


async def measure(running: Running, workload: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one workload from a process of its own; return what it found, and what share of a processor it took."""
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(command_path("controller-core"), "bench", "--output", "json"),
        *("--controllers", ";".join(running.addresses), "--workload", workload),
        *("--seconds", str(options.seconds), "--groups", str(options.groups)),
        *("--in-flight", str(options.in_flight)),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"the load generator ended with {process.returncode}")
    after_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after_s.ru_utime + after_s.ru_stime - before_s.ru_utime - before_s.ru_stime
    result: dict[str, Any] = json.loads(printed)
    return result | {"generator": used_s / (time.monotonic() - started_s)}


def resident_mib(processes: Sequence[ManagedProcess]) -> int:
    """Return the largest resident memory of the nodes, MiB."""
    pages = [int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) for process in processes]
    return max(pages) * resource.getpagesize() // (1 << 20)


async def run(options: argparse.Namespace) -> None:
    """Measure every subject and print one table."""
    rows = []
    for subject in options.only or SUBJECTS:
        with tempfile.TemporaryDirectory() as directory:
            async with started(subject, options.rocketmq, Path(directory)) as running:
                for workload in options.workload or WORKLOADS:
                    result = await measure(running, workload, options)
                    sys.stderr.write(f"{subject} {workload}: {result['requests_per_s']:,.0f} a second\n")
                    rows.append((subject, workload, result))
                sys.stderr.write(f"{subject}: {resident_mib(running.processes)} MiB resident at most\n")
    sys.stdout.write(
        "| controllers | request | a second | p50 | p99 | errors | generator |\n|---|---|---|---|---|---|---|\n"
    )
    for subject, workload, result in rows:
        sys.stdout.write(
            f"| {subject} | {workload} | {result['requests_per_s']:,.0f} | {result['p50_ms']:.1f} ms | "
            f"{result['p99_ms']:.1f} ms | {result['errors']} | {result['generator']:.0%} |\n"
        )


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", choices=SUBJECTS, help="which controllers; may be given again"
    )
    parser.add_argument(
        "--workload", action="append", choices=WORKLOADS, help="which requests; may be given again"
    )
    parser.add_argument(
        "--rocketmq", default="5.5.0", metavar="VERSION", help="release of Java's controllers"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for each workload")
    parser.add_argument("--groups", type=int, default=100, help="broker groups that the requests are about")
    parser.add_argument("--in-flight", type=int, default=100, help="requests under way at a time")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
