"""A master that is elected again: a record says so, without a failover of its group.

Names outlive addresses.
"""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from rocketmq_operator.plan.group.observed import parse_failover
from rocketmq_operator.plan.group.takeover import HOLD, recently_replaced
from rocketmq_operator.plugin import rendering
from rocketmq_operator.plugin.queries import observe_group
from testkit.memory.controllers import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
NOW = datetime(2030, 3, 1, 12, tzinfo=UTC)


async def _failed_over() -> OperatorWorld:
    """Return a group whose master is orders-1 since epoch 2."""
    world = OperatorWorld({"replicas": 2, "logReplicas": 1})
    await world.settle()
    world.kube.remove("Pod", NAMESPACE, "orders-0")
    await world.settle()
    assert world.status()["lastFailover"] == "orders-2"
    return world


def _elected_again(world: OperatorWorld, **change: object) -> None:
    """Have the controllers elect the master of the newest record again, a moment later."""
    record = deepcopy(world.controllers.records[-1])
    world.controllers.epoch += 1
    again = {"old_master_id": record["new_master_id"], "old_master_address": record["new_master_address"]}
    epochs = {"old_epoch": record["new_epoch"], "new_epoch": world.controllers.epoch}
    world.controllers.records.append(record | again | epochs | {"cause": "HeartbeatTimeout"} | change)


async def test_a_reelection_has_a_record_and_is_not_the_last_failover() -> None:
    world = await _failed_over()
    _elected_again(world)
    await world.settle()
    spec = world.get("Failover", "orders-3")["spec"]
    assert (spec["from"], spec["to"], spec["reelection"]) == ("orders-1", "orders-1", True)
    assert world.get("Failover", "orders-2")["spec"]["reelection"] is False
    assert world.status()["lastFailover"] == "orders-2"


async def test_a_member_that_came_back_at_another_address_is_still_the_same() -> None:
    world = await _failed_over()
    _elected_again(world, old_master_address="10.9.9.9:10911")
    await world.settle()
    spec = world.get("Failover", "orders-3")["spec"]
    assert (spec["from"], spec["to"], spec["reelection"]) == ("orders-1", "orders-1", True), (
        "the broker id says whose the address was"
    )
    assert world.status()["lastFailover"] == "orders-2"


async def test_the_plugin_shows_a_reelection_as_one() -> None:
    world = await _failed_over()
    _elected_again(world)
    await world.settle()
    view = await observe_group(world.kube, NAMESPACE, GROUP)
    assert view.failover is not None
    assert view.failover["metadata"]["name"] == "orders-2"
    records = await world.kube.find("Failover", NAMESPACE, {})
    lines = rendering.failover_lines(records, NOW)
    assert "orders-1 again" in next(line for line in lines if line.startswith("orders-3"))
    assert "again" not in next(line for line in lines if line.startswith("orders-2"))


async def test_the_address_of_a_master_that_was_elected_again_is_nobody_elses() -> None:
    world = await _failed_over()
    _elected_again(world)
    failover = parse_failover(world.controllers.records[-1])
    assert recently_replaced([failover], failover.proposed + HOLD / 2) == frozenset()


async def test_a_record_keeps_its_names_when_a_group_that_is_made_again_takes_it_over() -> None:
    world = await _failed_over()
    record = world.kube.objects["Failover", NAMESPACE, "orders-2"]
    spec = deepcopy(record["spec"])
    del record["metadata"]["ownerReferences"]
    world.controllers.records[-1]["new_master_address"] = "10.9.9.9:10911"
    world.controllers.records[-1]["new_master_id"] = 77
    await world.settle()
    after = world.get("Failover", "orders-2")
    assert after["metadata"]["ownerReferences"]
    assert after["spec"] == spec
