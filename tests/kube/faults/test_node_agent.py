"""A node with the master is cut off, then frozen, while node agents run, in both modes of kube-proxy.

The controllers take the node for lost at once, and the agents reset connections to it.
"""

import shutil
import sys
from typing import Final

import pytest

from ha_sidecar.node_agent.flows import Visibility
from testkit.kube import stack
from testkit.kube.failover.agents import agents_log, node_agents, until_judged
from testkit.kube.failover.faulting import CUT, FREEZE, measured
from testkit.kube.release import ROCKETMQ_IMAGE, Release
from testkit.nodes.kube_proxy import proxy_mode
from testkit.nodes.service_rules import PROXY_MODES, ProxyMode

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool that can cut a node off"),
]

FAULTS_MAX: Final = 4
LOST: Final = "NodeLost"


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
    cluster, causes = release.cluster, set[str]()
    async with node_agents(cluster, "main/orders") as agents:
        first = FAULTS_MAX * PROXY_MODES.index(mode)
        for number, fault in enumerate((CUT, FREEZE) * 2, first):
            # If brokers or agents paused for long lately, the controllers wait for the broker's own timeout.
            if number >= first + 2 and LOST in causes:
                break
            await until_judged(release.group)
            cost = await measured(release.group, ROCKETMQ_IMAGE, "main-nameserver:9876", fault, number)
            cause = str((await release.group.records())[0]["spec"]["cause"])
            sys.stdout.write(
                f"{mode}, {fault}, {cause}: {cost.gap_ms:.0f} ms, {cost.failed} failed, {cost.phases_ms}\n"
            )
            assert cost.lost == 0
            assert cause in {LOST, "HeartbeatTimeout"}, cost.phases_ms
            causes.add(cause)
        assert LOST in causes
        told = await agents_log(agents)
        assert "client connections to member" in told
        assert Visibility.ALL in told
        assert Visibility.WITHOUT_SERVICES not in told
        assert Visibility.NONE not in told
