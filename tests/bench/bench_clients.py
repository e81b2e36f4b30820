"""What a change of master costs clients of several releases and languages, on real brokers of this machine.

Run it: `make bench-clients` (CLIENTS="4.9.7 5.1.1 5.2.0 5.5.0 grpc go", ROCKETMQ_VERSION=5.5.0 of brokers).
One client after the other sends to the same two brokers, while the master is killed, stopped, paused and
killed as the operator does it, frozen, and switched over. A number is the remoting client for Java of that
release, `go` that for Go, and `grpc` the gRPC client for Java at a proxy in Cluster mode.

Their times are their defaults, but clients ask for routes every 0.2 s and the proxy every second, its
minimum: on loopback the address of a dead master does not move. So a failover costs them what the client
itself and the brokers make of it. COMPANIONS=1 puts a companion beside each broker, which holds the clients
of a killed master and carries their sends.

The same client against brokers of two releases shows whether a wait comes from the client or the broker.
"""

import argparse
import asyncio
import os
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.demo.cluster import DemoCluster
from testkit.demo.progress import StepPrinter
from testkit.demo.story import DemoStory, Happened, wait_whole
from testkit.products.companion import BrokerCompanion
from testkit.rocketmq.clients_under_test import CLIENTS, ClientsUnderTest
from testkit.rocketmq.jars import DEFAULT_VERSION, jars
from testkit.rocketmq.load import LoadSettings, Send, read_back, summarise
from testkit.rocketmq.other_clients import GoUnavailableError

SETTINGS: Final = LoadSettings(threads=4, rate=200, poll_name_server_ms=200)
WARM_UP_ACKS: Final = 200
WARM_UP_S: Final = 90.0
HOLD_MS: Final = "2500"
BROKERS: Final = {"controllerHeartBeatTimeoutMills": "1500"}
"""The operator's default: a frozen broker closes no connection."""
BEFORE_NS: Final = 1_000_000_000
"""So long before a fault its sends count: the gap begins at the last one that was acknowledged."""
_PROBLEM_CHARS: Final = 120
FAULTS: Final[dict[str, Callable[[DemoStory], Awaitable[Happened]]]] = {
    "kill": DemoStory.kill_master,
    "stop": DemoStory.stop_master,
    "pause": DemoStory.pause_and_kill_master,
    "freeze": DemoStory.freeze_master,
    "switchover": DemoStory.switch_over,
}


@dataclass(frozen=True, slots=True)
class ClientCost:
    """What one fault cost one client.

    Attributes:
        client: one of `CLIENTS`.
        fault: one of `FAULTS`.
        gap_ms: the longest time between two acknowledged sends.
        failed: sends that failed after the client's own retries.
        slowest_ms: the longest time of a send, whatever its result.
        acknowledged: sends that were promised.
        lost: promised sends that could not be read afterwards.
        problems: how often sends failed with which problem, each cut and without its numbers.
    """

    client: str
    fault: str
    gap_ms: float
    failed: int
    slowest_ms: float
    acknowledged: int
    lost: int
    problems: dict[str, int]


async def measured(
    cluster: DemoCluster, clients: ClientsUnderTest, client: str, fault: str, number: int
) -> ClientCost:
    """Do one fault under the load of one client, and wait until the group is whole again."""
    topic = f"{fault}-{client.replace('.', '-')}-{number}"
    directory = cluster.directory / topic
    load = await clients.load(client, topic, directory, SETTINGS)
    async with load:
        await load.wait_for_acknowledged(WARM_UP_ACKS, WARM_UP_S)
        happened = await FAULTS[fault](DemoStory(cluster, load, StepPrinter()))
        await load.stop()
    address = cluster.name_server.address
    read = await read_back(clients.release, address, topic, load.sends(), directory)
    later = [send for send in load.sends() if send.end_ns >= happened.fault_ns - BEFORE_NS]
    return cost_of(client, fault, later, len(read.lost))


def cost_of(client: str, fault: str, sends: list[Send], lost: int) -> ClientCost:
    """Return the cost of a fault from the sends around it."""
    stats = summarise(sends)
    return ClientCost(
        client,
        fault,
        gap_ms=stats.longest_gap_s * 1_000,
        failed=stats.failed,
        slowest_ms=max((send.end_ns - send.start_ns for send in sends), default=0) / 1e6,
        acknowledged=stats.acknowledged,
        lost=lost,
        problems=dict(Counter(problem_of(send) for send in sends if not send.acknowledged)),
    )


def problem_of(send: Send) -> str:
    """Return a failed send's problem, in which what differs from send to send is `#`."""
    return re.sub(r"request-id=[^,]+|\d+", "#", send.problem or send.status)[:_PROBLEM_CHARS]


def table(brokers: str, costs: Sequence[ClientCost]) -> list[str]:
    """Return the table: medians, worst times, and sums."""
    lines = [
        "| brokers, client | fault | runs | gap, median | gap, worst "
        "| slowest send | failed sends | acknowledged, lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for client, fault in dict.fromkeys((cost.client, cost.fault) for cost in costs):
        chosen = [cost for cost in costs if (cost.client, cost.fault) == (client, fault)]
        gaps = [cost.gap_ms for cost in chosen]
        lines.append(
            f"| {brokers}, {client} | {fault} | {len(chosen)} | {statistics.median(gaps):.0f} ms | "
            f"{max(gaps):.0f} ms | {max(cost.slowest_ms for cost in chosen):.0f} ms | "
            f"{sum(cost.failed for cost in chosen)} | "
            f"{sum(cost.acknowledged for cost in chosen)}, {sum(cost.lost for cost in chosen)} |"
        )
    return lines


async def run(arguments: argparse.Namespace) -> int:
    """Measure and print; return 1 if an acknowledged message was lost."""
    out = Path.cwd() / "out"
    out.mkdir(exist_ok=True)
    costs: list[ClientCost] = []
    with tempfile.TemporaryDirectory(dir=out, prefix="bench-clients-") as name:
        release = await jars(arguments.brokers)
        cluster = DemoCluster(release, Path(name), StepPrinter(), settings=BROKERS)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(cluster.stop)
            await cluster.start()
            for broker in cluster.brokers if arguments.companions else ():
                addresses = cluster.controllers.remoting_addresses
                companion = BrokerCompanion(broker, addresses, **{"hold-ms": HOLD_MS})
                await stack.enter_async_context(companion.process)
            await wait_whole(cluster)
            clients = await stack.enter_async_context(ClientsUnderTest(cluster, release))
            for number in range(arguments.runs):
                for client in arguments.clients:
                    for fault in arguments.faults:
                        try:
                            cost = await measured(cluster, clients, client, fault, number)
                        except GoUnavailableError as error:
                            say(f"{client} is left out: {error}")
                            break
                        costs.append(cost)
                        say(f"{cost} (load {os.getloadavg()[0]:.1f})")
    for line in table(arguments.brokers, costs):
        say(line)
    return 1 if any(cost.lost for cost in costs) else 0


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(prog="make bench-clients", description=__doc__)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS, help="which clients")
    parser.add_argument("--brokers", default=DEFAULT_VERSION, help="release of the brokers")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--runs", type=int, default=1, help="how often each fault is done for each client")
    parser.add_argument("--companions", action="store_true", help="a companion beside each broker")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
