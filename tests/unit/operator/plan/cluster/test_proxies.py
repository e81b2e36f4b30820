"""What the operator makes of `spec.proxy`, and the way between its forms.

The forms are pods of their own, a proxy in each broker, or nothing.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rocketmq_operator.api.names import CONFIG_HASH_ANNOTATION
from rocketmq_operator.api.proxy import OWNED_PROXY_KEYS
from rocketmq_operator.plan.common import names
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
OF_PROXIES = ("Deployment", "Service", "PodDisruptionBudget", "ConfigMap")
CONF = f"{names.CONFIG_PATH}/rmq-proxy.json"
GRPC = {"name": "grpc", "port": 8081, "targetPort": 8081, "protocol": "TCP"}


async def _settled(mode: str, **proxy: object) -> OperatorWorld:
    world = OperatorWorld({"logReplicas": 1}, {"proxy": {"mode": mode, **proxy}})
    await world.settle()
    await world.settle()  # proxies come after brokers
    world.kube.writes.clear()
    return world


def _proxy_ready(world: OperatorWorld) -> tuple[str, str]:
    return world.condition("ProxyReady", "RocketMQCluster", "main")


def _conf(world: OperatorWorld, config_map: str) -> Json:
    found: Json = json.loads(world.get("ConfigMap", config_map)["data"]["rmq-proxy.json"])
    return found


def _pod(world: OperatorWorld) -> Json:
    pod: Json = world.get("Deployment", "main-proxy")["spec"]["template"]["spec"]
    return pod


async def test_a_cluster_has_no_proxies_unless_it_is_asked_for_them() -> None:
    world = await _settled("None")
    assert [kind for kind in OF_PROXIES if world.has(kind, "main-proxy")] == []
    assert _proxy_ready(world) == ("False", "NotAsked")
    assert "rmq-proxy.json" not in world.get("ConfigMap", "orders")["data"]
    assert GRPC not in world.get("Service", "orders-0")["spec"]["ports"]


async def test_a_cluster_is_scaled_by_its_proxies() -> None:
    world = await _settled("Cluster", replicas=3)
    status = world.status("RocketMQCluster", "main")
    deployment = world.get("Deployment", "main-proxy")
    assert status["proxyReplicas"] == deployment["status"]["replicas"] == 3
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert dict(part.split("=") for part in status["proxySelector"].split(",")) == labels


async def test_a_cluster_whose_proxies_are_in_brokers_is_not_scaled() -> None:
    status = (await _settled("Local")).status("RocketMQCluster", "main")
    assert (status["proxyReplicas"], status["proxySelector"]) == (0, "")


async def test_proxies_of_their_own_come_when_a_broker_is_ready() -> None:
    world = OperatorWorld({}, {"proxy": {"mode": "Cluster"}})
    world.kube.unready |= {"orders-0", "orders-1"}
    for _ in range(3):
        await world.one_pass()
    assert not world.has("Deployment", "main-proxy")
    assert _proxy_ready(world) == ("False", "NoBroker")
    world.kube.unready.clear()
    world.kube.settle()
    await world.settle()
    await world.settle()
    assert _proxy_ready(world) == ("True", "Serving")
    assert world.status("RocketMQCluster", "main")["proxies"] == "2/2"


async def test_proxies_stay_when_all_brokers_have_gone() -> None:
    world = await _settled("Cluster")
    world.kube.unready |= {"orders-0", "orders-1"}
    world.kube.settle()
    await world.one_pass()
    assert world.has("Deployment", "main-proxy")
    assert _proxy_ready(world) == ("True", "Serving")


async def test_a_cluster_whose_proxies_are_not_ready_says_so_and_is_ready_all_the_same() -> None:
    world = await _settled("Cluster")
    world.kube.unready.add("main-proxy")
    world.kube.settle()
    await world.one_pass()
    assert _proxy_ready(world) == ("False", "NoProxy")
    assert world.condition("Ready", "RocketMQCluster", "main") == ("True", "Serving")


async def test_clients_find_proxies_that_are_ready_by_one_service() -> None:
    world = await _settled("Cluster")
    spec = world.get("Service", "main-proxy")["spec"]
    assert "publishNotReadyAddresses" not in spec
    template = world.get("Deployment", "main-proxy")["spec"]["template"]
    assert spec["selector"].items() <= template["metadata"]["labels"].items()
    assert [port["port"] for port in spec["ports"]] == [8081, 8080]
    budget = world.get("PodDisruptionBudget", "main-proxy")["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": spec["selector"]}}


async def test_proxies_know_their_cluster_and_its_name_servers_without_dns() -> None:
    world = await _settled("Cluster")
    conf = _conf(world, "main-proxy")
    hosts = {host: alias["ip"] for alias in _pod(world)["hostAliases"] for host in alias["hostnames"]}
    assert set(hosts) == {address.partition(":")[0] for address in conf["namesrvAddr"].split(";")}
    for host, address in hosts.items():
        assert address == world.get("Service", names.pod_of(host))["spec"]["clusterIP"]
    assert (conf["rocketMQClusterName"], conf["proxyMode"]) == ("main", "cluster")
    assert conf["remotingAccessAddr"] == "main-proxy.shop.svc", "a proxy that is replaced has another address"


async def test_proxies_are_made_when_the_addresses_of_name_servers_are_known() -> None:
    world = OperatorWorld({}, {"proxy": {"mode": "Cluster"}})
    world.kube.without_address.add("main-nameserver-1")
    for _ in range(3):
        await world.one_pass()
    assert not world.has("Deployment", "main-proxy")


async def test_a_proxys_pod_is_restricted_probed_and_apart_from_others() -> None:
    pod = _pod(await _settled("Cluster"))
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["tcpSocket"] == {"port": 8081}
    (rule,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert rule["podAffinityTerm"]["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "proxy"


@pytest.mark.parametrize(("mode", "owner"), [("Cluster", "main-proxy"), ("Local", "orders")])
async def test_a_setting_of_a_person_reaches_proxies_and_changes_their_pods(mode: str, owner: str) -> None:
    def pods_hash(world: OperatorWorld) -> str:
        kind = "Deployment" if mode == "Cluster" else "StatefulSet"
        annotations: dict[str, str] = world.get(kind, owner)["spec"]["template"]["metadata"]["annotations"]
        return annotations[CONFIG_HASH_ANNOTATION]

    world = await _settled(mode)
    before = pods_hash(world)
    world.write_cluster({"proxy": {"mode": mode, "config": {"grpcThreadPoolNums": "8"}}})
    await world.settle()
    assert _conf(world, owner)["grpcThreadPoolNums"] == "8"
    assert pods_hash(world) != before


@pytest.mark.parametrize(("mode", "config_map"), [("Cluster", "main-proxy"), ("Local", "orders")])
async def test_a_persons_key_wins_over_a_tuned_one_and_every_owned_key_but_the_brokers_is_written(
    mode: str, config_map: str
) -> None:
    tuned = {"Cluster": "useEndpointPortFromRequest", "Local": "grpcShutdownTimeSeconds"}[mode]
    assert tuned in _conf(await _settled(mode), config_map)
    conf = _conf(await _settled(mode, config={tuned: "changed"}), config_map)
    assert conf[tuned] == "changed"
    of_users = ("auth", "enableacl", "innerclient")
    with_users = {key for key in OWNED_PROXY_KEYS if key.lower().startswith(of_users)}
    assert set(OWNED_PROXY_KEYS) - conf.keys() - with_users == {"brokerConfigPath"}, "its start script's"


async def test_a_proxy_in_each_broker_is_met_at_the_brokers_address_and_taken_over_with_it() -> None:
    world = await _settled("Local")
    assert not world.has("Deployment", "main-proxy")
    for broker in ("orders-0", "orders-1"):
        assert GRPC in world.get("Service", broker)["spec"]["ports"]
        assert 8081 in [port["port"] for port in world.get("EndpointSlice", broker)["ports"]]
    assert GRPC not in world.get("Service", "orders-log-0")["spec"]["ports"]
    (container,) = world.get("StatefulSet", "orders")["spec"]["template"]["spec"]["containers"]
    assert {"name": "grpc", "containerPort": 8081} in container["ports"]
    assert _conf(world, "orders")["proxyMode"] == "local"
    assert _proxy_ready(world) == ("True", "Serving")


async def test_clients_begin_at_any_broker_of_the_cluster_that_is_ready() -> None:
    world = await _settled("Local")
    spec = world.get("Service", "main-proxy")["spec"]
    brokers = world.get("StatefulSet", "orders")["spec"]["template"]["metadata"]["labels"]
    logs = world.get("StatefulSet", "orders-log")["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"].items() <= brokers.items()
    assert not spec["selector"].items() <= logs.items()
    assert spec["ports"] == [GRPC]


async def test_brokers_get_a_proxy_one_after_the_other_and_their_addresses_its_port() -> None:
    world = await _settled("None")
    births = dict(world.kube.births)
    world.write_cluster({"proxy": {"mode": "Local"}})
    await world.settle()
    for broker in ("orders-0", "orders-1"):
        assert world.kube.births[broker] == births[broker] + 1
        assert 8081 in [port["port"] for port in world.get("EndpointSlice", broker)["ports"]]
    assert world.kube.births["orders-log-0"] == births["orders-log-0"]


@pytest.mark.parametrize("mode", ["None", "Local"])
async def test_what_belonged_to_proxies_of_their_own_goes_with_them(mode: str) -> None:
    world = await _settled("Cluster")
    assert [kind for kind in OF_PROXIES if world.has(kind, "main-proxy")] == list(OF_PROXIES)
    world.write_cluster({"proxy": {"mode": mode}})
    await world.settle()
    kept = ["Service"] if mode == "Local" else []
    assert [kind for kind in OF_PROXIES if world.has(kind, "main-proxy")] == kept
    assert world.has("ConfigMap", "main-nameserver")
    assert world.status("RocketMQCluster", "main")["proxies"] == ""


async def test_a_settled_cluster_with_proxies_is_left_alone() -> None:
    world = await _settled("Cluster")
    world.advance(60)
    await world.one_pass()
    assert world.kube.writes == []


def _started(script: str, tmp_path: Path, config: dict[str, str], env: dict[str, str]) -> list[str]:
    """Run a start script with every path below a folder; return the program it starts, with arguments."""
    for path in (names.CONFIG_PATH, names.SCRATCH_PATH):
        (tmp_path / path[1:]).mkdir(parents=True, exist_ok=True)
    for name, text in config.items():
        (tmp_path / names.CONFIG_PATH[1:] / name).write_text(text)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mqproxy", "mqbroker"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
    script = script.replace(
        f"{names.SCRATCH_PATH}/broker.conf", f"{tmp_path}{names.SCRATCH_PATH}/broker.conf"
    )
    script = script.replace(f"{names.CONFIG_PATH}/", f"{tmp_path}{names.CONFIG_PATH}/")
    environment = {"PATH": "/usr/bin:/bin", "ROCKETMQ_HOME": str(tmp_path)} | env
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.replace(str(tmp_path), "").split()


async def test_a_proxy_of_its_own_is_started_with_its_file(tmp_path: Path) -> None:
    data = (await _settled("Cluster")).get("ConfigMap", "main-proxy")["data"]
    assert _started(data["start.sh"], tmp_path, {}, {}) == ["mqproxy", "-pc", CONF]


async def test_a_broker_with_a_proxy_inside_is_started_with_the_files_of_both(tmp_path: Path) -> None:
    data = (await _settled("Local")).get("ConfigMap", "orders")["data"]
    started = _started(
        data["start-broker.sh"], tmp_path, data, {"POD_NAME": "orders-1", "POD_IP": "10.9.8.7"}
    )
    assert started == ["mqproxy", "-bc", f"{names.SCRATCH_PATH}/broker.conf", "-pc", CONF]
