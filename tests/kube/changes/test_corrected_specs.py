"""A spec that breaks every pod of a group is corrected, and a group of each size takes a change.

These tests have a cluster and a group of their own.

The group begins with images that do not exist, its controllers too. Later faults
break it by a change of its spec.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from rocketmq_operator.plan.pods.trouble import trouble_of
from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, until
from testkit.kube.release import Release, upgrade

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

Json = dict[str, Any]
API: Final = "rocketmq-ha.dev/v1alpha1"
NAME: Final = "mended"
BROKERS: Final = "rocketmq-ha.dev/group=mended,app.kubernetes.io/component=broker"
SMALL: Final = {"cpu": "100m", "memory": "768Mi"}
NO_IMAGES: Final = {"rocketmq": "localhost/rocketmq:typo", "controller": "localhost/controller-core:typo"}
BROKEN_WITHIN_S = 180.0
CHANGED_WITHIN_S = 420.0
BREAKING: Final[dict[str, tuple[Json, Json, set[str]]]] = {
    "unschedulable": ({"resources": {"cpu": "64"}}, {"resources": {"cpu": "100m"}}, {"Unschedulable"}),
    "selector": (
        {"placement": {"nodeSelector": {"no-such": "label"}}}, {"placement": None}, {"Unschedulable"},
    ),
    "crash": ({"config": {"sendMessageThreadPoolNums": "0"}}, {"config": None}, {"CrashLoop"}),
    # The kernel or the JVM itself ends it, whichever finds first that there is not enough.
    "memory": (
        {"resources": {"memory": "64Mi"}}, {"resources": {"memory": "768Mi"}}, {"OOMKilled", "CrashLoop"},
    ),
}  # fmt: skip
"""What breaks a broker, what corrects it, and what its pod says of it; the first two are
parts of the group's spec."""


@pytest.fixture(scope="module")
def mended(release: Release, alone: None) -> Iterator[KubeGroup]:
    """Make a cluster and a group of which no pod starts, and remove them and their volumes in the end."""
    cluster = release.cluster
    asyncio.run(upgrade(cluster, f"operator.clusters={{main,{NAME}}}"))
    spec: Json = {"replicas": 1, "resources": {"cpu": "50m", "memory": "384Mi"}}
    controllers = {"replicas": 3, "resources": {"cpu": "200m", "memory": "256Mi"}, "storage": {"size": "1Gi"}}
    asyncio.run(
        cluster.apply(
            _resource("RocketMQCluster", images=NO_IMAGES, nameServers=spec, controllers=controllers),
            _resource(
                "BrokerGroup",
                cluster=NAME,
                replicas=2,
                storage={"size": "1Gi"},
                logFileMebibytes=32,
                resources=SMALL,
                logResources={"cpu": "50m", "memory": "128Mi"},
                deletionPolicy="Delete",
            ),
        )
    )
    yield KubeGroup(cluster, NAME)
    asyncio.run(_remove(cluster))


async def _remove(cluster: Cluster) -> None:
    await cluster.kubectl("delete", "brokergroup", NAME, timeout_s=120.0)
    await cluster.kubectl("delete", "rocketmqcluster", NAME, timeout_s=120.0)
    chosen = f"--selector=rocketmq-ha.dev/cluster={NAME}"
    await cluster.kubectl("delete", "persistentvolumeclaims", chosen, "--wait=false")


def _resource(kind: str, **spec: Any) -> Json:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": NAME}, "spec": spec}


async def change(group: KubeGroup, spec: Json, kind: str = "brokergroup") -> None:
    """Change a spec."""
    await group.cluster.patch_spec(f"{kind}/{NAME}", spec)


async def brokers(group: KubeGroup) -> dict[str, str]:
    """Return why each broker of the group does not become ready, by name; empty while no cause is known."""
    # One that is being deleted ends with an error too.
    found = [
        pod for pod in await group.cluster.find("pods", BROKERS) if "deletionTimestamp" not in pod["metadata"]
    ]
    troubles = {pod["metadata"]["name"]: trouble_of(pod) for pod in found}
    return {name: trouble.reason if trouble is not None else "" for name, trouble in troubles.items()}


async def uids(group: KubeGroup) -> set[str]:
    """Return the uids of the brokers' pods."""
    return {pod["metadata"]["uid"] for pod in await group.cluster.find("pods", BROKERS)}


def _is_ready(pod: Json) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", [])
    )


async def volumes(group: KubeGroup) -> dict[str, str]:
    """Return the uids of the brokers' volumes by name."""
    found = await group.cluster.find("persistentvolumeclaims", f"rocketmq-ha.dev/group={NAME}")
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}


async def test_images_that_nobody_can_pull_are_corrected_for_controllers_name_servers_and_brokers(
    mended: KubeGroup,
) -> None:
    async def nothing_starts() -> bool:
        pods = await mended.cluster.find("pods", f"rocketmq-ha.dev/cluster={NAME}")
        return len(pods) == 6 and not any(map(_is_ready, pods))

    await until("six pods wait for their images", nothing_starts, BROKEN_WITHIN_S)
    await change(mended, {"images": None}, "rocketmqcluster")
    assert (await mended.until_whole(CHANGED_WITHIN_S)).in_sync == "2/2"


@pytest.mark.parametrize("fault", list(BREAKING))
async def test_a_spec_that_broke_every_broker_is_corrected(mended: KubeGroup, fault: str) -> None:
    breaking, correcting, reasons = BREAKING[fault]
    await mended.until_whole()
    kept = await volumes(mended)
    await change(mended, breaking)

    async def one_is_broken() -> bool:
        return bool(reasons & set((await brokers(mended)).values()))

    await until("the change broke a broker", one_is_broken, BROKEN_WITHIN_S)
    # The change goes no further by itself; what restarts the other one breaks it too.
    for name, reason in (await brokers(mended)).items():
        if reason not in reasons:
            await mended.cluster.kubectl("delete", "pod", name, timeout_s=120.0)

    async def all_are_broken() -> bool:
        found = (await brokers(mended)).values()
        return len(found) == 2 and set(found) <= reasons

    await until("every broker is broken", all_are_broken, BROKEN_WITHIN_S)
    await change(mended, correcting)
    await mended.until_whole(CHANGED_WITHIN_S)
    assert await volumes(mended) == kept


@pytest.mark.parametrize(("replicas", "logs"), [(2, 0), (3, 0), (1, 1)])
async def test_a_group_of_this_size_takes_a_change(mended: KubeGroup, replicas: int, logs: int) -> None:
    await change(mended, {"replicas": replicas, "logReplicas": logs})

    async def has_its_size() -> bool:
        view = await mended.view()
        size = (len(view.brokers), view.in_sync)
        return view.whole and size == (replicas, f"{replicas + logs}/{replicas + logs}")

    await until(f"there are {replicas} brokers and {logs} log replicas", has_its_size, CHANGED_WITHIN_S)
    before = await uids(mended)
    await change(mended, {"config": {"sendMessageThreadPoolNums": str(4 + replicas)}})

    async def all_are_others() -> bool:
        now = await uids(mended)
        return len(now) == replicas and not now & before

    await until("every broker is another pod", all_are_others, CHANGED_WITHIN_S)
    await mended.until_whole(CHANGED_WITHIN_S)
