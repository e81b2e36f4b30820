"""A node with the master is cut off while node agents run: they reset the connections to it."""

import pytest

from testkit.kube import stack
from testkit.kube.faulting import CUT, measured
from testkit.kube.kubectl import Cluster
from testkit.kube.release import ROCKETMQ_IMAGE, Release, as_shown, shown_commands

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool that can cut a node off"),
]

PAGE, TITLE = "docs/operations/node_agent.md", "Switching it on"
AGENTS = "rocketmq-agents"


async def test_connections_to_a_lost_node_are_reset(release: Release) -> None:
    cluster = release.cluster
    agents = Cluster(cluster.kubeconfig, AGENTS)
    try:
        for command in shown_commands(TITLE, PAGE):
            await as_shown(cluster, command)
        cost = await measured(release.group, ROCKETMQ_IMAGE, "main-nameserver:9876", CUT, 0)
        logs = await agents.kubectl("logs", "--selector=app.kubernetes.io/component=node-agent", "--tail=-1")
        assert "client connections to member" in logs
        assert cost.lost == 0
    finally:
        upgrade = "helm -n rocketmq upgrade rocketmq-ha charts/rocketmq-ha --reuse-values"
        await as_shown(cluster, f"{upgrade} --set nodeAgent.enabled=false")
        await agents.kubectl("delete", "namespace", AGENTS, "--ignore-not-found", "--wait=false")
