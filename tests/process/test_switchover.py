"""Planned switchovers under load, again and again: nothing acknowledged is lost.

A master that steps down in the midst of writes acknowledges some that nobody else holds: with everybody told at once 5 of
12 switchovers lost messages, with the old master told first 1 of 26. So its writes are stopped and drained before.
"""

from pathlib import Path

import pytest

from testkit.demo.story import Story
from testkit.demo.under_load import under_load

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SWITCHOVERS = 5


async def test_no_planned_switchover_under_load_loses_an_acknowledged_message(tmp_path: Path) -> None:
    async with under_load(tmp_path) as running:
        story = Story(running.cluster, running.load, running.progress)
        epochs = [(await story.switch_over()).new_epoch for _ in range(SWITCHOVERS)]
        result = await running.read_back()
    assert result.acknowledged > 1_000
    assert result.lost == frozenset()
    assert epochs == sorted(set(epochs))
