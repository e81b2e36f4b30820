"""A node with the master is cut off, then frozen, while node agents run, in both modes of kube-proxy.

The controllers take the node for lost at once, and the agents reset connections to it.
"""

import asyncio
import shutil
import sys

import pytest

from ha_sidecar.node_agent.flows import Visibility
from testkit.kube import stack
from testkit.kube.failover.faulting import CUT, FREEZE, measured
from testkit.kube.kubectl import Cluster, until
from testkit.kube.release import ROCKETMQ_IMAGE, Release, as_shown, shown_commands, upgrade
from testkit.nodes.kube_proxy import proxy_mode
from testkit.nodes.service_rules import PROXY_MODES, ProxyMode

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool that can cut a node off"),
]

PAGE, TITLE = "docs/operations/node_agent.md", "Switching it on"
AGENTS = "rocketmq-agents"
COMPONENT = "--selector=app.kubernetes.io/component=node-agent"
STARTING_S = 25.0
"""After a start a broker is judged by its own timeout for 20 s, and an agent must have named it for 3 s."""


async def _logs(agents: Cluster) -> str:
    return await agents.kubectl("logs", COMPONENT, "--tail=-1", "--prefix")


@pytest.mark.parametrize(
    "mode",
    [
        "iptables",
        pytest.param(
            "nftables",
            marks=[
                pytest.mark.full,
                pytest.mark.skipif(shutil.which("nft") is None, reason="not installed: nft"),
            ],
        ),
    ],
)
async def test_a_lost_node_is_noticed_at_once_and_connections_to_it_are_reset(
    release: Release, mode: ProxyMode
) -> None:
    async with proxy_mode(mode):
        await _lose_nodes(release, mode)


async def _lose_nodes(release: Release, mode: ProxyMode) -> None:
    cluster = release.cluster
    agents = Cluster(cluster.kubeconfig, AGENTS)
    try:
        for command in shown_commands(TITLE, PAGE):
            await as_shown(cluster, command)

        async def named() -> bool:
            return "members on this node: main/orders" in await _logs(agents)

        await until("an agent names members of its node", named, 120.0)

        first = 2 * PROXY_MODES.index(mode)
        for number, fault in enumerate((CUT, FREEZE), first):
            await release.group.until_at_home()
            await asyncio.sleep(STARTING_S)
            cost = await measured(release.group, ROCKETMQ_IMAGE, "main-nameserver:9876", fault, number)
            sys.stdout.write(
                f"{mode}, {fault}: {cost.gap_ms:.0f} ms, {cost.failed} failed, {cost.phases_ms}\n"
            )
            assert cost.lost == 0
            records = await cluster.find("failovers")
            newest = max(records, key=lambda record: int(record["spec"]["newEpoch"]))
            assert newest["spec"]["cause"] == "NodeLost", cost.phases_ms
        told = await _logs(agents)
        assert "client connections to member" in told
        assert Visibility.ALL in told
        assert Visibility.WITHOUT_SERVICES not in told
        assert Visibility.NONE not in told
    finally:
        await upgrade(cluster, "nodeAgent.enabled=false")
        await agents.kubectl("delete", "namespace", AGENTS, "--ignore-not-found", timeout_s=120.0)
