"""`make sim SEEDS=n`: n schedules of failures on all processors; a failure prints the line that replays it.

Exit status: 0 nothing was violated, 1 something was.
"""

import argparse
import multiprocessing
import sys
import time

from testkit.sim.raft_checks import SafetyViolation
from testkit.sim.schedules import run_schedule

_CHUNK = 10
_REPORT_EVERY = 200


def _verdict(seed: int) -> tuple[int, str | None, int, int]:
    """Return the seed, what was violated (None: nothing), and how many elections and reads the schedule saw."""
    try:
        cluster = run_schedule(seed)
    except SafetyViolation as violation:
        return seed, str(violation), 0, 0
    return seed, None, cluster.checks.elections, cluster.checks.reads


def main() -> int:
    """Run the schedules and return the exit status."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    failed: list[int] = []
    elections = reads = 0
    with multiprocessing.Pool() as pool:
        for done, (seed, violation, held, answered) in enumerate(
            pool.imap_unordered(_verdict, seeds, _CHUNK), 1
        ):
            elections += held
            reads += answered
            if violation is not None:
                failed.append(seed)
                print(f"{violation}\nreplay: make sim SEEDS=1 FIRST={seed}", flush=True)
            if done % _REPORT_EVERY == 0:
                print(f"{done} of {len(seeds)} schedules, {len(failed)} failed", flush=True)
    print(f"{elections} elections, {reads} reads checked in {time.monotonic() - started_s:.0f} s")
    print(f"{len(seeds) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
