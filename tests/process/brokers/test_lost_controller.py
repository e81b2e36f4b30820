"""A master that is lost together with the controllers' leader: clients do not wait for that leader.

A broker sends its requests for another SyncStateSet (1001) to the leader that it knows, and waits 3 s for
the answer. Once per second it asks the controllers who leads, in the order of its hash table. If the first of
them is the lost leader, it waits for that too. So the leader here is the controller that brokers ask first.

The new master acknowledges as soon as a replica has joined it. But the controllers, and so the operator,
would learn of that only by its request.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest

from rocketmq_operator.clients.controllers import ControllersClient
from rocketmq_operator.handlers.takeover import ElectionEvent, can_acknowledge, parse_election
from testkit.demo.story import wait_whole
from testkit.demo.under_load import under_load
from testkit.products.controllers import ControllerCluster
from testkit.rocketmq.processes import JavaBroker

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CONTROLLER_GIVEN_UP_S = 3.0
"""How long a broker waits for a controller that does not answer (BrokerOuterAPI)."""
WITHIN_S = 60.0
TABLE_SIZE = 16
"""Of a ConcurrentHashMap with three keys."""


def asked_first(addresses: Sequence[str]) -> int:
    """Return the index of the address that comes first in a Java hash table."""
    return min(range(len(addresses)), key=lambda index: _slot(addresses[index]))


def _slot(text: str) -> int:
    """Return the place of a text in a Java hash table (String.hashCode, ConcurrentHashMap.spread)."""
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code ^ (code >> 16)) & (TABLE_SIZE - 1)


async def lead(controllers: ControllerCluster, index: int, brokers: Sequence[JavaBroker]) -> None:
    """Make a controller the leader, and wait until the brokers know it."""
    leader = await controllers.wait_leader()
    if leader != index:
        url = f"http://{controllers.http_addresses[leader]}/v1/leader/transfer"
        async with aiohttp.ClientSession() as session, session.post(url, json={"to": f"n{index}"}) as answer:
            answer.raise_for_status()
    address = controllers.remoting_addresses[index]
    for broker in brokers:
        await broker.process.wait_for_text(f"Update controller leader address to {address}", WITHIN_S)


async def can_serve(http_address: str, following: asyncio.Event) -> int:
    """Return when the operator may move addresses to the next master, by one controller's events; UTC."""
    election: ElectionEvent | None = None
    async with aiohttp.ClientSession() as session:
        client = ControllersClient(session, [http_address])
        await client.nodes()
        following.set()
        async for event in client.events():
            election = parse_election(event) or election
            if election is not None and can_acknowledge(election, event):
                return time.time_ns()
    raise AssertionError("the controller ended its events")


async def test_addresses_move_before_the_new_master_gives_up_the_controller_that_was_lost_with_the_old_one(
    tmp_path: Path,
) -> None:
    async with under_load(tmp_path, rate=100) as running:
        controllers = running.cluster.controllers
        leader = asked_first(controllers.remoting_addresses)
        await lead(controllers, leader, running.cluster.brokers)
        before = await wait_whole(running.cluster)
        old = running.cluster.broker_at(before["master_address"])
        following = asyncio.Event()
        moved = asyncio.create_task(can_serve(controllers.http_addresses[leader - 1], following))
        await following.wait()
        lost_ns = time.time_ns()
        controllers.freeze_node(leader)
        await old.process.kill()
        try:
            async with asyncio.timeout(WITHIN_S):
                moved_ns = await moved
            await running.load.wait_for_acknowledged(100, WITHIN_S, after_ns=moved_ns)
        finally:
            controllers.thaw_node(leader)
        await old.start()
        await wait_whole(running.cluster)
        result = await running.read_back()
    assert result.lost == frozenset()
    assert (moved_ns - lost_ns) / 1e9 < CONTROLLER_GIVEN_UP_S
