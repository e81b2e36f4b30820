"""What losing a master costs an unmodified Java client on its defaults, on a real Kubernetes, fault by fault.

Run it: `make bench-failover` (RUNS=10, FAULTS="kill delete freeze cut again roll"). It installs as
README says where the namespace is empty, uses the group that is there otherwise, and prints one line a
fault and a table at the end. Freezing and cutting need a cluster whose nodes can be harmed
(RMQHA_KUBE_STACK). PLAIN_RUNS=3 measures plain RocketMQ with its own controller beside, afterwards on
the same cluster, with the same client and load.
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from testkit.kube import plain
from testkit.kube.faulting import AGAIN, CUT, FAULTS, FREEZE, ROLL, FaultCost, measured, measured_plain
from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, KubeError
from testkit.kube.release import NAMESPACE, ROCKETMQ_IMAGE, install, remove
from testkit.kube.stack import tool

PROBLEMS_SHOWN_MAX = 5
_PHASES = ("held", "suspected", "elected", "endpoint", "role taken", "two copies", "released", "first ack")


async def ours(
    kubeconfig: Path, faults: list[str], runs: int, client_image: str, *, keep: bool
) -> tuple[list[FaultCost], int]:
    """Measure every fault so many times; return the costs, and how many runs failed."""
    cluster = Cluster(kubeconfig, NAMESPACE)
    installed = NAMESPACE not in {one["metadata"]["name"] for one in await cluster.find("namespaces")}
    group = (await install(cluster)).group if installed else KubeGroup(cluster, "orders")
    try:
        return await _all(
            lambda fault, number: measured(group, client_image, "main-nameserver:9876", fault, number),
            faults,
            runs,
        )
    finally:
        if installed and not keep:
            await remove(cluster)


async def beside(kubeconfig: Path, faults: list[str], runs: int) -> tuple[list[FaultCost], int]:
    """Measure the same of plain RocketMQ."""
    group = plain.PlainGroup(Cluster(kubeconfig, plain.NAMESPACE))
    try:
        await group.install()
        # There a second kill costs what the first did, because no operator lends addresses or
        # replaces brokers one by one.
        chosen = [fault for fault in faults if fault not in {AGAIN, ROLL}]
        return await _all(
            lambda fault, number: measured_plain(group, ROCKETMQ_IMAGE, fault, number), chosen, runs
        )
    finally:
        await group.remove()


async def _all(
    one: Callable[[str, int], Awaitable[FaultCost]], faults: list[str], runs: int
) -> tuple[list[FaultCost], int]:
    costs: list[FaultCost] = []
    problems = 0
    for number in range(runs):
        for fault in faults:
            try:
                cost = await one(fault, number)
            except KubeError as error:
                problems += 1
                _say(f"{fault} {number}: {str(error)[-500:]}")
                continue
            costs.append(cost)
            _say(_line(cost))
            for problem in cost.problems[:PROBLEMS_SHOWN_MAX]:
                _say(f"  failed: {problem}")
    return costs, problems


async def run(
    kubeconfig: Path, faults: list[str], runs: int, plain_runs: int, client_image: str, *, keep: bool
) -> int:
    """Measure and print; return 1 if ours lost an acknowledged message or a run failed."""
    costs, problems = await ours(kubeconfig, faults, runs, client_image, keep=keep) if runs else ([], 0)
    lost = any(cost.lost for cost in costs)
    if plain_runs:
        others, more = await beside(kubeconfig, faults, plain_runs)
        costs, problems = costs + others, problems + more
    for line in table(costs):
        _say(line)
    return 1 if problems or lost else 0


def _line(cost: FaultCost) -> str:
    phases = ", ".join(f"{name} {cost.phases_ms[name]:.0f}" for name in _PHASES if name in cost.phases_ms)
    return (
        f"{cost.fault}: gap {cost.gap_ms:.0f} ms, failed {cost.failed}, "
        f"acknowledged {cost.acknowledged}, lost {cost.lost}; ms after the fault: {phases}"
    )


def table(costs: list[FaultCost]) -> list[str]:
    """Return the table that the documents show: medians, and the worst gap."""
    lines = [
        "| fault | runs | gap, median | gap, worst | failed sends | acknowledged, lost | "
        + " | ".join(_PHASES)
        + " |",
        "|" + "---|" * (6 + len(_PHASES)),
    ]
    for fault in dict.fromkeys(cost.fault for cost in costs):
        chosen = [cost for cost in costs if cost.fault == fault]
        gaps = [cost.gap_ms for cost in chosen]
        phases = []
        for name in _PHASES:
            seen = [cost.phases_ms[name] for cost in chosen if name in cost.phases_ms]
            phases.append(f"{statistics.median(seen):.0f} ms" if seen else "-")
        lines.append(
            f"| {fault} | {len(chosen)} | {statistics.median(gaps):.0f} ms | {max(gaps):.0f} ms | "
            f"{sum(cost.failed for cost in chosen)} | {sum(cost.acknowledged for cost in chosen)}, "
            f"{sum(cost.lost for cost in chosen)} | {' | '.join(phases)} |"
        )
    return lines


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, default=os.environ.get("RMQHA_KUBECONFIG"))
    parser.add_argument("--runs", type=int, default=3, help="times each fault is done")
    parser.add_argument(
        "--faults", nargs="+", choices=FAULTS, help="all that the cluster can do, unless told"
    )
    parser.add_argument("--plain-runs", type=int, default=0, help="the same, of plain RocketMQ")
    parser.add_argument(
        "--client-image",
        default=ROCKETMQ_IMAGE,
        help="whose jars the client has, to measure another release's",
    )
    parser.add_argument("--keep", action="store_true", help="leave the release that was installed")
    arguments = parser.parse_args()
    if arguments.kubeconfig is None:
        parser.error("needs a kubeconfig: --kubeconfig or RMQHA_KUBECONFIG")
    # Ended from outside, it still mends the node that it has just cut off or frozen.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    possible = [fault for fault in FAULTS if tool() or fault not in {FREEZE, CUT}]
    return asyncio.run(
        run(
            arguments.kubeconfig,
            arguments.faults or possible,
            arguments.runs,
            arguments.plain_runs,
            arguments.client_image,
            keep=arguments.keep,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
