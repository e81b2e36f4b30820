"""Settings of pods in a running cluster: changes roll out, and a refused one changes nothing."""

import copy
from typing import Any, Final

from testkit.worlds.operator import GROUP, OperatorWorld
from testkit.worlds.pod_cases import EVERY_SETTING, OVERRIDE

Json = dict[str, Any]
REFUSED: Final[Json] = {"podOverride": {"spec": {"hostNetwork": True}}}
PLACE: Final = "spec.podOverride.spec.hostNetwork is True: members on one node would share their ports"


async def _settled(group: Json | None = None, cluster: Json | None = None) -> OperatorWorld:
    world = OperatorWorld({"replicas": 2, "logReplicas": 1, **(group or {})}, cluster)
    await world.settle()
    await world.settle()
    world.kube.writes.clear()
    return world


def _message(world: OperatorWorld, type_: str, kind: str = "BrokerGroup", name: str = GROUP) -> str:
    found = [one for one in world.status(kind, name)["conditions"] if one["type"] == type_]
    return str(found[0].get("message", ""))


def _children(world: OperatorWorld) -> Json:
    kinds = {"StatefulSet", "Deployment", "ConfigMap", "Pod", "PodDisruptionBudget", "Service"}
    found = {"/".join(key): value for key, value in world.kube.objects.items() if key[0] in kinds}
    return copy.deepcopy(found)


def _events(world: OperatorWorld) -> list[tuple[str, str]]:
    found = [value for (kind, _, _), value in world.kube.objects.items() if kind == "Event"]
    return [(one["reason"], one["type"]) for one in found]


async def test_a_changed_setting_replaces_pods_one_at_a_time_the_master_last() -> None:
    world = await _settled()
    master = world.status()["master"]["name"]
    settings = {"labels": {"team": "orders"}}
    world.write_group({"replicas": 2, "logReplicas": 1, "pod": settings, "logPod": settings})
    await world.settle()
    deleted = [words.split()[-1] for words in world.kube.writes if words.startswith("delete Pod")]
    assert deleted == ["orders-log-0", *({"orders-0", "orders-1"} - {master}), master]
    pods = [one for one in world.kube.pods() if one["metadata"]["name"].startswith("orders")]
    assert [one["metadata"]["labels"]["team"] for one in pods] == ["orders"] * 3
    assert world.condition("PodsAccepted") == ("True", "Accepted")


async def test_pods_with_every_setting_are_written_once() -> None:
    wanted = {"pod": EVERY_SETTING, "podOverride": OVERRIDE}
    cluster = {"controllers": wanted, "nameServers": wanted, "proxy": {"mode": "Cluster", **wanted}}
    world = await _settled(wanted | {"logPod": EVERY_SETTING, "logPodOverride": OVERRIDE}, cluster)
    await world.settle()
    assert world.kube.writes == []
    assert world.condition("Progressing") == ("False", "Settled")
    assert world.condition("PodsAccepted", "RocketMQCluster", "main") == ("True", "Accepted")


async def test_a_heap_that_does_not_fit_is_refused_as_pods_are() -> None:
    world = await _settled()
    before = _children(world)
    world.write_group({"replicas": 2, "logReplicas": 1, "jvm": {"heap": "90%"}})
    await world.one_pass()
    await world.one_pass()
    assert _children(world) == before
    assert _message(world, "PodsAccepted").startswith("spec.jvm needs 3686 MiB of heap")


async def test_settings_of_log_replicas_leave_brokers_alone() -> None:
    world = await _settled()
    world.write_group({"replicas": 2, "logReplicas": 1, "logPod": {"priorityClassName": "low"}})
    await world.settle()
    assert [words for words in world.kube.writes if words.startswith("delete")] == ["delete Pod orders-log-0"]


async def test_a_refused_override_changes_nothing_and_names_its_field() -> None:
    world = await _settled()
    before = _children(world)
    world.write_group({"replicas": 3, "logReplicas": 1, "config": {"a": "b"}, **REFUSED})
    await world.one_pass()
    await world.one_pass()
    assert _children(world) == before, "neither a third broker nor the configuration"
    assert world.condition("PodsAccepted") == ("False", "PodRefused")
    assert _message(world, "PodsAccepted") == PLACE
    assert world.condition("Ready") == ("True", "Serving")
    assert world.condition("Progressing") == ("True", "PodRefused")
    assert world.status()["reason"] == "PodRefused"
    assert [one for one in _events(world) if one[0] == "PodRefused"] == [("PodRefused", "Warning")]


async def test_a_corrected_override_is_applied() -> None:
    world = await _settled()
    world.write_group(REFUSED)
    await world.one_pass()
    world.write_group({"replicas": 2, "podOverride": {"spec": {"dnsPolicy": "Default"}}})
    await world.settle()
    assert world.condition("PodsAccepted") == ("True", "Accepted")
    assert world.get("StatefulSet", GROUP)["spec"]["template"]["spec"]["dnsPolicy"] == "Default"


async def test_a_new_group_whose_pods_are_refused_has_none_and_is_not_ready() -> None:
    world = OperatorWorld(REFUSED)
    await world.one_pass()
    await world.one_pass()
    assert not world.has("StatefulSet", GROUP)
    assert world.condition("Ready") == ("False", "PodRefused")


async def test_an_address_moves_while_the_pods_of_a_spec_are_refused() -> None:
    world = await _settled()
    master = world.status()["master"]["name"]
    world.write_group({"replicas": 2, "logReplicas": 1, **REFUSED})
    await world.one_pass()
    world.kube.unready.add(master)
    world.kube.remove("Pod", "shop", master)
    await world.one_pass()
    assert world.server_of(master) != master
    assert world.condition("PodsAccepted") == ("False", "PodRefused")


async def test_a_cluster_whose_pods_are_refused_goes_on_as_it_is() -> None:
    world = await _settled(cluster={"proxy": {"mode": "Cluster"}})
    for part, field in (("controllers", "controllers"), ("nameServers", "nameServers"), ("proxy", "proxy")):
        before = _children(world)
        refused = {"podOverride": {"spec": {"shareProcessNamespace": True}}}
        spec: Json = {"proxy": {"mode": "Cluster"}, "version": "5.4.0"}
        world.write_cluster({**spec, part: {**spec.get(part, {}), **refused}})
        world.kube.writes.clear()
        assert await world.one_pass()
        assert _children(world).keys() == before.keys()
        assert [words for words in world.kube.writes if "main-" in words] == []
        found = {one: world.condition(one, "RocketMQCluster", "main") for one in ("PodsAccepted", "Ready")}
        assert found == {"PodsAccepted": ("False", "PodRefused"), "Ready": ("True", "Serving")}
        where = f"spec.{field}.podOverride.spec.shareProcessNamespace is True"
        assert _message(world, "PodsAccepted", "RocketMQCluster", "main").startswith(where)
        assert world.status("RocketMQCluster", "main")["reason"] == "PodRefused"


async def test_a_new_cluster_whose_pods_are_refused_is_not_ready() -> None:
    world = OperatorWorld({}, {"nameServers": {"podOverride": {"spec": {"hostPID": True}}}})
    await world.one_pass()
    assert not world.has("StatefulSet", "main-controller")
    assert world.condition("Ready", "RocketMQCluster", "main") == ("False", "PodRefused")
