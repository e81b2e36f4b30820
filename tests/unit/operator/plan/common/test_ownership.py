"""Objects of somebody else, found by name only: none is taken over, changed or deleted.

Orphans of ours are adopted.
"""

from typing import Any

import pytest

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.handlers.kinds import RESYNC_S
from rocketmq_operator.handlers.reconcile import reconcile
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.claimed_names import names_of_cluster, names_of_group
from rocketmq_operator.plan.common.objects import ObjectKey
from testkit.memory.kubernetes import MemoryKube
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
FULL: Json = {"replicas": 2, "logReplicas": 1}
PROXIES: Json = {"proxy": {"mode": "Cluster"}}
WEB = {"kind": "Deployment", "name": "web", "controller": True}


def _spec(change: Json | None = None) -> BrokerGroupSpec:
    return BrokerGroupSpec.model_validate(
        {"cluster": "main", "storage": {"size": "1Gi"}} | FULL | (change or {})
    )


def _cluster_spec(change: Json | None = None) -> RocketMQClusterSpec:
    return RocketMQClusterSpec.model_validate(PROXIES | (change or {}))


def _foreign(key: ObjectKey, **metadata: Any) -> Json:
    spec: Json = {"replicas": 0, "template": {}} if key.kind in {"StatefulSet", "Deployment"} else {}
    body = {"metadata": {"name": key.name, "namespace": NAMESPACE, "labels": {"app": "x"}} | metadata}
    return {"apiVersion": "v1", "kind": key.kind, "spec": spec} | body


def _message(world: OperatorWorld, kind: str, name: str) -> str:
    found = next(one for one in world.status(kind, name)["conditions"] if one["type"] == "Ready")
    message: str = found["message"]
    return message


def _kept(world: OperatorWorld, key: ObjectKey) -> Json:
    live = world.get(*key)
    return {part: live[part] for part in ("metadata", "spec")}


def _writes(kube: MemoryKube) -> list[str]:
    return [write for write in kube.writes if not write.startswith("status ") and " Event " not in write]


GROUP_KEYS = sorted(names_of_group(GROUP, _spec()).keys)
CLUSTER_KEYS = sorted(
    names_of_cluster("main", _cluster_spec()).keys - {ObjectKey("Pod", "main-nameserver-0")}
)


@pytest.mark.parametrize("key", GROUP_KEYS, ids=lambda key: "-".join(key))
async def test_a_foreign_object_of_any_name_of_a_group_is_left_as_it_is_and_nothing_is_made(
    key: ObjectKey,
) -> None:
    world = OperatorWorld(FULL)
    await reconcile(world.pass_context(), "RocketMQCluster", NAMESPACE, "main")
    world.kube.put(_foreign(key))
    before = _kept(world, key)
    world.kube.writes.clear()
    assert await reconcile(world.pass_context(), "BrokerGroup", NAMESPACE, GROUP) == RESYNC_S
    assert world.condition("Ready") == ("False", "NameTaken")
    assert f"{key.kind} {key.name}" in _message(world, "BrokerGroup", GROUP)
    assert _kept(world, key) == before
    assert _writes(world.kube) == []
    world.kube.remove(key.kind, NAMESPACE, key.name)
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving"), "it resolves by itself"


@pytest.mark.parametrize("key", CLUSTER_KEYS, ids=lambda key: "-".join(key))
async def test_a_foreign_object_of_any_name_of_a_cluster_is_left_as_it_is_and_nothing_is_made(
    key: ObjectKey,
) -> None:
    world = OperatorWorld(FULL, PROXIES)
    world.kube.put(_foreign(key))
    before = _kept(world, key)
    assert await reconcile(world.pass_context(), "RocketMQCluster", NAMESPACE, "main") == RESYNC_S
    assert world.condition("Ready", "RocketMQCluster", "main") == ("False", "NameTaken")
    assert f"{key.kind} {key.name}" in _message(world, "RocketMQCluster", "main")
    assert _kept(world, key) == before
    assert _writes(world.kube) == []
    world.kube.remove(key.kind, NAMESPACE, key.name)
    await world.settle()
    assert world.condition("Ready", "RocketMQCluster", "main")[0] == "True"


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"ownerReferences": [WEB]}, "its owner is Deployment web"),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "it is managed by Helm"),
        (
            {"managedFields": [{"manager": "kubectl-client-side-apply"}]},
            "written by kubectl-client-side-apply",
        ),
        ({}, "it names no owner"),
    ],
)
async def test_the_message_says_whose_the_foreign_object_is(metadata: Json, words: str) -> None:
    world = OperatorWorld(FULL)
    world.kube.put(_foreign(ObjectKey("Deployment", "web")))
    for reference in metadata.get("ownerReferences", []):
        reference["uid"] = world.get("Deployment", "web")["metadata"]["uid"]
    world.kube.put(_foreign(ObjectKey("ConfigMap", GROUP), **metadata))
    await world.settle()
    assert words in _message(world, "BrokerGroup", GROUP)


async def test_a_reference_to_the_group_that_is_not_its_controllers_makes_an_object_not_the_groups() -> None:
    world = OperatorWorld(FULL)
    reference = {
        "kind": "BrokerGroup",
        "name": GROUP,
        "uid": world.get("BrokerGroup", GROUP)["metadata"]["uid"],
    }
    world.kube.put(_foreign(ObjectKey("ConfigMap", GROUP), ownerReferences=[reference]))
    await world.settle()
    assert world.condition("Ready") == ("False", "NameTaken")
    assert "data" not in world.get("ConfigMap", GROUP)


async def test_deleting_a_group_leaves_the_foreign_object_that_kept_it_from_being_made() -> None:
    world = OperatorWorld(FULL)
    world.kube.put(_foreign(ObjectKey("Service", "orders-0")))
    await world.settle()
    world.kube.remove("BrokerGroup", NAMESPACE, GROUP)
    assert world.has("Service", "orders-0")


async def test_what_is_claimed_is_what_is_made() -> None:
    world = OperatorWorld(FULL, PROXIES)
    await world.settle()
    await world.settle()  # proxies come after brokers
    apart = {"BrokerGroup", "RocketMQCluster", "Event", "Failover"}
    made = {ObjectKey(kind, name) for kind, _, name in world.kube.objects if kind not in apart}
    claimed = names_of_group(GROUP, _spec()).keys | names_of_cluster("main", _cluster_spec()).keys
    assert made == claimed


async def test_a_group_that_is_blocked_in_growing_goes_on_moving_its_addresses() -> None:
    world = OperatorWorld({"replicas": 2})
    await world.settle()
    world.kube.put(_foreign(ObjectKey("Service", "orders-2")))
    world.write_group({"replicas": 3})
    await world.settle()
    assert world.condition("Progressing") == ("True", "NameTaken")
    world.kube.unready.add("orders-0")
    world.kube.remove("Pod", NAMESPACE, "orders-0")
    world.kube.writes.clear()
    await world.one_pass()
    assert world.server_of("orders-0") == "orders-1"
    assert _writes(world.kube) == ["apply EndpointSlice orders-0", "apply Failover orders-2"]
    assert world.get("Service", "orders-2")["spec"] == {
        "clusterIP": world.get("Service", "orders-2")["spec"]["clusterIP"]
    }


async def test_a_failover_record_of_somebody_else_is_left_alone() -> None:
    world = OperatorWorld({"replicas": 2})
    await world.settle()
    world.kube.put(_foreign(ObjectKey("Failover", "orders-2")))
    before = _kept(world, ObjectKey("Failover", "orders-2"))
    world.kube.remove("Pod", NAMESPACE, "orders-0")
    await world.settle()
    assert _kept(world, ObjectKey("Failover", "orders-2")) == before
    assert world.condition("Progressing") == ("True", "NameTaken")


def _orphaned(world: OperatorWorld, kind: str, name: str) -> None:
    """Delete a resource as `kubectl delete --cascade=orphan` does."""
    uid = world.get(kind, name)["metadata"]["uid"]
    for value in world.kube.objects.values():
        references = value["metadata"].get("ownerReferences", [])
        if any(one["uid"] == uid for one in references):
            value["metadata"]["ownerReferences"] = [one for one in references if one["uid"] != uid]
    world.kube.remove(kind, NAMESPACE, name)


async def test_orphans_of_a_deleted_group_are_adopted_by_the_next_of_its_name_and_no_pod_is_restarted() -> (
    None
):
    world = OperatorWorld(FULL)
    await world.settle()
    births = dict(world.kube.births)
    _orphaned(world, "BrokerGroup", GROUP)
    assert world.has("StatefulSet", GROUP)
    world.write_group(FULL)
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")
    assert world.kube.births == births
    uid = world.get("BrokerGroup", GROUP)["metadata"]["uid"]
    owners = [
        [one["uid"] for one in world.get(*key)["metadata"].get("ownerReferences", [])]
        for key in GROUP_KEYS
        if key.kind not in {"Pod", "PersistentVolumeClaim"}
    ]
    assert owners == [[uid]] * len(owners)


async def test_orphans_of_a_deleted_cluster_are_adopted_by_the_next_of_its_name() -> None:
    world = OperatorWorld(FULL)
    await world.settle()
    births = dict(world.kube.births)
    _orphaned(world, "RocketMQCluster", "main")
    world.write_cluster({})
    await world.settle()
    assert world.condition("Ready", "RocketMQCluster", "main")[0] == "True"
    assert world.kube.births == births


async def test_a_group_that_is_made_again_takes_the_volumes_that_the_former_one_left() -> None:
    world = OperatorWorld(FULL)
    await world.settle()
    claims = {name: world.get("PersistentVolumeClaim", name)["metadata"]["uid"] for name in _claims(world)}
    world.kube.remove("BrokerGroup", NAMESPACE, GROUP)
    assert _claims(world) == sorted(claims)
    world.write_group(FULL)
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")
    assert {
        name: world.get("PersistentVolumeClaim", name)["metadata"]["uid"] for name in _claims(world)
    } == claims


def _claims(world: OperatorWorld) -> list[str]:
    return sorted(
        name
        for kind, _, name in world.kube.objects
        if kind == "PersistentVolumeClaim" and name.startswith("data-orders")
    )


async def test_a_volume_without_labels_on_which_a_member_runs_does_not_keep_its_group_from_growing() -> None:
    world = OperatorWorld({"replicas": 2})
    await world.settle()
    world.get("PersistentVolumeClaim", "data-orders-1")["metadata"]["labels"] = {}
    world.write_group({"replicas": 3})
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")
    assert world.has("Pod", "orders-2")


async def test_a_volume_that_another_groups_log_replica_left_is_not_taken() -> None:
    world = OperatorWorld(FULL)
    await world.settle()
    world.kube.remove("BrokerGroup", NAMESPACE, GROUP)
    _write_group(world, "orders-log")
    await reconcile(world.pass_context(), "BrokerGroup", NAMESPACE, "orders-log")
    assert world.condition("Ready", name="orders-log") == ("False", "NameTaken")
    assert "its labels name BrokerGroup orders of cluster main" in _message(
        world, "BrokerGroup", "orders-log"
    )


def _write_group(world: OperatorWorld, name: str, at: str = "", **change: Any) -> None:
    spec = {"cluster": "main", "storage": {"size": "1Gi"}, "replicas": 1, "durability": "Async"} | change
    metadata = {"name": name, "namespace": NAMESPACE} | ({"creationTimestamp": at} if at else {})
    world.kube.put(
        {"apiVersion": "rocketmq-ha.dev/v1alpha1", "kind": "BrokerGroup", "metadata": metadata, "spec": spec}
    )


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
PAIRS = [("orders", "orders-log"), ("orders-log", "orders"), ("orders", "orders-0"), ("orders-0", "orders")]


async def _passes(world: OperatorWorld, names: tuple[str, ...]) -> None:
    for _ in range(6):
        await reconcile(world.pass_context(), "RocketMQCluster", NAMESPACE, "main")
        for name in names:
            await reconcile(world.pass_context(), "BrokerGroup", NAMESPACE, name)


@pytest.mark.parametrize(
    "first", [0, 1], ids=["the older is looked at first", "the younger is looked at first"]
)
@pytest.mark.parametrize(("older", "younger"), PAIRS)
async def test_of_two_groups_that_share_a_name_the_older_has_it(older: str, younger: str, first: int) -> None:
    world = OperatorWorld(FULL)
    world.kube.remove("BrokerGroup", NAMESPACE, GROUP)
    for name, at in ((older, EARLY), (younger, LATE)):
        _write_group(world, name, at, **({"logReplicas": 1} if name == "orders" else {}))
    await _passes(world, ((older, younger), (younger, older))[first])
    assert world.condition("Ready", name=younger) == ("False", "NameTaken")
    assert f"BrokerGroup {older}" in _message(world, "BrokerGroup", younger)
    assert world.condition("Ready", name=older)[1] != "NameTaken"
    assert world.has("StatefulSet", older)
    uid = world.get("BrokerGroup", younger)["metadata"]["uid"]
    assert [key for key, value in world.kube.objects.items() if _refers(value, uid)] == []
    births = dict(world.kube.births)
    world.kube.remove("BrokerGroup", NAMESPACE, younger)
    await _passes(world, (older,))
    assert world.kube.births == births, "its deletion restarts no pod"


def _refers(value: Json, uid: str) -> bool:
    return value["kind"] != "Event" and any(
        one["uid"] == uid for one in value["metadata"].get("ownerReferences", [])
    )


@pytest.mark.parametrize("name", ["main-controller", "main-nameserver", "main-controller-0", "main-proxy"])
async def test_a_group_with_the_name_of_something_of_a_cluster_gets_none_of_it(name: str) -> None:
    world = OperatorWorld(FULL, PROXIES)
    world.get("RocketMQCluster", "main")["metadata"]["creationTimestamp"] = EARLY
    _write_group(world, name, LATE)
    for _ in range(2):
        await reconcile(world.pass_context(), "BrokerGroup", NAMESPACE, name)
        await world.settle()
    assert world.condition("Ready", name=name) == ("False", "NameTaken")
    births = dict(world.kube.births)
    world.kube.remove("BrokerGroup", NAMESPACE, name)
    await world.settle()
    assert world.kube.births == births
    assert world.condition("Ready", "RocketMQCluster", "main")[0] == "True"


async def test_a_cluster_gets_no_name_of_a_group_that_is_older() -> None:
    world = OperatorWorld(FULL)
    world.kube.remove("RocketMQCluster", NAMESPACE, "main")
    _write_group(world, "main-controller", EARLY)
    world.write_cluster({})
    world.get("RocketMQCluster", "main")["metadata"]["creationTimestamp"] = LATE
    await reconcile(world.pass_context(), "RocketMQCluster", NAMESPACE, "main")
    assert world.condition("Ready", "RocketMQCluster", "main") == ("False", "NameTaken")
    assert not world.has("StatefulSet", "main-controller")


async def test_a_group_that_grew_into_a_younger_groups_names_leaves_the_younger_its_own() -> None:
    world = OperatorWorld(FULL)
    world.kube.remove("BrokerGroup", NAMESPACE, GROUP)
    _write_group(world, "orders", EARLY)
    _write_group(world, "orders-log", LATE)
    await _passes(world, ("orders", "orders-log"))
    assert world.has("StatefulSet", "orders-log")
    _write_group(world, "orders", EARLY, logReplicas=1)
    births = dict(world.kube.births)
    await _passes(world, ("orders", "orders-log"))
    assert world.condition("Progressing", name="orders") == ("True", "NameTaken")
    assert world.condition("Progressing", name="orders-log")[1] != "NameTaken"
    assert world.kube.births == births


async def test_names_are_looked_up_only_before_something_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    world = OperatorWorld(FULL, PROXIES)
    await world.settle()
    await world.settle()
    asked: list[str] = []
    get = world.kube.get

    async def counted(kind: str, namespace: str, name: str) -> Json | None:
        if name != names.trust("main"):  # read at each look, as the token is
            asked.append(kind)
        return await get(kind, namespace, name)

    monkeypatch.setattr(world.kube, "get", counted)
    await world.one_pass()
    assert set(asked) <= {"RocketMQCluster", "BrokerGroup", "Secret"}, "whatever is there is not looked up"
    asked.clear()
    world.kube.remove("ConfigMap", NAMESPACE, GROUP)
    await world.settle()
    assert asked.count("ConfigMap") == 1
    assert "Service" not in asked, "only what is missing is looked up"
