"""A second cluster with a group of the same name in another namespace.

Neither notices the other, and a change to one affects only that one.

It begins on an older RocketMQ and on volumes that may grow, and its volumes go with its group.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Final

import pytest

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.pods.load_pod import ONE_OF_EACH_THREAD, LoadPod
from testkit.kube.release import NAMESPACE, ROCKETMQ_IMAGE, Release, as_shown, described, shown_commands
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_200),
]

PAGES: Final = "docs/operations"
PLACE: Final = "payments"
OLDER, NEWER = "5.4.0", "5.5.0"
GROWING: Final = "growing"
READY_WITHIN_S = 300.0
ROLLED_WITHIN_S = 600.0
MINE: Final = "rocketmq-ha.dev/group=orders"


@pytest.fixture(scope="module")
def second(release: Release) -> Iterator[KubeGroup]:
    """Make the second cluster as the page shows, with a few settings of its own, and remove it in the end."""
    cluster = Cluster(release.cluster.kubeconfig, PLACE)
    asyncio.run(_make(release, cluster))
    yield KubeGroup(cluster, "orders")
    asyncio.run(_remove(cluster))


async def _make(release: Release, cluster: Cluster) -> None:
    look_everywhere, create, apply, wait, _ = shown_commands(
        "Several clusters under one operator", f"{PAGES}/several_clusters.md"
    )
    await as_shown(release.cluster, look_everywhere)
    deployment = "deployment/rocketmq-ha-operator"
    await release.cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)
    await as_shown(cluster, create)
    await cluster.kubectl("label", "namespace", PLACE, "pod-security.kubernetes.io/enforce=restricted")
    await cluster.apply(await _growing_class(cluster))
    # What a person would write into the files before applying them.
    main, orders = json.loads(await as_shown(cluster, f"{apply} --dry-run=client -o json"))["items"]
    main["spec"] |= {"version": OLDER}
    orders["spec"] |= {"deletionPolicy": "Delete", "storage": {"size": "1Gi", "storageClassName": GROWING}}
    for one in (main, orders):
        bare = {"name": one["metadata"]["name"], "namespace": PLACE}
        await cluster.apply(one | {"metadata": bare})
    try:
        await as_shown(cluster, wait)
    except KubeError as error:
        raise KubeError(f"{error}\n{await described(cluster)}") from error


async def _growing_class(cluster: Cluster) -> Json:
    """Return a storage class like the cluster's default one, whose volumes may grow."""
    classes = await cluster.find("storageclasses")
    default = next(
        one
        for one in classes
        if one["metadata"]["annotations"].get("storageclass.kubernetes.io/is-default-class") == "true"
    )
    kept = {key: value for key, value in default.items() if key != "metadata"}
    return kept | {"metadata": {"name": GROWING}, "allowVolumeExpansion": True}


async def _remove(cluster: Cluster) -> None:
    await cluster.kubectl("delete", "brokergroups,rocketmqclusters", "--all", timeout_s=READY_WITHIN_S)
    await cluster.kubectl("delete", "namespace", PLACE, timeout_s=READY_WITHIN_S)
    await cluster.kubectl("delete", "storageclass", GROWING)


def _load(group: KubeGroup, name: str) -> LoadPod:
    return LoadPod(group.cluster, name, ROCKETMQ_IMAGE, f"main-nameserver.{PLACE}:9876", name)


async def _pods(cluster: Cluster) -> dict[str, str]:
    found = await cluster.find("pods", "rocketmq-ha.dev/cluster=main")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def _there(command: str) -> str:
    """Return a shown command as one would type it for the second cluster's namespace."""
    return command.replace(f" -n {NAMESPACE} ", f" -n {PLACE} ")


async def test_two_groups_of_one_name_have_masters_epochs_and_failovers_of_their_own(
    release: Release, second: KubeGroup
) -> None:
    first_before, pods_before = await release.group.until_whole(), await _pods(release.cluster)
    before = await second.until_whole()
    await second.cluster.plugin("switchover", second.name, timeout_s=90.0)
    after = await second.until_epoch_above(before.epoch)
    assert after.master != before.master
    first = await release.group.until_whole()
    assert (first.master, first.epoch) == (first_before.master, first_before.epoch)
    assert await _pods(release.cluster) == pods_before
    assert await second.cluster.find("failovers") != []
    (told,) = [
        one for one in await second.cluster.find("brokergroups") if one["metadata"]["name"] == "orders"
    ]
    assert told["status"]["version"] == OLDER


async def test_another_version_of_rocketmq_goes_through_the_cluster_under_load_without_a_failed_send(
    second: KubeGroup,
) -> None:
    await second.until_at_home()
    pods = await _pods(second.cluster)
    upgraded, _ = shown_commands("RocketMQ", f"{PAGES}/upgrading.md")
    load = _load(second, "upgraded")
    await load.start(LoadSettings(threads=4, rate=100), topic_cluster="main")
    await as_shown(second.cluster, _there(upgraded))

    async def all_run_the_newer() -> bool:
        brokers = await second.cluster.find("pods", f"{MINE},app.kubernetes.io/component=broker")
        images = {
            one["image"] for pod in brokers for one in pod["spec"]["containers"] if one["name"] == "broker"
        }
        return images == {f"docker.io/apache/rocketmq:{NEWER}"}

    await until(f"every broker runs {NEWER}", all_run_the_newer, ROLLED_WITHIN_S, poll_s=2.0)
    await second.until_whole(ROLLED_WITHIN_S)
    now = await _pods(second.cluster)
    assert {name for name in pods if "controller" in name and now[name] != pods[name]} == set()
    await load.stop_without_loss(failed_max=ONE_OF_EACH_THREAD)


async def test_volumes_grow_without_a_restart_and_do_not_shrink(second: KubeGroup) -> None:
    await second.until_whole()
    pods = await _pods(second.cluster)
    grow, listed = shown_commands("Growing", f"{PAGES}/volumes.md")
    await as_shown(second.cluster, _there(grow))

    async def asked() -> bool:
        claims = await second.cluster.find("persistentvolumeclaims", MINE)
        return {one["spec"]["resources"]["requests"]["storage"] for one in claims} == {"20Gi"}

    await until("every claim asks for the new size", asked, READY_WITHIN_S)
    assert (await as_shown(second.cluster, _there(listed))).count("Bound") == 3
    with pytest.raises(KubeError, match=r"storage\.size cannot shrink from 20Gi to 10Gi"):
        await as_shown(second.cluster, _there(grow).replace("20Gi", "10Gi"))
    await second.until_whole()
    assert await _pods(second.cluster) == pods


async def test_a_group_whose_policy_is_delete_takes_its_volumes_with_it(second: KubeGroup) -> None:
    await second.until_whole()
    await second.cluster.kubectl("delete", "brokergroup", second.name, timeout_s=READY_WITHIN_S)

    async def gone() -> bool:
        return await second.cluster.find("pods,persistentvolumeclaims", MINE) == []

    await until("pods and volumes are gone", gone, READY_WITHIN_S)
