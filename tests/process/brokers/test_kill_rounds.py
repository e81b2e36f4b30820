"""Master, slave and log replica are killed alternately under load.

No acknowledged message is lost, and all three logs are equal.
"""

from pathlib import Path
from random import Random

import pytest

from testkit.demo.under_load import under_load
from testkit.kill_rounds.rounds import MEMBERS, run_rounds

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SEED = 6
FIRST_ACKNOWLEDGEMENT_S_MAX = 30.0
"""Far above what it takes; this test is about loss, and a victim is started again only
when sends were acknowledged."""


async def test_killing_each_member_once_costs_no_message_and_leaves_three_equal_logs(tmp_path: Path) -> None:
    async with under_load(tmp_path, rate=200) as running:
        verdict = await run_rounds(running, Random(SEED), len(MEMBERS))
    assert {one.victim for one in verdict.rounds} == set(MEMBERS)
    assert verdict.read_back.acknowledged > 500
    assert verdict.read_back.lost == frozenset()
    assert verdict.logs_equal
    for one in verdict.rounds:
        # Only a master has a successor.
        assert (one.epochs[1] > one.epochs[0]) == (one.victim == "master")
        assert one.gap_s < FIRST_ACKNOWLEDGEMENT_S_MAX
