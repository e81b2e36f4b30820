"""A group with a learner, which a killed master does not make master; a group with static roles."""

import pytest

from testkit.kube.kubectl import Json, until
from testkit.kube.pods.load_pod import LoadPod
from testkit.kube.release import ROCKETMQ_IMAGE, Release
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

WITHIN_S = 300.0
STATIC = "classic"
GROUP_LABEL = "rocketmq-ha.dev/group"


async def _change(release: Release, name: str, spec: Json) -> None:
    await release.cluster.patch_spec(f"brokergroup/{name}", spec)


async def _learners(release: Release) -> list[Json]:
    status: Json = (await release.cluster.get("brokergroup", "orders")).get("status", {})
    return list(status.get("learners", []))


@pytest.mark.parametrize("kind", ["LogReplica", "Broker"])
async def test_a_learner_follows_and_is_not_elected(release: Release, load: LoadPod, kind: str) -> None:
    group = release.group
    before = await group.until_whole()
    await _change(release, "orders", {"learners": {"count": 1, "kind": kind}})
    try:

        async def follows() -> bool:
            found = await _learners(release)
            return bool(found) and found[0]["ready"] and found[0]["alive"] and found[0].get("lagBytes") == 0

        await until("the learner follows", follows, WITHIN_S)
        assert (await group.until_whole()).in_sync == before.in_sync, "it is not counted"
        await group.kill_java(before.master)
        after = await group.until_epoch_above(before.epoch)
        assert after.master in before.brokers
        await group.until_at_home()
        await until("the learner follows the new master", follows, WITHIN_S)
    finally:
        await _change(release, "orders", {"learners": None})

    async def gone() -> bool:
        pods = await release.cluster.find("pods", f"{GROUP_LABEL}={group.name}")
        return not [pod for pod in pods if "learner" in pod["metadata"]["name"]]

    await until("the learner has gone", gone, WITHIN_S)
    claims = [one["metadata"]["name"] for one in await release.cluster.find("pvc")]
    for claim in (name for name in claims if "learner" in name):
        await release.cluster.kubectl("delete", "pvc", claim)
    await load.stop_without_loss(gap_s_max=None)


async def test_a_static_group_serves_and_changes_to_controllers(release: Release) -> None:
    cluster = release.cluster
    orders = await cluster.get("brokergroup", "orders")
    spec = {"cluster": orders["spec"]["cluster"], "mode": "Static", "durability": "AllInSync", "replicas": 2}
    given = {"storage": {"size": "2Gi"}, "resources": orders["spec"]["resources"]}
    about = {"apiVersion": orders["apiVersion"], "kind": "BrokerGroup", "metadata": {"name": STATIC}}
    await cluster.apply({**about, "spec": spec | given})
    try:
        await cluster.kubectl(
            "wait", "--for=condition=Ready", f"brokergroup/{STATIC}", "--timeout=240s", timeout_s=250.0
        )
        conditions = {one["type"]: one for one in await _conditions(release)}
        assert conditions["MasterElected"]["reason"] == conditions["InSync"]["reason"] == "StaticRoles"
        sender = LoadPod(cluster, "static", ROCKETMQ_IMAGE, "main-nameserver:9876", "Static")
        await sender.start(LoadSettings(threads=2, rate=20), topic_cluster=spec["cluster"])
        await _change(release, STATIC, {"durability": "Async", "replicas": 1})
        await cluster.kubectl("wait", "--for=delete", f"pod/{STATIC}-1", "--timeout=180s", timeout_s=190.0)
        await _change(release, STATIC, {"mode": "Controllers"})

        async def elected() -> bool:
            found = {one["type"]: one["reason"] for one in await _conditions(release)}
            return found.get("MasterElected") == "Elected" and found.get("Ready") == "Serving"

        await until("the controllers have elected its broker", elected, WITHIN_S)
        await _change(release, STATIC, {"durability": "AllInSync", "replicas": 2})

        async def in_sync() -> bool:
            status: Json = (await cluster.get("brokergroup", STATIC)).get("status", {})
            return status.get("inSync") == "2/2"

        await until("a second broker is in sync", in_sync, WITHIN_S)
        await sender.stop_without_loss(gap_s_max=None)
        await sender.remove()
    finally:
        await cluster.kubectl("delete", "brokergroup", STATIC, timeout_s=240.0)
        await cluster.kubectl("delete", "pvc", "-l", f"{GROUP_LABEL}={STATIC}", timeout_s=240.0)


async def _conditions(release: Release) -> list[Json]:
    status: Json = (await release.cluster.get("brokergroup", STATIC)).get("status", {})
    return list(status.get("conditions", []))
