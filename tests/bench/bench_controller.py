"""Three real controllers on loopback, fsync on, under a closed loop of requests: a second's worth, and how long each takes.

Run it: `make bench`, or `python tests/bench/bench_controller.py [--seconds 5] [--groups 100]`. The load generator shares
the machine's processors with the nodes, so a figure is a lower bound of what the nodes can do.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from testkit.controllers import ControllerCluster, command_path


async def run(seconds: float, groups: int, in_flight: int) -> int:
    """Start the nodes, run every workload against them, and return the load generator's exit status."""
    with tempfile.TemporaryDirectory() as directory:
        async with ControllerCluster(Path(directory)) as cluster:
            leader = await cluster.wait_leader()
            process = await asyncio.create_subprocess_exec(
                *(command_path("controller-core"), "bench"),
                *("--controllers", cluster.remoting_addresses[leader], "--workload", "all"),
                *("--seconds", str(seconds), "--groups", str(groups), "--in-flight", str(in_flight)),
            )
            return await process.wait()


def main() -> int:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each workload")
    parser.add_argument("--groups", type=int, default=100, help="broker groups that the requests are about")
    parser.add_argument("--in-flight", type=int, default=100, help="requests under way at a time")
    arguments = parser.parse_args()
    return asyncio.run(run(arguments.seconds, arguments.groups, arguments.in_flight))


if __name__ == "__main__":
    sys.exit(main())
