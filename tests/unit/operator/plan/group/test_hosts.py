"""A group's pods find controllers and name servers without DNS: a failover may take DNS with it."""

from typing import Any

import pytest

from rocketmq_operator.plan.common import names
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
SETS = ("orders", "orders-log")


async def _settled() -> OperatorWorld:
    world = OperatorWorld({"logReplicas": 1})
    await world.settle()
    world.kube.writes.clear()
    return world


def _aliases(world: OperatorWorld, stateful_set: str) -> dict[str, str]:
    pod: Json = world.get("StatefulSet", stateful_set)["spec"]["template"]["spec"]
    return {host: alias["ip"] for alias in pod["hostAliases"] for host in alias["hostnames"]}


def _hosts_configured(world: OperatorWorld) -> set[str]:
    conf = dict(
        line.split("=", 1) for line in world.get("ConfigMap", "orders")["data"]["broker.conf"].splitlines()
    )
    return {
        address.partition(":")[0]
        for key in ("controllerAddr", "namesrvAddr")
        for address in conf[key].split(";")
    }


@pytest.mark.parametrize("stateful_set", SETS)
async def test_pods_know_the_address_of_every_host_that_they_are_configured_with(stateful_set: str) -> None:
    world = await _settled()
    aliases = _aliases(world, stateful_set)
    assert set(aliases) == _hosts_configured(world)
    for host, address in aliases.items():
        assert address == world.get("Service", names.pod_of(host))["spec"]["clusterIP"]


async def test_controllers_know_each_others_addresses() -> None:
    world = await _settled()
    assert _aliases(world, "main-controller") == {
        names.pod_host("main-controller", n, "shop"): world.get("Service", f"main-controller-{n}")["spec"][
            "clusterIP"
        ]
        for n in range(names.CONTROLLERS_MAX)
    }


async def test_such_an_address_leads_to_one_pod_ready_or_not() -> None:
    world = await _settled()
    for pod in (
        *(f"main-controller-{n}" for n in range(names.CONTROLLERS_MAX)),
        "main-nameserver-0",
        "main-nameserver-1",
    ):
        spec = world.get("Service", pod)["spec"]
        assert spec["selector"] == {"statefulset.kubernetes.io/pod-name": pod}
        assert spec["publishNotReadyAddresses"] is True


async def test_no_pod_is_made_before_the_addresses_are_known() -> None:
    world = OperatorWorld()
    world.kube.without_address.add("main-controller-1")
    for _ in range(40):
        await world.one_pass()
    assert not world.has("StatefulSet", "orders")
    assert not world.has("StatefulSet", "main-controller")
    assert "Service main-controller-1 has no ClusterIP yet" in world.status()["plan"]["waitingFor"]
    world.kube.without_address.clear()
    world.kube.settle()
    await world.settle()
    assert world.has("StatefulSet", "orders")


async def test_a_service_that_is_gone_for_a_moment_restarts_nobody() -> None:
    world = await _settled()
    before = world.get("StatefulSet", "orders")["spec"]["template"]
    del world.kube.objects["Service", "shop", "main-controller-1"]
    world.write_cluster({"paused": True})
    for _ in range(3):
        await world.one_pass()
    assert world.get("StatefulSet", "orders")["spec"]["template"] == before


async def test_a_name_server_more_or_less_comes_and_goes_with_its_service() -> None:
    world = await _settled()
    world.write_cluster({"nameServers": {"replicas": 3}})
    await world.settle()
    assert names.pod_host("main-nameserver", 2, "shop") in _aliases(world, "orders")
    world.write_cluster({"nameServers": {"replicas": 1}})
    await world.settle()
    assert world.has("Service", "main-nameserver-0")
    assert not world.has("Service", "main-nameserver-1")
    assert not world.has("Service", "main-nameserver-2")
    assert set(_aliases(world, "orders")) == _hosts_configured(world)
