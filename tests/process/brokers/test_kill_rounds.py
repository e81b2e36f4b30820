"""Members are killed alternately under load, of a group that all acknowledge and of a quorum.

No acknowledged message is lost, and all logs are equal.
"""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from testkit.kill_rounds.groups import ALL_IN_SYNC, MASTER, TWO_OF_THREE, KilledGroup
from testkit.kill_rounds.rounds import RoundsVerdict, killed_group, run_rounds

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SEED = 6
FIRST_ACKNOWLEDGEMENT_S_MAX = 30.0
"""Far above what it takes; this test is about loss, and a victim is started again only
when sends were acknowledged."""


async def test_killing_each_member_once_costs_no_message_and_leaves_three_equal_logs(tmp_path: Path) -> None:
    verdict = await killed(tmp_path, ALL_IN_SYNC, len(ALL_IN_SYNC.victims))
    assert {one.victims for one in verdict.rounds} == set(ALL_IN_SYNC.victims)


async def test_killing_a_master_that_two_of_three_acknowledged_costs_no_message(tmp_path: Path) -> None:
    await killed(tmp_path, replace(TWO_OF_THREE, victims=((MASTER,),)), 1)


async def killed(directory: Path, group: KilledGroup, rounds: int) -> RoundsVerdict:
    """Run rounds and check that nothing was lost."""
    async with killed_group(directory, group) as running:
        verdict = await run_rounds(running, Random(SEED), group, rounds)
    assert verdict.read_back.acknowledged > 500
    assert verdict.read_back.lost == frozenset()
    assert verdict.logs_equal
    for one in verdict.rounds:
        # Only a master has a successor.
        assert (one.epochs[1] > one.epochs[0]) == (MASTER in one.victims)
        assert one.gap_s < FIRST_ACKNOWLEDGEMENT_S_MAX
    return verdict
