"""Three real controllers on loopback, ours and RocketMQ's own in the same run, never two kinds at a time.

    ours      fsync before every acknowledgement
    DLedger   RocketMQ's default, which never waits for the disk; none of its settings does
    jRaft     RocketMQ's other choice; its default is its durable setting: synced before every acknowledgement

`--only ours-in-tls` measures the requests of ours on ports that speak TLS only, beside any of these.

Run it: `make bench-controller` (ROUNDS=3), or
`python tests/bench/bench_controller.py [--rounds 1] [--only ours] [--what requests]`. Each round measures
every kind once, in turn; the tables show the median of the rounds. Java's controllers first serve all
requests for 60 s in each round: a JVM that has just started is several times slower. The parts:

- *requests*: a closed loop from a process of its own (`controller-core bench`), counted after a warm-up.
  `generator` is the share of one core that it used itself: far below 100 %, the figure is the controllers'.
  `CPU` is what all three nodes used together for a request; unlike the rest it hardly changes when the
  machine has other work.
- *elections*: groups of two members whose masters' connections close at once; until all have their new
  master in the state, asked about a few groups at a time, every 20 ms at most.
- *restart*: all three are killed with that many groups in their logs, and started together; until one answers
  which broker is master of a group. Memory is that of the largest node then.
- *many-elections*: the same for ten times as many groups, ours alone.
- *follower-reads*: polls (GET_REPLICA_INFO), ours alone: all sent to the leader, then to all three in turn.
- *growth*: ours alone, once: `testkit.controller_bench.growth`.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from controller_core.server.cli.load_generator import WORKLOADS
from testkit.controller_bench import measures
from testkit.controller_bench.growth import GrowthRow, measure_growth
from testkit.controller_bench.measures import MeasureError, RequestLoad
from testkit.controller_bench.subjects import (
    OURS,
    OURS_IN_TLS,
    SUBJECTS,
    RunningControllers,
    resident_mib,
    started,
)

PARTS = ("requests", "follower-reads", "elections", "many-elections", "restart", "growth")
READERS = {"the leader serves": False, "all three serve": True}
REQUEST_FIGURES = ("per second", "p50, ms", "p99, ms", "errors", "CPU, µs", "generator, %")
READ_CONNECTIONS = 6
GROWTH = ((0, 300), (100, 300), (1_000, 300), (10_000, 3_000))
"""Groups, and milliseconds between two heartbeats of a member.

Why not 10,000 at 300 ms: 300,000 heartbeats per second to three controllers are beyond two cores.
"""

Figures = dict[tuple[str, str, str], list[float]]
"""By subject, part and name of the figure: one value for each round."""


class Rounds:
    """The figures of all rounds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._figures: Figures = defaultdict(list)

    async def measure(self, subject: str) -> None:
        """Measure one subject once."""
        options = self._options
        with tempfile.TemporaryDirectory() as directory:
            async with started(subject, options.rocketmq, Path(directory)) as running:
                if subject not in {OURS, OURS_IN_TLS}:
                    await measures.warm_up(running, options.workload or WORKLOADS, options.java_warm_up)
                if "requests" in options.what:
                    await self._requests(subject, running)
                self._figures[subject, "memory", "MiB"].append(resident_mib(running.processes))
                if "follower-reads" in options.what and subject == OURS:
                    await self._follower_reads(running)
                if subject == OURS_IN_TLS:
                    return
                if "elections" in options.what:
                    await self._part(subject, "elections", measures.re_election(running, options.elections))
                if "restart" in options.what:
                    await self._part(subject, "restart", measures.restart(running, options.restart_groups))
                if subject == OURS and "many-elections" in options.what:
                    # Last, as its groups would make the restart longer than that of the others.
                    work = measures.re_election(running, options.many_elections)
                    await self._part(subject, "many-elections", work)

    async def _requests(self, subject: str, running: RunningControllers) -> None:
        options = self._options
        load = RequestLoad(options.seconds, options.warm_up, options.groups, options.in_flight)
        for workload in options.workload or WORKLOADS:
            await self._part(subject, workload, measures.requests(running, workload, load))

    async def _follower_reads(self, running: RunningControllers) -> None:
        options = self._options
        for part, spread in READERS.items():
            load = RequestLoad(
                options.seconds, options.warm_up, options.groups, options.readers, spread, READ_CONNECTIONS
            )
            await self._part(OURS, part, measures.requests(running, "get-replica-info", load))

    async def _part(self, subject: str, part: str, work: Coroutine[Any, Any, dict[str, float]]) -> None:
        """Keep the figures of a part; one that fails leaves those of the others alone."""
        try:
            figures = await work
        except MeasureError as error:
            sys.stderr.write(f"not measured: {subject}, {error}\n")
            return
        shown = ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())
        sys.stderr.write(f"{subject}, {part}: {shown}\n")
        for name, value in figures.items():
            self._figures[subject, part, name].append(value)

    def cell(self, subject: str, part: str, name: str, form: str) -> str:
        """Return the median of a figure as a cell of a table; a dash without one."""
        values = self._figures.get((subject, part, name))
        return format(statistics.median(values), form) if values else "-"

    def tables(self) -> str:
        """Return the tables of requests and of the rest."""
        options = self._options
        rows = [_row("request", "controllers", *REQUEST_FIGURES), _row(*["---"] * 8)]
        for workload in WORKLOADS:
            for subject in options.only:
                cells = (
                    self.cell(subject, workload, name, ",.1f" if " ms" in name else ",.0f")
                    for name in REQUEST_FIGURES
                )
                rows.append(_row(workload, subject, *cells))
        if "follower-reads" in options.what:
            rows += ["", _row("polls", *REQUEST_FIGURES), _row(*["---"] * 7)]
            for part in READERS:
                cells = (
                    self.cell(OURS, part, name, ",.1f" if " ms" in name else ",.0f")
                    for name in REQUEST_FIGURES
                )
                rows.append(_row(part, *cells))
        rows += ["", _row("figure", *options.only), _row(*["---"] * (1 + len(options.only)))]
        for figure, part, name, form in (
            ("memory of a node, MiB", "memory", "MiB", ",.0f"),
            (f"{options.elections:,} re-elections, s", "elections", "s", ".2f"),
            (f"{options.many_elections:,} re-elections, s", "many-elections", "s", ".2f"),
            (f"restart with {options.restart_groups:,} groups, s", "restart", "s", ".2f"),
            ("memory of a node then, MiB", "restart", "memory, MiB", ",.0f"),
        ):
            rows.append(_row(figure, *(self.cell(subject, part, name, form) for subject in options.only)))
        return "\n".join(rows)


def growth_table(rows: Sequence[GrowthRow]) -> str:
    """Return the table of growth."""
    titles = ("groups", "heartbeat every", "taken", "CPU, busiest node", "election p50, p99", "memory")
    lines = [_row(*titles), _row(*["---"] * len(titles))]
    lines += [
        _row(
            f"{row.groups:,}",
            f"{row.interval_ms:,} ms",
            f"{row.taken_share:.0%}",
            f"{row.cpu_percent:.1f} %",
            f"{row.election_p50_ms:.1f}, {row.election_p99_ms:.1f} ms",
            f"{row.memory_mib:.0f} MiB",
        )
        for row in rows
    ]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


async def run(options: argparse.Namespace) -> None:
    """Measure every subject in turn, as many rounds as wanted, and print the tables."""
    load = os.getloadavg()[0]
    rounds = Rounds(options)
    if set(options.what) != {"growth"}:
        for _ in range(options.rounds):
            for subject in options.only:
                await rounds.measure(subject)
    grown = []
    if "growth" in options.what and OURS in options.only:
        for groups, interval_ms in GROWTH:
            grown.append(
                await measure_growth(groups, interval_ms, options.growth_seconds, options.growth_elections)
            )
            sys.stderr.write(f"{grown[-1]}\n")
    sys.stdout.write(
        f"{os.cpu_count()} cores, load average {load:.1f} at the start, medians of {options.rounds} rounds; "
        f"Java's controllers served for {options.java_warm_up:.0f} s before each\n\n"
    )
    sys.stdout.write(f"{rounds.tables()}\n")
    if grown:
        sys.stdout.write(f"\n{growth_table(grown)}\n")


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    again = "; may be given again"
    add: Callable[..., Any] = parser.add_argument
    add("--rounds", type=int, default=3, help="how often each kind is measured")
    add("--only", action="append", choices=(*SUBJECTS, OURS_IN_TLS), help="which controllers" + again)
    add("--what", action="append", choices=PARTS, help="which parts" + again)
    add("--workload", action="append", choices=WORKLOADS, help="which requests" + again)
    add("--rocketmq", default="5.5.0", metavar="VERSION", help="release of Java's controllers")
    add("--seconds", type=float, default=5.0, help="for each workload")
    add("--warm-up", type=float, default=3.0, help="seconds of the same load before them")
    add("--java-warm-up", type=float, default=60.0, help="seconds that Java's controllers serve before all")
    add("--groups", type=int, default=100, help="broker groups that the requests are about")
    add("--in-flight", type=int, default=100, help="requests under way at a time")
    add("--readers", type=int, default=600, help="polls under way at a time, of follower-reads")
    add("--elections", type=int, default=1_000, help="groups that lose their masters")
    add("--many-elections", type=int, default=10_000, help="the same, ours alone")
    add("--restart-groups", type=int, default=10_000, help="groups in the log of a restart")
    add("--growth-seconds", type=float, default=10.0, help="for the CPU of each size of fleet")
    add("--growth-elections", type=int, default=100, help="elections of each size of fleet")
    options = parser.parse_args()
    options.only = options.only or list(SUBJECTS)
    options.what = options.what or list(PARTS)
    return options


def main() -> None:
    """Measure and print."""
    options = parsed()
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
