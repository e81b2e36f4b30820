"""Topics and consumer groups on a real cluster.

They are made as the reference shows, protected against foreign changes, and forgotten on request.

The foreign hand is the operator's own client of brokers, in the operator's pod: it changes what a
person with mqadmin would change.
"""

import json
import re
import shlex
from functools import partial
from typing import Any, Final

import pytest

from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.release import ROOT, Release, as_shown

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
]

_OPERATOR: Final = "deployment/rocketmq-ha-operator"
_BROKER_PORT: Final = 10911
TOPIC: Final = "rmqt/prices"
GROUP: Final = "rmqcg/price-readers"
CORRECTED_WITHIN_S: Final = 120.0
"""Two looks of the operator, which come every minute."""
ACTED_WITHIN_S: Final = 60.0
_CALL: Final = """
import asyncio, json, sys
from rocketmq_operator.clients.brokers import BrokersClient
method, *arguments = json.loads(sys.argv[1])
print(json.dumps(asyncio.run(getattr(BrokersClient(), method)(*arguments))))
"""


async def _broker(release: Release, method: str, *arguments: object) -> Any:
    """Call a method of the operator's client of brokers at the master's own pod, from the operator's pod."""
    master = (await release.group.view()).master
    address = (await release.cluster.get("pod", master))["status"]["podIP"]
    words = json.dumps([method, f"{address}:{_BROKER_PORT}", *arguments])
    script = f"python3 -c {shlex.quote(_CALL)} {shlex.quote(words)}"
    return json.loads(await release.cluster.shell(_OPERATOR, "operator", script))


async def _status(cluster: Cluster, what: str) -> Json:
    kind, name = what.split("/")
    found: Json = (await cluster.get(kind, name)).get("status", {})
    return found


async def _is_held(cluster: Cluster, what: str) -> bool:
    found = await cluster.get(*what.split("/"))
    return bool(found["metadata"].get("finalizers") == ["rocketmq-ha.dev/in-brokers"])


def _shown_commands() -> tuple[list[str], list[str]]:
    """Return the commands of the reference that make objects and wait, and those that release them."""
    text = (ROOT / "docs" / "reference" / "topics.md").read_text()
    lines = [line for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE) if " get " not in line]
    releasing = [line for line in lines if "finalizers" in line]
    return [line for line in lines if line not in releasing], releasing


async def test_a_topic_and_a_consumer_group_are_made_as_the_reference_shows(release: Release) -> None:
    cluster = release.cluster
    await release.group.until_whole()
    making, _ = _shown_commands()
    for command in making:
        await as_shown(cluster, command)
    config = await _broker(release, "read", "Topic", "prices")
    assert (config["readQueueNums"], config["attributes"]["message.type"]) == (8, "NORMAL")
    config = await _broker(release, "read", "ConsumerGroup", "price-readers")
    assert config["retryMaxTimes"] == 4
    columns = (await cluster.kubectl("get", "rmqt")).splitlines()
    assert columns[0].split()[:5] == ["NAME", "READY", "NAME-IN-BROKERS", "IN-SYNC", "REASON"]
    assert columns[1].split()[:4] == ["prices", "True", "prices", "1/1"]


async def test_a_changed_spec_reaches_the_master(release: Release) -> None:
    await release.cluster.patch_spec(TOPIC, {"readQueues": 12, "messageType": "FIFO"})

    async def changed() -> bool:
        config = await _broker(release, "read", "Topic", "prices")
        return (config["readQueueNums"], config["attributes"]["message.type"]) == (12, "FIFO")

    await until("the master has the new spec", changed, ACTED_WITHIN_S, poll_s=1.0)


async def test_a_foreign_change_is_corrected_and_told_and_what_was_deleted_comes_back(
    release: Release,
) -> None:
    cluster = release.cluster
    config = await _broker(release, "read", "Topic", "prices")
    await _broker(release, "write", "Topic", config | {"readQueueNums": 2, "attributes": {}})
    await _broker(release, "delete", "ConsumerGroup", "price-readers")

    async def corrected() -> bool:
        config = await _broker(release, "read", "Topic", "prices")
        group = await _broker(release, "read", "ConsumerGroup", "price-readers")
        return config["readQueueNums"] == 12 and group is not None and group["retryMaxTimes"] == 4

    await until("the master has both again", corrected, CORRECTED_WITHIN_S, poll_s=2.0)

    async def told() -> bool:
        return (await _status(cluster, TOPIC)).get("lastCorrection") == "orders: readQueues 2 -> 12"

    await until("the status names the corrections", told, ACTED_WITHIN_S)
    events = await cluster.find("events.events.k8s.io")
    notes = {one.get("note") for one in events if one["reason"] == "DriftCorrected"}
    assert {"orders: readQueues 2 -> 12", "orders: missing"} <= notes


async def test_where_drift_is_only_reported_it_stays_and_is_named(release: Release) -> None:
    cluster = release.cluster
    await cluster.patch_spec(TOPIC, {"driftPolicy": "Report"})
    generation = (await cluster.get(*TOPIC.split("/")))["metadata"]["generation"]

    async def acted_on() -> bool:
        return (await _status(cluster, TOPIC)).get("observedGeneration") == generation

    await until("the policy is known", acted_on, ACTED_WITHIN_S)
    config = await _broker(release, "read", "Topic", "prices")
    await _broker(release, "write", "Topic", config | {"perm": 4, "attributes": {}})

    async def reported() -> bool:
        return (await _status(cluster, TOPIC)).get("reason") == "Drifted"

    await until("the drift is reported", reported, CORRECTED_WITHIN_S, poll_s=2.0)
    (row,) = (await _status(cluster, TOPIC))["groups"]
    assert row["differences"] == [{"field": "permission", "wanted": "RW", "found": "R"}]
    assert (await _broker(release, "read", "Topic", "prices"))["perm"] == 4
    await cluster.patch_spec(TOPIC, {"driftPolicy": "Correct"})
    await cluster.kubectl("wait", "--for=condition=InSync", TOPIC, "--timeout=60s", timeout_s=70.0)


async def test_after_a_switchover_the_new_master_has_them(release: Release) -> None:
    before = await release.group.until_whole()
    await release.cluster.plugin("switchover", "orders")
    after = await release.group.until_whole()
    assert after.master != before.master

    async def has_both() -> bool:
        topic = await _broker(release, "read", "Topic", "prices")
        group = await _broker(release, "read", "ConsumerGroup", "price-readers")
        return topic is not None and topic["readQueueNums"] == 12 and group is not None

    await until("the new master has both", has_both, CORRECTED_WITHIN_S, poll_s=2.0)


async def test_a_second_object_of_the_same_name_gets_a_conflict_and_goes_without_harm(
    release: Release,
) -> None:
    cluster = release.cluster
    metadata = {"name": "again", "namespace": cluster.namespace}
    spec = {"cluster": "main", "topicName": "prices", "deletionPolicy": "Delete"}
    await cluster.apply(
        {"apiVersion": "rocketmq-ha.dev/v1alpha1", "kind": "Topic", "metadata": metadata, "spec": spec}
    )

    async def refused() -> bool:
        return (await _status(cluster, "rmqt/again")).get("reason") == "Conflict"

    await until("the later one says Conflict", refused, ACTED_WITHIN_S)
    await cluster.kubectl("delete", "rmqt/again", timeout_s=ACTED_WITHIN_S)
    assert (await _broker(release, "read", "Topic", "prices"))["readQueueNums"] == 12


async def test_deletion_keeps_or_forgets_as_the_policy_says(release: Release) -> None:
    cluster = release.cluster
    await cluster.kubectl("delete", GROUP, timeout_s=ACTED_WITHIN_S)
    assert await _broker(release, "read", "ConsumerGroup", "price-readers") is not None, (
        "Retain is the default"
    )
    await cluster.kubectl("apply", "-f", str(ROOT / "examples" / "consumergroup.yaml"))
    for kind, what in (("Topic", TOPIC), ("ConsumerGroup", GROUP)):
        await cluster.patch_spec(what, {"deletionPolicy": "Delete"})
        await until(f"{what} is held", partial(_is_held, cluster, what), ACTED_WITHIN_S)
        await cluster.kubectl("delete", what, timeout_s=ACTED_WITHIN_S)
        with pytest.raises(KubeError, match="NotFound"):
            await cluster.get(*what.split("/"))
        assert await _broker(release, "read", kind, what.split("/")[1]) is None


async def test_without_an_operator_an_object_is_released_by_hand_as_the_reference_shows(
    release: Release,
) -> None:
    cluster = release.cluster
    making, releasing = _shown_commands()
    for command in making:
        await as_shown(cluster, command)
    for what in (TOPIC, GROUP):
        await cluster.patch_spec(what, {"deletionPolicy": "Delete"})
        await until(f"{what} is held", partial(_is_held, cluster, what), ACTED_WITHIN_S)
    await cluster.kubectl("scale", _OPERATOR, "--replicas=0")
    try:
        await cluster.kubectl(
            *("wait", "pod", "--selector=app.kubernetes.io/component=operator", "--for=delete"),
            timeout_s=ACTED_WITHIN_S,
        )
        await cluster.kubectl("delete", TOPIC, GROUP, "--wait=false")
        for what in (TOPIC, GROUP):
            assert "deletionTimestamp" in (await cluster.get(*what.split("/")))["metadata"]
        for command in releasing:
            await as_shown(cluster, command)
        for what in (TOPIC, GROUP):
            with pytest.raises(KubeError, match="NotFound"):
                await cluster.get(*what.split("/"))
    finally:
        await cluster.kubectl("scale", _OPERATOR, "--replicas=2")
        await cluster.kubectl("rollout", "status", _OPERATOR, "--timeout=120s", timeout_s=130.0)
    assert await _broker(release, "read", "Topic", "prices") is not None, "the brokers keep it"
