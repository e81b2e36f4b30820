"""RocketMQ's own client outside any pod, which knows only the route front of a listener of node ports.

It fails over as a client in a pod does, in the same runs, and other listeners come and go beside it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from testkit.kube import stack
from testkit.kube.failover.faulting import DELETE, INSIDE, KILL, OUTSIDE, FaultCost, measured_by_clients
from testkit.kube.failover.placement import nodes_of_pods
from testkit.kube.kubectl import Json
from testkit.kube.outside.listening import (
    KubeListeners,
    OutsideClients,
    node_addresses,
    outside_clients,
)
from testkit.kube.outside.load_balancers import LoadBalancerController
from testkit.kube.outside.outside_load import OutsideLoad
from testkit.kube.pods.load_pod import FAILOVER_GAP_S_MAX, LoadPod, failures
from testkit.kube.release import ROCKETMQ_IMAGE, Release
from testkit.nodes.outside_network import VIRTUAL, OutsideNetwork, outside_network
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool: nodes are elsewhere"),
]

BUSY_RERUNS: Final = 2
LATER: Final = "later"
PUBLIC: Final = "public"
CLASS: Final = "testkit.example/balancer"
SETTLED_S: Final = 5.0
RUNS: Final = iter(range(100))
"""Of this process, for names of pods and topics."""


@pytest.fixture
async def outside(release: Release, tmp_path: Path) -> AsyncIterator[OutsideClients]:
    async with outside_clients(release.cluster, tmp_path) as clients:
        yield clients


@pytest.mark.flaky(reruns=BUSY_RERUNS)
async def test_a_client_outside_fails_over_as_one_in_a_pod_does(
    release: Release, outside: OutsideClients
) -> None:
    for fault in (KILL, DELETE):
        costs = await measured_by_clients(
            *(release.group, ROCKETMQ_IMAGE, "main-nameserver:9876", fault, 100 + next(RUNS)),
            clients=(INSIDE, OUTSIDE),
            outside=outside,
        )
        assert [cost.client for cost in costs] == [INSIDE, OUTSIDE]
        for cost in costs:
            _assert_cheap(cost)


def _assert_cheap(cost: FaultCost) -> None:
    assert cost.acknowledged > 0
    assert (cost.lost, cost.failed) == (0, 0), (cost.client, cost.fault, cost.problems)
    assert cost.gap_ms < FAILOVER_GAP_S_MAX * 1_000, (cost.client, cost.fault, cost.phases_ms)


async def test_a_listener_comes_and_goes_without_a_failed_send_of_others(
    release: Release, load: LoadPod, outside: OutsideClients
) -> None:
    listeners = KubeListeners(release.cluster)
    view = await release.group.until_at_home()
    outside.lead_to(await _entry(release))
    async with outside.load("BesideOthers", LoadSettings(threads=4, rate=100)) as beside:
        await listeners.add({"name": LATER, "type": "NodePort", "advertisedHost": VIRTUAL})
        try:
            name_server = await listeners.until_serving(LATER)
            await asyncio.sleep(SETTLED_S)
            other = OutsideLoad(outside.network, name_server, "ThroughLater", outside.directory / "later")
            await other.start(LoadSettings(threads=2, rate=50))
            stats = await other.stop()
            assert (stats.acknowledged > 0, stats.failed) == (True, 0)
        finally:
            await listeners.remove(LATER)
        await asyncio.sleep(SETTLED_S)
        await _stop_without_loss(beside)
    await load.stop_without_loss(failed_max=0)
    assert await release.group.view() == view, "the group noticed nothing"


async def _stop_without_loss(load: OutsideLoad) -> None:
    stats = await load.stop()
    assert stats.acknowledged > 0
    assert failures(await load.sends()) == []
    assert (await load.read_back()).lost == frozenset()


async def _entry(release: Release) -> str:
    """Return the node of the log replica, which no test harms."""
    return (await nodes_of_pods(release.cluster))[f"{release.group.name}-log-0"]


@pytest.fixture
def network(nodes: dict[str, str]) -> Iterator[OutsideNetwork]:
    with outside_network(next(iter(nodes.values()))) as made:
        yield made


@pytest.fixture
async def nodes(release: Release) -> dict[str, str]:
    return await node_addresses(release.cluster)


async def test_load_balancers_give_a_listener_its_addresses(
    release: Release, nodes: dict[str, str], network: OutsideNetwork, tmp_path: Path
) -> None:
    cluster, listeners = release.cluster, KubeListeners(release.cluster)
    await release.group.until_at_home()
    listener: Json = {"name": PUBLIC, "type": "LoadBalancer", "loadBalancerClass": CLASS}
    await listeners.add(listener)
    try:
        missing = await listeners.until_condition("NoListenerAddress")
        assert missing["status"] == "False"
        assert missing["message"] == f"listener {PUBLIC}: the address of its route front is not known"
        assert (await listeners.status(PUBLIC)).get("address", "") == ""

        async with LoadBalancerController(cluster, CLASS).balancing() as balancers:
            name_server = await listeners.until_serving(PUBLIC)
            assert name_server == f"{balancers.given[f'main-front-{PUBLIC}']}:9876"
            assert set(balancers.given) == {f"main-front-{PUBLIC}", *await listeners.services_of(PUBLIC)}
            ready = await listeners.condition()
            assert f"{PUBLIC} at {name_server}" in ready["message"]
            status = await listeners.status(PUBLIC)
            assert status["address"] == name_server
            assert name_server in await cluster.plugin("bootstrap", "main")
            told = await cluster.get("configmap", "main-bootstrap")
            assert told["data"][f"listener.{PUBLIC}.namesrvAddr"] == name_server

            entry = nodes[await _entry(release)]
            network.lead_to(entry, await balancers.ports())
            load = OutsideLoad(network, name_server, "Balanced", tmp_path / "balanced")
            try:
                await load.start(LoadSettings(threads=2, rate=50))
                await _stop_without_loss(load)
            finally:
                await load.remove()
    finally:
        await listeners.remove(PUBLIC)
