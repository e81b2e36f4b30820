"""`make kill-rounds ROUNDS=30 SEED=n`: kill -9 of members under load, in rounds, and read back.

The victims are master, slave and log replica.

Two unmodified brokers, a log replica and three controllers, all processes of their own, with a Java
client that sends all the while. A round waits a moment that the seed chose, kills who the seed chose,
waits until sends that began afterwards are acknowledged, starts the victim again and waits until it is
back in the SyncStateSet. At the end every acknowledged message is read with a Java consumer, and the
three logs are compared byte by byte.

Exit status: 0 nothing acknowledged was lost and the logs are equal, 1 otherwise. The victims and times follow
from the seed; what a kill meets does not, since the processes are real.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Final

from testkit.demo.under_load import under_load
from testkit.kill_rounds.rounds import MEMBERS, run_rounds

SENDS_PER_S: Final = 200


async def _main(rounds: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as directory:
        async with under_load(Path(directory), rate=SENDS_PER_S) as running:
            verdict = await run_rounds(running, Random(seed), rounds)
    found = verdict.read_back
    for victim in MEMBERS:
        gaps_ms = sorted(one.gap_s * 1000 for one in verdict.rounds if one.victim == victim)
        if gaps_ms:
            print(
                f"{victim}: {len(gaps_ms)} kills, gap median {gaps_ms[len(gaps_ms) // 2]:.0f} ms, "
                f"worst {gaps_ms[-1]:.0f} ms"
            )
    print(f"{len(verdict.rounds)} rounds: acknowledged {found.acknowledged}, lost {len(found.lost)}")
    print(f"the three logs are {'equal' if verdict.logs_equal else 'NOT EQUAL'}")
    return 0 if verdict.passed else 1


def main() -> int:
    """Run as the command line says and return the exit status."""
    parser = argparse.ArgumentParser(prog="make kill-rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the victims and times; a fresh one by default"
    )
    arguments = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}: again with make kill-rounds ROUNDS={arguments.rounds} SEED={seed}", flush=True)
    return asyncio.run(_main(arguments.rounds, seed))


if __name__ == "__main__":
    sys.exit(main())
