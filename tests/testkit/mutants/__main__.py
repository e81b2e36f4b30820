"""`make mutants`: plant every bug of the catalogue, give the checkers three forgeries, report findings.

Exit status: 0 all were found, 1 one was not.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testkit.mutants.canaries import CANARIES
from testkit.mutants.catalogue import MUTANTS
from testkit.mutants.runner import Fate, Result, run

_ROOT = Path(__file__).parents[3]


def _line(result: Result) -> str:
    return f"{result.fate:<9}{result.took_s:>5.0f} s  {result.mutant.name}\n{'':18}{result.evidence[:150]}"


def main() -> int:
    """Run all and return the exit status."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.name]
    started_s = time.monotonic()
    missed = 0
    with ThreadPoolExecutor(arguments.at_once) as pool:
        for result in pool.map(lambda mutant: run(mutant, _ROOT), chosen):
            missed += result.fate is not Fate.FOUND
            print(_line(result), flush=True)
    silent = 0
    for name, canary in CANARIES.items():
        reported = canary()
        silent += reported is None
        print(f"{'reported' if reported else 'SILENT':<18}{name}\n{'':18}{(reported or '')[:150]}")
    print(f"{len(chosen) - missed} of {len(chosen)} mutants found", end=", ")
    print(
        f"{len(CANARIES) - silent} of {len(CANARIES)} canaries reported, {time.monotonic() - started_s:.0f} s"
    )
    return 1 if missed or silent else 0


if __name__ == "__main__":
    sys.exit(main())
