"""A group that hibernates: no pods; volumes, addresses, epochs and master stay."""

from typing import Any

import pytest

from testkit.check.argo_health import computed_health, health_scripts
from testkit.memory.kubernetes import CrashError
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
SPEC: Json = {"replicas": 3, "logReplicas": 1}
KEPT = ("PersistentVolumeClaim", "Service", "EndpointSlice", "StatefulSet", "ConfigMap")


async def serving(spec: Json | None = None, *, master: str = "") -> OperatorWorld:
    """Return a world whose group serves, with a certain master."""
    world = OperatorWorld(group=SPEC if spec is None else spec)
    await world.settle()
    if master:
        await world.controllers.designate("main", GROUP, world.controllers._ids[master])
        await world.settle()
    return world


def pods(world: OperatorWorld) -> list[str]:
    """Return the names of the group's pods."""
    return [pod["metadata"]["name"] for pod in world.kube.pods() if pod["metadata"]["name"].startswith(GROUP)]


def kept(world: OperatorWorld) -> set[tuple[str, str, str]]:
    """Return the identity of each object that must outlive the pods."""
    return {
        (kind, name, value["metadata"]["uid"])
        for (kind, _, name), value in world.kube.objects.items()
        if kind in KEPT and GROUP in name
    }


def health_of(world: OperatorWorld) -> str:
    """Return the health that Argo CD computes for the group."""
    health, _ = computed_health(health_scripts()["BrokerGroup"], world.get("BrokerGroup", GROUP))
    return health


async def test_all_pods_go_and_everything_else_stays() -> None:
    world = await serving()
    before, address = kept(world), world.get("Service", f"{GROUP}-1")["spec"]["clusterIP"]
    world.write_group(SPEC | {"hibernated": True})
    await world.settle()
    assert pods(world) == []
    assert kept(world) == before
    assert world.get("Service", f"{GROUP}-1")["spec"]["clusterIP"] == address
    assert world.condition("Hibernated") == ("True", "Hibernated")
    assert world.condition("Ready") == ("False", "Hibernated")
    assert world.condition("Progressing") == ("False", "Hibernated")
    assert (world.condition("Reconciling")[0], world.condition("Stalled")[0]) == ("False", "False")
    assert health_of(world) == "Suspended"
    writes = len(world.kube.writes)
    await world.one_pass()
    assert world.kube.writes[writes:] == [], "it sleeps"


@pytest.mark.parametrize("master", [f"{GROUP}-0", f"{GROUP}-2"])
async def test_the_first_broker_is_master_before_and_after(master: str) -> None:
    world = await serving(master=master)
    epoch = world.controllers.epoch
    world.write_group(SPEC | {"hibernated": True})
    await world.settle()
    handed_over = int(master != f"{GROUP}-0")
    assert world.controllers.epoch == epoch + handed_over, "no election but the handover"
    world.write_group(SPEC)
    await world.settle()
    assert len(pods(world)) == 4
    assert world.controllers.master == f"{GROUP}-0"
    assert world.controllers.epoch >= epoch
    assert world.condition("Ready") == ("True", "Serving")
    assert "Hibernated" not in {one["type"] for one in world.status()["conditions"]}


async def test_the_master_stops_when_it_is_alone_in_its_set() -> None:
    world = await serving()
    order: list[set[str]] = []
    world.kube.on_wrote = lambda: order.append(set(pods(world)))
    world.write_group(SPEC | {"hibernated": True})
    await world.settle()
    assert {f"{GROUP}-0"} in order, "it was the last"
    assert all(f"{GROUP}-0" in found or not found for found in order)


async def test_it_waits_for_controllers_before_it_stops_anything() -> None:
    world = await serving()
    world.controllers.reachable = False
    world.write_group(SPEC | {"hibernated": True})
    for _ in range(3):
        await world.one_pass()
    assert len(pods(world)) == 4
    assert world.condition("Hibernated") == ("False", "Hibernating")
    assert world.condition("Progressing") == ("True", "ControllersUnreachable")
    world.controllers.reachable = True
    await world.settle()
    assert pods(world) == []


async def test_a_new_group_that_hibernates_makes_no_pods_until_it_wakes_up() -> None:
    world = await serving(SPEC | {"hibernated": True})
    assert pods(world) == []
    assert world.condition("Hibernated") == ("True", "Hibernated")
    world.write_group(SPEC)
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")


async def test_a_single_broker_hibernates_too() -> None:
    spec = {"replicas": 1, "durability": "Async"}
    world = await serving(spec)
    world.write_group(spec | {"hibernated": True})
    await world.settle()
    assert pods(world) == []
    world.write_group(spec)
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")


async def test_a_changed_spec_reaches_the_pods_when_the_group_wakes_up() -> None:
    world = await serving()
    world.write_group(SPEC | {"hibernated": True, "resources": {"cpu": "2", "memory": "8Gi"}})
    await world.settle()
    assert pods(world) == []
    world.write_group(SPEC | {"resources": {"cpu": "2", "memory": "8Gi"}})
    await world.settle()
    pod = world.kube.objects["Pod", NAMESPACE, f"{GROUP}-0"]
    assert pod["spec"]["containers"][0]["resources"]["requests"]["memory"] == "8Gi"
    assert world.kube.births[f"{GROUP}-0"] == 2


@pytest.mark.parametrize("crash_after", range(1, 12))
async def test_an_operator_that_is_killed_goes_on_where_it_was(crash_after: int) -> None:
    world = await serving(master=f"{GROUP}-1")
    world.write_group(SPEC | {"hibernated": True})
    world.kube.crash_after = len(world.kube.writes) + crash_after
    try:
        await world.settle()
    except CrashError:
        world.kube.crash_after = None
        await world.settle()
    world.kube.crash_after = None
    assert pods(world) == []
    assert world.condition("Hibernated") == ("True", "Hibernated")


async def test_learners_sleep_too_and_hold_nothing_back() -> None:
    spec = SPEC | {"learners": {"count": 2}}
    world = await serving(spec)
    assert len(pods(world)) == 6
    before = kept(world)
    world.write_group(spec | {"hibernated": True})
    await world.settle()
    assert pods(world) == []
    assert kept(world) == before
    assert world.condition("Hibernated") == ("True", "Hibernated")
    assert [one["ready"] for one in world.status()["learners"]] == [False, False]
    writes = len(world.kube.writes)
    await world.one_pass()
    assert world.kube.writes[writes:] == [], "it sleeps"
    world.write_group(spec)
    await world.settle()
    assert len(pods(world)) == 6
    assert world.condition("Ready") == ("True", "Serving")


async def test_static_roles_sleep_without_controllers_and_the_master_stops_last() -> None:
    spec: Json = {"mode": "Static", "replicas": 3}
    world = OperatorWorld(group=spec)
    world.controllers.hears_brokers = False
    await world.settle()
    before, order = kept(world), []
    world.controllers.reachable = False
    world.kube.on_wrote = lambda: order.append(set(pods(world)))
    world.write_group(spec | {"hibernated": True})
    await world.settle()
    assert pods(world) == []
    assert kept(world) == before
    assert {f"{GROUP}-0"} in order, "it was the last"
    assert all(f"{GROUP}-0" in found or not found for found in order)
    assert world.condition("Ready") == ("False", "Hibernated")
    assert (world.condition("Reconciling")[0], world.condition("Stalled")[0]) == ("False", "False")
    assert health_of(world) == "Suspended"
    world.write_group(spec)
    await world.settle()
    assert len(pods(world)) == 3
    assert world.condition("Ready") == ("True", "Serving")
    assert world.condition("MasterElected") == ("False", "StaticRoles")
    assert (world.condition("Reconciling")[0], world.condition("Stalled")[0]) == ("False", "False")
    assert health_of(world) == "Healthy"
