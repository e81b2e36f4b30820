"""A serving cluster moves to TLS with its clients and back, under load of Java clients of both kinds.

The tests follow each other: plain TCP, both, TLS only with the death of a master and new certificates, and
plain TCP again, as the next tests expect it.
"""

import base64
from collections.abc import AsyncIterator
from typing import Final

import pytest

from testkit.kube.client_tls import IN_TLS, move_clients
from testkit.kube.kubectl import until
from testkit.kube.pods.load_pod import ONE_OF_EACH_THREAD, LoadPod
from testkit.kube.release import ROCKETMQ_IMAGE, Release
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_500),
]

RENEWED_WITHIN_S: Final = 240.0
SECRET: Final = "main-member-tls"  # noqa: S105 - a Secret's name
SENDS_PER_S: Final = 100


@pytest.fixture
async def tls_load(release: Release, request: pytest.FixtureRequest) -> AsyncIterator[LoadPod]:
    """Send in TLS, from an unmodified Java producer in a pod of its own."""
    tried = getattr(request.node, "execution_count", 1)
    name = f"tls-{request.node.name.removeprefix('test_').replace('_', '-')[:30].rstrip('-')}-{tried}"
    pod = LoadPod(release.cluster, name, ROCKETMQ_IMAGE, "main-nameserver:9876", name)
    settings = LoadSettings(threads=ONE_OF_EACH_THREAD, rate=SENDS_PER_S, jvm=(IN_TLS,))
    await pod.start(settings)
    yield pod
    await pod.remove()


async def move(release: Release, clients: str, end: str) -> list[str]:
    """Set `spec.tls.clients`, wait until all pods have it, and return the stages on the way."""
    return await move_clients(release.cluster, release.group, clients, end)


async def test_clients_in_plain_tcp_do_not_notice_that_brokers_have_certificates(
    release: Release, load: LoadPod
) -> None:
    await release.group.until_whole()
    assert (await move(release, "Permissive", "permissive"))[-1] == "permissive"
    await load.stop_without_loss(failed_max=ONE_OF_EACH_THREAD)


async def test_clients_in_tls_do_not_notice_that_plain_tcp_ends(release: Release, tls_load: LoadPod) -> None:
    seen = await move(release, "Enforcing", "enforcing")
    assert seen[-2:] == ["dialling", "enforcing"]
    await tls_load.stop_without_loss(failed_max=3 * ONE_OF_EACH_THREAD)


async def test_a_client_in_tls_goes_through_the_death_of_its_master(
    release: Release, tls_load: LoadPod
) -> None:
    before = await release.group.until_at_home()
    await tls_load.until_brokers_know_topic(before.brokers)
    await release.group.kill_java(before.master)
    after = await release.group.until_epoch_above(before.epoch)
    assert after.master != before.master
    await release.group.until_at_home()
    await tls_load.stop_without_loss(failed_max=0)


async def test_new_certificates_are_served_and_no_pod_restarts(release: Release, tls_load: LoadPod) -> None:
    cluster = release.cluster
    view = await release.group.until_whole()
    pods = {pod["metadata"]["uid"] for pod in await cluster.find("pods", "rocketmq-ha.dev/group=orders")}
    before = (await cluster.get("secret", SECRET))["data"]["group-orders.crt"]
    await cluster.kubectl("delete", "secret", SECRET)

    async def is_new() -> bool:
        found = [one for one in await cluster.find("secrets") if one["metadata"]["name"] == SECRET]
        return bool(found) and found[0]["data"].get("group-orders.crt", before) != before

    await until("the certificates are made again", is_new, RENEWED_WITHIN_S)
    text = base64.b64decode((await cluster.get("secret", SECRET))["data"]["group-orders.crt"])

    async def is_mounted() -> bool:
        return await cluster.shell(view.master, "broker", "cat /etc/rocketmq-tls/tls.crt") == text

    await until("the master's pod has the new certificate", is_mounted, RENEWED_WITHIN_S, poll_s=2.0)
    still = {pod["metadata"]["uid"] for pod in await cluster.find("pods", "rocketmq-ha.dev/group=orders")}
    assert still == pods
    await tls_load.stop_without_loss(failed_max=0)


async def test_the_way_back_to_plain_tcp(release: Release, tls_load: LoadPod) -> None:
    seen = await move(release, "Disabled", "disabled")
    assert [one for one in seen if one != "enforcing"] == ["dialling", "permissive", "disabled"]
    await tls_load.stop()
    await release.group.until_at_home()
