"""Volumes of members: ephemeral ones, a second one, and what existing claims are given."""

from typing import Any

import pytest

from rocketmq_operator.plan.pods.volumes import TIERED_PATH
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]


async def settled(**storage: Any) -> OperatorWorld:
    """Return a world with a broker group of this storage and a log replica."""
    world = OperatorWorld(group=group(**storage))
    await world.settle()
    return world


def group(**storage: Any) -> Json:
    """Return the spec of such a group."""
    return {"replicas": 2, "logReplicas": 1, "storage": {"size": "1Gi"} | storage}


def claims(world: OperatorWorld) -> dict[str, Json]:
    """Return the claims by name."""
    return {
        name: value
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "PersistentVolumeClaim" and GROUP in name
    }


def pod_spec(world: OperatorWorld, name: str) -> Json:
    """Return the spec of the pods of a set."""
    spec: Json = world.get("StatefulSet", name)["spec"]["template"]["spec"]
    return spec


async def test_an_ephemeral_group_claims_no_volume_and_says_that_it_loses_data() -> None:
    world = await settled(ephemeral=True)
    assert claims(world) == {}
    for name in (GROUP, f"{GROUP}-log"):
        assert "volumeClaimTemplates" not in world.get("StatefulSet", name)["spec"]
        (data,) = [one for one in pod_spec(world, name)["volumes"] if one["name"] == "data"]
        assert data == {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}
    assert world.condition("StorageDurable") == ("False", "Ephemeral")
    assert world.condition("Ready") == ("True", "Serving")
    writes = len(world.kube.writes)
    await world.one_pass()
    assert world.kube.writes[writes:] == []


async def test_an_ephemeral_group_takes_settings_of_pods() -> None:
    world = OperatorWorld(group=group(ephemeral=True) | {"pod": {"labels": {"team": "payments"}}})
    await world.settle()
    assert world.condition("PodsAccepted") == ("True", "Accepted")
    assert world.condition("Ready") == ("True", "Serving")


async def test_a_group_with_claims_says_nothing_of_it() -> None:
    world = await settled()
    assert "StorageDurable" not in {one["type"] for one in world.status()["conditions"]}
    assert set(claims(world)) == {f"data-{GROUP}-0", f"data-{GROUP}-1", f"data-{GROUP}-log-0"}


async def test_brokers_and_not_log_replicas_have_a_second_volume_for_tiered_storage() -> None:
    world = await settled(tiered={"size": "9Gi", "storageClassName": "slow"})
    tiered = {name: value for name, value in claims(world).items() if name.startswith("tiered-")}
    assert set(tiered) == {f"tiered-{GROUP}-0", f"tiered-{GROUP}-1"}
    assert {value["spec"]["resources"]["requests"]["storage"] for value in tiered.values()} == {"9Gi"}
    assert {value["spec"]["storageClassName"] for value in tiered.values()} == {"slow"}
    broker = pod_spec(world, GROUP)["containers"][0]
    assert {"name": "tiered", "mountPath": TIERED_PATH} in broker["volumeMounts"]
    assert f"\ntieredStoreFilePath={TIERED_PATH}\n" in world.get("ConfigMap", GROUP)["data"]["broker.conf"]
    world.write_group(group(tiered={"size": "9Gi", "storageClassName": "slow"}, size="2Gi"))
    await world.settle()
    sizes = {name: one["spec"]["resources"]["requests"]["storage"] for name, one in claims(world).items()}
    assert {sizes[name] for name in tiered} == {"9Gi"}
    assert {size for name, size in sizes.items() if name not in tiered} == {"2Gi"}


@pytest.mark.parametrize("at_first", [True, False])
async def test_labels_annotations_and_class_are_on_every_claim(at_first: bool) -> None:
    extra = {
        "labels": {"cost-centre": "42"},
        "annotations": {"example.com/backup": "daily"},
        "volumeAttributesClassName": "fast",
    }
    world = await settled(**(extra if at_first else {}))
    before = {
        name: value["spec"]["template"]
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "StatefulSet"
    }
    births = dict(world.kube.births)
    world.write_group(group(**extra))
    await world.settle()
    for claim in claims(world).values():
        assert claim["metadata"]["labels"]["cost-centre"] == "42"
        assert claim["metadata"]["labels"]["rocketmq-ha.dev/group"] == GROUP, "it is found by this one"
        assert claim["metadata"]["annotations"]["example.com/backup"] == "daily"
        assert claim["spec"]["volumeAttributesClassName"] == "fast"
        assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    after = {
        name: value["spec"]["template"]
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "StatefulSet"
    }
    assert (after, world.kube.births) == (before, births), "no pod changes"
    writes = len(world.kube.writes)
    await world.one_pass()
    assert world.kube.writes[writes:] == []


async def test_a_volume_that_is_larger_than_asked_stays_so() -> None:
    world = await settled()
    claims(world)[f"data-{GROUP}-0"]["spec"]["resources"]["requests"]["storage"] = "5Gi"
    world.write_group(group(labels={"cost-centre": "42"}))
    await world.settle()
    grown = claims(world)[f"data-{GROUP}-0"]
    assert grown["metadata"]["labels"]["cost-centre"] == "42"
    assert grown["spec"]["resources"]["requests"]["storage"] == "5Gi"


@pytest.mark.parametrize("kind", ["Broker", "LogReplica"])
async def test_learners_have_the_group_s_storage_with_a_size_and_a_class_of_their_own(kind: str) -> None:
    learners: Json = {"count": 1, "kind": kind, "storage": {"size": "3Gi", "storageClassName": "far"}}
    storage = {
        "labels": {"cost-centre": "42"},
        "volumeAttributesClassName": "fast",
        "tiered": {"size": "9Gi"},
    }
    world = OperatorWorld(group=group(**storage) | {"learners": learners})
    await world.settle()
    pod = f"{GROUP}-{'learner' if kind == 'Broker' else 'log-learner'}-0"
    data = claims(world)[f"data-{pod}"]
    assert data["metadata"]["labels"]["cost-centre"] == "42"
    assert data["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert data["spec"]["storageClassName"] == "far"
    assert "volumeAttributesClassName" not in data["spec"], "it belongs to the driver of another class"
    assert (f"tiered-{pod}" in claims(world)) == (kind == "Broker")
    later = group(**storage | {"labels": {"cost-centre": "43"}})
    world.write_group(
        later | {"learners": learners | {"storage": {"size": "4Gi", "storageClassName": "far"}}}
    )
    await world.settle()
    data = claims(world)[f"data-{pod}"]
    assert data["metadata"]["labels"]["cost-centre"] == "43"
    assert data["spec"]["resources"]["requests"]["storage"] == "4Gi"
    assert claims(world)[f"data-{GROUP}-0"]["spec"]["resources"]["requests"]["storage"] == "1Gi"


@pytest.mark.parametrize("kind", ["Broker", "LogReplica"])
async def test_learners_of_an_ephemeral_group_are_ephemeral(kind: str) -> None:
    learners = {"count": 1, "kind": kind, "storage": {"size": "3Gi"}}
    world = OperatorWorld(group=group(ephemeral=True) | {"learners": learners})
    await world.settle()
    assert claims(world) == {}
    spec = pod_spec(world, f"{GROUP}-{'learner' if kind == 'Broker' else 'log-learner'}")
    assert {"name": "data", "emptyDir": {"sizeLimit": "3Gi"}} in spec["volumes"]
    assert world.condition("Ready") == ("True", "Serving")
