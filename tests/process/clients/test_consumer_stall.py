"""What holds push consumers longer than producers when a master is killed: their own timer, and nothing else.

Both consumers ask for routes every 0.2 s, because on loopback the address of a dead master does not move.
"""

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from testkit.demo.story import DemoStory
from testkit.demo.under_load import under_load
from testkit.rocketmq.consumers.consumption import Received, consumer_cost
from testkit.rocketmq.consumers.push_consumers import PushConsumers
from testkit.rocketmq.load import longest_gap_since_s

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLIENTS_TIMER_MS = 1_000
"""ClientConfig.pullTimeDelayMillsWhenException."""
SHORT_TIMER_MS = 100
POLL_MS = 200
BEFORE_NS = 1_000_000_000
LATER_THAN_PRODUCERS_MS = 500
_log = logging.getLogger(__name__)


def longest_silence_ms(received: Sequence[Received], after_ns: int) -> float:
    """Return the longest time without a receipt after a moment, whether messages waited or not."""
    times = sorted(one.ts_ns for one in received if one.ts_ns >= after_ns)
    return max(later - earlier for earlier, later in itertools.pairwise(times)) / 1e6


async def test_a_consumer_waits_for_its_own_timer_and_with_a_short_one_hardly_longer_than_a_producer(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path, rate=200) as running:
        load, jars = running.load, running.release
        address = running.cluster.name_server.address

        def consumers(name: str, pull_delay_ms: int) -> PushConsumers:
            directory = tmp_path / name
            return PushConsumers(
                *(jars, address, load.topic, directory),
                poll_name_server_ms=POLL_MS,
                pull_delay_ms=pull_delay_ms,
            )

        async with consumers("default", 0) as default, consumers("short", SHORT_TIMER_MS) as short:
            happened = await DemoStory(running.cluster, load, running.progress).kill_master()
            sends = load.sends()
            received = {"default": default.received(), "short": short.received()}
    after_ns = happened.fault_ns - BEFORE_NS
    gap_ms = longest_gap_since_s(sends, after_ns) * 1_000
    costs = {name: consumer_cost(sends, of, after_ns) for name, of in received.items()}
    concurrent = [one for one in received["default"] if not one.ordered]
    _log.info("gap %.0f ms; %s", gap_ms, costs)
    assert longest_silence_ms(concurrent, after_ns) >= CLIENTS_TIMER_MS
    assert costs["short"].stall_ms < gap_ms + LATER_THAN_PRODUCERS_MS
