"""Settings that brokers take while they run: no restart, and what the status says of them."""

import hashlib
from typing import Any

import pytest

from controller_core.broker_settings import LIVE_SETTINGS
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.names import API_VERSION, CONFIG_HASH_ANNOTATION
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.group.children import broker_digest
from rocketmq_operator.plan.group.pod_sets.live_settings import CONDITION
from rocketmq_operator.plan.tls.clients import ClientsStage
from testkit.worlds.operator import OperatorWorld

LIVE = {"fileReservedTime": "48"}
READ_AT_START = {"sendMessageThreadPoolNums": "6"}


async def _settled(config: dict[str, str], **spec: Any) -> OperatorWorld:
    world = OperatorWorld({"config": config, **spec})
    await world.settle()
    return world


def _conf(world: OperatorWorld) -> str:
    text: str = world.get("ConfigMap", "orders")["data"]["broker.conf"]
    return text


async def _after(world: OperatorWorld, config: dict[str, str], **spec: Any) -> int:
    """Return how often the first broker's pod was made after a change of the settings."""
    world.write_group({"config": config, **spec})
    await world.settle()
    return world.kube.births["orders-0"]


async def test_settings_that_brokers_take_while_they_run_restart_no_pod() -> None:
    world = await _settled({})
    assert await _after(world, LIVE) == 1
    assert "\nfileReservedTime=48\n" in _conf(world)
    assert await _after(world, {"fileReservedTime": "24", "deleteWhen": "03"}) == 1
    assert "\nfileReservedTime=24\n" in _conf(world)
    assert await _after(world, {}) == 1
    assert "fileReservedTime" not in _conf(world)


async def test_other_settings_restart_the_brokers() -> None:
    world = await _settled(LIVE)
    assert await _after(world, LIVE | READ_AT_START) == 2


async def test_brokers_with_static_roles_have_no_companion_and_are_restarted() -> None:
    static = {"mode": "Static", "replicas": 1, "durability": "Async"}
    world = await _settled({}, **static)
    assert await _after(world, LIVE, **static) == 2


async def test_pods_of_an_operator_that_counted_all_settings_are_not_restarted_by_this_one() -> None:
    world = await _settled(LIVE, logTo="Files")
    live = world.get("StatefulSet", "orders")
    owner = Owner(API_VERSION, "BrokerGroup", "orders", live["metadata"]["namespace"], "u")
    spec = world.get("BrokerGroup", "orders")["spec"]
    cluster = RocketMQClusterSpec.model_validate(world.get("RocketMQCluster", "main")["spec"])
    whole = broker_digest(owner, BrokerGroupSpec.model_validate(spec), cluster, ClientsStage.DISABLED)
    annotations = live["spec"]["template"]["metadata"]["annotations"]
    assert annotations[CONFIG_HASH_ANNOTATION] != whole
    annotations[CONFIG_HASH_ANNOTATION] = whole
    world.kube.put(live)
    await world.settle()
    made = world.get("StatefulSet", "orders")["spec"]["template"]["metadata"]["annotations"]
    assert made[CONFIG_HASH_ANNOTATION] == whole
    births = world.kube.births["orders-0"]
    assert await _after(world, LIVE | {"deleteWhen": "03"}, logTo="Files") == births + 1
    assert await _after(world, LIVE | {"deleteWhen": "05"}, logTo="Files") == births + 1


def _tell(world: OperatorWorld, broker: str, **told: Any) -> None:
    host = f"{world.get('Pod', broker)['status']['podIP']}:{names.COMPANION_HTTP_PORT}"
    digest = hashlib.sha256(_conf(world).encode()).hexdigest()[:16]
    settings = {"file": digest, "waiting": [], "refused": {}} | told
    world.companions.told[host] = {"metadata_missing": {}, "settings": settings}


async def _message(world: OperatorWorld) -> str:
    world.advance(60)
    await world.one_pass()
    found = [one["message"] for one in world.status()["conditions"] if one["type"] == CONDITION]
    return str(*found)


async def test_a_group_without_settings_has_no_such_condition() -> None:
    world = await _settled({})
    assert await _message(world) == ""


async def test_the_status_says_whether_all_brokers_run_with_the_settings() -> None:
    world = await _settled(LIVE)
    assert await _message(world) == "no companion has compared its broker with spec.config"
    assert world.condition(CONDITION) == ("Unknown", "NotCompared")
    _tell(world, "orders-0")
    _tell(world, "orders-1")
    assert await _message(world) == "orders-0, orders-1: run with spec.config"
    assert world.condition(CONDITION) == ("True", "AllApplied")


@pytest.mark.parametrize(
    ("told", "reason", "text"),
    [
        (
            {"refused": {"fileReservedTime": "soon"}},
            "SettingsNotTaken",
            "does not take fileReservedTime=soon",
        ),
        ({"waiting": ["a", "b"]}, "WaitingForRestart", "orders-1: a, b wait for its restart"),
        ({"file": "older"}, "SettingsOnTheirWay", "orders-1 has not got the newest settings yet"),
    ],
)
async def test_the_status_names_what_a_broker_lacks(told: dict[str, Any], reason: str, text: str) -> None:
    world = await _settled(LIVE)
    _tell(world, "orders-0")
    _tell(world, "orders-1", **told)
    assert text in await _message(world)
    assert world.condition(CONDITION) == ("False", reason)


async def test_what_a_person_must_correct_is_said_first() -> None:
    world = await _settled(LIVE)
    _tell(world, "orders-0", waiting=["a"], file="older")
    _tell(world, "orders-1", refused={"fileReservedTime": "x"})
    assert await _message(world) == (
        "orders-1 does not take fileReservedTime=x; orders-0: a wait for its restart; "
        "orders-0 has not got the newest settings yet"
    )
    assert world.condition(CONDITION) == ("False", "SettingsNotTaken")


@pytest.mark.parametrize("settings", [7, {"file": "x"}, {"file": "x", "waiting": 1, "refused": {}}])
async def test_an_answer_of_another_shape_is_none(settings: Any) -> None:
    world = await _settled(LIVE)
    _tell(world, "orders-0")
    for told in world.companions.told.values():
        told["settings"] = settings
    await _message(world)
    assert world.condition(CONDITION) == ("Unknown", "NotCompared")


def test_no_setting_of_the_list_is_one_that_the_operator_writes() -> None:
    spec = {"cluster": "main", "storage": {"size": "1Gi"}, "config": dict(LIVE_SETTINGS)}
    assert BrokerGroupSpec.model_validate(spec).config == LIVE_SETTINGS
