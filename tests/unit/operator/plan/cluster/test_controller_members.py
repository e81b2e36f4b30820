"""The number of controllers follows the spec, one at a time.

Voters change before pods go and after they have come.
"""

from typing import Any

import pytest

from rocketmq_operator.plan.cluster.observed_controllers import (
    leader_ordinal,
    parse_controllers,
)
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
SET = "main-controller"
KIND = "RocketMQCluster"


async def _settled(count: int = 3) -> OperatorWorld:
    world = OperatorWorld(cluster=_asked(count))
    await world.settle()
    world.controllers.membership.changes.clear()
    world.kube.writes.clear()
    return world


def _asked(count: int, **more: Any) -> Json:
    return {"controllers": {"replicas": count} | more}


def _voters(world: OperatorWorld) -> list[str]:
    return sorted(world.controllers.membership.voters)


def _pods(world: OperatorWorld) -> list[str]:
    return [
        pod["metadata"]["name"] for pod in world.kube.pods() if pod["metadata"]["name"].startswith(f"{SET}-")
    ]


def _lose_volume(world: OperatorWorld, ordinal: int) -> None:
    """Take a controller's volume and pod away, as a lost disk does; the StatefulSet creates both again."""
    world.kube.remove("PersistentVolumeClaim", "shop", f"data-{SET}-{ordinal}")
    world.kube.remove("Pod", "shop", f"{SET}-{ordinal}")


def _events(world: OperatorWorld) -> list[str]:
    return [value["reason"] for (kind, _, _), value in world.kube.objects.items() if kind == "Event"]


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("then", [1, 3, 5])
async def test_any_number_becomes_any_other(count: int, then: int) -> None:
    world = await _settled(count)
    world.write_cluster(_asked(then))
    await world.settle()
    assert _voters(world) == [f"n{ordinal}" for ordinal in range(then)]
    assert _pods(world) == [f"{SET}-{ordinal}" for ordinal in range(then)]
    assert world.status(KIND, "main")["controllers"] == f"{then}/{then}"
    assert world.condition("QuorumHealthy", KIND, "main") == ("True", "AllReady")


async def test_a_new_controller_learns_before_it_votes() -> None:
    world = await _settled()
    world.write_cluster(_asked(5))
    await world.settle()
    assert world.controllers.membership.changes == ["add n3", "promote n3", "add n4", "promote n4"]
    assert _events(world) == ["ControllerAdded", "ControllerPromoted"] * 2


async def test_the_last_loses_its_vote_first_and_its_pod_when_nobody_counts_on_it() -> None:
    world = await _settled(5)
    world.write_cluster(_asked(3))
    await world.one_pass()
    assert _voters(world) == ["n0", "n1", "n2", "n3"]
    assert len(_pods(world)) == 5
    await world.settle()
    assert world.controllers.membership.changes == ["remove n4", "remove n3"]
    assert not world.has("PersistentVolumeClaim", f"data-{SET}-3"), "what it held, every other one holds"
    assert world.has("Service", f"{SET}-3"), "brokers are configured with its name"


async def test_neither_brokers_nor_controllers_are_restarted_when_the_number_changes() -> None:
    world = OperatorWorld({"logReplicas": 1})
    await world.settle()
    births, templates = dict(world.kube.births), _templates(world)
    for count in (5, 1, 3):
        world.write_cluster(_asked(count))
        await world.settle()
        assert _templates(world) == templates
    fresh = {f"{SET}-{ordinal}" for ordinal in (1, 2, 3, 4)}
    assert {name: born for name, born in world.kube.births.items() if name not in fresh} == {
        name: born for name, born in births.items() if name not in fresh
    }


def _templates(world: OperatorWorld) -> dict[str, Json]:
    return {
        name: value["spec"]["template"]
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "StatefulSet"
    }


async def test_one_that_comes_back_comes_with_an_empty_store() -> None:
    world = await _settled()
    before = world.get("PersistentVolumeClaim", f"data-{SET}-2")["metadata"]["uid"]
    for count in (1, 3):
        world.write_cluster(_asked(count))
        await world.settle()
    assert world.controllers.membership.voters["n2"] != before


async def test_no_pod_is_made_while_a_volume_of_before_is_still_going() -> None:
    world = await _settled(1)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-{SET}-1",
            "namespace": "shop",
            "labels": {"rocketmq-ha.dev/cluster": "main"},
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {},
    }
    world.kube.put(claim)
    world.kube.remove("PersistentVolumeClaim", "shop", f"data-{SET}-1")
    world.write_cluster(_asked(3))
    for _ in range(3):
        await world.one_pass()
    assert _pods(world) == [f"{SET}-0"]
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "ControllerLeaving")
    world.kube.objects["PersistentVolumeClaim", "shop", f"data-{SET}-1"]["metadata"]["finalizers"] = []
    world.kube.remove("PersistentVolumeClaim", "shop", f"data-{SET}-1")
    await world.settle()
    assert _voters(world) == ["n0", "n1", "n2"]


async def test_the_cluster_serves_while_its_controllers_change() -> None:
    world = await _settled()
    world.controllers.membership.behind["n3"] = 5_000
    world.write_cluster(_asked(5))
    for _ in range(5):
        await world.one_pass()
    assert world.condition("Ready", KIND, "main") == ("True", "Serving")
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "ControllerJoining")
    assert world.condition("Progressing", KIND, "main") == ("True", "ControllerJoining")
    members = {one["name"]: one for one in world.status(KIND, "main")["members"]}
    assert members[f"{SET}-3"] == {
        "name": f"{SET}-3", "role": "Learner", "ready": True, "lagEntries": 5_000,
    }  # fmt: skip
    assert members[f"{SET}-0"]["role"] == "Leader"
    assert members[f"{SET}-4"]["role"] == "Joining"
    world.controllers.membership.behind.clear()
    await world.settle()
    assert _voters(world) == ["n0", "n1", "n2", "n3", "n4"]


async def test_while_the_leader_does_not_answer_a_learner_is_not_taken_for_a_voter() -> None:
    world = await _settled()
    world.controllers.membership.behind["n3"] = 5_000
    world.write_cluster(_asked(5))
    for _ in range(5):
        await world.one_pass()
    world.controllers.membership.silent.add("n0")
    await world.one_pass()
    roles = {one["name"]: one["role"] for one in world.status(KIND, "main")["members"]}
    assert roles[f"{SET}-3"] == "Learner"
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "ControllerJoining")
    assert _message(world, "QuorumHealthy") == (
        f"{SET}-3 is changing: its last known role is Learner, and the leader does not answer"
    )
    world.controllers.membership.silent.clear()
    world.controllers.membership.behind.clear()
    await world.settle()
    assert world.condition("QuorumHealthy", KIND, "main") == ("True", "AllReady")


async def test_a_leader_that_does_not_answer_once_leaves_voters_voters() -> None:
    world = await _settled()
    world.controllers.membership.silent.add("n0")
    await world.one_pass()
    assert world.condition("QuorumHealthy", KIND, "main") == ("True", "AllReady")


async def test_a_controller_that_does_not_start_is_not_added() -> None:
    world = await _settled()
    world.controllers.membership.down.add("n3")
    world.write_cluster(_asked(5))
    for _ in range(5):
        await world.one_pass()
    assert world.controllers.membership.changes == []
    assert "does not answer yet" in _message(world, "QuorumHealthy")


def _message(world: OperatorWorld, type_: str) -> str:
    conditions = world.status(KIND, "main")["conditions"]
    return str(next(one["message"] for one in conditions if one["type"] == type_))


async def test_a_controller_that_lost_its_volume_is_removed_added_and_promoted() -> None:
    world = await _settled()
    _lose_volume(world, 1)
    await world.one_pass()
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "ControllerReplaced")
    await world.one_pass()
    roles = {one["name"]: one["role"] for one in world.status(KIND, "main")["members"]}
    assert roles[f"{SET}-1"] == "Replacing"
    await world.settle()
    assert world.controllers.membership.changes == ["remove n1", "add n1", "promote n1"]
    assert "ControllerReplaced" in _events(world)
    assert _voters(world) == ["n0", "n1", "n2"]


async def test_a_silent_controller_keeps_its_vote() -> None:
    world = await _settled()
    world.controllers.membership.down.add("n1")
    for _ in range(5):
        await world.one_pass()
    assert world.controllers.membership.changes == []
    assert _voters(world) == ["n0", "n1", "n2"]


async def test_two_of_three_that_lost_their_volumes_are_left_to_a_person() -> None:
    world = await _settled()
    for ordinal in (1, 2):
        _lose_volume(world, ordinal)
    for _ in range(5):
        await world.one_pass()
    assert world.controllers.membership.changes == []
    assert world.condition("Ready", KIND, "main") == ("False", "NoQuorum")


async def test_one_of_five_is_replaced_only_while_most_of_the_others_live() -> None:
    world = await _settled(5)
    _lose_volume(world, 1)
    world.controllers.membership.down |= {"n3", "n4"}
    # Before the others notice that no majority is left.
    seen = world.controllers.membership
    seen.leader = "n0"
    await world.one_pass()
    assert seen.changes == []


async def test_two_of_five_that_lost_their_volumes_are_both_gone_before_one_comes_back() -> None:
    world = await _settled(5)
    for ordinal in (1, 2):
        _lose_volume(world, ordinal)
    await world.settle()
    assert world.controllers.membership.changes[:2] == ["remove n1", "remove n2"]
    assert _voters(world) == ["n0", "n1", "n2", "n3", "n4"]


async def test_a_controller_that_is_to_stay_votes_again_before_another_goes() -> None:
    world = await _settled(5)
    _lose_volume(world, 0)
    world.write_cluster(_asked(1))
    await world.settle()
    assert world.controllers.membership.changes[:3] == ["remove n0", "add n0", "promote n0"]
    assert _voters(world) == ["n0"]


async def test_of_those_that_are_to_go_a_silent_one_goes_first() -> None:
    world = await _settled()
    world.controllers.membership.down.add("n1")
    world.write_cluster(_asked(1))
    await world.settle()
    assert world.controllers.membership.changes == ["remove n1", "remove n2"], "two that live decide it alone"
    assert _pods(world) == [f"{SET}-0"]


async def test_nobody_is_removed_who_leaves_no_living_majority() -> None:
    world = await _settled(5)
    world.controllers.membership.down |= {"n0", "n1"}
    world.write_cluster(_asked(3))
    for _ in range(5):
        await world.one_pass()
    assert _voters(world) == ["n0", "n1", "n2", "n3", "n4"], "of four voters two would not be enough"
    assert len(_pods(world)) == 5
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "TooFewVoters")
    assert "TooFewVoters" in _events(world)


async def test_without_a_leader_no_pod_comes_or_goes() -> None:
    world = await _settled()
    world.controllers.membership.down |= {"n0", "n1"}
    world.kube.settle()
    for count in (5, 1):
        world.write_cluster(_asked(count))
        for _ in range(3):
            await world.one_pass()
        assert len(_pods(world)) == 3
        assert world.condition("Ready", KIND, "main") == ("False", "NoQuorum")


async def test_a_removed_one_that_is_wanted_again_before_its_pod_has_gone_is_made_anew() -> None:
    world = await _settled(5)
    world.write_cluster(_asked(3))
    await world.one_pass()
    assert world.controllers.membership.changes == ["remove n4"]
    old = world.get("PersistentVolumeClaim", f"data-{SET}-4")["metadata"]["uid"]
    world.write_cluster(_asked(5))
    await world.settle()
    assert _voters(world) == ["n0", "n1", "n2", "n3", "n4"]
    assert world.controllers.membership.voters["n4"] != old
    assert world.kube.births[f"{SET}-3"] == 1


async def test_one_that_a_person_removed_among_others_waits_for_that_person() -> None:
    world = await _settled()
    world.controllers.membership.change("remove", "n1")
    for _ in range(3):
        await world.one_pass()
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "ControllerHasLog")
    assert f"{SET}-1" in _message(world, "QuorumHealthy")
    assert "ControllerHasLog" in _events(world)
    _lose_volume(world, 1)
    await world.settle()
    assert _voters(world) == ["n0", "n1", "n2"]


async def test_nothing_changes_while_the_cluster_is_paused() -> None:
    world = await _settled()
    world.write_cluster(_asked(5) | {"paused": True})
    for _ in range(3):
        await world.one_pass()
    assert world.kube.writes == ["status RocketMQCluster main"]


async def test_a_list_of_peers_never_names_fewer_than_there_are_pods() -> None:
    world = await _settled()
    world.write_cluster(_asked(1))
    seen = []
    for _ in range(20):
        await world.one_pass()
        seen.append((len(_pods(world)), len(_peers(world))))
    assert all(pods <= peers for pods, peers in seen), seen
    assert seen[-1] == (1, 1)


def _peers(world: OperatorWorld) -> list[str]:
    peers: str = world.get("ConfigMap", SET)["data"]["peers"]
    return peers.split(";")


async def test_controllers_are_replaced_one_at_a_time_and_the_leader_last() -> None:
    world = await _settled()
    world.controllers.membership.leader = "n1"
    before = dict(world.kube.births)
    world.write_cluster(_asked(3, resources={"cpu": "250m", "memory": "600Mi"}))
    order: list[str] = []
    for _ in range(10):
        await world.one_pass()
        order += [
            name for name in _pods(world) if world.kube.births[name] > before[name] and name not in order
        ]
    assert order == [f"{SET}-2", f"{SET}-0", f"{SET}-1"]


async def test_a_controller_is_not_restarted_while_another_does_not_vote() -> None:
    world = await _settled()
    world.controllers.membership.down.add("n1")
    world.write_cluster(_asked(3, resources={"cpu": "250m", "memory": "600Mi"}))
    for _ in range(5):
        await world.one_pass()
    assert world.kube.births[f"{SET}-0"] == world.kube.births[f"{SET}-2"] == 1
    assert world.condition("QuorumHealthy", KIND, "main") == ("False", "ControllerNotReady")


async def test_a_bad_change_is_taken_back_while_a_new_controller_never_starts() -> None:
    world = await _settled()
    world.controllers.membership.down.add("n3")
    world.kube.unready.add(f"{SET}-3")
    world.write_cluster(_asked(5) | {"images": {"controller": "rocketmq-ha/no-such:1"}})
    for _ in range(3):
        await world.one_pass()
    births = dict(world.kube.births)
    world.write_cluster(_asked(5))
    await world.one_pass()
    assert world.kube.births[f"{SET}-3"] == births[f"{SET}-3"] + 1
    world.controllers.membership.down.clear()
    world.kube.unready.clear()
    world.kube.settle()
    await world.settle()
    assert _voters(world) == ["n0", "n1", "n2", "n3", "n4"]


def test_of_two_that_say_they_lead_the_one_of_the_newer_term_does() -> None:
    def node(role: str, term: int) -> Json:
        return {"role": role, "term": term, "leader_address": "", "voters": [], "incarnation": ""}

    assert leader_ordinal([node("leader", 3), None, node("leader", 4), node("follower", 5)]) == 2
    assert leader_ordinal([node("follower", 5), None]) is None
    assert parse_controllers([None, None], None) is None
