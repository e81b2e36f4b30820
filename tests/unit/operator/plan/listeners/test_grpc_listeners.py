"""Listeners whose clients speak gRPC: a Service before the proxies, and what the status says of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
PROXIES: Json = {"proxy": {"mode": "Cluster"}}
NODE_PORT: Json = {"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}
GRPC: Json = {"protocols": ["GRPC"]}
BOTH: Json = {"protocols": ["Remoting", "GRPC"]}


async def _settled(*listeners: Json) -> OperatorWorld:
    world = OperatorWorld({"logReplicas": 1}, PROXIES | {"listeners": list(listeners)})
    for _ in range(3):
        await world.settle()
    return world


def _cluster(world: OperatorWorld) -> Json:
    return world.status("RocketMQCluster", "main")


def _ready(world: OperatorWorld) -> tuple[str, str]:
    return world.condition("ListenersReady", "RocketMQCluster", "main")


async def _open(world: OperatorWorld, node_ports: dict[str, int]) -> None:
    for name, number in node_ports.items():
        world.get("Service", name)["spec"]["ports"][0]["nodePort"] = number
    await world.settle()


async def test_a_listener_for_grpc_leads_to_the_proxies_and_has_nothing_of_remoting() -> None:
    world = await _settled(NODE_PORT | GRPC)
    service = world.get("Service", "main-proxy-outside")["spec"]
    assert (service["type"], service["externalTrafficPolicy"]) == ("NodePort", "Cluster")
    assert service["ports"] == [{"name": "grpc", "port": 8081, "targetPort": 8081, "protocol": "TCP"}]
    template = world.get("Deployment", "main-proxy")["spec"]["template"]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    names = {name for _, _, name in world.kube.objects}
    assert not names & {"main-front-outside", "orders-0-outside"}
    assert _ready(world) == ("False", "NoListenerAddress")
    await _open(world, {"main-proxy-outside": 30_081})
    assert _ready(world) == ("True", "Serving")
    listener = next(one for one in _cluster(world)["listeners"] if one["name"] == "outside")
    assert (listener["address"], listener["grpcAddress"]) == ("", "mq.example:30081")
    assert _cluster(world)["addresses"] == "outside gRPC mq.example:30081"
    bootstrap = world.get("ConfigMap", "main-bootstrap")["data"]
    assert bootstrap["listener.outside.grpcEndpoints"] == "mq.example:30081"
    assert "listener.outside.namesrvAddr" not in bootstrap


async def test_a_listener_for_both_has_both() -> None:
    proxy = {"nodePort": 30_081, "advertisedHost": "grpc.example"}
    world = await _settled(NODE_PORT | BOTH | {"proxy": proxy})
    assert world.get("Service", "main-proxy-outside")["spec"]["ports"][0]["nodePort"] == 30_081
    ports = {"main-front-outside": 30_000, "orders-0-outside": 30_001, "orders-1-outside": 30_002}
    await _open(world, ports)
    assert _cluster(world)["addresses"] == "outside mq.example:30000 gRPC grpc.example:30081"
    assert _ready(world) == ("True", "Serving")


async def test_the_service_goes_with_the_protocol() -> None:
    world = await _settled(NODE_PORT | BOTH)
    world.write_cluster(PROXIES | {"listeners": [NODE_PORT]})
    await world.settle()
    assert not world.has("Service", "main-proxy-outside")
    assert world.has("Service", "main-front-outside")
    assert world.has("Service", "main-proxy")


async def test_proxies_answer_with_the_port_that_the_client_used() -> None:
    world = await _settled(NODE_PORT | GRPC)
    conf = world.get("ConfigMap", "main-proxy")["data"]["rmq-proxy.json"]
    assert '"useEndpointPortFromRequest": "true"' in conf


@pytest.mark.parametrize("mode", ["None", "Local"])
def test_grpc_without_proxies_in_their_own_pods_is_refused_with_the_reason(mode: str) -> None:
    with pytest.raises(ValidationError, match=f"proxy.mode {mode}: proxies in brokers answer with addresses"):
        RocketMQClusterSpec.model_validate({"proxy": {"mode": mode}, "listeners": [NODE_PORT | GRPC]})


@pytest.mark.parametrize(
    ("listener", "is_accepted"),
    [
        ({"proxy": {"advertisedPort": 9}}, True),
        ({"routeFront": {"advertisedPort": 9}}, False),
        ({}, False),
    ],
)
def test_an_external_listener_for_grpc_needs_the_port_of_the_proxies(
    listener: Json, is_accepted: bool
) -> None:
    external = {"name": "gate", "type": "External", "advertisedHost": "a"} | GRPC | listener
    spec = PROXIES | {"listeners": [external]}
    if is_accepted:
        RocketMQClusterSpec.model_validate(spec)
        return
    with pytest.raises(ValidationError, match="in proxy for GRPC"):
        RocketMQClusterSpec.model_validate(spec)
