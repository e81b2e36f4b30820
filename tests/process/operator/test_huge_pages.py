"""The heap of a real broker lies in huge pages, although RocketMQ's start scripts switch them off."""

from typing import Final

import pytest

from testkit.rocketmq.jars import jars
from testkit.rocketmq.killed_broker import SMALL_PAGES, gives_huge_pages, killed

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

HEAP_MIB: Final = 256


async def test_a_broker_has_its_heap_in_huge_pages_unless_a_further_option_switches_them_off() -> None:
    if not gives_huge_pages():
        pytest.skip("the kernel gives no huge pages on request")
    release = await jars()
    huge = await killed(release, f"{HEAP_MIB}Mi")
    small = await killed(release, f"{HEAP_MIB}Mi", SMALL_PAGES)
    assert huge.huge_mib >= HEAP_MIB * 0.9
    assert small.huge_mib == 0
