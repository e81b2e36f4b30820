"""What losing a master costs an unmodified Java client on its defaults, on a real Kubernetes, fault by fault.

Run it: `make bench-failover` (RUNS=10, FAULTS="kill delete freeze cut again roll"). It installs as
README says where the namespace is empty, uses the group that is there otherwise, and prints one line a
fault and three tables at the end: what a producer notices, when each phase ended, and what push consumers
notice, of whom one receives transactions that are committed all the time. Freezing and cutting
need a cluster whose nodes can be harmed (RMQHA_KUBE_STACK). PLAIN_RUNS=3 measures plain RocketMQ with
its own controller beside, afterwards on the same cluster, with the same clients, load and CPU.

TRANSACTIONS=0 leaves the transactions out. After some, a thread of a 5.5.0 master uses a whole core without a
pause (TransactionalOpBatchService, apache/rocketmq 10966), which on two cores makes each failover slower.

CLIENT="inside outside grpc" measures clients outside any pod beside the one in a pod, in the same runs. They
run in a network namespace of this machine that is not a node, and use a listener of node ports, "grpc"
through its proxy. The listener's address and the proxy are at a node that is not harmed. It needs a cluster
whose nodes are on this machine.

AGENTS=1 runs node agents, for every fault. Before a node is harmed its broker has run for long enough to be
judged by its agent.

WARM_UP=60 lets the clients run for a minute before each fault. Without it they have run for four seconds:
their JVMs are still starting, on small machines they take the CPU of brokers and agents, and the pauses that
these had of late make controllers wait for longer.

PLACEMENTS="controllers dns" freezes and cuts the master's node with each of these parts on it, beside
the nodes as they are. OUT names the folder of the file that gets a line of JSON for each run, and of the
logs of the clients in pods.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from controller_core.command_line.version import commit
from testkit.kube import plain
from testkit.kube.client_tls import IN_TLS, move_clients
from testkit.kube.failover.agents import node_agents, until_judged
from testkit.kube.failover.faulting import (
    AGAIN,
    CLIENTS,
    CUT,
    FAULTS,
    FREEZE,
    GRPC,
    INSIDE,
    LOAD,
    OUTSIDE,
    ROLL,
    THREADS,
    FaultCost,
    measured_by_clients,
    measured_plain,
)
from testkit.kube.failover.placement import LOG_REPLICA_LABELS, PLACEMENTS
from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, KubeError
from testkit.kube.outside.listening import OutsideClients, outside_clients
from testkit.kube.release import NAMESPACE, ROCKETMQ_IMAGE, install, remove
from testkit.kube.stack import tool
from testkit.rocketmq.load import LoadSettings

PROBLEMS_SHOWN_MAX = 5
OUT = Path("out/bench_failover.jsonl")
_PHASES = ("held", "suspected", "elected", "endpoint", "role taken", "two copies", "released", "first ack")
_PHASE_COLUMNS = (
    *(("held",), ("suspected", "elected"), ("endpoint",)),
    *(("role taken", "two copies"), ("released",), ("first ack",)),
)


Measure = Callable[[int], Awaitable[tuple[FaultCost, ...]]]
"""One run of one fault, by the number of the run; the cost to each client."""


class Records:
    """The file with a line for each run; it grows, so that an interrupted benchmark keeps its runs."""

    def __init__(self, path: Path, arguments: argparse.Namespace) -> None:
        """Take the file, whose folder is made, and the options; each line repeats them and the commit."""
        self._path = path
        self._options = {"commit": commit()} | {
            name: getattr(arguments, name) for name in ("threads", "tls", "transactions", "agents", "warm_up")
        }
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, cost: FaultCost) -> None:
        """Append a run, with the time and the load average of its end."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_average": round(os.getloadavg()[0], 1),
            **self._options,
            "proxy_mode": os.environ.get("PROXY_MODE", ""),
            **asdict(cost),
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


async def ours(
    kubeconfig: Path, arguments: argparse.Namespace, faults: Sequence[str], records: Records
) -> tuple[list[FaultCost], int]:
    """Measure every fault so many times; return the costs, and how many runs failed."""
    cluster = Cluster(kubeconfig, NAMESPACE)
    installed = NAMESPACE not in {one["metadata"]["name"] for one in await cluster.find("namespaces")}
    group = (await install(cluster)).group if installed else KubeGroup(cluster, "orders")

    def one(fault: str, placement: str, outside: OutsideClients | None) -> Measure:
        image, name_server = arguments.client_image, "main-nameserver:9876"

        async def measure(number: int) -> tuple[FaultCost, ...]:
            if arguments.agents and fault in {FREEZE, CUT}:
                await until_judged(group, arguments.warm_up)
            return await measured_by_clients(
                *(group, image, name_server, fault, number),
                placement=placement,
                settings=load_settings(arguments),
                clients=arguments.clients,
                outside=outside,
                transactions=arguments.transactions,
                warm_up_s=arguments.warm_up,
                logs=arguments.out.parent / "client_logs",
            )

        return measure

    try:
        if arguments.tls:
            await move_clients(cluster, group, "Enforcing", "enforcing")
        async with contextlib.AsyncExitStack() as stack:
            if arguments.agents:
                await stack.enter_async_context(node_agents(cluster, f"main/{group.name}"))
            outside = None
            if {OUTSIDE, GRPC} & set(arguments.clients):
                scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                beside = LOG_REPLICA_LABELS if GRPC in arguments.clients else None
                outside = await stack.enter_async_context(outside_clients(cluster, scratch, beside))
            cases = {fault: one(fault, "", outside) for fault in faults}
            for placement in arguments.placements:
                cases |= {
                    f"{fault} with {placement}": one(fault, placement, outside)
                    for fault in faults
                    if fault in {FREEZE, CUT}
                }
            return await _all(cases, arguments.runs, records)
    finally:
        if installed and not arguments.keep:
            await remove(cluster)


def load_settings(arguments: argparse.Namespace) -> LoadSettings:
    """Return how our producers run."""
    return replace(LOAD, threads=arguments.threads, jvm=(IN_TLS,) if arguments.tls else ())


async def beside(
    kubeconfig: Path, arguments: argparse.Namespace, faults: Sequence[str], records: Records
) -> tuple[list[FaultCost], int]:
    """Measure the same of plain RocketMQ."""
    group = plain.PlainGroup(Cluster(kubeconfig, plain.NAMESPACE))
    try:
        await group.install()
        # There a second kill costs what the first did, because no operator lends addresses or
        # replaces brokers one by one.
        cases = {
            fault: _plain(group, fault, arguments.warm_up) for fault in faults if fault not in {AGAIN, ROLL}
        }
        return await _all(cases, arguments.plain_runs, records)
    finally:
        await group.remove()


def _plain(group: plain.PlainGroup, fault: str, warm_up_s: float) -> Measure:
    async def one(number: int) -> tuple[FaultCost, ...]:
        return (await measured_plain(group, ROCKETMQ_IMAGE, fault, number, warm_up_s),)

    return one


async def _all(cases: dict[str, Measure], runs: int, records: Records) -> tuple[list[FaultCost], int]:
    costs: list[FaultCost] = []
    problems = 0
    for number in range(runs):
        for name, measure in cases.items():
            try:
                found = await measure(number)
            except KubeError as error:
                problems += 1
                _say(f"{name} {number}: {str(error)[-500:]}")
                continue
            costs += found
            for cost in found:
                records.add(cost)
                _say(_line(cost))
                for problem in cost.problems[:PROBLEMS_SHOWN_MAX]:
                    _say(f"  failed: {problem}")
    return costs, problems


async def run(kubeconfig: Path, arguments: argparse.Namespace, faults: Sequence[str]) -> int:
    """Measure and print; return 1 if ours lost an acknowledged message or a run failed."""
    records = Records(arguments.out, arguments)
    costs: list[FaultCost] = []
    problems = 0
    if arguments.runs:
        costs, problems = await ours(kubeconfig, arguments, faults, records)
    lost = any(cost.lost for cost in costs)
    if arguments.plain_runs:
        others, more = await beside(kubeconfig, arguments, faults, records)
        costs, problems = costs + others, problems + more
    for line in (*table(costs), "", *phases_table(costs), "", *consumers_table(costs)):
        _say(line)
    return 1 if problems or lost else 0


def _line(cost: FaultCost) -> str:
    phases = ", ".join(f"{name} {cost.phases_ms[name]:.0f}" for name in _PHASES if name in cost.phases_ms)
    seen = cost.consumers
    noticed = (
        f"; consumers: stall {seen.stall_ms:.0f} and {seen.ordered_stall_ms:.0f} ms, "
        f"{seen.duplicates} twice, {seen.disordered} out of order, "
        f"latest {seen.latest_ms:.0f} ms, {seen.unreceived} not received, "
        f"transactions {seen.transaction_ms:.0f} ms, {seen.open_transactions} open"
        if seen
        else ""
    )
    with_it = f"; lost with {', '.join(cost.lost_with)}" if cost.lost_with else ""
    return (
        f"{_name(cost)}: gap {cost.gap_ms:.0f} ms, failed {cost.failed}, "
        f"acknowledged {cost.acknowledged}, lost {cost.lost}; ms after the fault: {phases}{noticed}{with_it}"
    )


def table(costs: list[FaultCost]) -> list[str]:
    """Return the table of what a producer noticed: medians, worst gaps, and sums."""
    lines = _head(("fault", "runs", "gap, median", "gap, worst", "failed sends", "acknowledged, lost"))
    for fault, chosen in _by_fault(costs):
        gaps = [cost.gap_ms for cost in chosen]
        lines.append(
            f"| {fault} | {len(chosen)} | {statistics.median(gaps):.0f} ms | {max(gaps):.0f} ms | "
            f"{sum(cost.failed for cost in chosen)} | {sum(cost.acknowledged for cost in chosen)}, "
            f"{sum(cost.lost for cost in chosen)} |"
        )
    return lines


def phases_table(costs: list[FaultCost]) -> list[str]:
    """Return the table of the phases: medians, in milliseconds after the fault."""
    lines = _head(("fault", *(", ".join(names) for names in _PHASE_COLUMNS)))
    for fault, chosen in _by_fault(costs):
        cells = [", ".join(_median(chosen, name) for name in names) for names in _PHASE_COLUMNS]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    return lines


def _median(costs: list[FaultCost], phase: str) -> str:
    seen = [cost.phases_ms[phase] for cost in costs if phase in cost.phases_ms]
    return f"{statistics.median(seen):.0f}" if seen else "-"


def consumers_table(costs: list[FaultCost]) -> list[str]:
    """Return the table of what consumers noticed: medians, worst times, and sums."""
    lines = _head(
        (
            *("fault", "runs", "stall, median", "stall, worst", "ordered: stall, worst"),
            *("twice, out of order", "latest message, worst", "not received"),
            *("transaction, worst", "open transactions"),
        )
    )
    for fault, chosen in _by_fault(costs):
        seen = [cost.consumers for cost in chosen if cost.consumers is not None]
        if seen:
            stalls = [one.stall_ms for one in seen]
            lines.append(
                f"| {fault} | {len(seen)} | {statistics.median(stalls):.0f} ms | {max(stalls):.0f} ms | "
                f"{max(one.ordered_stall_ms for one in seen):.0f} ms | "
                f"{sum(one.duplicates for one in seen)}, {sum(one.disordered for one in seen)} | "
                f"{max(one.latest_ms for one in seen):.0f} ms | {sum(one.unreceived for one in seen)} | "
                f"{max(one.transaction_ms for one in seen):.0f} ms | "
                f"{sum(one.open_transactions for one in seen)} |"
            )
    return lines


def _head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def _by_fault(costs: list[FaultCost]) -> list[tuple[str, list[FaultCost]]]:
    """Return the costs of each fault, placement and client."""
    found: dict[str, list[FaultCost]] = {}
    for cost in costs:
        found.setdefault(_name(cost), []).append(cost)
    return list(found.items())


def _name(cost: FaultCost) -> str:
    name = f"{cost.fault} with {cost.placement}" if cost.placement else cost.fault
    return name if cost.client == INSIDE else f"{name}, {cost.client}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--kubeconfig",
        type=Path,
        default=os.environ.get("RMQHA_KUBECONFIG"),
        help="of the cluster; RMQHA_KUBECONFIG unless given",
    )
    made.add_argument("--runs", type=int, default=3, help="how often each fault is done (default: 3)")
    made.add_argument(
        "--faults", nargs="+", choices=FAULTS, help="the faults (default: all that the cluster can do)"
    )
    made.add_argument(
        "--placements",
        nargs="+",
        choices=PLACEMENTS,
        default=[],
        help="freeze and cut the master's node also with each of these parts on it (default: none)",
    )
    made.add_argument(
        "--plain-runs",
        type=int,
        default=0,
        help="how often each fault is done to plain RocketMQ (default: 0)",
    )
    made.add_argument(
        "--threads",
        type=int,
        default=THREADS,
        help=f"of our producer, each waiting for its answer (default: {THREADS})",
    )
    made.add_argument(
        "--clients",
        nargs="+",
        choices=CLIENTS,
        default=[INSIDE],
        help=f"where the producers run, several in the same runs (default: {INSIDE})",
    )
    made.add_argument(
        "--tls", action="store_true", help="let the group and its clients speak nothing but TLS"
    )
    made.add_argument("--agents", action="store_true", help="run node agents on all nodes")
    made.add_argument(
        "--no-transactions",
        dest="transactions",
        action="store_false",
        help="let the pod with consumers commit no transactions",
    )
    made.add_argument(
        "--warm-up",
        type=float,
        metavar="SECONDS",
        default=0.0,
        help="let the clients run for so much longer before each fault (default: 0)",
    )
    made.add_argument(
        "--client-image",
        default=ROCKETMQ_IMAGE,
        help=f"image with the jars of our clients, for another release (default: {ROCKETMQ_IMAGE})",
    )
    made.add_argument(
        "--out", type=Path, default=OUT, help=f"file that gets a line of JSON for each run (default: {OUT})"
    )
    made.add_argument("--keep", action="store_true", help="leave the release that was installed")
    return made


def main() -> int:
    """Parse the command line, measure and print."""
    command_line = parser()
    arguments = command_line.parse_args()
    if arguments.kubeconfig is None:
        command_line.error("needs a kubeconfig: --kubeconfig or RMQHA_KUBECONFIG")
    # Ended from outside, it still mends the node that it has just cut off or frozen.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    possible = [fault for fault in FAULTS if tool() or fault not in {FREEZE, CUT}]
    return asyncio.run(run(arguments.kubeconfig, arguments, arguments.faults or possible))


if __name__ == "__main__":
    sys.exit(main())
