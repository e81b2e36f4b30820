"""A group with a single broker, whose company are log replicas: it takes changes, and cannot hand over."""

from typing import Any

from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]


async def settled(spec: Json) -> OperatorWorld:
    """Return a world whose group has come up."""
    world = OperatorWorld(spec)
    await world.settle()
    world.kube.writes.clear()
    return world


async def test_the_only_broker_of_a_group_with_log_replicas_is_restarted_last() -> None:
    spec = {"replicas": 1, "logReplicas": 1}
    world = await settled(spec)
    world.write_group(
        {
            **spec,
            "config": {"sendMessageThreadPoolNums": "12"},
            "logResources": {"cpu": "200m", "memory": "256Mi"},
        }
    )
    await world.settle()
    deleted = [words for words in world.kube.writes if words.startswith("delete Pod")]
    assert deleted == ["delete Pod orders-log-0", "delete Pod orders-0"]


async def test_the_only_broker_of_a_group_is_not_restarted_while_its_log_replica_is_behind() -> None:
    spec = {"replicas": 1, "logReplicas": 1}
    world = await settled(spec)
    world.controllers.behind.add("orders-log-0")
    world.write_group({**spec, "config": {"sendMessageThreadPoolNums": "12"}})
    for _ in range(5):
        await world.one_pass()
    assert world.kube.births["orders-0"] == 1
    assert world.condition("Progressing") == ("True", "MemberNotInSync")


async def test_a_switchover_without_a_second_broker_is_refused_and_told_once() -> None:
    world = await settled({"replicas": 1, "logReplicas": 1})
    await world.kube.annotate("BrokerGroup", "shop", "orders", {"rocketmq-ha.dev/switchover": "1"})
    for _ in range(5):
        await world.one_pass()
    assert world.kube.births["orders-0"] == 1
    assert world.condition("Progressing") == ("True", "NoCandidate")
    assert [event["reason"] for key, event in world.kube.objects.items() if key[0] == "Event"] == [
        "NoCandidate"
    ]
