"""`make kill-rounds ROUNDS=30 SEED=n DURABILITY=quorum`: kill -9 of members under load, and read back.

Unmodified brokers and three controllers, all processes of their own, with a Java client that sends all the
while: two brokers and a log replica that all acknowledge (`all-in-sync`), or brokers of which some do:
`2-of-3`, `3-of-5`, and `quorum` for both, one after the other. A round waits a moment that the seed chose,
kills at once who the seed chose, waits until sends that began afterwards are acknowledged, starts the victims
again and waits until they are back in the SyncStateSet. At the end every acknowledged message is read with a
Java consumer, and the logs are compared byte by byte.

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

from testkit.kill_rounds.groups import GROUPS, KilledGroup
from testkit.kill_rounds.rounds import killed_group, run_rounds


async def _main(group: KilledGroup, rounds: int, seed: int) -> int:
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as directory:
        async with killed_group(Path(directory), group) as running:
            verdict = await run_rounds(running, random, group, rounds)
    found = verdict.read_back
    print(group.name)
    for victims in dict.fromkeys(group.victims):
        gaps_ms = sorted(one.gap_s * 1000 for one in verdict.rounds if one.victims == victims)
        if gaps_ms:
            print(
                f"{' and '.join(victims)}: {len(gaps_ms)} kills, gap median "
                f"{gaps_ms[len(gaps_ms) // 2]:.0f} ms, worst {gaps_ms[-1]:.0f} ms"
            )
    print(f"{len(verdict.rounds)} rounds: acknowledged {found.acknowledged}, lost {len(found.lost)}")
    print(f"the {group.members} logs are {'equal' if verdict.logs_equal else 'NOT EQUAL'}", flush=True)
    return 0 if verdict.passed else 1


def main() -> int:
    """Run as the command line says and return the exit status."""
    parser = argparse.ArgumentParser(prog="make kill-rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--durability", choices=GROUPS, default="all-in-sync", help="what an acknowledgement means"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the victims and times; a fresh one by default"
    )
    arguments = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    again = f"make kill-rounds ROUNDS={arguments.rounds} DURABILITY={arguments.durability} SEED={seed}"
    print(f"seed {seed}: again with {again}", flush=True)
    groups = GROUPS[arguments.durability]
    return max(asyncio.run(_main(group, arguments.rounds, seed)) for group in groups)


if __name__ == "__main__":
    sys.exit(main())
