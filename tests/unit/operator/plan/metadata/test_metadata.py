"""Topics and ConsumerGroups: made, changed, and kept as they are written."""

import base64

import pytest

from controller_core.access.signing import Credentials
from rocketmq_operator.api.names import BROKERS_FINALIZER
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.handlers.kinds import METADATA_RESYNC_S, RESYNC_S
from testkit.memory.kubernetes import CrashError
from testkit.worlds.metadata import NAMESPACE, ORDERS, PAY, SPARE, TOPIC, MetadataWorld, made_topic


async def test_a_topic_is_made_in_every_broker_group_of_its_cluster() -> None:
    world = MetadataWorld()
    world.put("BrokerGroup", "other", {"cluster": "another", "storage": {"size": "1Gi"}})
    world.put("Topic", "prices", TOPIC | {"messageType": "FIFO", "attributes": {"cleanup.policy": "DELETE"}})
    assert await world.one_pass() == METADATA_RESYNC_S
    for address in (ORDERS, PAY):
        config = world.config(address)
        assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (4, 4, 6)
        assert config["attributes"] == {"message.type": "FIFO", "cleanup.policy": "DELETE"}
    assert world.condition("Ready") == ("True", "Applied")
    assert world.condition("InSync") == ("True", "Applied")
    assert world.condition("Unrivalled") == ("True", "Alone")
    status = world.status()
    assert (status["name"], status["inSync"], status["observedGeneration"]) == ("prices", "2/2", 1)
    assert [(row["group"], row["state"]) for row in status["groups"]] == [
        ("orders", "Applied"),
        ("pay", "Applied"),
    ]
    assert world.events() == [], "a requested change needs no Event"


async def test_a_name_that_kubernetes_would_not_take_is_given_in_the_spec() -> None:
    world = await made_topic(topicName="Prices_%V1|x")
    assert world.knows(ORDERS, "Prices_%V1|x")
    assert world.status()["name"] == "Prices_%V1|x"


async def test_only_the_broker_groups_that_are_named_get_it_and_one_that_is_taken_out_keeps_it() -> None:
    world = await made_topic(brokerGroups=["pay"])
    assert not world.knows(ORDERS)
    assert world.status()["inSync"] == "1/1"
    world.put("Topic", "prices", TOPIC | {"brokerGroups": ["orders"]})
    await world.one_pass()
    assert world.knows(ORDERS)
    assert world.knows(PAY)


async def test_a_changed_spec_is_written_and_what_it_does_not_speak_of_is_kept() -> None:
    world = await made_topic(attributes={"cleanup.policy": "DELETE"})
    for address in (ORDERS, PAY):
        world.config(address).update(topicFilterType="MULTI_TAG", topicSysFlag=2)
        world.config(address)["attributes"]["reserve.time"] = "72"
    world.put(
        "Topic",
        "prices",
        TOPIC
        | {"readQueues": 8, "permission": "R", "ordered": True, "attributes": {"cleanup.policy": "DELETE"}},
    )
    await world.one_pass()
    config = world.config(ORDERS)
    assert (config["readQueueNums"], config["perm"], config["order"]) == (8, 4, True)
    assert (config["topicFilterType"], config["topicSysFlag"]) == ("MULTI_TAG", 2)
    assert config["attributes"]["reserve.time"] == "72"
    assert world.status()["observedGeneration"] == 2
    assert world.events() == [], "a change by its owner is not drift"


async def test_a_pass_that_finds_all_as_it_should_be_writes_nothing() -> None:
    world = await made_topic()
    calls, writes = len(world.brokers.calls), len(world.kube.writes)
    assert await world.one_pass() == METADATA_RESYNC_S
    assert (len(world.brokers.calls), len(world.kube.writes)) == (calls, writes)


async def test_drift_is_corrected_and_told_with_field_and_values() -> None:
    world = await made_topic()
    world.config(PAY).update(readQueueNums=2, perm=4)
    world.advance(1)
    await world.one_pass()
    assert (world.config(PAY)["readQueueNums"], world.config(PAY)["perm"]) == (4, 6)
    assert world.events() == [("DriftCorrected", "pay: readQueues 2 -> 4; permission R -> RW")]
    status = world.status()
    assert (status["lastCorrected"], status["lastCorrection"]) == (
        "2026-01-01T00:01:00Z",
        "pay: readQueues 2 -> 4; permission R -> RW",
    )
    assert world.condition("InSync") == ("True", "Applied")


async def test_a_new_master_that_lacks_the_topic_gets_it() -> None:
    world = await made_topic()
    world.controllers.masters["orders"] = SPARE
    await world.one_pass()
    assert world.config(SPARE)["readQueueNums"] == 4
    assert world.events() == [("DriftCorrected", "orders: missing")]


async def test_a_broker_group_that_comes_later_gets_it_and_that_is_no_drift() -> None:
    world = await made_topic()
    world.put("BrokerGroup", "third", {"cluster": "main", "storage": {"size": "1Gi"}})
    world.controllers.masters["third"] = SPARE
    await world.one_pass()
    assert world.knows(SPARE)
    assert world.status()["inSync"] == "3/3"
    assert world.events() == []


async def test_drift_is_only_reported_where_that_is_asked() -> None:
    world = await made_topic(driftPolicy="Report", attributes={"reserve.time": "72"})
    world.config(PAY).update(readQueueNums=2)
    world.config(PAY)["attributes"].pop("reserve.time")
    await world.one_pass()
    assert world.config(PAY)["readQueueNums"] == 2
    assert world.condition("Ready") == ("False", "Drifted")
    assert world.condition("InSync") == ("False", "Drifted")
    rows = {row["group"]: row for row in world.status()["groups"]}
    assert rows["pay"]["state"] == "Drifted"
    assert rows["pay"]["differences"] == [
        {"field": "readQueues", "wanted": "4", "found": "2"},
        {"field": "attributes.reserve.time", "wanted": "72", "found": ""},
    ]
    assert (rows["orders"]["state"], world.status()["inSync"]) == ("Applied", "1/2")


async def test_a_new_spec_is_written_and_what_is_missing_is_made_also_where_drift_is_only_reported() -> None:
    world = await made_topic(driftPolicy="Report")
    world.put("Topic", "prices", TOPIC | {"driftPolicy": "Report", "readQueues": 9})
    del world.brokers.tables[PAY]["Topic", "prices"]
    await world.one_pass()
    assert (world.config(ORDERS)["readQueueNums"], world.config(PAY)["readQueueNums"]) == (9, 9)
    del world.brokers.tables[PAY]["Topic", "prices"]
    await world.one_pass()
    assert world.knows(PAY)


async def test_a_master_that_does_not_answer_is_told_and_the_others_are_served() -> None:
    world = MetadataWorld()
    world.brokers.silent = {PAY}
    world.put("Topic", "prices", TOPIC)
    assert await world.one_pass() == RESYNC_S
    assert world.knows(ORDERS)
    assert world.condition("Ready") == ("False", "BrokerUnreachable")
    assert world.condition("InSync") == ("Unknown", "NotCompared")
    assert world.status()["groups"][1]["message"] == f"{PAY}: connection refused"
    assert world.status()["observedGeneration"] == 0, "it was not brought to every group"
    world.brokers.silent = set()
    await world.one_pass()
    assert (world.condition("Ready"), world.status()["observedGeneration"]) == (("True", "Applied"), 1)


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_group_without_a_known_master_is_told(reachable: bool) -> None:
    world = MetadataWorld()
    world.controllers.reachable = reachable
    world.controllers.masters = {"orders": None, "pay": None}
    world.put("Topic", "prices", TOPIC)
    await world.one_pass()
    assert world.condition("Ready") == ("False", "BrokerUnreachable")


async def test_a_broker_that_refuses_is_told_once_in_its_words_and_does_not_stop_the_others() -> None:
    world = await made_topic(attributes={"cleanup.policy": "DELETE"})
    world.config(ORDERS)["attributes"]["cleanup.policy"] = "COMPACTION"
    world.config(PAY)["readQueueNums"] = 1
    await world.one_pass()
    world.advance(1)
    await world.one_pass()
    assert world.condition("Ready") == ("False", "StepRefused")
    assert world.config(PAY)["readQueueNums"] == 4
    told = [note for reason, note in world.events() if reason == "StepRefused"]
    assert len(told) == 1
    assert "unchangeable attribute. key: cleanup.policy" in told[0]


@pytest.mark.parametrize(
    ("spec", "reason"), [({"cluster": "none"}, "NoCluster"), ({"brokerGroups": ["x"]}, "NoGroup")]
)
async def test_what_is_not_there_is_named_and_told_once(spec: dict[str, object], reason: str) -> None:
    world = MetadataWorld()
    world.put("Topic", "prices", TOPIC | spec)
    for _ in range(2):
        assert await world.one_pass() == RESYNC_S
        world.advance(1)
    assert world.condition("Ready") == ("False", reason)
    assert [told for told, _ in world.events()] == [reason]


async def test_nothing_is_written_where_a_group_or_the_cluster_is_paused() -> None:
    world = MetadataWorld()
    world.put("BrokerGroup", "pay", {"cluster": "main", "storage": {"size": "1Gi"}, "paused": True})
    world.put("Topic", "prices", TOPIC)
    await world.one_pass()
    assert (world.knows(ORDERS), world.knows(PAY)) == (True, False)
    assert world.condition("Ready") == ("False", "Paused")
    world.put("RocketMQCluster", "main", {"paused": True})
    world.config(ORDERS)["readQueueNums"] = 1
    await world.one_pass()
    assert world.config(ORDERS)["readQueueNums"] == 1


async def test_of_two_objects_with_one_name_the_older_has_it() -> None:
    world = await made_topic()
    world.advance(1)
    world.put("Topic", "later", {"cluster": "main", "topicName": "prices", "readQueues": 32})
    await world.one_pass(name="later")
    assert world.config(ORDERS)["readQueueNums"] == 4
    assert world.condition("Ready", name="later") == ("False", "Conflict")
    assert world.condition("Unrivalled", name="later") == ("False", "Conflict")
    await world.one_pass()
    assert world.condition("Ready") == ("True", "Applied")
    world.delete("Topic", "prices")
    await world.one_pass(name="later")
    assert world.config(ORDERS)["readQueueNums"] == 32


async def test_the_same_name_in_another_cluster_or_of_another_kind_is_no_rival() -> None:
    world = await made_topic()
    world.put("RocketMQCluster", "second", {})
    world.put("Topic", "elsewhere", {"cluster": "second", "topicName": "prices"})
    world.put("ConsumerGroup", "prices", {"cluster": "main"})
    await world.one_pass(name="elsewhere")
    await world.one_pass("ConsumerGroup", "prices")
    assert world.condition("Unrivalled", name="elsewhere") == ("True", "Alone")
    assert world.condition("Ready", "ConsumerGroup", "prices") == ("True", "Applied")


async def test_a_consumer_group_is_made_kept_and_forgotten_in_the_same_way() -> None:
    world = MetadataWorld()
    spec = {"cluster": "main", "ordered": True, "retryMaxTimes": 3, "deletionPolicy": "Delete"}
    world.put("ConsumerGroup", "readers", spec)
    await world.one_pass("ConsumerGroup", "readers")
    config = world.config(PAY, "readers", "ConsumerGroup")
    assert (config["groupName"], config["consumeMessageOrderly"], config["retryMaxTimes"]) == (
        "readers",
        True,
        3,
    )
    assert (config["consumeEnable"], config["consumeTimeoutMinute"]) == (True, 15)
    config |= {"consumeEnable": False, "groupRetryPolicy": {"type": "CUSTOMIZED"}}
    await world.one_pass("ConsumerGroup", "readers")
    config = world.config(PAY, "readers", "ConsumerGroup")
    assert (config["consumeEnable"], config["groupRetryPolicy"]) == (True, {"type": "CUSTOMIZED"})
    assert world.events() == [("DriftCorrected", "pay: consumeEnable false -> true")]
    world.delete("ConsumerGroup", "readers")
    assert await world.one_pass("ConsumerGroup", "readers") is None
    assert not world.knows(ORDERS, "readers", "ConsumerGroup")
    assert world.brokers.routes == [], "a group has none"


async def test_an_operator_that_is_killed_after_a_write_is_completed_by_the_next() -> None:
    whole = await made_topic(deletionPolicy="Delete")
    for number in range(1, len(whole.kube.writes) + 1):
        world = MetadataWorld()
        world.put("Topic", "prices", TOPIC | {"deletionPolicy": "Delete"})
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await world.one_pass()
        assert (
            BROKERS_FINALIZER in world.kube.objects["Topic", NAMESPACE, "prices"]["metadata"]["finalizers"]
        ), "it is held before a broker knows it"
        world.kube.crash_after = None
        await world.one_pass()
        assert world.brokers.tables == whole.brokers.tables
        assert world.condition("Ready") == ("True", "Applied")


async def test_a_master_that_goes_silent_between_look_and_write_is_a_pass_to_be_made_again() -> None:
    world = MetadataWorld()
    world.put("Topic", "prices", TOPIC)
    write = world.brokers.write

    async def silent(
        address: str, kind: str, config: dict[str, object], credentials: Credentials | None
    ) -> None:
        world.brokers.silent = {address}
        await write(address, kind, config, credentials)

    world.brokers.write = silent  # type: ignore[method-assign]  # what a test stands behind
    with pytest.raises(PeerUnavailableError):
        await world.one_pass()
    assert world.status() == {}


async def test_topics_of_a_cluster_with_users_are_written_and_deleted_in_signed_requests() -> None:
    world = MetadataWorld()
    world.put("RocketMQCluster", "main", {"authentication": {"type": "Signature"}})
    world.brokers.credentials = Credentials("rocketmq-ha", "inner-password")
    world.put("Topic", "prices", TOPIC | {"deletionPolicy": "Delete"})
    await world.one_pass()
    assert not world.knows(PAY)  # its Secret is not there yet
    data = {
        key: base64.b64encode(text.encode()).decode()
        for key, text in (("username", "rocketmq-ha"), ("password", "inner-password"))
    }
    metadata = {"name": "main-broker-credentials", "namespace": NAMESPACE}
    world.kube.put({"kind": "Secret", "metadata": metadata, "data": data})
    for _ in range(2):
        await world.one_pass()
    assert world.condition("Ready") == ("True", "Applied")
    assert world.knows(PAY)
    assert "inner-password" not in str(world.status())
    world.delete("Topic", "prices")
    await world.one_pass()
    assert not world.knows(PAY)
