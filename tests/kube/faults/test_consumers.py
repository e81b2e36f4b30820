"""RocketMQ's own consumers get every message after a kill, from all queues, and soon."""

from typing import Final

import pytest

from testkit.kube.failover.faulting import KILL, measured
from testkit.kube.release import ROCKETMQ_IMAGE, Release

pytestmark = pytest.mark.timeout(600)

LATEST_MS_MAX: Final = 10_000
"""The client repeats a failed pull after 1 s; a queue without a reader stays so for 20 s at least."""


async def test_after_a_kill_consumers_receive_each_message_and_each_transaction(release: Release) -> None:
    cost = await measured(release.group, ROCKETMQ_IMAGE, "main-nameserver:9876", KILL, 500)
    noticed = cost.consumers
    assert noticed is not None
    assert cost.lost == 0
    assert (noticed.unreceived, noticed.open_transactions, noticed.disordered) == (0, 0, 0)
    assert noticed.latest_ms < LATEST_MS_MAX
