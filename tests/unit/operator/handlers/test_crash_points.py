"""An operator that is killed after any of its writes leaves nothing that the next one does not complete.

Each story runs once without a crash. Then once for each write: the operator dies right after it, another one
starts from nothing and works until nothing is left to do. The final objects must be the same, no pod may have
been restarted more often, and the master may not have changed more often.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_operator.clients.api import PeerUnavailableError
from testkit.memory.controllers import NAMESPACE
from testkit.memory.kubernetes import CrashError
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
START: Json = {"logReplicas": 1}
WRITES_MAX = 60
COUNTS = [(1, 3), (3, 5), (5, 3), (3, 1)]

STORIES: list[tuple[str, Json | None, Json]] = [
    ("create", None, START),
    ("scale out", START, {"logReplicas": 1, "replicas": 3}),
    ("scale in", {"logReplicas": 1, "replicas": 3}, START),
    ("scale in by two", {"logReplicas": 2, "replicas": 3}, {"logReplicas": 1, "replicas": 2}),
    ("roll", START, {"logReplicas": 1, "config": {"sendMessageThreadPoolNums": "12"}}),
    ("grow", START, {"logReplicas": 1, "storage": {"size": "2Gi"}}),
]


async def _before(start: Json | None, then: Json) -> OperatorWorld:
    if start is None:
        return OperatorWorld(then)
    world = OperatorWorld(start)
    await world.settle()
    if start.get("replicas") == 3:
        await world.controllers.designate("main", "orders", 3)
        world.advance(60)
        await world.settle()
    world.write_group(then)
    return world.fork()


def _outcome(world: OperatorWorld) -> tuple[Json, dict[str, int], list[str]]:
    return world.picture(), world.kube.births, world.controllers.designations


@pytest.mark.parametrize(("name", "start", "then"), STORIES, ids=[story[0] for story in STORIES])
async def test_a_killed_operator_is_completed_by_the_next(name: str, start: Json | None, then: Json) -> None:
    await _crashed_after_each_write(await _before(start, then))


def _asked(count: int) -> Json:
    return {"controllers": {"replicas": count}}


@pytest.mark.parametrize(("count", "then"), COUNTS, ids=lambda count: f"{count}")
async def test_a_killed_operator_leaves_a_change_of_controllers_to_the_next(count: int, then: int) -> None:
    before = OperatorWorld(START, _asked(count))
    await before.settle()
    before.write_cluster(_asked(then))
    await _crashed_after_each_write(before.fork())


async def test_a_killed_operator_leaves_a_lost_controller_to_the_next() -> None:
    before = OperatorWorld(START)
    await before.settle()
    before.kube.remove("PersistentVolumeClaim", "shop", "data-main-controller-1")
    before.kube.remove("Pod", "shop", "main-controller-1")
    await _crashed_after_each_write(before.fork())


async def _crashed_after_each_write(before: OperatorWorld) -> None:
    """Run the story once without a crash, then with one after each write.

    Pods, votes and epochs are the same in the end.
    """
    whole = before.fork()
    await whole.settle()
    writes = list(whole.kube.writes)
    whole.advance(60)
    await whole.settle()
    assert 0 < len(writes) <= WRITES_MAX
    for number in range(1, len(writes) + 1):
        world = before.fork()
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await world.settle()
        world.kube.crash_after = None
        await world.settle()
        world.advance(60)
        await world.settle()
        assert _outcome(world) == _outcome(whole), f"killed after write {number}: {writes[number - 1]}"
        assert world.controllers.membership.changes == whole.controllers.membership.changes
        assert world.controllers.epoch == whole.controllers.epoch


def _left(world: OperatorWorld) -> set[str]:
    """Return the kinds of the group's remaining objects."""
    return {
        kind
        for (kind, _, _), value in world.kube.objects.items()
        if value["metadata"].get("labels", {}).get("rocketmq-ha.dev/group") == "orders"
    }


async def _passes(world: OperatorWorld) -> list[float | None]:
    """Let the next operator have some passes, also over absent objects; return the last results."""
    for _ in range(3):
        delays = await world.one_pass()
        world.advance(10)
    return delays


DELETED_IN = [(name, start, then) for name, start, then in STORIES if name in {"create", "scale out", "roll"}]


@pytest.mark.parametrize(("policy", "left"), [("Retain", {"PersistentVolumeClaim"}), ("Delete", set())])
@pytest.mark.parametrize(("name", "start", "then"), DELETED_IN, ids=[story[0] for story in DELETED_IN])
async def test_a_group_that_is_deleted_after_a_crash_leaves_its_volumes_or_nothing_as_its_policy_says(
    name: str, start: Json | None, then: Json, policy: str, left: set[str]
) -> None:
    kept = {"deletionPolicy": policy}
    before = await _before(start and start | kept, then | kept)
    whole = before.fork()
    await whole.settle()
    for number in range(1, len(whole.kube.writes) + 1):
        world = before.fork()
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await world.settle()
        world.kube.crash_after = None
        had_pods = "Pod" in _left(world)
        world.kube.remove("BrokerGroup", NAMESPACE, "orders")
        assert (await _passes(world))[1] is None, "the last pass schedules no retry"
        assert _left(world) == (left if had_pods else set()), f"{name}, killed after write {number}"


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_a_group_that_is_deleted_in_the_midst_of_a_pass_is_not_made_again_by_it(policy: str) -> None:
    before = OperatorWorld(START | {"deletionPolicy": policy})
    await before.one_pass()  # the cluster, and what a first pass makes of the group
    before.write_group(START | {"deletionPolicy": policy, "replicas": 3})
    whole = before.fork()
    await whole.settle()
    for number in range(1, len(whole.kube.writes) + 1):
        world = before.fork()
        world.kube.on_wrote = _deletes_after(world, number)
        with contextlib.suppress(PeerUnavailableError):
            await world.settle()  # a status cannot be written any more
        assert (await _passes(world))[1] is None
        assert _left(world) <= {"PersistentVolumeClaim"}, f"deleted after write {number}"
        assert policy == "Retain" or _left(world) == set()


def _deletes_after(world: OperatorWorld, number: int) -> Callable[[], None]:
    def wrote() -> None:
        if len(world.kube.writes) == number:
            world.kube.remove("BrokerGroup", NAMESPACE, "orders")

    return wrote


async def test_a_cluster_that_is_deleted_after_a_crash_takes_its_own_and_leaves_its_groups_running() -> None:
    before = await _before(START, START)
    before.write_cluster({"controllers": {"replicas": 5}, "proxy": {"mode": "Cluster"}})
    whole = before.fork()
    await whole.settle()
    assert len(whole.kube.writes) > 1
    for number in range(1, len(whole.kube.writes) + 1):
        world = before.fork()
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await world.settle()
        world.kube.crash_after = None
        pods = {pod["metadata"]["uid"] for pod in world.kube.pods() if _is_of_group(pod)}
        world.kube.remove("RocketMQCluster", NAMESPACE, "main")
        assert (await _passes(world))[0] is None
        kinds = {kind for (kind, _, _), value in world.kube.objects.items() if not _is_of_group(value)}
        assert kinds <= {"BrokerGroup", "PersistentVolumeClaim", "Event"}, f"killed after write {number}"
        assert {pod["metadata"]["uid"] for pod in world.kube.pods()} == pods, "brokers go on without it"
        assert world.condition("Progressing") == ("True", "NoCluster")


def _is_of_group(value: Json) -> bool:
    return "rocketmq-ha.dev/group" in value["metadata"].get("labels", {})


async def test_a_killed_operator_leaves_a_takeover_to_the_next() -> None:
    before = await _before(START, START)
    before.kube.unready.add("orders-0")
    before.kube.remove("Pod", "shop", "orders-0")
    whole = before.fork()
    await whole.one_pass()
    for number in range(1, len(whole.kube.writes) + 1):
        world = before.fork()
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await world.one_pass()
        world.kube.crash_after = None
        await world.one_pass()
        assert world.server_of("orders-0") == "orders-1"
        assert world.picture() == whole.picture()
