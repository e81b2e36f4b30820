"""RocketMQ's gRPC client outside any pod, at a listener of node ports, while masters end.

Its proxy is a pod of its own, and it knows nothing but the address of the listener.

Not here: lost nodes. A proxy on one is lost with it, and its clients wait for Kubernetes.
"""

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from testkit.kube import stack
from testkit.kube.failover.faulting import DELETE, KILL, NODE_FAULT_S, ROLL, inject
from testkit.kube.failover.placement import nodes_of_pods
from testkit.kube.outside.listening import KubeListeners, node_addresses
from testkit.kube.outside.outside_load import OutsideLoad
from testkit.kube.pods.load_pod import failures
from testkit.kube.release import Release
from testkit.kube.stack import without_provisioner
from testkit.nodes.outside_network import VIRTUAL, OutsideNetwork, outside_network
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadSettings, read_back
from testkit.rocketmq.other_clients import GrpcLoad

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool: nodes are elsewhere"),
]

LISTENER: Final = "grpc"
TOPIC: Final = "OutsideGrpc"
PROXY_WITHIN_S: Final = 180.0
SENDS_BEFORE: Final = 200
SENDS_AFTER: Final = 500
SENT_WITHIN_S: Final = 120.0
ROLLED_WITHIN_S: Final = 300.0
PACE: Final = LoadSettings(threads=2, rate=50)


@dataclass(frozen=True, slots=True)
class GrpcClients:
    """What the clients need: where they run, the route front, and the address of the proxies."""

    network: OutsideNetwork
    name_server: str
    endpoints: str


@pytest.fixture
async def clients(release: Release, tmp_path: Path) -> AsyncIterator[GrpcClients]:
    """Give the cluster proxies and a listener for them, and make the topic, which a proxy cannot."""
    cluster, listeners = release.cluster, KubeListeners(release.cluster)
    nodes = await node_addresses(cluster)
    await release.group.until_at_home()
    await cluster.patch_spec("rmqc/main", {"proxy": {"mode": "Cluster", "replicas": 1}})
    try:
        ready = ("wait", "--for=condition=ProxyReady", "rmqc/main", f"--timeout={PROXY_WITHIN_S:.0f}s")
        await cluster.kubectl(*ready, timeout_s=PROXY_WITHIN_S + 10.0)
        with outside_network(next(iter(nodes.values()))) as network:
            network.lead_to(nodes[(await nodes_of_pods(cluster))[f"{release.group.name}-log-0"]])
            listener = {"name": LISTENER, "type": "NodePort", "advertisedHost": VIRTUAL}
            await listeners.add({**listener, "protocols": ["Remoting", "GRPC"]})
            name_server = await listeners.until_serving(LISTENER)
            first = OutsideLoad(network, name_server, TOPIC, tmp_path / "first")
            try:
                await first.start(PACE)
            finally:
                await first.remove()
            yield GrpcClients(network, name_server, (await listeners.status(LISTENER))["grpcAddress"])
    finally:
        await listeners.remove(LISTENER)
        await cluster.patch_spec("rmqc/main", {"proxy": None})


@pytest.mark.flaky(reruns=1)
async def test_no_send_of_a_grpc_client_outside_fails_when_a_master_ends(
    release: Release, clients: GrpcClients, tmp_path: Path
) -> None:
    for fault in (KILL, DELETE, ROLL):
        before = await release.group.until_at_home()
        node = (await nodes_of_pods(release.cluster))[before.master]
        directory = tmp_path / fault
        load = GrpcLoad(clients.endpoints, TOPIC, directory, PACE, entering=clients.network.entering)
        async with load, without_provisioner():
            await load.wait_for_acknowledged(SENDS_BEFORE, SENT_WITHIN_S)
            fault_ns = await inject(release.group, before.master, fault, node, NODE_FAULT_S)
            await release.group.until_epoch_above(before.epoch, ROLLED_WITHIN_S)
            await load.wait_for_acknowledged(SENDS_AFTER, SENT_WITHIN_S, after_ns=fault_ns)
            stats = await load.stop()
        sys.stdout.write(f"{fault}: {stats.longest_gap_s * 1_000:.0f} ms, {stats.failed} failed\n")
        await release.group.until_whole()
        read = await read_back(
            *(await jars(), clients.name_server, TOPIC, load.sends(), directory),
            entering=clients.network.entering,
        )
        assert read.lost == frozenset()
        assert stats.failed == 0, failures(load.sends())
