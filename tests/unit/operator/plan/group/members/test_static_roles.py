"""Groups whose brokers have static roles: RocketMQ's modes without controllers, and the way out of them."""

from typing import Any

import pytest

from controller_core.server.settings.properties import parse
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.members.roles import SWITCH_WITH_ONE_BROKER
from rocketmq_operator.plan.group.pod_sets.mode_label import MODE_LABEL
from rocketmq_operator.plan.group.seed_container import STATIC_MARK
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import status_lines
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]


async def _static(**group: Any) -> OperatorWorld:
    world = OperatorWorld({"mode": "Static", "replicas": 2, **group})
    world.controllers.hears_brokers = False
    await world.settle()
    return world


def _conf(world: OperatorWorld) -> dict[str, str]:
    return dict(parse(world.get("ConfigMap", GROUP)["data"]["broker.conf"]))


def _uids(world: OperatorWorld) -> dict[str, str]:
    pods = (pod["metadata"] for pod in world.kube.pods())
    return {one["name"]: one["uid"] for one in pods if one["name"].startswith(f"{GROUP}-")}


@pytest.mark.parametrize(
    ("durability", "replicas", "role", "copies"),
    [
        ("Async", 2, "ASYNC_MASTER", "1"),
        ("Quorum", 3, "SYNC_MASTER", "2"),
        ("AllInSync", 3, "SYNC_MASTER", "3"),
    ],
)
async def test_the_first_broker_is_master_and_the_others_are_slaves(
    durability: str, replicas: int, role: str, copies: str
) -> None:
    world = await _static(durability=durability, replicas=replicas)
    conf, script = _conf(world), world.get("ConfigMap", GROUP)["data"]["start-broker.sh"]
    assert (conf["enableControllerMode"], conf["inSyncReplicas"]) == ("false", copies)
    assert not conf.keys() & {"brokerId", "brokerRole", "controllerAddr", "allAckInSyncStateSet"}
    assert f"case $POD_NAME in *-0) role={role} ;; *) role=SLAVE ;; esac" in script
    assert f'>"{STATIC_MARK}"' in script
    made = world.get("StatefulSet", GROUP)
    assert made["metadata"]["labels"][MODE_LABEL] == "Static"
    pod = made["spec"]["template"]["spec"]
    assert "initContainers" not in pod, "neither companion nor seed"
    assert "lifecycle" not in pod["containers"][0]
    assert "9884" not in script, "no lease"


async def test_a_quorum_of_static_roles_has_as_many_copies_as_the_spec_says() -> None:
    world = await _static(durability="Quorum", replicas=5, inSyncReplicas=3)
    assert _conf(world)["inSyncReplicas"] == "3"
    assert not _conf(world).keys() & {"minInSyncReplicas", "allAckInSyncStateSet"}


async def test_the_status_says_that_nothing_fails_over() -> None:
    world = await _static()
    status = world.status()
    assert world.condition("Ready") == ("True", "Serving")
    assert world.condition("MasterElected") == ("False", "StaticRoles")
    assert world.condition("InSync") == ("Unknown", "StaticRoles")
    assert world.condition("Progressing") == ("False", "Settled")
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert ready["message"] == "orders-0 serves; roles are static: nothing fails over"
    assert [(one["name"], one["role"]) for one in status["members"]] == [
        ("orders-0", "Master"),
        ("orders-1", "Slave"),
    ]
    assert (status["master"]["name"], status.get("inSync", "")) == ("orders-0", "")


async def test_controllers_that_are_away_change_nothing() -> None:
    world = await _static()
    world.controllers.reachable = False
    world.write_group({"mode": "Static", "replicas": 3})
    await world.settle()
    assert world.condition("Ready") == ("True", "Serving")
    assert sorted(_uids(world)) == ["orders-0", "orders-1", "orders-2"]


async def test_a_master_that_is_away_is_not_replaced_and_keeps_its_address() -> None:
    world = await _static()
    world.kube.unready.add("orders-0")
    world.kube.settle()
    await world.one_pass()
    assert world.condition("Ready") == ("False", "MasterNotServing")
    assert world.server_of("orders-0") == "orders-0"
    assert world.server_of("orders-1") == "orders-1"


async def test_a_change_restarts_slaves_first_and_the_master_last() -> None:
    world = await _static(replicas=3)
    before, gone = _uids(world), []
    world.write_group({"mode": "Static", "replicas": 3, "config": {"flushDiskType": "SYNC_FLUSH"}})
    for _ in range(12):
        await world.one_pass()
        world.advance(1)
        now = _uids(world)
        gone.append([name for name in before if now.get(name) != before[name]])
    assert [names for at, names in enumerate(gone) if names and names not in gone[:at]] == [
        ["orders-1"],
        ["orders-1", "orders-2"],
        ["orders-0", "orders-1", "orders-2"],
    ]


async def test_a_group_shrinks_from_its_end() -> None:
    world = await _static(replicas=3, durability="Async")
    world.write_group({"mode": "Static", "replicas": 1, "durability": "Async"})
    await world.settle()
    assert sorted(_uids(world)) == ["orders-0"]


async def test_the_last_broker_changes_to_controllers_and_its_store_is_adopted() -> None:
    world = await _static(replicas=1, durability="Async")
    before = _uids(world)
    world.controllers.hears_brokers = True
    world.write_group({"mode": "Controllers", "replicas": 1, "durability": "Async"})
    await world.settle()
    assert _uids(world).keys() == before.keys()
    assert _uids(world) != before
    made = world.get("StatefulSet", GROUP)
    assert MODE_LABEL not in made["metadata"]["labels"]
    assert [one["name"] for one in made["spec"]["template"]["spec"]["initContainers"]] == [
        "companion",
        "seed",
    ]
    assert _conf(world)["enableControllerMode"] == "true"
    assert world.condition("MasterElected") == ("True", "Elected")
    script = world.get("ConfigMap", GROUP)["data"]["start-seed.sh"]
    adopt = script.index("ha-sidecar adopt /var/lib/rocketmq --keep")
    assert script.index(f'if [ -e "{STATIC_MARK}" ]') < adopt < script.index("brokerIdentity")


async def test_slaves_go_in_static_form_before_the_change_to_controllers() -> None:
    # The definition refuses this order; an operator that is told late meets it all the same.
    world = await _static(durability="Async")
    world.write_group({"mode": "Controllers", "replicas": 1, "durability": "Async"})
    world.controllers.hears_brokers = True
    await world.settle()
    assert sorted(_uids(world)) == ["orders-0"]
    assert _conf(world)["enableControllerMode"] == "true"


@pytest.mark.parametrize("more", [{"logReplicas": 1}, {"learners": {"count": 1}}])
def test_static_roles_have_no_members_that_follow_elections(more: Json) -> None:
    spec = {"cluster": "main", "storage": {"size": "1Gi"}, "mode": "Static", **more}
    with pytest.raises(ValueError, match=r"mode is Static with logReplicas \d and learners"):
        BrokerGroupSpec.model_validate(spec)


def test_the_rule_of_the_change_is_one_for_the_api_server() -> None:
    assert SWITCH_WITH_ONE_BROKER.holds is None
    assert "oldSelf.replicas == 1" in SWITCH_WITH_ONE_BROKER.expression


async def test_the_plugin_says_that_nothing_fails_over() -> None:
    world = await _static()
    lines = status_lines(await observe_group(world.kube, NAMESPACE, GROUP))
    assert lines[0] == "orders  Ready  AllInSync, static roles: nothing fails over"
    assert not [line for line in lines if "in sync" in line or "lag" in line]
