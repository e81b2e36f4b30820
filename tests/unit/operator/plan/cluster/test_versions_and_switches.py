"""Which versions of RocketMQ the operator runs, and how the controllers' switches reach their files."""

import pytest
from pydantic import ValidationError

from controller_core.server.settings.properties import parse
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from testkit.worlds.operator import OperatorWorld

THREE = {"logReplicas": 1}


async def settled() -> OperatorWorld:
    world = OperatorWorld(THREE)
    await world.settle()
    return world


@pytest.mark.parametrize("version", ["5.0.0", "5.0.1", "5.1.0"])
async def test_a_version_with_another_controller_protocol_is_refused(version: str) -> None:
    with pytest.raises(ValidationError, match=rf"version is {version}: .* take 5\.1\.1 or newer"):
        RocketMQClusterSpec.model_validate({"version": version})


async def test_the_first_version_with_broker_ids_is_taken() -> None:
    assert RocketMQClusterSpec.model_validate({"version": "5.1.1"}).version == "5.1.1"


async def test_the_switches_of_the_controllers_are_fields_and_reach_controllers_and_log_replicas() -> None:
    before = await settled()
    conf = parse(before.get("ConfigMap", "main-controller")["data"]["controller.conf"])
    assert (conf["enableElectUncleanMaster"], conf["notifyBrokerRoleChanged"]) == ("false", "true")
    assert "unclean-election" not in before.get("ConfigMap", "orders")["data"]["replica.conf"]
    switches = {"enableElectUncleanMaster": True, "notifyBrokerRoleChanged": False}
    world = OperatorWorld(cluster={"controllers": switches})
    await world.settle()
    conf = parse(world.get("ConfigMap", "main-controller")["data"]["controller.conf"])
    assert (conf["enableElectUncleanMaster"], conf["notifyBrokerRoleChanged"]) == ("true", "false")
    assert "unclean-election = true" in world.get("ConfigMap", "orders")["data"]["replica.conf"]
