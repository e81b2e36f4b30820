"""Clusters of two namespaces at the same controllers, with groups of one name; external name servers."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.release import NAMESPACE, Release, as_shown, described, shown_commands, upgrade

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

PAGE: Final = "docs/operations/shared_controllers.md"
PLACE: Final = "bank"
READY_WITHIN_S = 300.0
HELD_WITHIN_S = 60.0
API: Final = "rocketmq-ha.dev/v1alpha1"
OF_SECOND: Final = [f"second-nameserver-{number}.second-nameserver.{PLACE}.svc:9876" for number in range(2)]


@pytest.fixture(scope="module")
def second(release: Release) -> Iterator[KubeGroup]:
    """Make the second cluster as the page shows, and remove it in the end."""
    cluster = Cluster(release.cluster.kubeconfig, PLACE)
    asyncio.run(_make(release, cluster))
    yield KubeGroup(cluster, "orders")
    asyncio.run(_remove(release, cluster))


async def _make(release: Release, cluster: Cluster) -> None:
    listed, allow, create, apply, wait, *_ = shown_commands("Sharing controllers", PAGE)
    await as_shown(release.cluster, listed)
    deployment = "deployment/rocketmq-ha-operator"
    await release.cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)
    await as_shown(cluster, create)
    await cluster.kubectl("label", "namespace", PLACE, "pod-security.kubernetes.io/enforce=restricted")
    await as_shown(cluster, apply)
    await until("a cluster without a grant is refused", lambda: _refused(cluster), HELD_WITHIN_S, poll_s=1.0)
    await as_shown(release.cluster, allow)
    try:
        await as_shown(cluster, wait)
    except KubeError as error:
        raise KubeError(f"{error}\n{await described(cluster)}") from error


async def _refused(cluster: Cluster) -> bool:
    (one,) = await cluster.find("rocketmqclusters")
    return one.get("status", {}).get("reason") == "ControllersRefused"


async def _remove(release: Release, cluster: Cluster) -> None:
    await cluster.kubectl("delete", "brokergroups,rocketmqclusters", "--all", timeout_s=READY_WITHIN_S)

    async def let_go() -> bool:
        (main,) = await release.cluster.find("rocketmqclusters")
        return not main["metadata"].get("finalizers")

    await until("the first cluster may be deleted again", let_go, HELD_WITHIN_S, poll_s=1.0)
    await cluster.kubectl("delete", "namespace", PLACE, timeout_s=READY_WITHIN_S)
    none = json.dumps({"spec": {"controllers": {"allowedNamespaces": []}}})
    await release.cluster.kubectl("patch", "rmqc", "main", "--type=merge", f"--patch={none}")


async def _status(cluster: Cluster, name: str) -> Json:
    found = await cluster.find("rocketmqclusters")
    status: Json = next(one for one in found if one["metadata"]["name"] == name).get("status", {})
    return status


async def _object_names(cluster: Cluster, kinds: str, name: str) -> list[str]:
    found = await cluster.find(kinds, f"rocketmq-ha.dev/cluster={name}")
    return [one["metadata"]["name"] for one in found]


async def test_the_second_cluster_has_no_controllers_and_both_say_so(
    release: Release, second: KubeGroup
) -> None:
    *_, controllers_of, used_by = shown_commands("Sharing controllers", PAGE)
    assert await as_shown(second.cluster, controllers_of) == f"{NAMESPACE}/main"
    assert json.loads(await as_shown(release.cluster, used_by)) == [f"{PLACE}/second"]
    made = await _object_names(second.cluster, "pods,statefulsets,services", "second")
    assert [name for name in made if "controller" in name] == []
    await second.until_whole()


async def test_a_failover_of_one_cluster_leaves_the_group_of_that_name_in_the_other_alone(
    release: Release, second: KubeGroup
) -> None:
    first_before, before = await release.group.until_whole(), await second.until_whole()
    records = len(await second.cluster.find("failovers"))
    await release.group.kill_java(first_before.master)
    after = await release.group.until_epoch_above(first_before.epoch)
    assert after.master != first_before.master
    await release.group.until_whole()
    now = await second.until_whole()
    assert (now.master, now.epoch) == (before.master, before.epoch)
    assert len(await second.cluster.find("failovers")) == records


async def test_a_failover_of_the_second_cluster_is_carried_out_and_recorded_there(
    release: Release, second: KubeGroup
) -> None:
    first_before, before = await release.group.until_whole(), await second.until_whole()
    await second.kill_java(before.master)
    await second.until_epoch_above(before.epoch, READY_WITHIN_S)
    await second.until_whole()
    first = await release.group.until_whole()
    assert (first.master, first.epoch) == (first_before.master, first_before.epoch)


async def test_a_group_with_external_name_servers_and_shared_controllers_serves(second: KubeGroup) -> None:
    ref = {"name": "main", "namespace": NAMESPACE}
    spec = {"nameServers": {"external": OF_SECOND}, "controllers": {"ref": ref}}
    await second.cluster.apply(_resource("RocketMQCluster", "third", spec))
    group = {
        "cluster": "third",
        "replicas": 1,
        "durability": "Async",
        "storage": {"size": "1Gi"},
        "resources": {"cpu": "250m", "memory": "1Gi"},
    }
    await second.cluster.apply(_resource("BrokerGroup", "ledger", group))
    ledger = KubeGroup(second.cluster, "ledger")
    await ledger.until_whole(READY_WITHIN_S)
    assert (await _status(second.cluster, "third"))["nameServers"] == "2 external"
    made = await _object_names(second.cluster, "pods,statefulsets", "third")
    assert sorted(made) == ["ledger", "ledger-0"]
    await second.cluster.kubectl("delete", "brokergroup/ledger", "rmqc/third", timeout_s=READY_WITHIN_S)


@pytest.fixture
async def may_lend(release: Release) -> AsyncIterator[None]:
    """Let the operator keep the Secrets of the cluster `lender`."""
    await _set_clusters(release, "main,lender")
    yield
    await _set_clusters(release, "main")


async def _set_clusters(release: Release, clusters: str) -> None:
    await upgrade(release.cluster, f"operator.clusters={{{clusters}}}")


@pytest.mark.usefixtures("may_lend")
async def test_the_deletion_of_controllers_in_use_is_held_until_nobody_uses_them(second: KubeGroup) -> None:
    cluster = second.cluster
    lender = {
        "nameServers": {"external": OF_SECOND},
        "controllers": {
            "replicas": 1,
            "storage": {"size": "1Gi"},
            "resources": {"cpu": "100m", "memory": "256Mi"},
        },
    }
    borrower = {"nameServers": {"external": OF_SECOND}, "controllers": {"ref": {"name": "lender"}}}
    await cluster.apply(_resource("RocketMQCluster", "lender", lender))
    await cluster.apply(_resource("RocketMQCluster", "borrower", borrower))
    await cluster.kubectl("wait", "--for=condition=Ready", "rmqc/borrower", "--timeout=180s", timeout_s=190.0)
    await cluster.kubectl("delete", "rmqc/lender", "--wait=false")
    await cluster.kubectl(
        "wait", "--for=condition=DeletionHeld", "rmqc/lender", "--timeout=60s", timeout_s=70.0
    )
    told = next(
        one["message"]
        for one in (await _status(cluster, "lender"))["conditions"]
        if one["type"] == "DeletionHeld"
    )
    assert told == f"{PLACE}/borrower use these controllers: delete them first"
    events = await cluster.find("events.events.k8s.io")
    assert [one["note"] for one in events if one["reason"] == "ControllersInUse"] == [told]
    assert "lender-controller-0" in await _object_names(cluster, "pods", "lender")
    await cluster.kubectl("delete", "rmqc/borrower", timeout_s=60.0)

    async def gone() -> bool:
        return "lender" not in {one["metadata"]["name"] for one in await cluster.find("rocketmqclusters")}

    await until("the cluster that has the controllers is gone", gone, HELD_WITHIN_S, poll_s=1.0)


def _resource(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "namespace": PLACE},
        "spec": spec,
    }
