"""A Secret that the operator has no right to read: it says so, and changes nothing."""

import pytest

from rocketmq_operator.clients.api import Json, RequestRefusedError
from testkit.worlds.operator import OperatorWorld


async def test_a_cluster_that_the_chart_does_not_list_is_told_and_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = OperatorWorld({})
    get = world.kube.get

    async def get_unless_secret(kind: str, namespace: str, name: str) -> Json | None:
        if kind == "Secret":
            raise RequestRefusedError("Secret: 403 Forbidden")
        return await get(kind, namespace, name)

    monkeypatch.setattr(world.kube, "get", get_unless_secret)
    await world.settle()
    assert world.condition("Ready", "RocketMQCluster", "main") == ("False", "SecretNotAllowed")
    assert not world.has("StatefulSet", "main-controller")
