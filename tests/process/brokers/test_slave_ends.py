"""The cost of a slave's end for a client that sends one message after the other.

It is why the operator kills a slave before deleting its pod.
"""

import signal
import time
from pathlib import Path

import pytest

from testkit.demo.story import wait_whole
from testkit.demo.under_load import UnderLoad, under_load
from testkit.rocketmq.load import summarise

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

ENDS_WITHIN_S = 60.0


async def _gap_s(running: UnderLoad, how: signal.Signals) -> float:
    """End the slave, and start it again; return the longest time without an acknowledgement until then."""
    master_address = (await wait_whole(running.cluster))["master_address"]
    slave = next(broker for broker in running.cluster.brokers if broker.address != master_address)
    before_ns = running.load.sends()[-1].end_ns
    slave.process.signal(how)
    await slave.process.wait(ENDS_WITHIN_S)
    await running.load.wait_for_acknowledged(20, ENDS_WITHIN_S, after_ns=time.time_ns())
    sends = [send for send in running.load.sends() if send.end_ns >= before_ns]
    await slave.start()
    return summarise(sends).longest_gap_s


async def test_a_client_of_one_thread_waits_for_a_slave_that_stops_in_good_order_but_not_for_a_killed_one(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path, rate=50, threads=1) as running:
        killed_s = await _gap_s(running, signal.SIGKILL)
        stopped_s = await _gap_s(running, signal.SIGTERM)
        result = await running.read_back()
    assert result.lost == frozenset()
    assert killed_s < stopped_s / 2, "by now one that stops in good order could be let do so"
    assert stopped_s > 0.9
