"""Services of IPv4, IPv6 and both: what brokers announce, and the slices of both families in a takeover."""

from typing import Any

import pytest

from rocketmq_operator.handlers.observing.clusters_and_groups import observe_group
from rocketmq_operator.handlers.takeover import Takeover
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]

BOTH = ("IPv4", "IPv6")
V6_FIRST = ("IPv6", "IPv4")
DUAL: Json = {"ipFamilyPolicy": "PreferDualStack"}
LISTENER: Json = {"name": "outside", "type": "NodePort", "advertisedHost": "2001:db8::7"}
CLIENTS = ("orders-0", "orders-0-outside")


async def _settled(
    families: tuple[str, ...], cluster: Json | None = None, group: Json | None = None
) -> OperatorWorld:
    world = OperatorWorld({"logReplicas": 1} | (group or {}), cluster)
    world.kube.families = families
    await world.settle()
    return world


def _slices(world: OperatorWorld) -> dict[str, tuple[str, list[str]]]:
    """Return type and addresses of each slice."""
    return {
        name: (
            value["addressType"],
            [one for each in value.get("endpoints", []) for one in each["addresses"]],
        )
        for (kind, _, name), value in sorted(world.kube.objects.items())
        if kind == "EndpointSlice"
    }


def _pod_addresses(world: OperatorWorld, pod: str) -> list[str]:
    status = world.get("Pod", pod)["status"]
    return [one["ip"] for one in status["podIPs"]]


def _announced(world: OperatorWorld) -> dict[str, str]:
    lines = world.get("ConfigMap", "orders")["data"]["addresses"].splitlines()
    return dict(line.split("=") for line in lines)


async def test_services_of_a_cluster_without_a_policy_ask_for_no_family() -> None:
    world = await _settled(("IPv4",))
    specs = [value["spec"] for (kind, *_), value in world.kube.objects.items() if kind == "Service"]
    assert specs
    assert [key for spec in specs for key in spec if key.startswith("ipFam")] == []
    assert set(_slices(world)) == {"orders-0", "orders-1"}


@pytest.mark.parametrize(
    ("policy", "asked", "families", "given"),
    [
        ("SingleStack", [], BOTH, ["IPv4"]),
        ("SingleStack", ["IPv6"], BOTH, ["IPv6"]),
        ("PreferDualStack", [], ("IPv4",), ["IPv4"]),
        ("PreferDualStack", [], BOTH, ["IPv4", "IPv6"]),
        ("RequireDualStack", [], BOTH, ["IPv4", "IPv6"]),
        ("RequireDualStack", ["IPv4", "IPv6"], V6_FIRST, ["IPv4", "IPv6"]),
    ],
)
async def test_all_services_of_a_cluster_and_its_groups_have_the_families_of_the_spec(
    policy: str, asked: list[str], families: tuple[str, ...], given: list[str]
) -> None:
    spec: Json = {"ipFamilyPolicy": policy, "listeners": [LISTENER], "proxy": {"mode": "Cluster"}}
    spec |= {"ipFamilies": asked} if asked else {}
    world = await _settled(families, spec, {"learners": {"count": 1}})
    await world.settle()
    services = {
        name: value["spec"] for (kind, _, name), value in world.kube.objects.items() if kind == "Service"
    }
    assert {"orders", "orders-0", "orders-0-outside", "main-controller", "main-nameserver-0"} <= set(services)
    assert {name for name, one in services.items() if one["ipFamilyPolicy"] != policy} == set()
    assert {name for name, one in services.items() if one["ipFamilies"] != given} == set()
    world.kube.writes.clear()
    await world.one_pass()
    assert world.kube.writes == [], "the spec and what Kubernetes made of it differ for ever"


async def test_both_slices_of_each_address_move_in_a_takeover() -> None:
    world = await _settled(BOTH, DUAL | {"listeners": [LISTENER]})
    first, second = _pod_addresses(world, "orders-0"), _pod_addresses(world, "orders-1")
    for client in CLIENTS:
        assert _slices(world)[client] == ("IPv4", first[:1])
        assert _slices(world)[f"{client}.ipv6"] == ("IPv6", first[1:])
        labels = world.get("EndpointSlice", f"{client}.ipv6")["metadata"]["labels"]
        assert labels["kubernetes.io/service-name"] == client
    world.kube.unready.add("orders-0")
    world.kube.settle()
    await world.one_pass()
    for client in CLIENTS:
        assert _slices(world)[client] == ("IPv4", second[:1])
        assert _slices(world)[f"{client}.ipv6"] == ("IPv6", second[1:])


async def test_the_short_way_of_a_takeover_moves_both_slices() -> None:
    world = await _settled(BOTH, DUAL)
    leader = Takeover(world.kube, lambda: True, lambda *_: None)
    observed = await observe_group(world.pass_context().environment, "shop", "orders")
    assert observed is not None
    leader.note_group(observed)
    world.kube.writes.clear()
    addresses = {name: f"{host}:10911" for name, host in _announced(world).items()}
    told: Json = {"cluster": "main", "group": "orders", "epoch": 2}
    await leader.on_event(
        "shop",
        told
        | {
            "kind": "MasterElected",
            "ts_ns": int(world.controllers.now.timestamp()) * 10**9,
            "attrs": {
                "cause": "ConnectionClosed",
                "old_master_address": addresses["orders-0"],
                "new_master_address": addresses["orders-1"],
                "new_master_id": "2",
                "sync_state_set_before": "1,2",
                "sync_state_set_after": "2",
            },
        },
    )
    await leader.on_event("shop", told | {"kind": "RoleTaken", "attrs": {}})
    assert world.kube.writes == ["apply EndpointSlice orders-0", "apply EndpointSlice orders-0.ipv6"]


async def test_brokers_of_an_ipv6_cluster_announce_addresses_in_brackets_and_fail_over() -> None:
    world = await _settled(("IPv6",))
    assert set(_slices(world)) == {"orders-0", "orders-1"}
    address = world.get("Service", "orders-0")["spec"]["clusterIP"]
    assert _announced(world)["orders-0"] == f"[{address}]"
    assert _slices(world)["orders-0"] == ("IPv6", [world.get("Pod", "orders-0")["status"]["podIP"]])
    aliases = world.get("StatefulSet", "orders")["spec"]["template"]["spec"]["hostAliases"]
    assert {one["ip"][:5] for one in aliases} == {"fd00:"}
    assert world.status()["master"]["name"] == "orders-0"
    world.kube.unready.add("orders-0")
    world.kube.settle()
    await world.one_pass()
    assert world.server_of("orders-0") == "orders-1"


async def test_a_second_family_comes_and_goes_while_the_first_address_stays() -> None:
    world = await _settled(BOTH, {"ipFamilyPolicy": "SingleStack"})
    before = world.get("Service", "orders-0")["spec"]["clusterIP"]
    births = dict(world.kube.births)
    world.write_cluster(DUAL)
    await world.settle()
    assert set(_slices(world)) == {"orders-0", "orders-0.ipv6", "orders-1", "orders-1.ipv6"}
    assert world.get("Service", "orders-0")["spec"]["clusterIPs"][0] == before
    world.write_cluster({"ipFamilyPolicy": "SingleStack"})
    await world.settle()
    assert set(_slices(world)) == {"orders-0", "orders-1"}
    assert world.kube.births == births, "no pod is restarted for it"


async def test_a_pod_without_an_address_of_the_family_has_an_empty_slice_of_it() -> None:
    world = await _settled(BOTH, DUAL)
    del world.get("Pod", "orders-0")["status"]["podIPs"]
    await world.one_pass()
    assert _slices(world)["orders-0.ipv6"] == ("IPv6", [])
    assert _slices(world)["orders-0"] == ("IPv4", [world.get("Pod", "orders-0")["status"]["podIP"]])


async def test_a_slice_of_a_removed_listener_goes_with_its_second_family() -> None:
    world = await _settled(BOTH, DUAL | {"listeners": [LISTENER]})
    world.write_cluster(DUAL)
    await world.settle()
    assert set(_slices(world)) == {"orders-0", "orders-0.ipv6", "orders-1", "orders-1.ipv6"}


async def test_a_family_that_kubernetes_has_not_is_told_in_the_status() -> None:
    world = OperatorWorld({}, {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]})
    for _ in range(3):
        await world.one_pass()
    condition = next(
        one for one in world.status("RocketMQCluster", "main")["conditions"] if one["type"] == "Progressing"
    )
    assert condition["reason"] == "StepRefused"
    assert '"IPv6": not configured on this cluster' in condition["message"]


async def test_clients_of_a_listener_get_addresses_of_ipv6_in_brackets() -> None:
    world = await _settled(BOTH, DUAL | {"listeners": [LISTENER]})
    for number, name in enumerate(("main-front-outside", "orders-0-outside", "orders-1-outside")):
        world.get("Service", name)["spec"]["ports"][0]["nodePort"] = 30_000 + number
    await world.settle()
    outside = world.status("RocketMQCluster", "main")["listeners"][1]
    assert (outside["address"], outside["brokers"]) == ("[2001:db8::7]:30000", "2/2")
    addresses = world.get("ConfigMap", "main-front-outside")["data"]["addresses.json"]
    assert '"[2001:db8::7]:30001"' in addresses


async def test_a_version_whose_clients_cannot_connect_to_ipv6_waits_where_services_have_no_other() -> None:
    world = OperatorWorld({}, {"version": "5.1.4"})
    world.kube.families = ("IPv6",)
    for _ in range(5):
        await world.one_pass()
    assert world.condition("Progressing")[1] == "VersionWithoutIPv6"
    assert not world.has("StatefulSet", "orders")
    world = await _settled(BOTH, DUAL | {"version": "5.1.4"})
    assert world.has("StatefulSet", "orders")
