"""Which versions of RocketMQ the operator runs, and how the controllers' switches reach their files.

Switches that differ from the spec show in the status.
"""

import pytest
from pydantic import ValidationError

from controller_core.server.settings.properties import parse
from rocketmq_operator.api.cluster import RocketMQClusterSpec, RocketMQClusterStatus
from rocketmq_operator.api.conditions import Condition
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import explain_lines
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

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


def in_sync(world: OperatorWorld) -> Condition:
    status = RocketMQClusterStatus.model_validate(world.get("RocketMQCluster", "main")["status"])
    return next(one for one in status.conditions if one.type == "InSync")


async def test_a_switch_that_mqadmin_changed_shows_as_drift_until_spec_and_controllers_agree() -> None:
    world = await settled()
    assert (in_sync(world).status, in_sync(world).reason) == ("True", "Applied")
    world.controllers.membership.changed_settings["n1"] = {
        "enableElectUncleanMaster": "true",
        "scanInactiveMasterInterval": "1000",
    }
    await world.settle()
    assert (in_sync(world).status, in_sync(world).reason) == ("False", "Drifted")
    assert in_sync(world).message.startswith(
        "main-controller-1, enableElectUncleanMaster is true, not false: change the spec, or change it back"
    )
    assert world.condition("Ready", "RocketMQCluster", "main")[0] == "True"
    explained = "\n".join(explain_lines(await observe_group(world.kube, NAMESPACE, GROUP)))
    assert "InSync is False (Drifted)" in explained
    world.controllers.membership.changed_settings["n1"] = {"enableElectUncleanMaster": "false"}
    await world.settle()
    assert in_sync(world).reason == "Applied"


async def test_a_change_that_outlived_a_new_spec_shows_as_drift() -> None:
    """A controller keeps what mqadmin changed: its start file, which the operator writes, comes second."""
    world = await settled()
    kept = {name: {"nodeTimeoutMs": "900"} for name in ("n0", "n2")}
    world.controllers.membership.changed_settings = kept
    world.write_cluster({"failover": {"nodeTimeoutMs": 700}})
    await world.settle()
    both = (
        "main-controller-0, nodeTimeoutMs is 900, not 700; main-controller-2, nodeTimeoutMs is 900, not 700"
    )
    assert in_sync(world).message.startswith(both)
    world.write_cluster({"failover": {"nodeTimeoutMs": 900}})
    await world.settle()
    assert in_sync(world).reason == "Applied"


async def test_a_controller_that_does_not_answer_leaves_open_whether_it_runs_with_the_spec() -> None:
    world = await settled()
    world.controllers.membership.down = {"n2"}
    await world.settle()
    assert (in_sync(world).status, in_sync(world).reason) == ("Unknown", "NotCompared")
    assert in_sync(world).message == "these controllers do not answer: main-controller-2"
