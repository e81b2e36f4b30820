"""Runs schedules one after the other until one is violated, and says which: `python -m testkit.mutants.hunt`.

Exit status: 10 a violation was found, 0 none was; anything else means that the hunt itself broke.
"""

import argparse
import sys

from testkit.check.errors import SafetyViolation
from testkit.sim.raft.schedules import run_schedule as run_raft
from testkit.sim.runs.controller_schedules import run_schedule as run_controllers

FOUND = 10


def first_violation(what: str, seed: int) -> str | None:
    """Return what one schedule violated, None for nothing."""
    if what == "raft":
        try:
            run_raft(seed)
        except SafetyViolation as violation:
            return str(violation)
        return None
    violations = run_controllers(seed).violations
    return violations[0] if violations else None


def main() -> int:
    """Hunt and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("controllers", "raft"))
    parser.add_argument("--seeds", type=int, required=True)
    arguments = parser.parse_args()
    for seed in range(arguments.seeds):
        violation = first_violation(arguments.what, seed)
        if violation is not None:
            sys.stdout.write(f"seed {seed}: {violation[:300]}\n")
            return FOUND
    return 0


if __name__ == "__main__":
    sys.exit(main())
