"""A cluster that uses another cluster's controllers: its objects, the grant, and the held deletion."""

import base64

import pytest

from rocketmq_operator.api.names import CONTROLLERS_FINALIZER
from rocketmq_operator.plan.common import names
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import explain_lines
from testkit.memory.membership import NAMESPACE
from testkit.worlds.shared_controllers import MAIN, SECOND, SharedControllersWorld

ELSEWHERE = "bank"
ALLOWING = {"controllers": {"allowedNamespaces": [ELSEWHERE]}}
SIGNED = {"authentication": {"type": "Signature"}}


def _conf(world: SharedControllersWorld, file: str) -> dict[str, str]:
    text: str = world.there("ConfigMap", world.group)["data"][file]
    lines = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in lines}


async def test_no_controllers_are_made_and_the_status_says_whose_they_are() -> None:
    world = SharedControllersWorld()
    await world.settle_clusters()
    assert not [name for _, name in world.kinds_there() if "controller" in name or name.endswith("-ca")]
    assert ("StatefulSet", "second-nameserver") in world.kinds_there()
    status = world.status_there()
    assert status["controllersOf"] == f"{NAMESPACE}/{MAIN}"
    assert (status["controllers"], status.get("members", [])) == ("", [])
    assert world.condition_there("Ready")[:2] == ("True", "Serving")
    assert world.condition_there("QuorumHealthy")[:2] == ("True", "OfAnotherCluster")
    assert world.condition_there("CertificatesValid")[1] == "OfAnotherCluster"
    assert world.condition_there("InSync")[:2] == ("Unknown", "OfAnotherCluster")
    explained = explain_lines(await observe_group(world.kube, NAMESPACE, world.group))
    assert not [line for line in explained if "OfAnotherCluster" in line]
    provider = world.status("RocketMQCluster", MAIN)
    assert provider["controllersUsedBy"] == [f"{NAMESPACE}/{SECOND}"]
    assert "controllersOf" not in provider or provider["controllersOf"] == ""
    assert world.get("RocketMQCluster", MAIN)["metadata"]["finalizers"] == [CONTROLLERS_FINALIZER]


async def test_members_are_given_the_controllers_of_the_other_cluster_and_the_name_of_their_own() -> None:
    world = SharedControllersWorld(place=ELSEWHERE, main=ALLOWING)
    await world.settle_clusters()
    broker = _conf(world, "broker.conf")
    assert broker["brokerClusterName"] == SECOND
    assert broker["controllerAddr"] == names.controller_addresses(MAIN, NAMESPACE)
    for file in ("replica.conf", "companion.conf", "seed.conf"):
        settings = _conf(world, file)
        assert settings["controllers"] == names.controller_addresses(MAIN, NAMESPACE)
        assert settings["cluster"] == SECOND
    pod = world.there("StatefulSet", world.group)["spec"]["template"]["spec"]
    known = {host: one["ip"] for one in pod["hostAliases"] for host in one["hostnames"]}
    for ordinal in range(names.CONTROLLERS_MAX):
        service = world.get("Service", names.controller(MAIN, ordinal))
        host = names.pod_host(names.controllers(MAIN), ordinal, NAMESPACE)
        assert known[host] == service["spec"]["clusterIP"]


async def test_the_operator_asks_the_shared_controllers_with_their_token() -> None:
    world = SharedControllersWorld()
    await world.settle_clusters()
    secret = world.get("Secret", names.token_secret(MAIN))["data"][names.TOKEN_KEY]
    world.asked.clear()
    await world.one_pass()
    assert {one[:2] for one in world.asked} == {(NAMESPACE, MAIN)}
    assert {one[2] for one in world.asked} == {base64.b64decode(secret).decode()}


async def test_log_replicas_know_the_setting_of_the_shared_controllers() -> None:
    main = {"controllers": {"enableElectUncleanMaster": True}}
    world = SharedControllersWorld(main=main, group={"logReplicas": 1})
    await world.settle_clusters()
    assert _conf(world, "replica.conf")["unclean-election"] == "true"


async def test_another_namespace_needs_a_grant() -> None:
    world = SharedControllersWorld(place=ELSEWHERE)
    await world.passes()
    status, reason, message = world.condition_there("Ready")
    assert (status, reason) == ("False", "ControllersRefused")
    assert "allowedNamespaces of RocketMQCluster shop/main lacks bank" in message
    assert world.kinds_there() == set()
    assert world.events().count("ControllersRefused") == 1
    assert not {one for one in world.asked if one[:2] == (ELSEWHERE, SECOND)}
    assert "StatefulSet" not in {kind for kind, place, _ in world.kube.objects if place == ELSEWHERE}
    world.write_cluster(ALLOWING)
    await world.settle_clusters()
    assert world.condition_there("Ready")[0] == "True"
    assert world.status("RocketMQCluster", MAIN)["controllersUsedBy"] == [f"{ELSEWHERE}/{SECOND}"]


async def test_a_cluster_that_is_refused_changes_no_way_to_the_controllers() -> None:
    """Without their authorities the operator would send the token of these controllers in plain text."""
    world = SharedControllersWorld(place=ELSEWHERE)
    await world.passes()
    world.noted_trust.clear()
    await world.passes(2)
    assert {place for place, _ in world.noted_trust} == {(NAMESPACE, MAIN)}
    assert all(config_map is not None for _, config_map in world.noted_trust)


async def test_a_grant_that_ends_ends_no_use_and_no_hold() -> None:
    world = SharedControllersWorld(place=ELSEWHERE, main=ALLOWING)
    await world.settle_clusters()
    world.write_cluster({})
    await world.settle_clusters()
    assert world.condition_there("Ready")[0] == "True"
    assert world.get("RocketMQCluster", MAIN)["metadata"]["finalizers"] == [CONTROLLERS_FINALIZER]


async def test_a_cluster_of_the_same_name_is_refused() -> None:
    """Its groups would be those of the other one at the controllers."""
    world = SharedControllersWorld(place=ELSEWHERE, main=ALLOWING, name=MAIN)
    await world.passes()
    _, reason, message = world.condition_there("Ready")
    assert reason == "ControllersRefused"
    assert message == "shop/main has the name main at these controllers: take another name"


async def test_controllers_that_do_not_exist_or_are_a_thirds_are_refused() -> None:
    world = SharedControllersWorld({"controllers": {"ref": {"name": "nowhere"}}})
    await world.passes()
    assert world.condition_there("Ready")[2].endswith("shop/nowhere of spec.controllers.ref does not exist")
    chained = SharedControllersWorld(main={"controllers": {"ref": {"name": "third"}}})
    await chained.passes()
    assert chained.condition_there("Ready")[2].endswith(
        "shop/main has no controllers of its own: name shop/third instead"
    )


async def test_a_user_of_the_controllers_has_the_same_super_user() -> None:
    world = SharedControllersWorld(SIGNED, main=SIGNED)
    await world.settle_clusters()
    passwords = {
        world.get("Secret", names.credentials_secret(cluster))["data"][names.PASSWORD_KEY]
        for cluster in (MAIN, SECOND)
    }
    assert len(passwords) == 1


@pytest.mark.parametrize(("main", "second"), [(SIGNED, {}), ({}, SIGNED)])
async def test_users_on_one_side_only_are_refused(main: dict[str, object], second: dict[str, object]) -> None:
    world = SharedControllersWorld(second, main=main)
    await world.passes()
    assert world.condition_there("Ready")[1] == "ControllersRefused"
    assert world.kinds_there() == set()


async def test_the_deletion_of_controllers_in_use_is_held_and_ends_with_the_last_user() -> None:
    world = SharedControllersWorld(place=ELSEWHERE, main=ALLOWING)
    await world.settle_clusters()
    world.kube.remove("RocketMQCluster", NAMESPACE, MAIN)
    await world.passes()
    held = [
        one for one in world.status("RocketMQCluster", MAIN)["conditions"] if one["type"] == "DeletionHeld"
    ]
    assert [(one["status"], one["reason"]) for one in held] == [("True", "ControllersInUse")]
    assert held[0]["message"] == "bank/second use these controllers: delete them first"
    assert world.events().count("ControllersInUse") == 1
    assert world.condition("Ready", "RocketMQCluster", MAIN)[0] == "True"
    assert world.condition_there("Ready")[0] == "True"
    world.kube.remove("Service", NAMESPACE, names.controller(MAIN, 0))
    await world.passes(2)
    assert world.has("Service", names.controller(MAIN, 0)), "it is worked on while it is held"
    world.kube.remove("RocketMQCluster", ELSEWHERE, SECOND)
    await world.passes(2)
    assert not world.has("RocketMQCluster", MAIN)
    assert not world.has("StatefulSet", names.controllers(MAIN))


async def test_controllers_that_are_being_deleted_take_no_new_user() -> None:
    world = SharedControllersWorld()
    await world.settle_clusters()
    world.kube.remove("RocketMQCluster", NAMESPACE, MAIN)
    world.second = "third"
    world.write_second({})
    await world.passes()
    assert world.condition_there("Ready")[2] == "RocketMQCluster shop/main is being deleted"


async def test_a_cluster_that_nobody_names_goes_at_once() -> None:
    world = SharedControllersWorld()
    await world.settle_clusters()
    world.kube.remove("RocketMQCluster", NAMESPACE, SECOND)
    await world.passes(2)
    assert "finalizers" not in world.get("RocketMQCluster", MAIN)["metadata"]
    world.kube.remove("RocketMQCluster", NAMESPACE, MAIN)
    assert not world.has("RocketMQCluster", MAIN)
