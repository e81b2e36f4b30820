"""How long a killed broker keeps its connections, with its heap in huge pages and in small ones alternately.

    make bench-killed RUNS=5 HEAPS="1Gi 4Gi"

Each run starts one real broker with the JVM's options of RocketMQ's start scripts and, after them, those of
the operator. It connects, kills the broker, and waits for the end of the connection. A client, a slave and
the controllers learn of the death at that moment.
"""

import argparse
import asyncio
import statistics
from collections.abc import Sequence

from testkit.rocketmq.jars import jars
from testkit.rocketmq.killed_broker import SMALL_PAGES, KilledBroker, killed


async def run(heaps: Sequence[str], runs: int) -> None:
    """Measure alternately, and print a row for each heap and kind of pages."""
    release = await jars()
    found: dict[tuple[str, str], list[KilledBroker]] = {}
    for _ in range(runs):
        for heap in heaps:
            for pages, further in (("huge", ()), ("small", SMALL_PAGES)):
                one = await killed(release, heap, further)
                found.setdefault((heap, pages), []).append(one)
                print(f"{heap}, {pages}: {one}", flush=True)
    print("\n| heap | pages | runs | in memory | in huge pages | connected, median | worst |")
    print("|---|---|---|---|---|---|---|")
    for (heap, pages), all_runs in found.items():
        memory, huge, connected = ([*values] for values in zip(*all_runs, strict=True))
        print(
            f"| {heap} | {pages} | {len(all_runs)} | {statistics.median(memory):,.0f} MiB "
            f"| {statistics.median(huge):,.0f} MiB | {statistics.median(connected):.0f} ms "
            f"| {max(connected):.0f} ms |"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--heaps", nargs="+", default=["1Gi", "4Gi"])
    arguments = parser.parse_args()
    asyncio.run(run(arguments.heaps, arguments.runs))


if __name__ == "__main__":
    main()
