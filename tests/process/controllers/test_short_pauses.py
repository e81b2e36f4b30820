"""A leader that stands still for moments, as without CPU, is replaced at first and then no more."""

import asyncio
from pathlib import Path

import pytest

from testkit.products.controllers import ControllerCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PAUSE_S = 0.4
"""Above the least wait of a node, 0.3 s, and below the least that it has after a lesson, 0.6 s."""
PAUSES_MAX = 24
KEPT_IN_A_ROW = 6
SETTLE_S = 30.0


async def _leader_and_term(cluster: ControllerCluster) -> tuple[int, int]:
    """Return the leader that all follow, and its term."""
    leader = await cluster.wait_leader(SETTLE_S)
    status = await cluster.status(leader)
    assert status is not None
    return leader, int(status["term"])


async def test_a_leader_that_pauses_again_and_again_comes_to_keep_its_office(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path) as cluster:
        kept = 0
        for _ in range(PAUSES_MAX):
            before = leader, _ = await _leader_and_term(cluster)
            cluster.freeze_node(leader)
            await asyncio.sleep(PAUSE_S)
            cluster.thaw_node(leader)
            await cluster.wait_all_ready()
            kept = kept + 1 if await _leader_and_term(cluster) == before else 0
            if kept == KEPT_IN_A_ROW:
                return
    pytest.fail(f"no {KEPT_IN_A_ROW} of {PAUSES_MAX} pauses in a row kept the leader")
