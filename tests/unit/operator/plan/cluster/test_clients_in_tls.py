"""TLS with clients in the life of a cluster: its certificates, its stages, and what each pod is given."""

import base64
import itertools
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.tls import TlsSpec
from rocketmq_operator.handlers.reconcile import reconcile
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.tls.clients import ClientsStage, next_stage, published_stage, template_stage
from rocketmq_operator.plan.tls.steps import SPREAD
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
KIND = "RocketMQCluster"
SECRET = "main-member-tls"  # noqa: S105 - a Secret's name
SETS = ("main-nameserver", "orders", "orders-log")
GROUP = {"replicas": 2, "logReplicas": 1}
PASSES_MAX = 120


def _texts(world: OperatorWorld, secret: str = SECRET) -> dict[str, str]:
    data = world.get("Secret", secret)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def _hosts(text: str) -> set[str]:
    found = x509.load_pem_x509_certificate(text.encode())
    names_ = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, names_.get_values_for_type(x509.IPAddress))
    return {*names_.get_values_for_type(x509.DNSName), *addresses}


def _container(world: OperatorWorld, set_name: str) -> Json:
    found: Json = world.get("StatefulSet", set_name)["spec"]["template"]["spec"]["containers"][0]
    return found


def _java_options(world: OperatorWorld, set_name: str) -> dict[str, str]:
    (text,) = (one["value"] for one in _container(world, set_name)["env"] if one["name"] == "JAVA_OPT_EXT")
    pairs = (option.removeprefix("-D").partition("=") for option in text.split())
    return {key: value for key, _, value in pairs if key.startswith("tls.")}


def _stages(world: OperatorWorld) -> tuple[str, ...]:
    return tuple(str(template_stage(world.get("StatefulSet", name))) for name in SETS)


def _file(world: OperatorWorld, name: str, key: str) -> str:
    lines = world.get("ConfigMap", "orders")["data"][name].splitlines()
    return next((line.partition(" = ")[2] for line in lines if line.startswith(f"{key} = ")), "")


async def test_a_new_cluster_that_asks_for_it_begins_with_tls_only() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Enforcing"}})
    seen = set()
    for _ in range(20):
        await world.one_pass()
        world.advance(seconds=1)
        seen |= {_stages(world)} if all(world.has("StatefulSet", name) for name in SETS) else set()
    assert seen == {("enforcing",) * 3}
    assert _java_options(world, "orders") == {
        "tls.test.mode.enable": "false",
        "tls.server.mode": "enforcing",
        "tls.server.certPath": "/etc/rocketmq-tls/tls.crt",
        "tls.server.keyPath": "/etc/rocketmq-tls/tls.key",
        "tls.server.trustCertPath": "/etc/rocketmq-tls/ca.crt",
        "tls.server.need.client.auth": "none",
        "tls.client.authServer": "false",
        "tls.enable": "true",
    }
    for file in ("companion.conf", "replica.conf", "seed.conf"):
        assert (_file(world, file, "tls"), _file(world, file, "tls-mode")) == (names.TLS_PATH, "enforcing")
    world.kube.writes.clear()
    await world.settle()
    assert not world.kube.writes, "a settled cluster is left alone"


@pytest.mark.parametrize("clients", ["Disabled", "Permissive", "Enforcing"])
async def test_applications_find_the_authorities_beside_the_addresses(clients: str) -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": clients}})
    await world.settle()
    found = world.get("ConfigMap", "main-bootstrap")["data"].get("ca.crt")
    trusted = world.get("ConfigMap", "main-trust")["data"]["ca.crt"]
    assert found == (None if clients == "Disabled" else trusted)
    assert "PRIVATE" not in trusted


async def test_each_pod_has_the_certificate_of_its_own_group_alone() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Permissive"}})
    await world.settle()
    for set_name, entry in zip(SETS, ("nameserver", "group-orders", "group-orders"), strict=True):
        pod = world.get("StatefulSet", set_name)["spec"]["template"]["spec"]
        (volume,) = (one for one in pod["volumes"] if one["name"] == "tls")
        assert volume["secret"]["secretName"] == SECRET
        files = {item["key"]: item["path"] for item in volume["secret"]["items"]}
        assert files == {f"{entry}.crt": "tls.crt", f"{entry}.key": "tls.key", "ca.crt": "ca.crt"}
        assert files.keys() <= _texts(world).keys()
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert names.TLS_PATH in {mount["mountPath"] for mount in container["volumeMounts"]}


async def test_a_certificate_names_all_addresses_at_which_its_pods_answer() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Permissive"}})
    await world.settle()
    texts = _texts(world)
    group = _hosts(texts["group-orders.crt"])
    addresses = {world.get("Service", name)["spec"]["clusterIP"] for name in ("orders-0", "orders-log-0")}
    wanted = {"orders-1.orders.shop.svc", "orders-0.shop.svc", "orders.shop.svc", "127.0.0.1", "localhost"}
    assert wanted | addresses <= group
    assert {"main-nameserver.shop", "main-nameserver-1.main-nameserver.shop.svc"} <= _hosts(
        texts["nameserver.crt"]
    )
    assert texts["group-orders.key"].startswith("-----BEGIN PRIVATE KEY-----"), "PKCS#8, which Java reads"


@pytest.mark.parametrize(
    ("before", "clients", "way"),
    [
        ("Disabled", "Permissive", ["disabled", "permissive"]),
        ("Permissive", "Enforcing", ["permissive", "dialling", "enforcing"]),
        ("Enforcing", "Disabled", ["enforcing", "dialling", "permissive", "disabled"]),
    ],
)
async def test_a_cluster_goes_through_all_stages_and_loses_one_member_at_a_time(
    before: str, clients: str, way: list[str]
) -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": before}})
    await world.settle()
    world.write_cluster({"tls": {"clients": clients}})
    seen = [way[0]]
    for _ in range(PASSES_MAX):
        births = dict(world.kube.births)
        await world.one_pass()
        world.advance(seconds=1)
        members = [name for name in ("orders-0", "orders-1", "orders-log-0") if name in births]
        assert sum(world.kube.births[name] > births[name] for name in members) <= 1
        stage = _stages(world)[1]
        if stage != seen[-1]:
            seen.append(stage)
        if _stages(world) == (way[-1],) * 3 and world.condition("Progressing")[0] == "False":
            break
    assert seen == way
    assert ("tls.server.certPath" in _java_options(world, "main-nameserver")) is (clients != "Disabled")


async def test_proxies_and_route_fronts_go_with_the_others() -> None:
    listeners = [{"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}]
    others = {"proxy": {"mode": "Cluster"}, "listeners": listeners}
    world = OperatorWorld(GROUP, others)
    await world.settle()
    await world.settle()
    world.write_cluster(others | {"tls": {"clients": "Enforcing"}})
    for _ in range(PASSES_MAX):
        await world.one_pass()
        world.advance(seconds=1)
        if _stages(world) == ("enforcing",) * 3 and world.condition("Progressing")[0] == "False":
            break
    assert _stages(world) == ("enforcing",) * 3
    conf = json.loads(world.get("ConfigMap", "main-proxy")["data"]["rmq-proxy.json"])
    assert (conf["tlsTestModeEnable"], conf["tlsCertPath"]) == ("false", f"{names.TLS_PATH}/tls.crt")
    proxy, front = (world.get("Deployment", f"main-{name}") for name in ("proxy", "front-outside"))
    assert {str(template_stage(one)) for one in (proxy, front)} == {"enforcing"}
    command = front["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[-2:] == [f"--tls={names.TLS_PATH}", "--tls-mode=enforcing"]
    assert "mq.example" in _hosts(_texts(world)["route-front.crt"])
    assert "main-proxy.shop.svc" in _hosts(_texts(world)["proxy.crt"])


@pytest.mark.parametrize(
    ("clients", "now", "certified", "everywhere", "after"),
    [
        ("Disabled", "disabled", True, True, "disabled"),
        ("Permissive", "disabled", False, True, "disabled"),
        ("Permissive", "disabled", True, False, "disabled"),
        ("Permissive", "disabled", True, True, "permissive"),
        ("Permissive", "enforcing", True, True, "dialling"),
        ("Enforcing", "disabled", True, True, "permissive"),
        ("Enforcing", "permissive", True, True, "dialling"),
        ("Enforcing", "permissive", True, False, "permissive"),
        ("Enforcing", "dialling", True, True, "enforcing"),
        ("Disabled", "permissive", True, False, "permissive"),
        ("Disabled", "permissive", True, True, "disabled"),
    ],
)
def test_a_stage_follows_when_all_pods_are_ready_in_the_one_before(
    clients: str, now: str, certified: bool, everywhere: bool, after: str
) -> None:
    spec = TlsSpec.model_validate({"clients": clients})
    found = next_stage(
        spec, ClientsStage(now), is_new=False, is_certified=certified, is_everywhere=everywhere
    )
    assert found == after


def test_neighbouring_stages_reach_each_other() -> None:
    """A process in plain TCP reaches a port that accepts it, and one in TLS a port with a certificate."""
    for one, other in itertools.pairwise(ClientsStage):
        for dialler, port in ((one, other), (other, one), (one, one), (other, other)):
            if dialler.java_dials:
                assert port.has_certificates
            else:
                assert port.port_mode != "enforcing" or not port.has_certificates


async def test_the_templates_tell_the_stage_if_the_config_map_is_gone() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Enforcing"}})
    await world.settle()
    sets = [world.get("StatefulSet", name) for name in SETS]
    assert published_stage(None, sets) is ClientsStage.ENFORCING
    births = dict(world.kube.births)
    world.kube.remove("ConfigMap", "shop", "main-trust")
    await reconcile(world.pass_context(), "BrokerGroup", "shop", "orders")
    await world.settle()
    assert world.get("ConfigMap", "main-trust")["data"]["clients-tls"] == "enforcing"
    assert births == world.kube.births


async def test_a_new_member_is_named_by_the_certificate_and_no_other_one_restarts() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Enforcing"}})
    await world.settle()
    world.write_group(GROUP | {"replicas": 3})
    births = dict(world.kube.births)
    await world.settle()
    await world.settle()
    assert world.get("Service", "orders-2")["spec"]["clusterIP"] in _hosts(_texts(world)["group-orders.crt"])
    assert {name: world.kube.births[name] for name in births} == births


async def test_a_group_waits_for_its_first_certificate() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Permissive"}})
    for _ in range(10):
        await world.one_pass()
        if world.has("ConfigMap", "main-trust"):
            break
    world.get("ConfigMap", "main-trust")["data"]["clients-tls-members"] = "nameserver"
    await reconcile(world.pass_context(), "BrokerGroup", "shop", "orders")
    assert "makes a certificate for the group" in str(world.status())
    assert not world.has("StatefulSet", "orders")
    await world.settle()
    assert world.has("StatefulSet", "orders")


async def test_certificates_and_their_authority_are_renewed_and_no_pod_restarts() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Enforcing"}})
    await world.settle()
    births, before = dict(world.kube.births), _texts(world)
    world.advance(seconds=timedelta(days=61).total_seconds())
    await world.settle()
    after = _texts(world)
    assert all(after[key] != before[key] for key in before if key != "ca.crt")
    world.advance(seconds=timedelta(days=1_600).total_seconds())
    trusted = []
    for _ in range(8):
        await world.settle()
        trusted.append(_texts(world)["ca.crt"].count("BEGIN CERTIFICATE"))
        assert world.get("ConfigMap", "main-bootstrap")["data"]["ca.crt"] == _texts(world)["ca.crt"]
        world.advance(seconds=SPREAD.total_seconds() / 2)
    assert sorted(set(trusted)) == [1, 2]
    assert trusted[-1] == 1
    assert births == world.kube.births
    assert world.condition("CertificatesValid", KIND, "main") == ("True", "Valid")


async def test_a_cluster_from_before_tls_moves_its_controllers_first() -> None:
    world = OperatorWorld(GROUP, {"tls": {"internal": "Disabled"}})
    await world.settle()
    world.write_cluster({"tls": {"clients": "Permissive"}})
    for _ in range(PASSES_MAX):
        await world.one_pass()
        world.advance(seconds=1)
        if _stages(world) == ("permissive",) * 3:
            break
    assert _stages(world) == ("permissive",) * 3
    script = world.get("ConfigMap", "main-controller")["data"]["start.sh"]
    assert "tls.enable=true" in script


async def test_controllers_serve_tls_as_long_as_brokers_dial_them_in_tls() -> None:
    world = OperatorWorld(GROUP, {"tls": {"clients": "Enforcing"}})
    await world.settle()
    world.write_cluster({"tls": {"clients": "Disabled", "internal": "Disabled"}})
    for _ in range(PASSES_MAX):
        await world.one_pass()
        world.advance(seconds=1)
        env = _container(world, "main-controller")["env"]
        if _java_options(world, "orders").get("tls.enable") == "true":
            assert any(one["name"] == "CONTROLLER_TLS" for one in env)
    assert _stages(world) == ("disabled",) * 3
    assert not any(one["name"] == "CONTROLLER_TLS" for one in _container(world, "main-controller")["env"])


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"tls": {"clients": "Permissive", "internal": "Disabled"}}, "tls.internal"),
        ({"tls": {"clients": "Enforcing"}, "nameServers": {"external": ["ns:9876"]}}, "external"),
        ({"tls": {"clients": "Permissive"}, "controllers": {"ref": {"name": "other"}}}, "controllers.ref"),
    ],
)
def test_settings_that_do_not_fit_are_refused(spec: Json, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        RocketMQClusterSpec.model_validate(spec)
