"""A group, a broker and a slave come and go while a client outside any pod sends: none of its sends fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from testkit.kube import stack
from testkit.kube.failover.placement import nodes_of_pods
from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, until
from testkit.kube.outside.listening import LISTENER, KubeListeners, OutsideClients, outside_clients
from testkit.kube.pods.load_pod import failures
from testkit.kube.release import Release
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_500),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool: nodes are elsewhere"),
]

LEDGER: Final = "ledger"
BROKERS: Final = "app.kubernetes.io/component=broker"
CHANGED_WITHIN_S: Final = 300.0
SETTLED_S: Final = 5.0
PACE: Final = LoadSettings(threads=2, rate=50)


@pytest.fixture
async def outside(release: Release, tmp_path: Path) -> AsyncIterator[OutsideClients]:
    async with outside_clients(release.cluster, tmp_path) as clients:
        yield clients


@pytest.mark.flaky(reruns=1)
async def test_no_send_of_a_client_outside_fails_while_a_group_a_broker_and_a_slave_come_and_go(
    release: Release, outside: OutsideClients
) -> None:
    group, listeners = release.group, KubeListeners(release.cluster)
    view = await group.until_at_home()
    outside.lead_to((await nodes_of_pods(release.cluster))[f"{group.name}-log-0"])
    async with outside.load("BesideChanges", PACE) as load:
        async with _second_group(release.cluster):
            await listeners.until_serving(LISTENER)
            async with outside.load("OfBothGroups", PACE) as other:
                await asyncio.sleep(SETTLED_S)
                assert (await other.stop()).acknowledged > 0
                assert failures(await other.sends()) == []
        await _scale(group, 3)
        await listeners.until_serving(LISTENER)
        await _scale(group, 2)
        await release.cluster.kubectl("delete", "persistentvolumeclaim", f"data-{group.name}-2")
        await _replace_slave(group)
        await listeners.until_serving(LISTENER)
        stats = await load.stop()
        assert stats.acknowledged > 0
        assert failures(await load.sends()) == []
        assert (await load.read_back()).lost == frozenset()
    after = await group.until_at_home()
    assert (after.master, after.epoch) == (view.master, view.epoch)


@asynccontextmanager
async def _second_group(cluster: Cluster) -> AsyncIterator[None]:
    """Make a group of one broker, wait until it serves, and remove it with its volumes."""
    orders = await cluster.get("brokergroup", "orders")
    spec = {"cluster": orders["spec"]["cluster"], "durability": "Async", "replicas": 1}
    about = {"apiVersion": orders["apiVersion"], "kind": "BrokerGroup", "metadata": {"name": LEDGER}}
    given = {"storage": {"size": "1Gi"}, "resources": orders["spec"]["resources"]}
    await cluster.apply({**about, "spec": spec | given})
    try:
        await KubeGroup(cluster, LEDGER).until_at_home(CHANGED_WITHIN_S)
        yield
    finally:
        await cluster.kubectl("delete", "brokergroup", LEDGER, timeout_s=CHANGED_WITHIN_S)
        volumes = ("delete", "pvc", "--selector", f"rocketmq-ha.dev/group={LEDGER}")
        await cluster.kubectl(*volumes, timeout_s=CHANGED_WITHIN_S)


async def _scale(group: KubeGroup, brokers: int) -> None:
    """Change the number of brokers, and wait until all are members and those that left are gone."""
    await group.cluster.kubectl("scale", f"brokergroup/{group.name}", f"--replicas={brokers}")

    async def done() -> bool:
        view = await group.view()
        pods = await group.cluster.find("pods", f"{BROKERS},rocketmq-ha.dev/group={group.name}")
        return view.whole and len(view.brokers) == len(pods) == brokers

    await until(f"{group.name} has {brokers} brokers", done, CHANGED_WITHIN_S)


async def _replace_slave(group: KubeGroup) -> None:
    """Delete a slave with its volume, and wait until another one is in sync."""
    cluster, view = group.cluster, await group.view()
    (slave,) = set(view.brokers) - {view.master}
    before = (await cluster.get("pod", slave))["metadata"]["uid"]
    await cluster.kubectl("delete", "persistentvolumeclaim", f"data-{slave}", "--wait=false")
    await cluster.kubectl("delete", "pod", slave, timeout_s=120.0)

    async def replaced() -> bool:
        found = [pod for pod in await cluster.find("pods") if pod["metadata"]["name"] == slave]
        return any(pod["metadata"]["uid"] != before for pod in found)

    await until(f"{slave} is another pod", replaced, CHANGED_WITHIN_S)
    await group.until_at_home(CHANGED_WITHIN_S)
