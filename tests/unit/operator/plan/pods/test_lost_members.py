"""A member whose node is gone for good: the operator keeps or replaces it, as the spec says.

It never loses the last copy.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rocketmq_operator.api.common import LostMembers
from rocketmq_operator.plan.common.actions import NO_STEPS, Delete
from rocketmq_operator.plan.common.objects import ObjectKey
from rocketmq_operator.plan.pods.lost_members import free_lost
from rocketmq_operator.plan.pods.observed import ObservedPod, parse_pod
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOST_AT = "2026-01-01T00:00:00Z"
AFTER_S = 600
REPLACE: Json = {"policy": "Replace", "afterSeconds": AFTER_S}
THREE: Json = {"logReplicas": 1, "lostMembers": REPLACE}
AN_HOUR_S = 3_600.0


def _pod(*, gone_s: float | None = None, stranded_s: float | None = None) -> ObservedPod:
    def ago(seconds: float | None) -> datetime | None:
        return None if seconds is None else NOW - timedelta(seconds=seconds)

    return ObservedPod(
        name="orders-1",
        uid="uid-1",
        ip="",
        ready=False,
        deleting=gone_s is not None,
        revision="",
        gone_by=ago(gone_s),
        stranded_since=ago(stranded_s),
    )


def _freed(pod: ObservedPod, asked: Json, needed: str = "") -> tuple[list[str], str]:
    claim = {"metadata": {"name": "data-orders-1", "uid": "uid-9"}}
    plan = free_lost(
        {pod.name: pod},
        {"data-orders-1": claim},
        LostMembers.model_validate(asked),
        NOW,
        lambda _: needed,
    )
    return [str(step) for step in plan.steps], plan.wait.reason if plan.wait else ""


def test_a_pod_that_should_have_ended_long_ago_is_removed_by_force() -> None:
    plan = free_lost(
        {"orders-1": _pod(gone_s=AFTER_S + 1)}, {}, LostMembers.model_validate(REPLACE), NOW, lambda _: ""
    )
    assert plan.steps == (Delete(ObjectKey("Pod", "orders-1"), "uid-1", "its node is lost", by_force=True),)


@pytest.mark.parametrize("pod", [_pod(gone_s=AFTER_S), _pod(stranded_s=AFTER_S), _pod()])
def test_nothing_is_done_before_the_time_is_over(pod: ObservedPod) -> None:
    assert _freed(pod, REPLACE) == ([], "")


@pytest.mark.parametrize("pod", [_pod(gone_s=AN_HOUR_S), _pod(stranded_s=AN_HOUR_S)])
def test_a_member_waits_for_its_node_for_ever_if_nobody_says_otherwise(pod: ObservedPod) -> None:
    assert (
        free_lost({pod.name: pod}, {}, LostMembers.model_validate({"afterSeconds": 30}), NOW, lambda _: "")
        == NO_STEPS
    )


def test_the_claim_goes_before_the_pod_so_that_the_next_pod_does_not_find_it() -> None:
    assert _freed(_pod(stranded_s=AN_HOUR_S), REPLACE) == (
        [
            "delete PersistentVolumeClaim data-orders-1 (it is on a lost node)",
            "delete Pod orders-1 (its volume is given up)",
        ],
        "MemberReplaced",
    )


def test_a_volume_that_is_needed_stays_and_the_wait_says_why() -> None:
    assert _freed(_pod(stranded_s=AN_HOUR_S), REPLACE, "nobody else has it") == ([], "VolumeKept")


@pytest.mark.parametrize(
    "words",
    [
        "0/3 nodes are available: 2 node(s) had volume node affinity conflict.",
        "0/3 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.",
        "0/3 nodes are available: 3 node(s) unavailable due to one or more pvc(s) bound to "
        "non-existent pv(s).",
    ],
)
def test_a_pod_is_stranded_where_the_scheduler_says_that_its_volume_is_elsewhere(words: str) -> None:
    assert _seen(words).stranded_since == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_pod_that_waits_for_memory_is_not_stranded() -> None:
    assert _seen("0/3 nodes are available: 3 Insufficient memory.").stranded_since is None


def _seen(words: str) -> ObservedPod:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": words,
        "lastTransitionTime": LOST_AT,
    }
    return parse_pod({"metadata": {"name": "orders-1"}, "status": {"conditions": [condition]}})


async def _world(spec: Json) -> OperatorWorld:
    world = OperatorWorld(spec)
    await world.settle()
    world.kube.lose_node("shop", "orders-1", LOST_AT)
    world.advance(AN_HOUR_S)
    return world


async def test_a_lost_slave_starts_anew_with_an_empty_volume() -> None:
    world = await _world(THREE)
    claim = world.get("PersistentVolumeClaim", "data-orders-1")["metadata"]["uid"]
    await world.settle()
    assert world.status()["inSync"] == "3/3"
    assert world.get("PersistentVolumeClaim", "data-orders-1")["metadata"]["uid"] != claim
    assert "delete Pod orders-0" not in world.kube.writes
    events = [value["reason"] for (kind, _, _), value in world.kube.objects.items() if kind == "Event"]
    assert {"MemberFreed", "VolumeGivenUp"} <= set(events)


async def test_a_lost_slave_stays_where_the_policy_is_keep() -> None:
    world = await _world({"logReplicas": 1})
    world.kube.writes.clear()
    await world.one_pass()
    assert [line for line in world.kube.writes if line.startswith("delete")] == []
    assert world.get("Pod", "orders-1")["metadata"]["deletionTimestamp"] == LOST_AT
    (told,) = [one["message"] for one in world.status()["conditions"] if one["type"] == "InSync"]
    assert told == "not in sync: orders-1 (its node does not confirm that its pod has ended)"


async def test_no_volume_is_given_up_while_no_controller_answers() -> None:
    world = await _world(THREE)
    world.controllers.reachable = False
    for _ in range(3):
        await world.one_pass()
    assert world.has("PersistentVolumeClaim", "data-orders-1")
    assert "delete PersistentVolumeClaim data-orders-1" not in world.kube.writes
    assert "no controller answers" in world.status()["plan"]["waitingFor"]


async def test_the_last_copy_is_never_given_up() -> None:
    world = await _world(THREE)
    world.kube.unready |= {"orders-0", "orders-log-0"}
    world.kube.remove("Pod", "shop", "orders-0")
    for _ in range(3):
        await world.one_pass()
    assert "delete PersistentVolumeClaim data-orders-1" not in world.kube.writes
    assert "no living master" in world.status()["plan"]["waitingFor"]


async def test_a_lost_member_that_is_to_go_anyway_does_not_hold_up_the_others() -> None:
    world = OperatorWorld(THREE | {"replicas": 3})
    await world.settle()
    world.kube.lose_node("shop", "orders-2", LOST_AT)
    world.advance(AN_HOUR_S)
    world.write_group(THREE | {"replicas": 2})
    await world.settle()
    assert world.status()["inSync"] == "3/3"
    assert not world.has("Pod", "orders-2")


async def test_a_lost_controller_comes_back_as_a_new_one() -> None:
    world = OperatorWorld(THREE, cluster={"controllers": {"replicas": 3, "lostMembers": REPLACE}})
    await world.settle()
    world.kube.lose_node("shop", "main-controller-1", LOST_AT)
    world.advance(AN_HOUR_S)
    await world.settle()
    assert world.status("RocketMQCluster", "main")["controllers"] == "3/3"
    assert "delete PersistentVolumeClaim data-main-controller-1" in world.kube.writes
    assert world.controllers.membership.changes[-3:] == ["remove n1", "add n1", "promote n1"]


async def test_a_controller_that_the_majority_needs_keeps_its_volume() -> None:
    world = OperatorWorld(THREE, cluster={"controllers": {"replicas": 3, "lostMembers": REPLACE}})
    await world.settle()
    for ordinal in (1, 2):
        world.kube.lose_node("shop", f"main-controller-{ordinal}", LOST_AT)
    world.advance(AN_HOUR_S)
    for _ in range(5):
        await world.one_pass()
    assert not [line for line in world.kube.writes if line.startswith("delete PersistentVolumeClaim")]
