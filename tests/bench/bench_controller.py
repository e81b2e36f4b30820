"""Three real controllers on loopback, ours and RocketMQ's own in the same run, never two kinds at a time.

    ours      fsync before every acknowledgement
    DLedger   RocketMQ's default, which never waits for the disk; none of its settings does
    jRaft     RocketMQ's other choice; its default is its durable setting: synced before every acknowledgement

Run it: `make bench-controller`, or
`python tests/bench/bench_controller.py [--only ours] [--what requests]`. For each kind:

- *requests*: a closed loop from a process of its own (`controller-core bench`), counted after a warm-up that
  JVMs need. `generator` is the share of one processor that it used itself: far below 100 %, the figure is the
  controllers'. `processor a request` is what all three nodes used together; unlike the rest it hardly changes
  when the machine has other work.
- *re-election*: groups of two members whose masters' connections close at once; until all have their new
  master in the state, asked about a few groups at a time, every 20 ms at most.
- *restart*: all three are killed with that many groups in their logs, and started together; until one answers
  which broker is master of a group. Memory is that of the largest node then.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller_core.channel import ChannelError
from controller_core.server.cli.load_generator import WORKLOADS
from testkit.fakes.fleet import Fleet, FleetError, wait_for_read
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import ControllerCluster, command_path
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_controllers import JavaConsensus, JavaControllers

OURS = "ours"
SUBJECTS = (OURS, JavaConsensus.DLEDGER, JavaConsensus.JRAFT)
PARTS = ("requests", "re-election", "restart")
_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class RunningControllers:
    """Controllers that serve."""

    addresses: Sequence[str]
    processes: Sequence[ManagedProcess]


@contextlib.asynccontextmanager
async def started(subject: str, version: str, directory: Path) -> AsyncIterator[RunningControllers]:
    """Run three controllers of a kind."""
    if subject == OURS:
        async with ControllerCluster(directory) as cluster:
            await cluster.wait_leader()
            yield RunningControllers(cluster.remoting_addresses, cluster.processes)
        return
    async with JavaControllers(await jars(version), directory, JavaConsensus(subject)) as controllers:
        yield RunningControllers(controllers.addresses, controllers.processes)


async def measure(running: RunningControllers, workload: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one workload from a process of its own; return what it found, and what the nodes used for it."""
    before_s = processor_s(running.processes)
    process = await asyncio.create_subprocess_exec(
        *(command_path("controller-core"), "bench", "--output", "json"),
        *("--controllers", ";".join(running.addresses), "--workload", workload),
        *("--duration", f"{options.seconds}s", "--groups", str(options.groups)),
        *("--in-flight", str(options.in_flight), "--warm-up", f"{options.warm_up}s"),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"the load generator ended with {process.returncode}")
    result: dict[str, Any] = json.loads(printed)
    used_s = processor_s(running.processes) - before_s
    return result | {"node_us": used_s * 1e6 / max(1, result["requests"] + result["warm_up_requests"])}


async def measure_re_election(running: RunningControllers, groups: int) -> list[str]:
    """Measure how long it takes until all groups that lost their masters at once have new ones."""
    async with Fleet(running.addresses, "losing", groups) as fleet:
        await fleet.prepare(slaves=True)
        await asyncio.sleep(1.0)  # What the preparation left to do is not measured.
        started_s = time.monotonic()
        fleet.lose_masters()
        await fleet.wait_re_elected(_WAIT_S)
        return [f"{time.monotonic() - started_s:.2f} s"]


async def measure_restart(running: RunningControllers, groups: int) -> list[str]:
    """Measure how long a restart of all takes until a read is answered, and the memory then."""
    async with Fleet(running.addresses, "restart", groups) as fleet:
        await fleet.prepare(slaves=False)
    await asyncio.gather(*(process.kill() for process in running.processes))
    started_s = time.monotonic()
    for process in running.processes:
        await process.start()
    await wait_for_read(running.addresses, fleet.names[-1], _WAIT_S)
    return [f"{time.monotonic() - started_s:.2f} s", f"{resident_mib(running.processes)} MiB"]


async def cells_of(wanted: bool, work: Coroutine[Any, Any, list[str]], count: int) -> list[str]:
    """Return what a part measured; one that failed leaves the figures of the others alone."""
    if not wanted:
        work.close()
        return ["-"] * count
    try:
        return await work
    except (FleetError, ChannelError, TimeoutError) as error:
        sys.stderr.write(f"not measured: {error}\n")
        return ["failed"] * count


def processor_s(processes: Sequence[ManagedProcess]) -> float:
    """Return the CPU time that these processes have used, seconds."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mib(processes: Sequence[ManagedProcess]) -> int:
    """Return the largest resident memory of the nodes, MiB."""
    pages = [int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) for process in processes]
    return max(pages) * resource.getpagesize() // (1 << 20)


async def measure_subject(subject: str, options: argparse.Namespace) -> tuple[list[str], str]:
    """Run all parts with controllers of one kind; return its rows of both tables."""
    parts = options.what or PARTS
    rows, cells = [], [subject]
    with tempfile.TemporaryDirectory() as directory:
        async with started(subject, options.rocketmq, Path(directory)) as running:
            for workload in (options.workload or WORKLOADS) if "requests" in parts else ():
                rows.append(request_row(subject, workload, await measure(running, workload, options)))
                sys.stderr.write(rows[-1])
            cells.append(f"{resident_mib(running.processes)} MiB")
            cells += await cells_of(
                "re-election" in parts, measure_re_election(running, options.elections), 1
            )
            cells += await cells_of("restart" in parts, measure_restart(running, options.restart_groups), 2)
    row = f"| {' | '.join(cells)} |\n"
    sys.stderr.write(row)
    return rows, row


def request_row(subject: str, workload: str, result: dict[str, Any]) -> str:
    """Return one line of the table of requests."""
    return (
        f"| {subject} | {workload} | {result['requests_per_s']:,.0f} | {result['p50_ms']:.1f} ms | "
        f"{result['p99_ms']:.1f} ms | {result['errors']} | {result['node_us']:,.0f} µs | "
        f"{result['client_share']:.0%} |\n"
    )


async def run(options: argparse.Namespace) -> None:
    """Measure every subject, one after the other, and print two tables."""
    load = os.getloadavg()[0]
    measured = [await measure_subject(subject, options) for subject in options.only or SUBJECTS]
    sys.stdout.write(f"{os.cpu_count()} processors, load average {load:.1f} at the start\n\n")
    sys.stdout.write(
        "| controllers | request | a second | p50 | p99 | errors | processor a request | generator |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    sys.stdout.write("".join(row for rows, _ in measured for row in rows))
    sys.stdout.write(
        f"\n| controllers | memory | {options.elections:,} re-elections | restart with "
        f"{options.restart_groups:,} groups | memory then |\n|---|---|---|---|---|\n"
    )
    sys.stdout.write("".join(row for _, row in measured))


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    again = "; may be given again"
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="which controllers" + again)
    parser.add_argument("--what", action="append", choices=PARTS, help="which parts" + again)
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="which requests" + again)
    parser.add_argument(
        "--rocketmq", default="5.5.0", metavar="VERSION", help="release of Java's controllers"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for each workload")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds of the same load before them")
    parser.add_argument("--groups", type=int, default=100, help="broker groups that the requests are about")
    parser.add_argument("--in-flight", type=int, default=100, help="requests under way at a time")
    parser.add_argument("--elections", type=int, default=1_000, help="groups that lose their masters")
    parser.add_argument("--restart-groups", type=int, default=10_000, help="groups in the log of a restart")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as compiled:
        # As installed: a restart finds its modules compiled, whatever `make` says of byte code.
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
        asyncio.run(run(options))


if __name__ == "__main__":
    main()
