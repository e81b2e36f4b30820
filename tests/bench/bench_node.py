"""Measure how many commands per second three nodes of one process commit, and how long one takes.

`python tests/bench/bench_node.py` runs it.

All three nodes share one processor core here, which a deployment does not: the figure is a floor, and a way
to see whether a change made things slower. Each number of callers runs closed loop for the given time.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from testkit.raft.nodes import ListMachine, NodeCluster


class CountingMachine(ListMachine):
    """Keeps nothing, so that only Raft is measured."""

    def apply(self, index: int, term: int, data: bytes) -> object:
        """Answer with the index."""
        return index


async def run(directory: Path | None, callers: int, seconds: float, size_bytes: int) -> str:
    """Return one line of figures."""
    async with NodeCluster(3, directory, make_machine=CountingMachine) as cluster:
        leader = await cluster.leader()
        latencies: list[float] = []
        end_s = time.perf_counter() + seconds

        async def call() -> None:
            while (begun_s := time.perf_counter()) < end_s:
                await leader.node.propose(b"x" * size_bytes)
                latencies.append(time.perf_counter() - begun_s)

        await asyncio.gather(*(call() for _ in range(callers)))
        latencies.sort()
        where = "disk" if directory else "memory"
        p50_ms, p99_ms = latencies[len(latencies) // 2] * 1e3, latencies[len(latencies) * 99 // 100] * 1e3
        rate = len(latencies) / seconds
        latency = f"p50 {p50_ms:6.2f} ms  p99 {p99_ms:6.2f} ms"
        return f"{where:6} callers {callers:5}  {rate:8.0f} commands/s  {latency}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size-bytes", type=int, default=200)
    parser.add_argument("--callers", type=int, nargs="*", default=[1, 16, 64, 256, 1000])
    arguments = parser.parse_args()
    for on_disk in (False, True):
        for callers in arguments.callers:
            with tempfile.TemporaryDirectory() as directory:
                where = Path(directory) if on_disk else None
                print(asyncio.run(run(where, callers, arguments.seconds, arguments.size_bytes)), flush=True)


if __name__ == "__main__":
    main()
