"""What a collector costs that scrapes so many pods every second: CPU, memory, samples per second.

Run it: `python tests/bench/bench_collector.py [--pods 100] [--seconds 60]`, or `make bench-collector`. The
pods are played by a process beside (`testkit.fakes.many_pods`), which shares the machine; the collector is
the real one, found by labels, with segments of 10 s.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from testkit.products.collector import CollectorRun, peak_bytes

MIB = 1 << 20
SEGMENT_S = 10


async def measure(pods_count: int, seconds: int, directory: Path) -> str:
    """Return a row of the table in docs/benchmarks.md."""
    run = CollectorRun(directory, SEGMENT_S)
    async with run.pods(pods_count) as pods:
        collector = await run.collector(pods)
        async with collector:
            await run.until_collecting(collector)
            seen = await run.stretch(collector, seconds)
            peak_mib = peak_bytes(collector) / MIB
    return (
        f"| {pods_count} | {run.pages} | {seconds} s | {seen.answered_share:.2%} "
        f"| {seen.samples_a_second:,.0f} | {seen.processors:.0%} | {peak_mib:.0f} MiB |\n"
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pods", type=int, default=100, metavar="N")
    parser.add_argument("--seconds", type=int, default=60, metavar="N")
    args = parser.parse_args()
    sys.stdout.write(
        "| pods | pages | for | scrapes answered | samples per second | of a processor | peak memory |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    with tempfile.TemporaryDirectory() as directory:
        sys.stdout.write(asyncio.run(measure(args.pods, args.seconds, Path(directory))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
