"""What the operator makes of `spec.listeners`: Services, their slices, route fronts, the status."""

import json
from typing import Any

import pytest

from rocketmq_operator.api.names import LISTENER_LABEL
from rocketmq_operator.plan.common import names
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
NODE_PORT: Json = {"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}
BALANCED: Json = {"name": "public", "type": "LoadBalancer"}
EXTERNAL: Json = {
    "name": "gate",
    "type": "External",
    "advertisedHost": "gate.example",
    "routeFront": {"advertisedPort": 9000},
    "brokers": [
        {"name": "orders-0", "advertisedPort": 9001},
        {"name": "orders-1", "advertisedHost": "fd00::7", "advertisedPort": 9002},
    ],
}
REMOTING: Json = {"name": "remoting", "port": 10911, "targetPort": 10911, "protocol": "TCP"}
OF_FRONT = ("Deployment", "Service", "PodDisruptionBudget", "ConfigMap")


async def _settled(*listeners: Json, group: Json | None = None) -> OperatorWorld:
    world = OperatorWorld({"logReplicas": 1} | (group or {}), {"listeners": list(listeners)})
    await world.settle()
    await world.settle()
    return world


def _open_node_ports(world: OperatorWorld) -> None:
    """Give each Service of type NodePort a port, as the API server does."""
    services = sorted(
        name
        for (kind, _, name), value in world.kube.objects.items()
        if kind == "Service" and value["spec"].get("type") == "NodePort"
    )
    for number, name in enumerate(services):
        for port in world.get("Service", name)["spec"]["ports"]:
            port.setdefault("nodePort", 30_000 + number)


def _addresses(world: OperatorWorld, listener: str) -> dict[str, str]:
    """Return where clients of a listener reach a broker, by the broker's name."""
    text = world.get("ConfigMap", f"main-front-{listener}")["data"]["addresses.json"]
    by_ip = {world.get("Service", f"orders-{n}")["spec"]["clusterIP"]: f"orders-{n}" for n in range(2)}
    return {by_ip[inside.partition(":")[0]]: outside for inside, outside in json.loads(text).items()}


def _status(world: OperatorWorld, name: str) -> Json:
    found: list[Json] = world.status("RocketMQCluster", "main")["listeners"]
    return next(one for one in found if one["name"] == name)


def _ready(world: OperatorWorld) -> tuple[str, str]:
    return world.condition("ListenersReady", "RocketMQCluster", "main")


async def test_a_cluster_without_listeners_has_nothing_of_them_and_names_the_address_inside() -> None:
    world = await _settled()
    assert _ready(world) == ("False", "NotAsked")
    assert [
        key
        for key, value in world.kube.objects.items()
        if LISTENER_LABEL in value["metadata"].get("labels", {})
    ] == []
    assert world.status("RocketMQCluster", "main")["listeners"] == [
        {
            "name": "internal",
            "type": "ClusterIP",
            "address": names.name_server_addresses("main", "shop", 2),
            "grpcAddress": "",
            "brokers": "",
            "routeFronts": "",
        }
    ]


async def test_each_broker_has_a_service_of_each_listener_and_no_log_replica_has_one() -> None:
    world = await _settled(
        NODE_PORT, BALANCED | {"sourceRanges": ["192.0.2.0/24"], "loadBalancerClass": "x/y"}
    )
    for broker in ("orders-0", "orders-1"):
        spec = world.get("Service", f"{broker}-outside")["spec"]
        assert "selector" not in spec
        assert (spec["type"], spec["externalTrafficPolicy"], spec["ports"]) == (
            "NodePort",
            "Cluster",
            [REMOTING],
        )
        spec = world.get("Service", f"{broker}-public")["spec"]
        assert (spec["type"], spec["loadBalancerClass"]) == ("LoadBalancer", "x/y")
        assert spec["loadBalancerSourceRanges"] == ["192.0.2.0/24"]
    assert not world.has("Service", "orders-log-0-outside")


async def test_fixed_ports_and_annotations_reach_the_services() -> None:
    listener = NODE_PORT | {
        "annotations": {"example.com/pool": "a"},
        "routeFront": {"nodePort": 30_100},
        "brokers": [{"name": "orders-0", "nodePort": 30_101}],
    }
    world = await _settled(listener)
    ports = {
        name: world.get("Service", name)["spec"]["ports"][0].get("nodePort")
        for name in ("main-front-outside", "orders-0-outside", "orders-1-outside")
    }
    assert ports == {"main-front-outside": 30_100, "orders-0-outside": 30_101, "orders-1-outside": None}
    for name in ports:
        assert world.get("Service", name)["metadata"]["annotations"]["example.com/pool"] == "a"


async def test_a_takeover_moves_the_addresses_of_all_listeners_with_the_one_inside() -> None:
    world = await _settled(NODE_PORT, BALANCED)
    slices = ("orders-0", "orders-0-outside", "orders-0-public")
    assert [world.server_of(name) for name in slices] == ["orders-0"] * 3
    for name in slices[1:]:
        labels = world.get("EndpointSlice", name)["metadata"]["labels"]
        assert labels["kubernetes.io/service-name"] == name
    world.kube.unready.add("orders-0")
    world.kube.settle()
    await world.one_pass()
    assert [world.server_of(name) for name in slices] == ["orders-1"] * 3


async def test_clients_of_node_ports_get_the_advertised_host_and_the_port_that_kubernetes_opened() -> None:
    world = await _settled(NODE_PORT)
    assert _addresses(world, "outside") == {}
    assert _ready(world) == ("False", "NoListenerAddress")
    assert _status(world, "outside")["address"] == ""
    _open_node_ports(world)
    await world.settle()
    assert _addresses(world, "outside") == {"orders-0": "mq.example:30001", "orders-1": "mq.example:30002"}
    assert _status(world, "outside") == {
        "name": "outside",
        "type": "NodePort",
        "address": "mq.example:30000",
        "grpcAddress": "",
        "brokers": "2/2",
        "routeFronts": "2/2",
    }
    assert _ready(world) == ("True", "Serving")
    assert world.status("RocketMQCluster", "main")["addresses"] == "outside mq.example:30000"


async def test_clients_of_load_balancers_get_what_those_gave_unless_the_listener_says_otherwise() -> None:
    listener = BALANCED | {
        "brokers": [{"name": "orders-1", "advertisedHost": "b.example", "advertisedPort": 7}]
    }
    world = await _settled(listener)
    for name, given in (
        ("main-front-public", {"ip": "203.0.113.9"}),
        ("orders-0-public", {"hostname": "a.lb"}),
    ):
        world.get("Service", name)["status"] = {"loadBalancer": {"ingress": [given]}}
    await world.settle()
    assert _addresses(world, "public") == {"orders-0": "a.lb:10911", "orders-1": "b.example:7"}
    assert _status(world, "public")["address"] == "203.0.113.9:9876"


async def test_external_addresses_need_no_services_for_brokers() -> None:
    world = await _settled(EXTERNAL)
    assert not world.has("Service", "orders-0-gate")
    assert world.get("Service", "main-front-gate")["spec"]["type"] == "ClusterIP"
    assert _addresses(world, "gate") == {"orders-0": "gate.example:9001", "orders-1": "[fd00::7]:9002"}
    assert _status(world, "gate")["address"] == "gate.example:9000"
    assert _ready(world) == ("True", "Serving")


async def test_a_broker_without_an_external_address_is_not_offered_and_the_condition_says_so() -> None:
    world = await _settled(EXTERNAL | {"brokers": EXTERNAL["brokers"][:1]})
    assert _addresses(world, "gate") == {"orders-0": "gate.example:9001"}
    assert _ready(world) == ("False", "NoListenerAddress")
    conditions = world.status("RocketMQCluster", "main")["conditions"]
    message = next(one["message"] for one in conditions if one["type"] == "ListenersReady")
    assert message == (
        "listener gate: 1 of 2 brokers have an address; spec.listeners[gate].brokers must name each of them"
    )


async def test_a_route_front_runs_twice_restricted_and_knows_all_name_servers_without_dns() -> None:
    world = await _settled(NODE_PORT)
    deployment = world.get("Deployment", "main-front-outside")["spec"]
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    servers = names.name_server_addresses("main", "shop", 2)
    assert container["command"] == [
        *("controller-core", "route-front", "--name-servers", servers),
        *("--addresses", f"{names.CONFIG_PATH}/addresses.json"),
    ]
    hosts = {host for alias in pod["hostAliases"] for host in alias["hostnames"]}
    assert hosts == {address.partition(":")[0] for address in servers.split(";")}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 9883}
    selector = world.get("Service", "main-front-outside")["spec"]["selector"]
    assert selector.items() <= deployment["template"]["metadata"]["labels"].items()


async def test_new_addresses_do_not_restart_route_fronts() -> None:
    world = await _settled(NODE_PORT)
    before = world.get("Deployment", "main-front-outside")["spec"]
    _open_node_ports(world)
    await world.settle()
    assert world.get("Deployment", "main-front-outside")["spec"] == before


async def test_no_pod_of_a_broker_or_controller_depends_on_listeners() -> None:
    world = await _settled()
    births = dict(world.kube.births)
    world.write_cluster({"listeners": [NODE_PORT, BALANCED]})
    await world.settle()
    assert {pod: world.kube.births[pod] for pod in births} == births


async def test_what_belonged_to_a_listener_goes_with_it_and_the_other_one_stays() -> None:
    world = await _settled(NODE_PORT, BALANCED)
    world.write_cluster({"listeners": [BALANCED]})
    await world.settle()
    assert [kind for kind in OF_FRONT if world.has(kind, "main-front-outside")] == []
    assert [kind for kind in ("Service", "EndpointSlice") if world.has(kind, "orders-0-outside")] == []
    assert all(world.has(kind, "main-front-public") for kind in OF_FRONT)
    assert world.has("EndpointSlice", "orders-0-public")
    assert world.has("Service", "main-nameserver")


async def test_a_foreign_service_with_the_name_of_a_listeners_one_is_left_alone() -> None:
    world = await _settled()
    world.kube.put(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "orders-0-outside", "namespace": "shop", "labels": {"app": "theirs"}},
            "spec": {"clusterIP": "10.0.0.200", "ports": []},
        }
    )
    world.write_cluster({"listeners": [NODE_PORT]})
    for _ in range(4):
        await world.one_pass()
    assert world.get("Service", "orders-0-outside")["metadata"]["labels"] == {"app": "theirs"}
    assert world.condition("Progressing")[1] == "NameTaken"


async def test_application_pods_find_all_known_addresses_in_one_config_map() -> None:
    world = await _settled(NODE_PORT, EXTERNAL)
    servers = names.name_server_addresses("main", "shop", 2)
    known = {
        "type": "rocketmq",
        "provider": "rocketmq-ha-operator",
        "namesrvAddr": servers,
        "listener.gate.namesrvAddr": "gate.example:9000",
    }
    assert world.get("ConfigMap", "main-bootstrap")["data"] == known
    _open_node_ports(world)
    await world.settle()
    known |= {"listener.outside.namesrvAddr": "mq.example:30000"}
    assert world.get("ConfigMap", "main-bootstrap")["data"] == known
    world.write_cluster({"proxy": {"mode": "Cluster"}})
    await world.settle()
    data = world.get("ConfigMap", "main-bootstrap")["data"]
    assert data["grpcEndpoints"] == "main-proxy.shop.svc:8081"
    assert [key for key in data if key.startswith("listener.")] == []


async def test_a_settled_cluster_with_listeners_is_left_alone() -> None:
    world = await _settled(NODE_PORT, EXTERNAL)
    _open_node_ports(world)
    await world.settle()
    world.kube.writes.clear()
    world.advance(60)
    await world.one_pass()
    assert world.kube.writes == []


@pytest.mark.parametrize("replicas", [3])
async def test_a_broker_that_is_added_gets_its_addresses(replicas: int) -> None:
    world = await _settled(NODE_PORT)
    world.write_group({"logReplicas": 1, "replicas": replicas})
    await world.settle()
    assert world.server_of("orders-2-outside") == "orders-2"
