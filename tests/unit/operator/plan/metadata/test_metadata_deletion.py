"""Topics that are deleted: kept or forgotten by policy, and never held for ever."""

from rocketmq_operator.handlers.kinds import RESYNC_S
from testkit.worlds.metadata import NAMESPACE, ORDERS, PAY, TOPIC, made_topic

FOREVER_MINUTES = 60


async def test_a_topic_that_is_deleted_is_kept_by_default() -> None:
    world = await made_topic()
    world.delete("Topic", "prices")
    assert await world.one_pass() is None
    assert not world.has("Topic", "prices")
    assert world.knows(ORDERS)


async def test_a_topic_is_forgotten_by_brokers_and_name_servers_before_it_goes_where_that_is_asked() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.delete("Topic", "prices")
    assert world.has("Topic", "prices"), "it is held"
    assert await world.one_pass() is None
    assert not world.has("Topic", "prices")
    assert not world.knows(ORDERS)
    assert not world.knows(PAY)
    address = world.kube.objects["Service", NAMESPACE, "main-nameserver-0"]["spec"]["clusterIP"]
    assert world.brokers.routes == [(f"{address}:9876", "main", "prices")]


async def test_the_policy_can_change_until_the_object_is_gone() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.brokers.silent = {ORDERS, PAY}
    world.delete("Topic", "prices")
    await world.one_pass()
    assert world.condition("Ready") == ("False", "Deleting")
    world.put("Topic", "prices", TOPIC | {"deletionPolicy": "Retain"})
    assert await world.one_pass() is None
    assert not world.has("Topic", "prices")
    assert world.knows(ORDERS)


async def test_a_policy_that_is_taken_back_lets_go_of_the_object() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.put("Topic", "prices", TOPIC)
    await world.one_pass()
    assert "finalizers" not in world.kube.objects["Topic", NAMESPACE, "prices"]["metadata"]


async def test_an_object_that_brokers_keep_goes_without_an_operator() -> None:
    world = await made_topic()
    assert "finalizers" not in world.kube.objects["Topic", NAMESPACE, "prices"]["metadata"]
    world.delete("Topic", "prices")
    assert not world.has("Topic", "prices")


async def test_a_policy_that_is_taken_back_without_a_cluster_lets_go_of_the_object() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.kube.remove("RocketMQCluster", NAMESPACE, "main")
    world.put("Topic", "prices", TOPIC)
    await world.one_pass()
    assert "finalizers" not in world.kube.objects["Topic", NAMESPACE, "prices"]["metadata"]


async def test_a_deletion_does_not_wait_for_a_cluster_that_is_gone() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.kube.remove("RocketMQCluster", NAMESPACE, "main")
    world.delete("Topic", "prices")
    assert await world.one_pass() is None
    assert not world.has("Topic", "prices")


async def test_a_deletion_waits_for_a_silent_master_but_not_for_ever_and_says_what_it_left() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.brokers.silent = {PAY}
    world.delete("Topic", "prices")
    assert await world.one_pass() == RESYNC_S
    assert world.has("Topic", "prices")
    assert not world.knows(ORDERS)
    world.advance(FOREVER_MINUTES)
    assert await world.one_pass() is None
    assert not world.has("Topic", "prices")
    assert ("LeftBehind", "prices may be left in pay: nothing could be deleted there") in world.events()


async def test_an_object_that_is_not_let_go_by_a_broker_is_held() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.brokers.refused = {"prices"}
    world.delete("Topic", "prices")
    await world.one_pass()
    assert world.has("Topic", "prices")
    assert world.condition("Ready") == ("False", "StepRefused")


async def test_what_refuses_or_is_silent_does_not_hold_an_object_for_ever() -> None:
    world = await made_topic(deletionPolicy="Delete")
    name_server = f"{world.kube.objects['Service', NAMESPACE, 'main-nameserver-0']['spec']['clusterIP']}:9876"
    world.brokers.refused = {"prices"}
    world.brokers.silent = {name_server}
    world.delete("Topic", "prices")
    world.advance(FOREVER_MINUTES)
    await world.one_pass()
    assert not world.has("Topic", "prices")
    (note,) = [note for reason, note in world.events() if reason == "LeftBehind"]
    assert f"orders, pay, {name_server}" in note


async def test_a_deletion_that_is_seen_late_is_still_done() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.delete("Topic", "prices")
    world.advance(FOREVER_MINUTES)
    assert await world.one_pass() is None
    assert not world.knows(ORDERS)
    assert world.events() == []


async def test_a_rival_that_is_deleted_takes_nothing_from_the_older_one() -> None:
    world = await made_topic()
    world.advance(1)
    world.put("Topic", "later", {"cluster": "main", "topicName": "prices", "deletionPolicy": "Delete"})
    await world.one_pass(name="later")
    world.delete("Topic", "later")
    assert await world.one_pass(name="later") is None
    assert not world.has("Topic", "later")
    assert world.knows(ORDERS)


async def test_a_spec_that_breaks_a_rule_is_said_and_does_not_hold_up_a_deletion() -> None:
    world = await made_topic(deletionPolicy="Delete")
    world.put("Topic", "prices", TOPIC | {"deletionPolicy": "Delete", "topicName": "TBW102"})
    await world.one_pass()
    assert world.condition("Ready") == ("False", "SystemName")
    world.delete("Topic", "prices")
    assert await world.one_pass() is None
    assert not world.has("Topic", "prices")
