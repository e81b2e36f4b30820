"""A switchover that a person asks for by an annotation."""

from dataclasses import replace

import pytest

from rocketmq_operator.api.names import SWITCHOVER_ANNOTATION
from rocketmq_operator.handlers.observing.clusters_and_groups import observe_group
from rocketmq_operator.plan.group.switchover import SwitchoverRequest, parse_switchover_request, switchover
from testkit.memory.controllers import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld


async def _settled(replicas: int = 2) -> OperatorWorld:
    world = OperatorWorld({"replicas": replicas, "logReplicas": 1})
    await world.settle()
    world.kube.writes.clear()
    return world


def _ask(world: OperatorWorld, value: str) -> None:
    world.get("BrokerGroup", GROUP)["metadata"].setdefault("annotations", {})[SWITCHOVER_ANNOTATION] = value


def _designated(world: OperatorWorld) -> list[str]:
    return [words for words in world.kube.writes if words.startswith("designate")]


def _restarted(world: OperatorWorld) -> list[str]:
    return [words for words in world.kube.writes if words.startswith("delete Pod")]


def _epoch(world: OperatorWorld) -> int:
    epoch: int = world.status()["master"]["epoch"]
    return epoch


@pytest.mark.parametrize(
    "asked", [SwitchoverRequest(0), SwitchoverRequest(7), SwitchoverRequest(7, "orders-1")]
)
def test_what_is_asked_for_is_written_and_read_alike(asked: SwitchoverRequest) -> None:
    assert parse_switchover_request(str(asked)) == asked


@pytest.mark.parametrize(
    "value", ["", "now", "-1", "7:", ":orders-1", "7:Orders", "7:orders-1:x", "7 ", "1" * 10]
)
def test_anything_else_is_not_guessed_at(value: str) -> None:
    assert parse_switchover_request(value) is None


async def test_the_old_master_is_restarted_and_another_broker_becomes_master_once() -> None:
    world = await _settled()
    epoch = _epoch(world)
    _ask(world, str(epoch))
    await world.settle()
    assert (_restarted(world), _designated(world)) == (["delete Pod orders-0"], [])
    assert world.status()["master"]["name"] == "orders-1"
    assert _epoch(world) == epoch + 1


async def test_the_only_broker_that_can_is_not_designated_either() -> None:
    world = await _settled()
    _ask(world, f"{_epoch(world)}:orders-1")
    await world.settle()
    assert (_restarted(world), _designated(world)) == (["delete Pod orders-0"], [])


async def test_one_of_several_brokers_is_designated_and_the_old_master_goes_on() -> None:
    world = await _settled(replicas=3)
    _ask(world, f"{_epoch(world)}:orders-2")
    await world.settle()
    assert (_restarted(world), _designated(world)) == ([], ["designate orders-2"])


async def test_a_master_that_is_ending_is_not_ended_twice() -> None:
    world = await _settled()
    observed = await observe_group(world.pass_context().environment, NAMESPACE, GROUP)
    assert observed is not None
    asked = replace(observed, annotations={SWITCHOVER_ANNOTATION: str(_epoch(world))})
    assert [str(step) for step in switchover(asked).steps] == [
        "delete Pod orders-0 (asked for; it hands over first)"
    ]
    ending = replace(asked.pods["orders-0"], deleting=True)
    plan = switchover(replace(asked, pods={**asked.pods, "orders-0": ending}))
    assert plan.steps == ()
    assert plan.wait is not None
    assert plan.wait.reason == "SwitchingOver"


async def test_a_wish_of_an_older_epoch_is_answered_already() -> None:
    world = await _settled()
    _ask(world, str(_epoch(world) - 1))
    await world.settle()
    assert _designated(world) == []


async def test_who_is_master_already_is_not_made_master_again() -> None:
    world = await _settled()
    _ask(world, f"{_epoch(world)}:orders-0")
    await world.settle()
    assert _designated(world) == []


@pytest.mark.parametrize("to", ["orders-log-0", "orders-9", "strangers-1"])
async def test_who_cannot_be_master_is_refused_by_name(to: str) -> None:
    world = await _settled()
    _ask(world, f"{_epoch(world)}:{to}")
    await world.one_pass()
    assert _designated(world) == []
    assert f"{to} is not a broker that is ready and in sync" in world.status()["plan"]["waitingFor"]
    assert world.condition("Ready") == ("True", "Serving"), "the group serves as before"


async def test_a_wish_that_cannot_be_read_is_told_and_changes_nothing() -> None:
    world = await _settled()
    _ask(world, "orders-1")
    await world.one_pass()
    assert _designated(world) == []
    assert "must be <epoch> or <epoch>:<member>" in world.status()["plan"]["waitingFor"]
    events = [key for key in world.kube.objects if key[:2] == ("Event", NAMESPACE)]
    assert any(world.kube.objects[key]["reason"] == "SwitchoverRefused" for key in events)
