"""What the operator does to a group, told as stories over a Kubernetes and controllers in memory."""

from typing import Any

import pytest

from rocketmq_operator.clients.api import RequestRefusedError
from testkit.memory.kubernetes import MemoryKube
from testkit.worlds.operator import OperatorWorld

THREE = {"logReplicas": 1}
Json = dict[str, Any]


async def _settled(spec: Json | None = None) -> OperatorWorld:
    world = OperatorWorld(THREE if spec is None else spec)
    await world.settle()
    world.kube.writes.clear()
    return world


async def test_a_group_comes_up_from_nothing() -> None:
    world = await _settled()
    assert world.condition("Ready") == ("True", "Serving")
    assert world.status()["inSync"] == "3/3"
    assert [member["role"] for member in world.status()["members"]] == ["Master", "Slave", "Log"]


async def test_a_settled_group_is_left_alone() -> None:
    world = await _settled()
    await world.one_pass()
    world.advance(60)
    await world.one_pass()
    assert world.kube.writes == []


async def test_each_broker_is_told_the_address_of_its_own_service() -> None:
    world = await _settled()
    lines = world.get("ConfigMap", "orders")["data"]["addresses"].splitlines()
    assert lines == [
        f"{name}={world.get('Service', name)['spec']['clusterIP']}"
        for name in ("orders-0", "orders-1", "orders-log-0")
    ]


async def test_brokers_know_every_controller_that_there_can_be_by_its_own_name() -> None:
    world = await _settled()
    conf = dict(
        line.split("=", 1) for line in world.get("ConfigMap", "orders")["data"]["broker.conf"].splitlines()
    )
    assert conf["controllerAddr"].split(";") == [
        f"main-controller-{n}.main-controller.shop.svc:9878" for n in range(5)
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"durability": "Async"}, ("false", "1", "1")),
        ({"durability": "Quorum"}, ("false", "2", "2")),
        ({"durability": "AllInSync"}, ("true", "2", "2")),
        ({"durability": "Quorum", "replicas": 5, "inSyncReplicas": 3}, ("false", "3", "3")),
        (
            {"durability": "Quorum", "replicas": 5, "inSyncReplicas": 2, "minInSyncReplicas": 3},
            ("false", "2", "3"),
        ),
        ({"durability": "Async", "minInSyncReplicas": 2}, ("false", "1", "2")),
        ({"durability": "AllInSync", "replicas": 3, "minInSyncReplicas": 3}, ("true", "2", "3")),
    ],
)
async def test_durability_is_a_matter_of_settings(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    world = await _settled(spec | {"logReplicas": 0})
    conf = dict(
        line.split("=", 1) for line in world.get("ConfigMap", "orders")["data"]["broker.conf"].splitlines()
    )
    assert (conf["allAckInSyncStateSet"], conf["inSyncReplicas"], conf["minInSyncReplicas"]) == expected


async def test_a_key_that_a_person_gives_wins_over_a_tuned_one() -> None:
    world = await _settled({"config": {"haMaxTimeSlaveNotCatchup": "9000"}})
    assert "haMaxTimeSlaveNotCatchup=9000\n" in world.get("ConfigMap", "orders")["data"]["broker.conf"]


async def test_a_dead_masters_address_is_served_by_the_new_one_until_clients_have_new_routes() -> None:
    world = await _settled()
    world.kube.unready.add("orders-0")
    world.kube.remove("Pod", "shop", "orders-0")
    await world.one_pass()
    assert world.server_of("orders-0") == "orders-1"
    assert world.status()["members"][0]["takeover"] == "orders-1"
    world.kube.unready.clear()
    world.kube.settle()
    await world.settle()
    assert world.status()["members"][0]["ready"]
    assert world.server_of("orders-0") == "orders-1", (
        "it is back, but clients still send it what a slave refuses"
    )
    world.advance(35)
    await world.settle()
    assert world.server_of("orders-0") == "orders-0"


async def test_while_no_controller_answers_an_address_stays_with_whoever_serves_it() -> None:
    world = await _settled()
    world.kube.unready.add("orders-0")
    world.kube.remove("Pod", "shop", "orders-0")
    await world.one_pass()
    world.controllers.reachable = False
    world.kube.unready.clear()
    world.kube.settle()
    world.advance(1)
    await world.one_pass()
    assert world.server_of("orders-0") == "orders-1"
    world.kube.remove("Pod", "shop", "orders-1")
    world.kube.settle()
    await world.one_pass()
    pod = world.get("Pod", "orders-1")
    addresses = [one["addresses"] for one in world.get("EndpointSlice", "orders-0")["endpoints"]]
    assert addresses == [[pod["status"]["podIP"]]], "its server is the same one, at another address"


async def test_a_failover_leaves_one_record_that_is_completed_later() -> None:
    world = await _settled()
    world.kube.remove("Pod", "shop", "orders-0")
    world.controllers.records[-1]["first_beat_ns"] = world.controllers.records[-1]["role_taken_ns"] = None
    await world.settle()
    assert (
        "took" not in world.get("Failover", "orders-2")["status"]
        or not world.get("Failover", "orders-2")["status"]["took"]
    )
    world.controllers.records[-1]["role_taken_ns"] = (
        world.controllers.records[-1]["suspected_ns"] + 123 * 10**6
    )
    await world.settle()
    record = world.get("Failover", "orders-2")
    assert (record["spec"]["from"], record["spec"]["to"]) == ("orders-0", "orders-1")
    assert record["spec"]["cause"] == "ConnectionClosed"
    assert record["status"]["took"] == "123ms"
    assert world.status()["lastFailover"] == "orders-2"


async def test_the_first_election_is_no_failover() -> None:
    world = await _settled()
    assert not world.has("Failover", "orders-1")


async def test_a_rolling_change_restarts_log_replicas_then_slaves_then_the_master_which_hands_over() -> None:
    world = await _settled()
    world.write_group(
        {
            **THREE,
            "config": {"sendMessageThreadPoolNums": "12"},
            "logResources": {"cpu": "200m", "memory": "256Mi"},
        }
    )
    await world.settle()
    done = [words for words in world.kube.writes if words.startswith(("delete Pod", "designate"))]
    assert done == [
        "delete Pod orders-log-0",
        "delete Pod orders-1",
        "delete Pod orders-0",
    ]
    assert world.status()["master"]["name"] == "orders-1"
    assert world.kube.births == {**world.kube.births, "orders-0": 2, "orders-1": 2, "orders-log-0": 2}


async def test_no_second_member_is_restarted_while_one_is_not_back() -> None:
    world = await _settled()
    world.kube.unready.add("orders-1")
    world.write_group({**THREE, "config": {"sendMessageThreadPoolNums": "12"}})
    for _ in range(5):
        await world.one_pass()
    assert world.kube.births["orders-0"] == 1
    assert world.condition("Progressing") == ("True", "MemberNotReady")
    assert "orders-1 is not ready" in world.status()["plan"]["waitingFor"]


async def test_no_member_is_restarted_while_one_is_behind() -> None:
    world = await _settled()
    world.controllers.behind.add("orders-log-0")
    world.write_group({**THREE, "config": {"sendMessageThreadPoolNums": "12"}})
    for _ in range(5):
        await world.one_pass()
    assert world.kube.births == {**world.kube.births, "orders-0": 1, "orders-1": 1, "orders-log-0": 1}
    assert world.condition("Progressing") == ("True", "MemberNotInSync")


async def test_no_pod_is_restarted_while_the_controllers_are_silent() -> None:
    world = await _settled()
    world.controllers.reachable = False
    world.write_group({**THREE, "config": {"sendMessageThreadPoolNums": "12"}})
    for _ in range(5):
        await world.one_pass()
    assert not [words for words in world.kube.writes if words.startswith("delete")]
    assert world.condition("Ready") == ("Unknown", "ControllersUnreachable")


async def test_while_the_controllers_are_silent_the_roles_are_those_last_known() -> None:
    world = await _settled()
    before = world.status()
    world.controllers.reachable = False
    world.kube.unready.add("orders-1")
    world.kube.settle()
    await world.one_pass()
    after = world.status()
    assert (after["master"], after["inSync"]) == (before["master"], before["inSync"])
    assert [one["role"] for one in after["members"]] == [one["role"] for one in before["members"]]
    assert [one["name"] for one in after["members"] if not one["ready"]] == ["orders-1"], (
        "pods are seen all the same"
    )
    assert world.condition("InSync") == ("Unknown", "ControllersUnreachable")


async def test_a_single_broker_is_restarted_without_a_switchover() -> None:
    world = await _settled({"replicas": 1, "durability": "Async"})
    world.write_group({"replicas": 1, "durability": "Async", "config": {"sendMessageThreadPoolNums": "12"}})
    await world.settle()
    assert world.kube.births["orders-0"] == 2
    assert world.controllers.designations == []


async def test_scaling_out_touches_no_running_pod() -> None:
    world = await _settled()
    world.write_group({**THREE, "replicas": 3})
    await world.settle()
    assert world.status()["inSync"] == "4/4"
    assert set(world.kube.births.values()) == {1}


async def test_scaling_in_hands_the_mastership_over_first() -> None:
    world = await _settled({"replicas": 3})
    await world.controllers.designate("main", "orders", 3)
    world.kube.writes.clear()
    world.write_group({"replicas": 2})
    await world.settle()
    done = [words for words in world.kube.writes if "orders" in words and "status" not in words]
    assert done.index("designate orders-0") < done.index("apply StatefulSet orders")
    assert not world.has("Pod", "orders-2")
    assert not world.has("Service", "orders-2")
    assert world.has("PersistentVolumeClaim", "data-orders-2"), "a volume outlives its member"


async def test_scaling_in_is_refused_while_it_would_take_a_copy() -> None:
    world = await _settled({"replicas": 3})
    world.controllers.behind |= {"orders-1"}
    world.write_group({"replicas": 2})
    for _ in range(5):
        await world.one_pass()
    assert world.has("Pod", "orders-2")
    assert world.condition("Ready") == ("False", "ScaleInRefused")


async def test_volumes_are_asked_to_grow() -> None:
    world = await _settled()
    world.write_group({**THREE, "storage": {"size": "2Gi"}})
    await world.settle()
    sizes = {
        key[2]: value["spec"]["resources"]["requests"]["storage"]
        for key, value in world.kube.objects.items()
        if key[0] == "PersistentVolumeClaim" and "orders" in key[2]
    }
    assert set(sizes.values()) == {"2Gi"}
    assert world.kube.births["orders-0"] == 1


async def test_a_paused_group_is_only_looked_at() -> None:
    world = await _settled()
    world.write_group({**THREE, "paused": True, "replicas": 3})
    await world.one_pass()
    assert world.kube.writes == ["status BrokerGroup orders"]
    assert world.condition("Paused") == ("True", "Asked")


async def test_a_group_without_its_cluster_says_so() -> None:
    world = OperatorWorld({"cluster": "elsewhere"})
    await world.one_pass()
    assert world.condition("Ready") == ("False", "NoCluster")
    assert not world.has("StatefulSet", "orders")


async def test_a_spec_that_breaks_a_rule_stops_nothing_that_runs_and_is_told() -> None:
    world = await _settled()
    world.write_group({**THREE, "config": {"brokerRole": "SLAVE"}})
    await world.one_pass()
    assert world.condition("Ready") == ("False", "OwnedKey")
    assert [words for words in world.kube.writes if words.startswith("apply")] == []
    world.kube.writes.clear()
    await world.one_pass()
    assert world.kube.writes == []


async def test_a_name_that_is_taken_is_left_alone() -> None:
    world = OperatorWorld()
    world.kube.put(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "orders-0",
                "namespace": "shop",
                "labels": {"rocketmq-ha.dev/cluster": "main", "rocketmq-ha.dev/group": "orders"},
            },
            "spec": {"selector": {"app": "mine"}},
        }
    )
    for _ in range(3):
        await world.one_pass()
    assert world.condition("Ready") == ("False", "NameTaken")
    assert world.get("Service", "orders-0")["spec"]["selector"] == {"app": "mine"}


async def test_a_version_that_loses_topics_is_warned_of() -> None:
    world = OperatorWorld(cluster={"version": "5.3.3"})
    await world.settle()
    assert world.condition("VersionSound", "RocketMQCluster", "main") == ("False", "KnownBroken")


async def test_the_token_stays_what_it_was() -> None:
    world = await _settled()
    first = world.get("Secret", "main-controller-token")["data"]
    world.write_cluster({"nameServers": {"replicas": 3, "resources": {"cpu": "250m", "memory": "1Gi"}}})
    await world.settle()
    assert world.get("Secret", "main-controller-token")["data"] == first


async def test_deleting_a_group_leaves_its_volumes_and_nothing_else() -> None:
    world = await _settled()
    world.kube.remove("BrokerGroup", "shop", "orders")
    await world.one_pass()
    left = {key[:1] + key[2:] for key in world.kube.objects if "orders" in key[2]}
    assert left == {
        ("PersistentVolumeClaim", f"data-{name}") for name in ("orders-0", "orders-1", "orders-log-0")
    }


async def test_a_group_whose_copies_are_too_few_is_not_ready() -> None:
    world = await _settled()
    world.controllers.behind |= {"orders-1", "orders-log-0"}
    await world.one_pass()
    assert world.condition("Ready") == ("False", "TooFewInSync")
    assert world.condition("InSync") == ("False", "MembersBehind")
    assert world.status()["reason"] == "TooFewInSync"


async def test_a_group_whose_last_broker_is_gone_says_that_nobody_can_be_elected() -> None:
    world = await _settled({"replicas": 1, "logReplicas": 1})
    world.kube.unready.add("orders-0")
    world.kube.remove("Pod", "shop", "orders-0")
    await world.one_pass()
    assert world.condition("Ready") == ("False", "NoMaster")
    assert world.condition("MasterElected") == ("False", "NoElectableReplica")


async def test_a_volume_that_may_not_grow_is_told_and_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await _settled()
    whole = MemoryKube.apply

    async def refusing(self: MemoryKube, body: Json) -> Json:
        if body["kind"] == "PersistentVolumeClaim":
            raise RequestRefusedError("403 only dynamically provisioned pvc can be resized")
        return await whole(self, body)

    monkeypatch.setattr(MemoryKube, "apply", refusing)
    world.write_group({**THREE, "replicas": 3, "storage": {"size": "2Gi"}})
    await world.settle()
    assert world.has("Pod", "orders-2")
    assert world.condition("Progressing") == ("True", "StepRefused")
    assert world.condition("Ready") == ("True", "Serving")
    world.kube.remove("Pod", "shop", "orders-0")
    await world.settle()
    assert world.has("Failover", "orders-2")
    assert "only dynamically provisioned" in world.status()["plan"]["waitingFor"]
    await world.one_pass()
    assert [event["reason"] for key, event in world.kube.objects.items() if key[0] == "Event"] == [
        "StepRefused"
    ]


async def test_a_write_that_the_api_server_does_not_keep_is_told_and_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await _settled()
    store = MemoryKube._store

    def forgetful(kube: MemoryKube, manager: str, body: Json, part: str) -> Json:
        if body["kind"] == "PodDisruptionBudget":
            body = body | {"spec": {}}
        return store(kube, manager, body, part)

    monkeypatch.setattr(MemoryKube, "_store", forgetful)
    world.kube.remove("PodDisruptionBudget", "shop", "orders")
    await world.one_pass()
    assert world.kube.writes.count("apply PodDisruptionBudget orders") == 2, "missing, and then not as wanted"
    assert world.condition("Progressing") == ("True", "FieldRewritten")
