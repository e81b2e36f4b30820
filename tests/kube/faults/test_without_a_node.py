"""A node that never answers again, as its members see it.

They start again on another node, under load, and no acknowledged message is lost.

Near the end of a run: members that had to move stay where they are, two of them on one node then.
"""

import json
from typing import Final

import pytest

from testkit.kube import stack
from testkit.kube.failover.placement import nodes_of_pods
from testkit.kube.kubectl import until
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.release import ROCKETMQ_IMAGE, Release, as_shown, shown_commands
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool that can cut a node off"),
]

PAGE, TITLE = "docs/operations/nodes.md", "Losing one"
AFTER_S = 30
SETTLED_WITHIN_S = 400.0
REPLACED_WITHIN_S = 420.0
"""40 s until Kubernetes calls a node silent, 10 s of patience, 90 s of the pod's own,
and twice `afterSeconds`."""
QUICKLY_EVICTED: Final = [
    {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 10,
    }
]


async def test_a_slave_of_a_lost_node_starts_anew_on_another_under_load(release: Release) -> None:
    group, cluster = release.group, release.cluster
    allow, ask, events = shown_commands(TITLE, PAGE)
    await as_shown(cluster, allow)
    await as_shown(cluster, ask.replace('"afterSeconds":600', f'"afterSeconds":{AFTER_S}'))
    patch = json.dumps({"spec": {"placement": {"tolerations": QUICKLY_EVICTED}}})
    await cluster.kubectl("patch", "brokergroup", "orders", "--type=merge", f"--patch={patch}")

    async def rolled() -> bool:
        pods = await cluster.find("pods", "rocketmq-ha.dev/group=orders")
        patient = [pod for pod in pods if QUICKLY_EVICTED[0] not in pod["spec"]["tolerations"]]
        return not patient and (await group.view()).whole

    await until("every member has the new toleration", rolled, SETTLED_WITHIN_S, poll_s=1.0)
    before = await group.until_at_home()
    (slave,) = set(before.brokers) - {before.master}
    nodes = await nodes_of_pods(cluster)
    load = LoadPod(cluster, "lost-node", ROCKETMQ_IMAGE, "main-nameserver:9876", "lost-node")
    here = {"kubernetes.io/hostname": nodes[before.master]}
    await load.start(LoadSettings(threads=4, rate=100), node_selector=here)
    lost = (await cluster.get("persistentvolumeclaim", f"data-{slave}"))["metadata"]["uid"]

    async def replaced() -> bool:
        claim = (await cluster.get("persistentvolumeclaim", f"data-{slave}"))["metadata"]["uid"]
        return claim != lost and (await group.view()).whole

    async with stack.harmed("cut", nodes[slave]):
        await until(f"{slave} is in sync on another node", replaced, REPLACED_WITHIN_S, poll_s=2.0)
        after = await group.until_whole()
        assert (await nodes_of_pods(cluster))[slave] != nodes[slave]
        assert (after.master, after.epoch) == (before.master, before.epoch), "nobody else noticed"
        told = await as_shown(cluster, events)
        assert "MemberFreed" in told
        assert "VolumeGivenUp" in told
    await load.stop_without_loss(gap_s_max=None)
    await load.remove()

    async def settled() -> bool:
        healthy = (await cluster.get("rocketmqcluster", "main"))["status"]["controllers"] == "3/3"
        return healthy and (await group.view()).whole

    await until("all is as before when the node is back", settled, SETTLED_WITHIN_S, poll_s=1.0)
    undo = {"spec": {"lostMembers": None, "placement": None}}
    await cluster.kubectl("patch", "brokergroup", "orders", "--type=merge", f"--patch={json.dumps(undo)}")
    # The rights stay granted: the end of the run compares them with their use.

    async def as_it_was() -> bool:
        pods = await cluster.find("pods", "rocketmq-ha.dev/group=orders")
        quick = [pod for pod in pods if QUICKLY_EVICTED[0] in pod["spec"]["tolerations"]]
        return not quick and (await group.view()).whole

    await until("the group is as it was", as_it_was, SETTLED_WITHIN_S, poll_s=1.0)
