"""RocketMQ's own client in a network of its own, which a virtual address leads to a node's ports.

The node is this machine on a bridge, and its ports are relays before the route front and the broker.
"""

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from testkit.kube.outside.outside_load import OutsideLoad
from testkit.nodes.outside_network import VIRTUAL, OutsideNetwork, lacking, outside_network, run
from testkit.processes.relay import Relay
from testkit.products.route_front import RouteFrontProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadSettings
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "possible"),
]

FIRST_NODE, SECOND_NODE = "10.251.7.1", "10.251.7.2"
SETTINGS: Final = {
    "brokerRole": "ASYNC_MASTER",
    "waitTimeMillsInSendQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}


@pytest.fixture
def network() -> Iterator[OutsideNetwork]:
    """Make a bridge on which this machine is two nodes, and the network beside it."""
    bridge = f"nodes{os.getpid() % 65_536}"
    run(f"ip link add {bridge} type bridge")
    try:
        for node in (FIRST_NODE, SECOND_NODE):
            run(f"ip addr add {node}/24 dev {bridge}")
        run(f"ip link set {bridge} up")
        with outside_network(FIRST_NODE) as made:
            yield made
    finally:
        run(f"ip link del {bridge}")


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The processes of one test."""

    front: str
    relay: Relay


@pytest_asyncio.fixture
async def node_ports(tmp_path: Path, name_server: NameServer) -> AsyncIterator[NodePorts]:
    place = BrokerPlace("main", "orders", "orders-0", tmp_path / "broker")
    broker = JavaBroker(await jars(), place, name_server.address, SETTINGS)
    relay = Relay(broker.address, host="0.0.0.0")  # noqa: S104 - a port of each node
    outside = f"{VIRTUAL}:{relay.address.rpartition(':')[2]}"
    front = RouteFrontProcess([name_server.address], tmp_path / "front", {broker.address: outside})
    before_front = Relay(front.address, host="0.0.0.0")  # noqa: S104 - a port of each node
    try:
        await broker.start()
        await name_server.wait_for_master("orders")
        await relay.start()
        await front.start()
        await before_front.start()
        yield NodePorts(f"{VIRTUAL}:{before_front.address.rpartition(':')[2]}", relay)
    finally:
        await before_front.stop()
        await front.stop()
        await relay.stop()
        await broker.stop()


async def test_a_client_outside_sends_through_one_node_and_reads_through_another(
    tmp_path: Path, network: OutsideNetwork, node_ports: NodePorts
) -> None:
    load = OutsideLoad(network, node_ports.front, "Payments", tmp_path / "load")
    try:
        await load.start(LoadSettings(threads=2, rate=100))
        network.lead_to(SECOND_NODE)
        before = node_ports.relay.accepted
        stats = await load.stop()
        assert (stats.acknowledged > 0, stats.failed) == (True, 0)
        assert node_ports.relay.accepted == before, "connections stay where they were led"
        result = await load.read_back()
        assert (result.lost, result.read) == (frozenset(), stats.acknowledged)
        assert node_ports.relay.accepted > before
    finally:
        await load.remove()


async def test_a_load_balancer_leads_to_its_own_port(
    tmp_path: Path, network: OutsideNetwork, node_ports: NodePorts
) -> None:
    _, _, port = node_ports.front.rpartition(":")
    network.lead_to(FIRST_NODE, {("198.51.100.9", 9876): int(port)})
    load = OutsideLoad(network, "198.51.100.9:9876", "Payments", tmp_path / "load")
    try:
        await load.start(LoadSettings(threads=1, rate=50))
        stats = await load.stop()
        assert (stats.acknowledged > 0, stats.failed) == (True, 0)
    finally:
        await load.remove()
