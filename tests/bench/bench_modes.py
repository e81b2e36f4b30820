"""What an acknowledgement costs: Async, Quorum, AllInSync, a synced disk and TLS, on real brokers.

    make bench-modes ROUNDS=3, or python tests/bench/bench_modes.py [--seconds 10] [--threads 8]

Each turn starts a group from nothing on loopback, with settings as the operator writes them. One Java client
sends messages of 1 KB from some threads, each as fast as answers come. After a warm-up its ledger is measured
for some seconds. Every round takes each mode once; a row is the medians of its rounds. In TLS all ports but
the HA port refuse plain TCP.

All processes share the machine: a slave's CPU is missing in the master. On machines of their own, copies cost
less throughput and more time on the wire.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from controller_core.tls.dialling import ClientTls, dial_in_tls, trusting
from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.plan.group.children import durability_keys
from testkit.processes.certificates import Authority, controllers_beside_plain
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_tls import JAVA_OPTIONS, client_options, server_options
from testkit.rocketmq.load import LoadClient, LoadSettings, Send
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

CLUSTER, GROUP, TOPIC = "c", "g", "T"
FILE_BYTES = 1 << 28
PAYLOAD_BYTES = 1_024
WARM_UP_SENDS = 2_000
WARM_UP_S = 5.0
WAIT_S = 150.0
TIMEOUT_MS = 15_000
"""Of heartbeats: a JVM that works as fast as it can is late with them."""
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Mode:
    """One contestant: a group's brokers and what its acknowledgement means."""

    name: str
    durability: Durability
    brokers: int
    flushes: bool = False
    in_tls: bool = False

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the brokers' settings."""
        fields = {"cluster": CLUSTER, "storage": {"size": "1Gi"}}
        spec = BrokerGroupSpec.model_validate(
            fields | {"durability": self.durability, "replicas": self.brokers}
        )
        return {
            **QUICK_SETTINGS,
            **durability_keys(spec),
            "brokerRole": "ASYNC_MASTER" if self.durability is Durability.ASYNC else "SYNC_MASTER",
            "flushDiskType": "SYNC_FLUSH" if self.flushes else "ASYNC_FLUSH",
            "controllerHeartBeatTimeoutMills": str(TIMEOUT_MS),
            "mappedFileSizeCommitLog": str(FILE_BYTES),
        }


MODES = (
    Mode("Async, 2 brokers", Durability.ASYNC, 2),
    Mode("AllInSync, 2 brokers (double write)", Durability.ALL_IN_SYNC, 2),
    Mode("AllInSync, 2 brokers, SYNC_FLUSH", Durability.ALL_IN_SYNC, 2, flushes=True),
    Mode("Async, 2 brokers, TLS", Durability.ASYNC, 2, in_tls=True),
    Mode("AllInSync, 2 brokers, TLS", Durability.ALL_IN_SYNC, 2, in_tls=True),
    Mode("Async, 3 brokers", Durability.ASYNC, 3),
    Mode("Quorum, 2 of 3", Durability.QUORUM, 3),
    Mode("AllInSync, 3 brokers", Durability.ALL_IN_SYNC, 3),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one turn measured."""

    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int

    def cells(self) -> str:
        """Return them as cells of a table."""
        return f"{self.per_s:,.0f} | {self.p50_ms:.2f} | {self.p99_ms:.2f} | {self.failed}"


def say(text: str) -> None:
    """Print a line now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class WireOptions:
    """How the processes of a turn talk: further settings of controllers, and options of the client's JVM."""

    controllers: Mapping[str, str] = field(default_factory=dict)
    client: tuple[str, ...] = ()


@contextlib.contextmanager
def in_tls(directory: Path) -> Iterator[WireOptions]:
    """Have Java processes that start now refuse plain TCP, and this process dial in TLS."""
    authority = Authority(directory)
    os.environ[JAVA_OPTIONS] = server_options(authority.member("member"))
    dial_in_tls(ClientTls(trusting("tls", authority.trust).context))
    try:
        yield WireOptions(controllers_beside_plain(authority), client_options(authority))
    finally:
        dial_in_tls(None)
        del os.environ[JAVA_OPTIONS]


async def turn(mode: Mode, directory: Path, threads: int, seconds: float) -> Figures:
    """Start a group, load it, and return what its client saw."""
    with in_tls(directory) if mode.in_tls else contextlib.nullcontext(WireOptions()) as wire:
        return await _turn(mode, directory, threads, seconds, wire)


async def _turn(mode: Mode, directory: Path, threads: int, seconds: float, wire: WireOptions) -> Figures:
    release = await jars()
    name_server = NameServer(release, directory / "ns")
    controllers = ControllerCluster(directory / "controllers", 1, settings=wire.controllers)
    brokers = [
        JavaBroker(
            release,
            BrokerPlace(CLUSTER, GROUP, f"b{number}", directory / f"b{number}"),
            name_server.address,
            mode.settings,
            controllers=controllers.remoting_addresses,
        )
        for number in range(mode.brokers)
    ]
    load_settings = LoadSettings(
        threads=threads, payload_bytes=PAYLOAD_BYTES, poll_name_server_ms=1_000, jvm=wire.client
    )
    load = LoadClient(release, name_server.address, TOPIC, directory / "load", load_settings)
    try:
        await asyncio.gather(controllers.start(), name_server.start())
        await asyncio.gather(*(broker.start() for broker in brokers))
        await controllers.wait_group(
            CLUSTER, GROUP, lambda group: len(group["sync_state_set"]) == mode.brokers, WAIT_S
        )
        await name_server.wait_for_master(GROUP, WAIT_S)
        await load.start()
        await load.wait_for_acknowledged(WARM_UP_SENDS, WAIT_S)
        await asyncio.sleep(WARM_UP_S)
        start_ns = time.time_ns()
        await asyncio.sleep(seconds)
        end_ns = time.time_ns()
        await load.stop()
        return figures([send for send in load.sends() if start_ns <= send.end_ns < end_ns], seconds)
    finally:
        await load.process.stop()
        await asyncio.gather(*(broker.kill() for broker in brokers))
        await asyncio.gather(controllers.stop(), name_server.stop())


def figures(sends: Sequence[Send], seconds: float) -> Figures:
    """Return what the sends of a turn say."""
    times_ms = sorted((send.end_ns - send.start_ns) / NS_PER_MS for send in sends if send.acknowledged)
    return Figures(
        per_s=len(times_ms) / seconds,
        p50_ms=times_ms[len(times_ms) // 2],
        p99_ms=times_ms[len(times_ms) * 99 // 100],
        failed=len(sends) - len(times_ms),
    )


def medians(turns: Sequence[Figures]) -> Figures:
    """Return the median of each figure; failures are added up."""
    return Figures(
        per_s=statistics.median(one.per_s for one in turns),
        p50_ms=statistics.median(one.p50_ms for one in turns),
        p99_ms=statistics.median(one.p99_ms for one in turns),
        failed=sum(one.failed for one in turns),
    )


def print_table(found: Mapping[str, Sequence[Figures]]) -> None:
    """Print the rows, each held against Async with as many brokers."""
    rows = {name: medians(turns) for name, turns in found.items() if turns}
    say("\n| mode | sends per second | p50, ms | p99, ms | failed | to Async |")
    say("|---|---|---|---|---|---|")
    for mode in MODES:
        row, base = rows.get(mode.name), rows.get(f"Async, {mode.brokers} brokers")
        if row is not None:
            change = f"{row.per_s / base.per_s - 1:+.0%}" if base is not None else "-"
            say(f"| {mode.name} | {row.cells()} | {change} |")


async def measure(out: Path, rounds: int, threads: int, seconds: float, only: str) -> None:
    """Take all rounds, with files below `out`, and print the table."""
    modes = [mode for mode in MODES if only in mode.name]
    found: dict[str, list[Figures]] = {mode.name: [] for mode in modes}
    for number in range(rounds):
        # The next round begins with another mode: none is always the first on a warm machine.
        turned = modes[number % len(modes) :] + modes[: number % len(modes)]
        for mode in turned:
            with tempfile.TemporaryDirectory(dir=out, prefix="bench-modes-") as name:
                row = await turn(mode, Path(name), threads, seconds)
            found[mode.name].append(row)
            say(f"round {number + 1}: {mode.name}: {row.cells()} (load {os.getloadavg()[0]:.1f})")
    print_table(found)


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(prog="make bench-modes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=8, help="senders, each waiting for its answer")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a turn is measured")
    parser.add_argument("--only", default="", help="modes whose name has this text")
    arguments = parser.parse_args()
    out = Path.cwd() / "out"
    out.mkdir(exist_ok=True)
    asyncio.run(measure(out, arguments.rounds, arguments.threads, arguments.seconds, arguments.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
