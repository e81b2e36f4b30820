"""The operator replaces the super user of a cluster in memory: Secret, brokers, pods, Events, crashes."""

import base64
from typing import Any

import pytest

from controller_core.access.signing import Credentials
from rocketmq_operator.api.names import ROTATE_ANNOTATION, SIGNER_ANNOTATION
from rocketmq_operator.plan.credentials.rotation import account_of
from testkit.memory.kubernetes import CrashError
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
SECRET = "main-broker-credentials"  # noqa: S105 - a name
CLUSTER = ("RocketMQCluster", "main")
USERS: Json = {"authentication": {"type": "Signature"}, "proxy": {"mode": "Cluster"}}
WRITES_MAX = 40


def secret(world: OperatorWorld) -> dict[str, str]:
    data = world.get("Secret", SECRET)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def asked() -> OperatorWorld:
    """Return a settled cluster whose user a person wants replaced."""
    world = OperatorWorld({"logReplicas": 1}, USERS)
    await world.settle()
    await world.settle()  # proxies come after brokers
    first = account_of(Credentials("rocketmq-ha", secret(world)["password"]))
    for address in await addresses(world):
        world.brokers.tables[address] = {("User", "rocketmq-ha"): first}
    world.get(*CLUSTER)["metadata"].setdefault("annotations", {})[ROTATE_ANNOTATION] = "rocketmq-ha"
    return world.fork()


async def addresses(world: OperatorWorld) -> list[str]:
    group = await world.controllers.group("main", "orders")
    assert group is not None
    return [one["address"] for one in group["replicas"] if one["electable"]]


def known(world: OperatorWorld) -> set[str]:
    return {name for table in world.brokers.tables.values() for kind, name in table if kind == "User"}


def mark(world: OperatorWorld, kind: str, name: str) -> str | None:
    annotations: dict[str, str] = world.get(kind, name)["spec"]["template"]["metadata"]["annotations"]
    return annotations.get(SIGNER_ANNOTATION)


async def rotated(world: OperatorWorld) -> None:
    """Let the operator work, and time pass, until one user is left; brokers sign as their pods say."""
    for _ in range(60):
        await world.one_pass()
        if (signer := mark(world, "StatefulSet", "orders")) is not None:
            world.brokers.signers = dict.fromkeys(await addresses(world), signer)
        if len(secret(world)) == 2 and secret(world)["username"] != "rocketmq-ha":
            await world.settle()
            return
        world.advance(120)
    raise AssertionError(world.status(*CLUSTER)["conditions"])


async def test_brokers_and_proxies_are_replaced_and_the_former_user_goes_last() -> None:
    world = await asked()
    births = dict(world.kube.births)
    await rotated(world)
    assert secret(world)["username"] == "rocketmq-ha-2"
    assert known(world) == {"rocketmq-ha-2"}
    for kind, name in (("StatefulSet", "orders"), ("Deployment", "main-proxy")):
        assert mark(world, kind, name) == "rocketmq-ha-2", name
    for name in ("orders-log", "main-controller", "main-nameserver"):
        assert mark(world, "StatefulSet", name) is None, "it follows the files, or has none"
    again = {name: count - births[name] for name, count in world.kube.births.items() if births.get(name)}
    assert {name for name, count in again.items() if count} == {"orders-0", "orders-1"}
    assert world.condition("CredentialsCurrent", *CLUSTER) == ("True", "Current")
    reasons = [value["reason"] for (kind, _, _), value in world.kube.objects.items() if kind == "Event"]
    for reason in ("CredentialsPrepared", "CredentialsSwitched", "CredentialsRotated"):
        assert reasons.count(reason) == 1


async def test_a_killed_operator_leaves_a_rotation_to_the_next() -> None:
    before = await asked()
    whole = before.fork()
    await rotated(whole)
    writes = len([one for one in whole.kube.writes if SECRET in one])
    assert writes == 3
    for number in range(1, min(len(whole.kube.writes), WRITES_MAX) + 1):
        world = before.fork()
        world.kube.crash_after = number
        with pytest.raises(CrashError):
            await rotated(world)
        world.kube.crash_after = None
        await rotated(world)
        assert (secret(world)["username"], known(world)) == ("rocketmq-ha-2", {"rocketmq-ha-2"}), number
        assert world.kube.births == whole.kube.births, f"killed after {whole.kube.writes[number - 1]}"


async def test_a_group_that_hibernates_holds_a_rotation_back() -> None:
    world = await asked()
    world.write_group({"logReplicas": 1, "hibernated": True})
    for _ in range(5):
        await world.one_pass()
        world.advance(60)
    assert "nextUsername" in secret(world)
    condition = next(
        one for one in world.status(*CLUSTER)["conditions"] if one["type"] == "CredentialsCurrent"
    )
    assert (condition["status"], condition["reason"]) == ("False", "Rotating")
    assert "orders is hibernated" in condition["message"]
    assert known(world) == {"rocketmq-ha"}


async def test_without_users_nothing_rotates() -> None:
    world = OperatorWorld({})
    await world.settle()
    world.get(*CLUSTER)["metadata"].setdefault("annotations", {})[ROTATE_ANNOTATION] = "rocketmq-ha"
    await world.settle()
    assert not world.has("Secret", SECRET)
    assert all(one["type"] != "CredentialsCurrent" for one in world.status(*CLUSTER)["conditions"])
