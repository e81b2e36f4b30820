"""What collectors cost: CPU of a sample, samples per second, memory.

    python tests/bench/bench_collector.py [--pods 100] [--seconds 60]

Three cases: so many pods scraped every second; one page of 100,000 series, the most that a page may have; and
1,000 pods every 5 seconds, over two and over four collectors. Pods are played by processes beside
(`testkit.fakes.many_pods`), which share the machine. The collectors are the real ones, found by labels, with
segments of 10 s; their figures are those of all of them together, and the peak memory that of the largest.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from testkit.processes.process import ManagedProcess
from testkit.products.collector import CollectorRun, Stretch, peak_bytes

MIB = 1 << 20
SEGMENT_S = 10


class CollectorCase(NamedTuple):
    """Pods, their collectors, time between scrapes; `series` of a page, None for those of a real one."""

    pods: int
    collectors: int = 1
    interval_s: int = 1
    series: int | None = None


async def measure(case: CollectorCase, seconds: int, directory: Path) -> str:
    """Return a row of the table in docs/benchmarks.md."""
    load = os.getloadavg()[0]
    async with AsyncExitStack() as stack:
        runs: list[tuple[CollectorRun, ManagedProcess]] = []
        for number in range(case.collectors):
            own = directory / str(number)
            own.mkdir()
            run = CollectorRun(own, SEGMENT_S, case.interval_s)
            pods = await stack.enter_async_context(run.pods(case.pods // case.collectors, case.series))
            runs.append((run, await stack.enter_async_context(await run.collector(pods))))
        await asyncio.gather(*[run.until_collecting(collector) for run, collector in runs])
        seen = await asyncio.gather(*[run.stretch(collector, seconds) for run, collector in runs])
        peak_mib = max(peak_bytes(collector) for _, collector in runs) / MIB
    return _row(case, sum(run.pages for run, _ in runs), seconds, seen, peak_mib, load)


def _row(
    case: CollectorCase, pages: int, seconds: int, seen: list[Stretch], peak_mib: float, load: float
) -> str:
    rate = sum(one.samples_a_second for one in seen)
    cpu_us = sum(one.processors for one in seen) / max(rate, 1.0) * 1e6
    cells = [
        f"{case.pods:,}",
        f"{pages:,}" if case.series is None else f"{pages:,} of {case.series:,} series",
        f"{case.interval_s} s",
        str(case.collectors),
        f"{seconds} s",
        f"{min(one.answered_share for one in seen):.2%}",
        f"{rate:,.0f}",
        f"{cpu_us:.2f}",
        f"{sum(one.processors for one in seen):.0%}",
        f"{peak_mib:.0f} MiB",
        f"{load:.0f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pods", type=int, default=100, metavar="N", help="of the first case")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="of scrapes in each case")
    args = parser.parse_args()
    head = "pods, pages, every, collectors, for, answered, samples per second, CPU µs a sample, of a core, "
    names = [*head.split(", ")[:-1], "peak memory", "load average"]
    sys.stdout.write(f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n")
    cases = [
        CollectorCase(args.pods),
        CollectorCase(1, series=100_000),
        CollectorCase(1_000, 2, 5),
        CollectorCase(1_000, 4, 5),
    ]
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            sys.stdout.write(asyncio.run(measure(case, args.seconds, Path(directory))))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
