"""The deployment modes.

Each example is applied as its page shows, takes messages and gives them back, and is removed again.

One at a time, each in a namespace of its own. The release's own group hibernates for that time.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, KubeError, until
from testkit.kube.pods.grpc_pod import GrpcPod
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.release import ROCKETMQ_IMAGE, Release, as_shown, described, shown_commands
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_200),
    pytest.mark.usefixtures("alone"),
]

PAGE, TITLE = "docs/reference/modes.md", "Applying a mode"
NAME_SERVERS, TOPIC, READERS = "main-nameserver:9876", "Payments", "billing"
MESSAGES = 20
SLOW = LoadSettings(threads=1, rate=20)
PROXY_WITHIN_S = 180
ANSWERED_WITHIN_S = 120.0
"""A slave's proxy learns of a new consumer group up to 10 s after the master's."""
REMOVED_WITHIN_S = 240.0


@asynccontextmanager
async def applied(release: Release, mode: str) -> AsyncIterator[Cluster]:
    """Apply a mode's example in its own namespace, wait as the page says, and remove all of it in the end."""
    cluster = Cluster(release.cluster.kubeconfig, f"modes-{mode}")
    look_everywhere, *examples, wait = shown_commands(TITLE, PAGE)
    (apply,) = [command for command in examples if command.endswith(f"/{mode}.yaml")]
    await as_shown(release.cluster, look_everywhere)
    deployment = "deployment/rocketmq-ha-operator"
    await release.cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)
    await cluster.kubectl("create", "namespace", cluster.namespace)
    try:
        enforced = "pod-security.kubernetes.io/enforce=restricted"
        await cluster.kubectl("label", "namespace", cluster.namespace, enforced)
        try:
            for command in (apply, wait):
                await as_shown(cluster, command.replace(" -n modes ", f" -n {cluster.namespace} "))
        except KubeError as error:
            raise KubeError(f"{error}\n{await described(cluster)}") from error
        yield cluster
    finally:
        # The groups first: their operator would recreate objects that the namespace's deletion removes.
        await cluster.kubectl("delete", "brokergroups,rocketmqclusters", "--all", timeout_s=REMOVED_WITHIN_S)
        await cluster.kubectl("delete", "namespace", cluster.namespace, timeout_s=REMOVED_WITHIN_S)


@pytest.mark.parametrize("mode", ["single-replica", "several-groups", "asynchronous", "synchronous"])
async def test_each_group_of_a_mode_takes_messages_and_gives_them_back(release: Release, mode: str) -> None:
    async with applied(release, mode) as cluster:
        groups = {one["metadata"]["name"] for one in await cluster.find("brokergroups")}
        for group in groups:
            await KubeGroup(cluster, group).until_whole()
        load = LoadPod(cluster, "client", ROCKETMQ_IMAGE, NAME_SERVERS, TOPIC)
        await load.start(SLOW, topic_cluster="main")
        await load.stop_without_loss(gap_s_max=None)
        assert {send.broker for send in await load.sends() if send.acknowledged} == groups


@asynccontextmanager
async def with_proxies(release: Release, mode: str) -> AsyncIterator[Cluster]:
    """Apply an example with proxies, wait for them, and send and read through their Service.

    RocketMQ's gRPC client sends and reads.
    """
    async with applied(release, mode) as cluster:
        ready = ("wait", "--for=condition=ProxyReady", "rmqc/main", f"--timeout={PROXY_WITHIN_S}s")
        await cluster.kubectl(*ready, timeout_s=PROXY_WITHIN_S + 10.0)
        client = GrpcPod(cluster, "client", ROCKETMQ_IMAGE)
        await client.start()
        await client.make(NAME_SERVERS, "main", TOPIC, READERS)

        async def all_are_read() -> bool:
            counted = await client.send_and_read("main-proxy:8081", TOPIC, READERS, MESSAGES)
            return counted == {"sent": MESSAGES, "read": MESSAGES}

        await until("messages go through the gRPC port", all_are_read, ANSWERED_WITHIN_S, poll_s=3.0)
        yield cluster


async def test_a_client_of_rocketmq_5_sends_and_reads_through_the_proxies_in_brokers(
    release: Release,
) -> None:
    async with with_proxies(release, "proxy-local") as cluster:
        assert await cluster.find("deployments") == []


async def test_clients_of_rocketmq_5_and_older_ones_send_through_proxies_of_their_own(
    release: Release,
) -> None:
    async with with_proxies(release, "proxy-cluster") as cluster:
        older = LoadPod(cluster, "older", ROCKETMQ_IMAGE, "main-proxy:8080", TOPIC)
        await older.start(SLOW)
        assert (await older.stop()).acknowledged > 0
        await cluster.kubectl("patch", "rmqc", "main", "--type=merge", '--patch={"spec":{"proxy":null}}')

        async def gone() -> bool:
            made = "deployments,services,configmaps,poddisruptionbudgets"
            return await cluster.find(made, "app.kubernetes.io/component=proxy") == []

        await until("with no proxies nothing is left that was made for them", gone, REMOVED_WITHIN_S)
