"""A killed master costs each current client a short gap and no acknowledged message.

Three clients write to one cluster while its master is killed: the remoting client for Java, the gRPC client
for Java behind a proxy, and, where Go is installed, the client for Go.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from testkit.demo.story import DemoStory
from testkit.demo.under_load import under_load
from testkit.rocketmq.clients_under_test import GO, GRPC, ClientsUnderTest
from testkit.rocketmq.jars import DEFAULT_VERSION
from testkit.rocketmq.load import LoadClient, LoadSettings, longest_gap_since_s, read_back
from testkit.rocketmq.other_clients import GoUnavailableError, go_program

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SETTINGS = LoadSettings(threads=2, rate=50, poll_name_server_ms=200)
ACKS = 50
WITHIN_S = 90.0
GAP_S_MAX = 20.0
"""Of the client for Java, with pauses of the machine. A client that waits for its own poll needs 30 s."""
LONGER_S_MAX = 6.0
"""Of another client than that: the timeout of one send (3 s), and what a busy machine adds."""
_log = logging.getLogger(__name__)


async def _others() -> list[str]:
    try:
        await go_program()
    except GoUnavailableError as error:
        _log.warning("the Go client is left out: %s", error)
        return [GRPC]
    return [GRPC, GO]


async def test_a_killed_master_costs_each_client_a_short_gap_and_no_acknowledged_message(
    tmp_path: Path,
) -> None:
    names = await _others()
    async with under_load(tmp_path, rate=100) as running, AsyncExitStack() as stack:
        clients = await stack.enter_async_context(ClientsUnderTest(running.cluster, running.release))
        loads: dict[str, LoadClient] = {DEFAULT_VERSION: running.load}
        for name in names:
            load = await clients.load(name, f"of-{name}", tmp_path / name, SETTINGS)
            loads[name] = await stack.enter_async_context(load)
        await asyncio.gather(*(load.wait_for_acknowledged(ACKS, WITHIN_S) for load in loads.values()))
        happened = await DemoStory(running.cluster, running.load, running.progress).kill_master()
        await asyncio.gather(
            *(
                load.wait_for_acknowledged(ACKS, WITHIN_S, after_ns=happened.fault_ns)
                for load in loads.values()
            )
        )
        await asyncio.gather(*(load.stop() for load in loads.values()))
        gaps_s = {name: longest_gap_since_s(load.sends(), happened.fault_ns) for name, load in loads.items()}
        _log.info("gaps: %s", gaps_s)
        address = running.cluster.name_server.address
        for name, load in loads.items():
            where = tmp_path / f"read-{name}"
            read = await read_back(running.release, address, load.topic, load.sends(), where)
            assert not read.lost, name
            assert read.acknowledged >= 2 * ACKS, name
    java_s = gaps_s[DEFAULT_VERSION]
    assert java_s < GAP_S_MAX
    assert max(gaps_s.values()) < java_s + LONGER_S_MAX
