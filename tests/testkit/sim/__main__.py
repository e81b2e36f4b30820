"""`make sim SEEDS=n`: n schedules of failures on all processors; a failure prints the line that replays it.

`--what controllers` (the default) runs whole controllers with modelled brokers, `--what raft` Raft's
core alone, which takes a sixth of the time and goes deeper into its corners (membership changes,
leases on and off, small windows).

Exit status: 0 nothing was violated, 1 something was, 2 the run itself proves nothing (an injector without
effect, a seed that ran differently the second time).
"""

import argparse
import multiprocessing
import subprocess
import sys
import time

from testkit.check.errors import SafetyViolation
from testkit.sim.raft.schedules import run_schedule as run_raft
from testkit.sim.runs.controller_schedules import ScheduleReport
from testkit.sim.runs.controller_schedules import run_schedule as run_controllers
from testkit.sim.runs.totals import Totals

_CHUNK = 5
_REPORT_EVERY = 200
_REPEATED_MAX = 20
"""Seeds that are run twice, to see that they run the same."""


def _raft_verdict(seed: int) -> tuple[int, str | None, int, int]:
    """Return the seed, the violation or None, and how many elections and reads the schedule had."""
    try:
        cluster = run_raft(seed)
    except SafetyViolation as violation:
        return seed, str(violation), 0, 0
    return seed, None, cluster.checks.elections, cluster.checks.reads


def _raft(seeds: range) -> int:
    failed = elections = reads = 0
    with multiprocessing.Pool() as pool:
        for seed, violation, held, answered in pool.imap_unordered(_raft_verdict, seeds, _CHUNK):
            elections += held
            reads += answered
            if violation is not None:
                failed += 1
                print(f"{violation}\nreplay: make sim-raft SEEDS=1 FIRST={seed}", flush=True)
    print(f"{elections} elections, {reads} reads checked")
    print(f"{len(seeds) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _controllers(seeds: range) -> int:
    totals = Totals()
    repeated = list(seeds)[:_REPEATED_MAX]
    with multiprocessing.Pool() as pool:
        for report in pool.imap_unordered(run_controllers, seeds, _CHUNK):
            totals.add(report)
            _print_failure(report)
            if totals.schedules % _REPORT_EVERY == 0:
                print(
                    f"{totals.schedules} of {len(seeds)} schedules, {len(totals.failed)} failed", flush=True
                )
        for report in pool.imap_unordered(run_controllers, repeated, 1):
            totals.repeat(report)
    for line in totals.lines():
        print(line)
    return totals.exit_status


def _print_failure(report: ScheduleReport) -> None:
    if report.violations:
        print(f"seed {report.seed}: {report.violations[0]}")
        print(f"replay: make sim SEEDS=1 FIRST={report.seed}", flush=True)


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def main() -> int:
    """Run the schedules and return the exit status."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--what", choices=("controllers", "raft"), default="controllers")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    print(f"{arguments.what}: seeds {seeds.start} to {seeds.stop - 1}, commit {_commit()}", flush=True)
    started_s = time.monotonic()
    status = _raft(seeds) if arguments.what == "raft" else _controllers(seeds)
    print(f"{time.monotonic() - started_s:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
