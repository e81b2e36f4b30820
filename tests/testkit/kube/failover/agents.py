"""Node agents on all nodes, by the commands that their page shows, and removed afterwards."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, until
from testkit.kube.release import as_shown, shown_commands, upgrade

NAMESPACE: Final = "rocketmq-agents"
_STARTING_S: Final = 25.0
"""After a start a broker is judged by its own timeout for 20 s, and an agent must have named it for 3 s."""
_PAGE, _TITLE = "docs/operations/node_agent.md", "Switching it on"
_COMPONENT: Final = "--selector=app.kubernetes.io/component=node-agent"
_NAMED_WITHIN_S: Final = 120.0
_DELETED_WITHIN_S: Final = 120.0


async def agents_log(agents: Cluster) -> str:
    """Return what all agents logged so far."""
    return await agents.kubectl("logs", _COMPONENT, "--tail=-1", "--prefix")


async def until_judged(group: KubeGroup, runs_s: float = 0.0) -> None:
    """Wait until every broker is at home, and will have run for long enough to be lost with its node.

    Args:
        group: the group.
        runs_s: how long the brokers will run after this before a fault.
    """
    await group.until_at_home()
    await asyncio.sleep(max(0.0, _STARTING_S - runs_s))


@contextlib.asynccontextmanager
async def node_agents(cluster: Cluster, group: str) -> AsyncIterator[Cluster]:
    """Run agents for the release of a cluster; yield their namespace once one names members of a group.

    Args:
        cluster: the namespace of the release.
        group: the group as agents name it, `cluster/group`.

    Raises:
        KubeError: a command failed, or no agent named a member in time.
    """
    agents = Cluster(cluster.kubeconfig, NAMESPACE)

    async def named() -> bool:
        return f"members on this node: {group}" in await agents_log(agents)

    try:
        for command in shown_commands(_TITLE, _PAGE):
            await as_shown(cluster, command)
        await until("an agent names members of its node", named, _NAMED_WITHIN_S)
        yield agents
    finally:
        await upgrade(cluster, "nodeAgent.enabled=false")
        await agents.kubectl(
            "delete", "namespace", NAMESPACE, "--ignore-not-found", timeout_s=_DELETED_WITHIN_S
        )
