"""A Secret that the operator has no right to read: it says so, and changes nothing."""

import pytest

from rocketmq_operator.clients.api import Json, RequestRefusedError
from testkit.worlds.operator import OperatorWorld


@pytest.mark.parametrize(
    ("cluster", "refused"),
    [
        ({}, "main-controller-token"),
        ({"authentication": {"type": "Signature"}}, "main-broker-credentials"),
    ],
)
async def test_a_cluster_that_the_chart_does_not_list_is_told_and_left_alone(
    cluster: Json, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OperatorWorld({}, cluster)
    get = world.kube.get

    async def get_unless_secret(kind: str, namespace: str, name: str) -> Json | None:
        if (kind, name) == ("Secret", refused):
            raise RequestRefusedError("Secret: 403 Forbidden")
        return await get(kind, namespace, name)

    monkeypatch.setattr(world.kube, "get", get_unless_secret)
    for _ in range(3):
        await world.one_pass()
    assert world.condition("Ready", "RocketMQCluster", "main") == ("False", "SecretNotAllowed")
    assert not world.has("StatefulSet", "main-controller")
