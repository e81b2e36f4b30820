"""Learners of a group: pods of their own that no count and no election has."""

from typing import Any

import pytest

from controller_core.remoting import headers
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.group.learners.learner_children import LEARNER_PRIORITY
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import status_lines
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
BROKER, LOG = names.learner_set(GROUP), names.log_learner_set(GROUP)
FAR = {"nodeSelector": {"topology.kubernetes.io/region": "far"}}


async def _world(learners: Json, **group: Any) -> OperatorWorld:
    world = OperatorWorld({"replicas": 2, "learners": learners, **group})
    await world.settle()
    return world


def _pod(world: OperatorWorld, set_name: str) -> Json:
    pod: Json = world.get("StatefulSet", set_name)["spec"]["template"]["spec"]
    return pod


def test_the_priority_is_that_which_the_controllers_know() -> None:
    assert LEARNER_PRIORITY == headers.LEARNER_PRIORITY


async def test_a_broker_that_learns_says_so_to_master_and_controllers() -> None:
    world = await _world({"count": 1, "kind": "Broker"})
    files = world.get("ConfigMap", GROUP)["data"]
    lines = files["learner.conf"].splitlines()
    assert lines[: len(files["broker.conf"].splitlines())] == files["broker.conf"].splitlines()
    assert lines[-3:] == [
        "asyncLearner=true",
        f"brokerElectionPriority={LEARNER_PRIORITY}",
        "syncFromLastFile=false",
    ]
    pod = _pod(world, BROKER)
    assert [one["name"] for one in pod["initContainers"]] == ["seed"], "no companion"
    assert "lifecycle" not in pod["containers"][0]
    assert "learner.conf" in files["start-learner.sh"]
    assert "9884" not in files["start-learner.sh"], "no lease"


async def test_a_log_replica_that_learns_has_the_key() -> None:
    world = await _world({"count": 2})
    conf = world.get("ConfigMap", GROUP)["data"]["learner.conf"]
    assert "learner = true\n" in conf
    assert "ha-listen = " in conf
    assert world.get("StatefulSet", LOG)["spec"]["replicas"] == 2
    assert not world.has("StatefulSet", BROKER)


@pytest.mark.parametrize(
    ("kind", "key"), [("Broker", "syncFromLastFile=true"), ("LogReplica", "sync-from-last")]
)
async def test_a_learner_that_begins_with_the_newest_file_gets_no_seed_and_serves_none(
    kind: str, key: str
) -> None:
    world = await _world({"count": 1, "kind": kind, "syncFromLastFile": True})
    assert key in (conf := world.get("ConfigMap", GROUP)["data"]["learner.conf"])
    assert "ha-listen" not in conf
    assert "initContainers" not in _pod(world, BROKER if kind == "Broker" else LOG)


async def test_log_replicas_that_begin_with_the_newest_file_serve_no_seed() -> None:
    world = OperatorWorld({"logReplicas": 1, "logSyncFromLastFile": True})
    await world.settle()
    conf = world.get("ConfigMap", GROUP)["data"]["replica.conf"]
    assert "sync-from-last-file = true\n" in conf
    assert "ha-listen" not in conf


async def test_learners_have_their_own_places_volumes_and_resources() -> None:
    learners = {
        "count": 1,
        "kind": "Broker",
        "placement": FAR,
        "storage": {"size": "9Gi", "storageClassName": "slow"},
        "resources": {"cpu": "2", "memory": "3Gi"},
    }
    world = await _world(learners)
    made, pod = world.get("StatefulSet", BROKER)["spec"], _pod(world, BROKER)
    claim = made["volumeClaimTemplates"][0]["spec"]
    assert (claim["resources"]["requests"]["storage"], claim["storageClassName"]) == ("9Gi", "slow")
    assert pod["nodeSelector"] == FAR["nodeSelector"]
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "3Gi"}
    assert "nodeSelector" not in _pod(world, GROUP)
    assert made["selector"]["matchLabels"]["app.kubernetes.io/instance"] == BROKER


async def test_the_volumes_of_learners_grow_by_themselves() -> None:
    world = await _world({"count": 1, "storage": {"size": "2Gi"}})
    world.write_group({"replicas": 2, "learners": {"count": 1, "storage": {"size": "5Gi"}}})
    await world.settle()
    sizes = {
        name: world.get("PersistentVolumeClaim", names.claim(name))["spec"]["resources"]["requests"][
            "storage"
        ]
        for name in (f"{GROUP}-0", f"{LOG}-0")
    }
    assert sizes == {f"{GROUP}-0": "1Gi", f"{LOG}-0": "5Gi"}


async def test_the_status_shows_learners_with_their_lag_and_counts_members_alone() -> None:
    world = await _world({"count": 1})
    world.controllers.lags[f"{LOG}-0"] = 1 << 25
    await world.settle()
    status = world.status()
    assert (status["inSync"], [one["name"] for one in status["members"]]) == ("2/2", ["orders-0", "orders-1"])
    (learner,) = status["learners"]
    assert learner == {
        "name": f"{LOG}-0",
        "brokerId": learner["brokerId"],
        "ready": True,
        "alive": True,
        "lagBytes": 1 << 25,
    }
    assert world.condition("Ready") == ("True", "Serving")


async def test_a_budget_of_drains_does_not_count_learners() -> None:
    world = await _world({"count": 1})
    selector = world.get("PodDisruptionBudget", GROUP)["spec"]["selector"]["matchLabels"]
    labels = world.get("StatefulSet", LOG)["spec"]["template"]["metadata"]["labels"]
    assert (
        selector.items() <= world.get("StatefulSet", GROUP)["spec"]["template"]["metadata"]["labels"].items()
    )
    assert not selector.items() <= labels.items()


async def test_a_learner_s_address_leads_to_its_own_pod() -> None:
    world = await _world({"count": 1, "kind": "Broker"})
    service = world.get("Service", f"{BROKER}-0")["spec"]
    assert service["selector"] == {"statefulset.kubernetes.io/pod-name": f"{BROKER}-0"}
    assert not world.has("EndpointSlice", f"{BROKER}-0")
    assert f"{BROKER}-0={service['clusterIP']}" in world.get("ConfigMap", GROUP)["data"]["addresses"]


async def test_a_promotion_makes_a_new_member_and_keeps_the_learner_s_volume() -> None:
    world = await _world({"count": 1, "kind": "Broker"})
    world.write_group({"replicas": 3, "learners": {"count": 0}})
    await world.settle()
    pods = {pod["metadata"]["name"] for pod in world.kube.pods()}
    assert {f"{GROUP}-2"} == {name for name in pods if name.startswith(GROUP)} - {f"{GROUP}-0", f"{GROUP}-1"}
    assert world.has("PersistentVolumeClaim", names.claim(f"{BROKER}-0"))
    assert not world.has("Service", f"{BROKER}-0")
    assert world.status()["inSync"] == "3/3"


async def test_another_kind_replaces_the_learners() -> None:
    world = await _world({"count": 1, "kind": "Broker"})
    world.write_group({"replicas": 2, "learners": {"count": 1, "kind": "LogReplica"}})
    await world.settle()
    sizes = {name: world.get("StatefulSet", name)["spec"]["replicas"] for name in (BROKER, LOG)}
    assert sizes == {BROKER: 0, LOG: 1}


async def test_outdated_learners_go_one_at_a_time() -> None:
    world = await _world({"count": 2})
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.kube.pods()}
    world.write_group({"replicas": 2, "learners": {"count": 2, "resources": {"cpu": "3", "memory": "1Gi"}}})
    gone = []
    for _ in range(6):
        await world.one_pass()
        world.advance(1)
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.kube.pods()}
        changed = sorted(name for name in before if before[name] != now.get(name))
        gone.append(changed)
    assert [f"{LOG}-0"] in gone, gone
    assert gone[-1] == [f"{LOG}-0", f"{LOG}-1"]


def test_a_quorum_with_learners_is_refused() -> None:
    with pytest.raises(ValueError, match=r"durability is Quorum with learners\.count 1"):
        BrokerGroupSpec.model_validate(
            {
                "cluster": "main",
                "storage": {"size": "1Gi"},
                "durability": "Quorum",
                "learners": {"count": 1},
            }
        )


async def test_the_plugin_lists_learners_after_members() -> None:
    world = await _world({"count": 1})
    lines = status_lines(await observe_group(world.kube, NAMESPACE, GROUP))
    (line,) = [line for line in lines if f"{LOG}-0" in line]
    assert "learner" in line
    assert "lag 0 B" in line
