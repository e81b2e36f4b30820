"""`make sim-ha SEEDS=n`: n schedules of failures of a replicated log, on all CPUs.

A failure prints its replay line.

Exit status: 0 nothing was violated, 1 something was.
"""

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from testkit.check.errors import SafetyViolation
from testkit.ha_sim.group import run_schedule

_CHUNK = 10
_REPORT_EVERY = 200


def _verdict(seed: int) -> tuple[int, str | None, Counter[str]]:
    """Return the seed, the violation (None: no violation), and the schedule's observations."""
    try:
        group = run_schedule(seed)
    except SafetyViolation as violation:
        return seed, str(violation), Counter()
    seen = {
        "elections": group.elections,
        "crashes": group.crashes,
        "cuts of diverged tails": group.truncations,
        "writes refused for want of room": group.refusals,
        "acknowledged bytes": len(group.acknowledged.data),
    }
    return seed, None, Counter(seen)


def main() -> int:
    """Run the schedules and return the exit status."""
    parser = argparse.ArgumentParser(prog="make sim-ha", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    print(f"seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    failed: list[int] = []
    total: Counter[str] = Counter()
    with multiprocessing.Pool() as pool:
        for done, (seed, violation, seen) in enumerate(pool.imap_unordered(_verdict, seeds, _CHUNK), 1):
            total += seen
            if violation is not None:
                failed.append(seed)
                print(f"{violation}\nreplay: make sim-ha SEEDS=1 FIRST={seed}", flush=True)
            if done % _REPORT_EVERY == 0:
                print(f"{done} of {len(seeds)} schedules, {len(failed)} failed", flush=True)
    print(", ".join(f"{count:,} {what}" for what, count in total.items()), end="")
    print(f", checked in {time.monotonic() - started_s:.0f} s")
    print(f"{len(seeds) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
