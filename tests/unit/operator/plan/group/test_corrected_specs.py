"""A corrected spec reaches every member that an earlier spec broke.

It costs only those that serve nothing, whichever they are.

Every subset of members is broken by every fault, then the spec is corrected. A pod that is made takes until
the operator's next pass to start.
"""

import itertools
from collections.abc import Callable, Collection
from typing import Any

import pytest

from rocketmq_operator.plugin.advice import ADVICE
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import explain_lines
from testkit.memory.kubernetes import is_ready
from testkit.memory.membership import NAMESPACE
from testkit.memory.pod_faults import PodFault
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
MEMBERS = ("orders-0", "orders-1", "orders-log-0")
CONTROLLERS = ("main-controller-0", "main-controller-1", "main-controller-2")
NAME_SERVERS = ("main-nameserver-0", "main-nameserver-1")
GROUP = {"replicas": 2, "logReplicas": 1}
CORRECTED_GROUP = GROUP | {
    "resources": {"cpu": "300m", "memory": "2Gi"},
    "logResources": {"cpu": "200m", "memory": "256Mi"},
}
CLUSTER: Json = {"nameServers": {"replicas": 2}}
CORRECTED_CLUSTER: Json = {
    "nameServers": {"replicas": 2, "resources": {"cpu": "300m", "memory": "2Gi"}},
    "controllers": {"replicas": 3, "resources": {"cpu": "250m", "memory": "600Mi"}},
}
PASSES_MAX = 40


def subsets(names: Collection[str]) -> list[tuple[str, ...]]:
    """Return every subset that is not empty."""
    return [found for size in range(len(names)) for found in itertools.combinations(names, size + 1)]


def joined(value: object) -> str:
    """Return a subset's id."""
    return "+".join(name.replace("main-", "") for name in value) if isinstance(value, tuple) else str(value)


every_fault = pytest.mark.parametrize("fault", list(PodFault))


def pods(world: OperatorWorld, names: Collection[str]) -> dict[str, Json]:
    """Return the pods of these names that there are."""
    return {pod["metadata"]["name"]: pod for pod in world.kube.pods() if pod["metadata"]["name"] in names}


def ready(world: OperatorWorld, names: Collection[str]) -> set[str]:
    """Return which of these have a ready pod."""
    return {name for name, pod in pods(world, names).items() if is_ready(pod)}


def volumes(world: OperatorWorld) -> dict[str, str]:
    """Return the uid of each claim by its name."""
    return {
        key[2]: value["metadata"]["uid"]
        for key, value in world.kube.objects.items()
        if key[0] == "PersistentVolumeClaim"
    }


async def passes(world: OperatorWorld, count: int) -> None:
    """Let the operator have passes; a pod that was made in one has started in the next."""
    for _ in range(count):
        await world.one_pass()
        world.advance(1)
        world.kube.started()


async def corrected(world: OperatorWorld, names: Collection[str], correct: Callable[[], None]) -> None:
    """Correct the spec; assert that all pods change, one serving pod at a time, and keep their volumes."""
    world.kube.starting = set()
    serving, uids, kept = ready(world, names), _uids(world, names), volumes(world)
    too_many: list[set[str]] = []

    def look() -> None:
        if len(away := serving - ready(world, serving)) > 1:
            too_many.append(away)

    world.kube.on_wrote = look
    correct()
    for _ in range(PASSES_MAX):
        await passes(world, 1)
        now = _uids(world, names)
        if all(now.get(name, uid) != uid for name, uid in uids.items()) and ready(world, names) == set(names):
            break
    waiting = [world.status().get("plan"), world.status("RocketMQCluster", "main").get("reason")]
    left = {name for name, uid in uids.items() if _uids(world, names).get(name, uid) == uid}
    assert (left, ready(world, names)) == (set(), set(names)), waiting
    assert too_many == []
    assert kept.items() <= volumes(world).items()


def _uids(world: OperatorWorld, names: Collection[str]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods(world, names).items()}


@every_fault
@pytest.mark.parametrize("broken", subsets(MEMBERS), ids=joined)
async def test_members_that_never_started_take_a_correction(broken: tuple[str, ...], fault: PodFault) -> None:
    world = OperatorWorld(GROUP)
    world.kube.faults = {(name, ""): fault for name in broken}
    await passes(world, 4)
    assert ready(world, MEMBERS) == set(MEMBERS) - set(broken)
    await corrected(world, MEMBERS, lambda: world.write_group(CORRECTED_GROUP))


@every_fault
@pytest.mark.parametrize("broken", subsets(MEMBERS), ids=joined)
async def test_members_that_served_once_take_a_correction(broken: tuple[str, ...], fault: PodFault) -> None:
    world = OperatorWorld(GROUP)
    await world.settle()
    world.kube.break_pods(NAMESPACE, broken, fault)
    await passes(world, 2)
    await corrected(world, MEMBERS, lambda: world.write_group(CORRECTED_GROUP))


@every_fault
@pytest.mark.parametrize("broken", subsets(CONTROLLERS), ids=joined)
async def test_controllers_take_a_correction(broken: tuple[str, ...], fault: PodFault) -> None:
    world = OperatorWorld(cluster=CLUSTER)
    await world.settle()
    members = world.controllers.membership
    world.kube.may_be_ready = lambda name: name not in CONTROLLERS or bool(members.leader)
    world.kube.break_pods(NAMESPACE, broken, fault)
    world.kube.settle()
    assert len(ready(world, CONTROLLERS)) == (2 if len(broken) == 1 else 0)
    await corrected(world, CONTROLLERS, lambda: world.write_cluster(CORRECTED_CLUSTER))
    assert sorted(members.voters) == ["n0", "n1", "n2"]
    assert members.changes == []


@every_fault
@pytest.mark.parametrize("broken", subsets(NAME_SERVERS), ids=joined)
async def test_name_servers_take_a_correction(broken: tuple[str, ...], fault: PodFault) -> None:
    world = OperatorWorld(cluster=CLUSTER)
    await world.settle()
    world.kube.break_pods(NAMESPACE, broken, fault)
    await corrected(world, NAME_SERVERS, lambda: world.write_cluster(CORRECTED_CLUSTER))


async def test_a_name_server_takes_a_correction_while_another_is_away_for_a_reason_of_its_own() -> None:
    world = OperatorWorld(cluster=CLUSTER)
    await world.settle()
    world.kube.break_pods(NAMESPACE, ["main-nameserver-0"], PodFault.CRASH)
    world.kube.unready.add("main-nameserver-1")
    world.write_cluster(CORRECTED_CLUSTER)
    await passes(world, 3)
    assert ready(world, NAME_SERVERS) == {"main-nameserver-0"}


async def test_members_take_a_correction_that_also_asks_for_fewer_of_them() -> None:
    world = OperatorWorld({"replicas": 3})
    brokers = ("orders-0", "orders-1", "orders-2")
    world.kube.faults = {(name, ""): PodFault.UNSCHEDULABLE for name in brokers}
    await passes(world, 4)
    world.write_group(CORRECTED_GROUP | {"replicas": 2, "logReplicas": 0})
    await passes(world, 12)
    assert set(_uids(world, brokers)) == {"orders-0", "orders-1"}
    assert world.condition("Ready") == ("True", "Serving")


async def test_a_switchover_to_a_broken_broker_does_not_hold_its_correction_back() -> None:
    world = OperatorWorld(GROUP)
    await world.settle()
    epoch = world.status()["master"]["epoch"]
    world.kube.break_pods(NAMESPACE, ["orders-1"], PodFault.MEMORY)
    await world.kube.annotate(
        "BrokerGroup", NAMESPACE, "orders", {"rocketmq-ha.dev/switchover": f"{epoch}:orders-1"}
    )
    await passes(world, 2)
    assert world.condition("Progressing") == ("True", "NoCandidate")
    world.write_group(CORRECTED_GROUP)
    await passes(world, 4)
    assert world.status()["master"]["name"] == "orders-1"


async def test_members_whose_process_does_not_run_take_a_correction_while_no_controller_answers() -> None:
    world = OperatorWorld(GROUP)
    await world.settle()
    world.kube.break_pods(NAMESPACE, ["orders-1"], PodFault.IMAGE)
    world.kube.break_pods(NAMESPACE, ["orders-log-0"], PodFault.CONFIG)
    world.controllers.reachable = False
    world.write_group(CORRECTED_GROUP)
    await passes(world, 3)
    assert world.kube.births == world.kube.births | {"orders-0": 1, "orders-1": 2, "orders-log-0": 1}


async def test_a_correction_that_breaks_a_member_again_goes_no_further_and_is_corrected_in_turn() -> None:
    world = OperatorWorld(GROUP)
    await world.settle()
    world.kube.break_pods(NAMESPACE, ["orders-1"], PodFault.MEMORY)
    births = dict(world.kube.births)
    world.kube.faults["orders-1", ""] = PodFault.IMAGE
    world.write_group(CORRECTED_GROUP | {"config": {"sendMessageThreadPoolNums": "12"}})
    await passes(world, 6)
    assert world.kube.births == births | {"orders-1": births["orders-1"] + 1}, (
        "those that serve are left alone"
    )
    assert world.condition("Progressing") == ("True", "MemberNotReady")
    explained = "\n".join(explain_lines(await observe_group(world.kube, NAMESPACE, "orders")))
    assert (
        "orders-1 is not ready (ImageNotPulled: image docker.io/apache/rocketmq:5.5.0 of container broker)"
        in explained
    )
    assert ADVICE["MemberNotReady"] in explained
    await corrected(world, MEMBERS, lambda: world.write_group(CORRECTED_GROUP))


EVERY_SIZE = list(itertools.product((1, 2, 3), (0, 1, 2)))


@pytest.mark.parametrize(("replicas", "logs"), EVERY_SIZE)
@pytest.mark.parametrize("change", ["config", "version"])
async def test_a_healthy_group_of_every_size_takes_a_change(replicas: int, logs: int, change: str) -> None:
    spec: Json = {"replicas": replicas, "logReplicas": logs}
    if replicas + logs == 1:
        spec["durability"] = "Async"
    world = OperatorWorld(spec, {"version": "5.4.0"})
    await world.settle()
    brokers = [f"orders-{number}" for number in range(replicas)]

    def correct() -> None:
        if change == "config":
            world.write_group(spec | {"config": {"sendMessageThreadPoolNums": "12"}})
        else:
            world.write_cluster({"version": "5.5.0"})

    await corrected(world, brokers, correct)
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")
    assert world.status()["inSync"] == f"{replicas + logs}/{replicas + logs}"
