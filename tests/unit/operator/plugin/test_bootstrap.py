"""`kubectl rmqha bootstrap`: the addresses that applications use, from the status of clusters."""

import pytest

from rocketmq_operator.plugin.addresses import bootstrap
from rocketmq_operator.plugin.queries import RequestError
from testkit.worlds.operator import OperatorWorld

LISTENER = {"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}
SERVERS = "main-nameserver-0.main-nameserver.shop.svc:9876;main-nameserver-1.main-nameserver.shop.svc:9876"


async def _world() -> OperatorWorld:
    world = OperatorWorld({}, {"listeners": [LISTENER]})
    await world.settle()
    await world.settle()
    return world


@pytest.mark.parametrize("name", ["main", None])
async def test_each_listener_has_a_line_and_an_unknown_address_is_a_dash(name: str | None) -> None:
    found = await bootstrap((await _world()).kube, "shop", name)
    assert [line.split() for line in found.lines] == [
        ["CLUSTER", "LISTENER", "TYPE", "BROKERS", "ADDRESS", "GRPC"],
        ["main", "internal", "ClusterIP", "-", SERVERS, "-"],
        ["main", "outside", "NodePort", "0/2", "-", "-"],
    ]
    (cluster,) = found.data
    assert cluster["cluster"] == "main"
    assert [one["name"] for one in cluster["listeners"]] == ["internal", "outside"]


async def test_a_cluster_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(RequestError, match="RocketMQCluster other does not exist in namespace shop"):
        await bootstrap((await _world()).kube, "shop", "other")
