"""Which addresses a node agent takes for those of its own node, from real routes and links."""

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from ha_sidecar.node_agent.local_hosts import LocalHosts
from testkit.nodes.service_rules import Version
from testkit.nodes.small_node import SmallNode, lacking, small_node

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")

OUTSIDE = {"IPv4": "192.0.2.7", "IPv6": "2001:db8::7"}


@pytest.fixture
def node() -> Iterator[SmallNode]:
    with small_node() as made:
        yield made


def found(node: SmallNode, *hosts: str) -> frozenset[str]:
    """Ask as the agent does, in the network of the node."""

    def work() -> frozenset[str]:
        with contextlib.closing(LocalHosts()) as local:
            return local.of(hosts)

    return node.entered("node", work)


def ip(node: SmallNode, words: str) -> None:
    """Change the network of the node."""
    subprocess.run(["ip", "-n", node.name("node"), *words.split()], check=True, capture_output=True)


@pytest.mark.parametrize("version", ["IPv4", "IPv6"])
def test_pods_and_own_addresses_are_here_and_machines_beyond_a_gateway_are_not(
    node: SmallNode, version: Version
) -> None:
    pod, own, new = node.host(version, "pod"), node.gateway(version, "pod"), node.host(version, "new")
    ip(node, f"-{version[-1]} route add {OUTSIDE[version]} via {new}")
    assert found(node, pod, own, OUTSIDE[version]) == {pod, own}
    assert found(node) == frozenset()


def test_a_pod_with_a_route_of_its_own_is_here_and_other_machines_of_a_link_are_not(node: SmallNode) -> None:
    old, new = node.host("IPv4", "old"), node.host("IPv4", "new")
    assert found(node, old, new) == frozenset(), "the node may share these links with other machines"
    ip(node, f"route add {old} dev old")
    assert found(node, old, new) == {old}
    ip(node, f"route add {OUTSIDE['IPv4']} via {old}")
    assert found(node, old) == frozenset(), "a link to a gateway leads to other machines too"


def test_pods_are_unknown_on_a_bridge_with_another_network(node: SmallNode) -> None:
    pod = node.host("IPv4", "pod")
    ip(node, "tuntap add dev card mode tap")
    ip(node, "link set card master cni0")
    assert found(node, pod) == frozenset()
