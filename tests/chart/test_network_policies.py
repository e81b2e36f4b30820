"""NetworkPolicies: every port of every pod admits exactly the clients that need it.

An empty list admits no client.
"""

import pytest

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.report import children as report_children
from rocketmq_operator.plan.report import executors as report_executors
from testkit.kube.kubectl import program
from testkit.products.helm import Json, named, of, pods, rendered
from testkit.worlds.operator import pod_templates

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
ON = ("networkPolicies.enabled=true",)
MEASURED = (*ON, "measure.enabled=true")
PROMETHEUS = '[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]'
STRANGER = {"app": "shop"}


def _matches(selector: Json, labels: Json) -> bool:
    """Tell whether a label selector takes pods with these labels."""
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    return all(
        labels.get(rule["key"]) in rule["values"] and rule["operator"] == "In"
        for rule in selector.get("matchExpressions", ())
    )


def _lets_in(peer: Json, labels: Json, namespace: str, own_namespace: str) -> bool:
    """Tell whether a peer of a policy in `own_namespace` means a pod with these labels in `namespace`."""
    assert set(peer) <= {"namespaceSelector", "podSelector"}
    if "namespaceSelector" in peer:
        if not _matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace}):
            return False
    elif namespace != own_namespace:
        return False
    return _matches(peer.get("podSelector", {}), labels)


def _open(objects: list[Json], of_labels: Json, to_labels: Json, namespace: str = "mq") -> set[int]:
    """Return the ports of pods in `mq` with `of_labels` that pods with `to_labels` in `namespace` reach."""
    found = set()
    for policy in of(objects, "NetworkPolicy"):
        if policy["metadata"].get("namespace", "mq") != "mq":
            continue
        if not _matches(policy["spec"]["podSelector"], of_labels):
            continue
        for rule in policy["spec"].get("ingress", ()):
            assert rule["from"], "an empty `from` lets everybody in"
            if any(_lets_in(peer, to_labels, namespace, "mq") for peer in rule["from"]):
                found |= {port["port"] for port in rule["ports"]}
    return found


def _labels(component: str) -> Json:
    labels: Json = pod_templates()[component]["metadata"]["labels"]
    return labels


def _own(component: str) -> Json:
    labels: Json = pods(rendered(*MEASURED))[component]["metadata"]["labels"]
    return labels


def _ports(pod: Json) -> set[int]:
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return {port["containerPort"] for one in containers for port in one.get("ports", ())}


def test_nobody_gets_a_policy_unasked() -> None:
    assert of(rendered("measure.enabled=true"), "NetworkPolicy") == []


def test_every_component_that_listens_has_a_policy() -> None:
    selectors = [one["spec"]["podSelector"] for one in of(rendered(*MEASURED), "NetworkPolicy")]
    every = pod_templates() | pods(rendered(*MEASURED))
    assert len(every) == 10
    for component, pod in every.items():
        taken = [one for one in selectors if _matches(one, pod["metadata"]["labels"])]
        assert len(taken) == (0 if component == "test" else 1), component


def test_every_port_that_the_operator_gives_a_pod_is_open_to_somebody_and_no_other_is() -> None:
    objects = rendered(*MEASURED)
    everybody = [one["metadata"]["labels"] for one in pod_templates().values()]
    everybody += [_own("operator"), _own("measure")]
    for component, pod in pod_templates().items():
        reached = set[int]().union(*(_open(objects, pod["metadata"]["labels"], who) for who in everybody))
        assert reached == _ports(pod), component


def test_the_ports_are_those_of_the_operators_names() -> None:
    written = {value for name, value in vars(names).items() if name.endswith("_PORT")}
    policies = [
        one for one in of(rendered(*ON), "NetworkPolicy") if one["metadata"]["name"] != "demo-operator"
    ]
    opened = {
        port["port"] for one in policies for rule in one["spec"].get("ingress", ()) for port in rule["ports"]
    }
    assert opened == written | set(report_executors.PORTS)


def test_clients_reach_name_servers_brokers_and_proxies_and_nothing_else() -> None:
    objects = rendered(*MEASURED)
    reached = {
        component: _open(objects, _labels(component), STRANGER, "shop") for component in pod_templates()
    }
    assert reached == {
        "nameserver": {names.NAME_SERVER_PORT},
        "controller": set(),
        "broker": {names.BROKER_PORT, names.BROKER_FAST_PORT, names.BROKER_HOLD_PORT, names.PROXY_GRPC_PORT},
        "log-replica": set(),
        "proxy": {names.PROXY_GRPC_PORT, names.PROXY_REMOTING_PORT},
        "route-front": {names.ROUTE_FRONT_PORT},
    }
    assert _open(objects, _own("operator"), STRANGER, "shop") == set()
    assert _open(objects, _own("measure"), STRANGER, "shop") == set()


def test_without_clients_only_our_own_pods_send() -> None:
    objects = rendered(*MEASURED, "networkPolicies.clients=[]")
    for component in ("broker", "proxy"):
        assert _open(objects, _labels(component), STRANGER, "mq") == set()
    for ours in ("measure", "test", "operator"):
        assert names.BROKER_PORT in _open(objects, _labels("broker"), _own(ours))
        assert names.NAME_SERVER_PORT in _open(objects, _labels("nameserver"), _own(ours))


def test_controllers_alone_reach_each_others_raft_port() -> None:
    objects = rendered(*MEASURED)
    controller = _labels("controller")
    who = {name: pod["metadata"]["labels"] for name, pod in pod_templates().items()}
    who |= {"operator": _own("operator"), "measure": _own("measure")}
    reaching = {
        name
        for name, labels in who.items()
        if names.CONTROLLER_RAFT_PORT in _open(objects, controller, labels)
    }
    assert reaching == {"controller"}


def test_proxies_reach_name_servers_and_brokers_and_no_controller() -> None:
    objects = rendered(*MEASURED, "networkPolicies.clients=[]")
    reached = {
        component: _open(objects, _labels(component), _labels("proxy")) for component in pod_templates()
    }
    assert names.NAME_SERVER_PORT in reached["nameserver"]
    assert names.BROKER_PORT in reached["broker"]
    assert reached["controller"] | reached["log-replica"] | reached["proxy"] == set()


def test_a_log_goes_to_brokers_and_log_replicas_only() -> None:
    objects = rendered(*MEASURED)
    for source in ("broker", "log-replica"):
        reaching = {
            name
            for name, pod in pod_templates().items()
            if names.BROKER_HA_PORT in _open(objects, _labels(source), pod["metadata"]["labels"])
        }
        assert reaching == {"broker", "log-replica"}


def test_the_operator_reaches_what_it_asks() -> None:
    objects = rendered(*MEASURED)
    operator = _own("operator")
    assert names.CONTROLLER_HTTP_PORT in _open(objects, _labels("controller"), operator)
    assert names.COMPANION_HTTP_PORT in _open(objects, _labels("broker"), operator)
    assert _open(objects, _own("measure"), operator) == {9890}


def test_the_collector_reaches_every_target_that_it_is_given() -> None:
    objects = rendered(*MEASURED)
    measure = _own("measure")
    for component, port in (
        ("controller", names.CONTROLLER_HTTP_PORT),
        ("broker", names.BROKER_METRICS_PORT),
        ("broker", names.COMPANION_HTTP_PORT),
        ("log-replica", names.REPLICA_HTTP_PORT),
        ("proxy", names.PROXY_METRICS_PORT),
    ):
        assert port in _open(objects, _labels(component), measure)


def test_prometheus_reaches_every_metrics_port_and_readers_the_page() -> None:
    objects = rendered(*MEASURED, f"networkPolicies.monitoring={PROMETHEUS}")
    reached = {
        name: _open(objects, _labels(name), {}, "monitoring") for name in ("controller", "log-replica")
    }
    assert reached == {"controller": {names.CONTROLLER_HTTP_PORT}, "log-replica": {names.REPLICA_HTTP_PORT}}
    assert _open(objects, _own("operator"), {}, "monitoring") == {8080}
    assert _open(objects, _own("measure"), {}, "monitoring") == {9889, 9890}
    readers = rendered(*MEASURED, f"networkPolicies.readers={PROMETHEUS}")
    assert _open(readers, _own("measure"), {}, "monitoring") == {8080}


@pytest.mark.parametrize(
    ("name", "pod"), [("demo-report", {}), ("demo-slo-report", report_children.report_labels("monthly"))]
)
def test_what_makes_a_report_reaches_nothing_and_is_reached_by_nobody(name: str, pod: Json) -> None:
    spec = named(rendered(*MEASURED), "NetworkPolicy", name)["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert set(spec) == {"podSelector", "policyTypes"}
    assert _matches(spec["podSelector"], pod or _own("report"))


def test_driver_and_executors_of_a_report_reach_each_other_and_nobody_else_reaches_them() -> None:
    labels = report_executors.spark_labels("monthly")
    spec = named(rendered(*MEASURED), "NetworkPolicy", "demo-slo-report-spark")["spec"]
    assert spec["policyTypes"] == ["Ingress"], "the driver asks the API server"
    assert _matches(spec["podSelector"], labels)
    assert not _matches(spec["podSelector"], report_children.report_labels("monthly"))
    (rule,) = spec["ingress"]
    (peer,) = rule["from"]
    assert set(peer) == {"podSelector"}
    assert _matches(peer["podSelector"], labels)
    assert {port["port"] for port in rule["ports"]} == set(report_executors.PORTS)


@pytest.mark.parametrize(
    ("settings", "namespaces"),
    [
        ((), {"mq"}),
        (("operator.clusterWide=true",), {"mq"}),
        (('operator.watchNamespaces=["shop","pay"]',), {"shop", "pay"}),
        (('operator.watchNamespaces=["shop"]', 'networkPolicies.namespaces=["pay"]'), {"pay"}),
    ],
)
def test_policies_of_clusters_are_where_the_clusters_are(
    settings: tuple[str, ...], namespaces: set[str]
) -> None:
    policies = of(rendered(*ON, *settings), "NetworkPolicy")
    members = [
        one
        for one in policies
        if one["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "rocketmq"
    ]
    assert {one["metadata"]["namespace"] for one in members} == namespaces
    assert len(members) == 8 * len(namespaces)
    for one in members:
        if one["metadata"]["name"] == "demo-slo-report-spark":
            continue  # they talk among themselves
        if "ingress" not in one["spec"]:
            assert one["metadata"]["name"] == "demo-slo-report"
            continue
        # The operator and the collector are in the release's namespace, whatever namespace this policy is in.
        peers = [peer for rule in one["spec"]["ingress"] for peer in rule["from"]]
        ours = [
            peer for peer in peers if "operator" in str(peer.get("podSelector", {}).get("matchLabels", ""))
        ]
        assert ours
        assert all(
            peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "mq"} for peer in ours
        )
