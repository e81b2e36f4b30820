"""NetworkPolicies: every pod connects to exactly the ports of other pods that it needs.

The rules of both ends are evaluated for each pair of pods, as a network plug-in does. An empty list admits no
client.
"""

import pytest

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.report import children as report_children
from rocketmq_operator.plan.report import executors as report_executors
from testkit.kube.kubectl import KubeError, program
from testkit.kube.network_policies import matches, open_ports
from testkit.products.helm import Json, named, of, pods, rendered
from testkit.worlds.operator import pod_templates

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
ON = ('operator.clusters=["main"]',)
MEASURED = (*ON, "measure.enabled=true")
NO_CLIENTS = ("measure.enabled=true", "networkPolicies.clients=[]")
OFF = ("networkPolicies.enabled=false", "measure.enabled=true")
PROMETHEUS = '[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]'
STRANGER = {"app": "shop"}


NEEDED = {
    ("controller", "controller"): {9878, 9879, 9880},
    ("controller", "broker"): {9882, 10911},
    ("controller", "log-replica"): {9881, 10911},
    ("route-front", "nameserver"): {9876},
    ("broker", "nameserver"): {9876},
    ("broker", "controller"): {9878, 9880},
    ("broker", "broker"): {8081, 9882, 10908, 10909, 10910, 10911, 10912},
    ("broker", "log-replica"): {9881, 10911, 10912},
    ("log-replica", "nameserver"): {9876},
    ("log-replica", "controller"): {9878, 9880},
    ("log-replica", "broker"): {9882, 10911, 10912},
    ("log-replica", "log-replica"): {9881, 10911, 10912},
    **{(one, "learner"): {10911} for one in ("controller", "operator")},
    ("broker", "learner"): {10911, 10912},
    ("learner", "nameserver"): {9876},
    ("learner", "controller"): {9878, 9880},
    ("learner", "broker"): {9882, 10911, 10912},
    ("learner", "log-replica"): {9881, 10911, 10912},
    **{(one, "learner"): {10911, 10912} for one in ("learner", "log-replica")},
    **{("measure", "learner"): {5557, 10909, 10911}, ("test", "learner"): {10909, 10911}},
    ("proxy", "nameserver"): {9876},
    ("proxy", "broker"): {8081, 10908, 10909, 10910, 10911},
    ("operator", "nameserver"): {9876},
    ("operator", "controller"): {9880},
    ("operator", "route-front"): {9876},
    ("operator", "broker"): {9882, 10911},
    ("operator", "measure"): {9890},
    ("measure", "nameserver"): {9876},
    ("measure", "controller"): {9880},
    ("measure", "route-front"): {9876, 9883},
    ("measure", "broker"): {5557, 8081, 9882, 10908, 10909, 10910, 10911},
    ("measure", "log-replica"): {9881},
    ("measure", "proxy"): {5557, 8081},
    ("test", "nameserver"): {9876},
    ("test", "route-front"): {9876},
    ("test", "broker"): {8081, 10908, 10909, 10910, 10911},
    ("test", "proxy"): {8080, 8081},
}
"""Ports of the second pod that the first one reaches; a pair that is not here does not meet."""


def _labels(component: str) -> Json:
    labels: Json = pod_templates()[component]["metadata"]["labels"]
    return labels


def _own(component: str) -> Json:
    labels: Json = pods(rendered(*MEASURED))[component]["metadata"]["labels"]
    return labels


def _ports(pod: Json) -> set[int]:
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return {port["containerPort"] for one in containers for port in one.get("ports", ())}


def test_policies_are_on_unless_they_are_switched_off() -> None:
    assert of(rendered("measure.enabled=true"), "NetworkPolicy") == of(rendered(*MEASURED), "NetworkPolicy")
    assert of(rendered(*OFF), "NetworkPolicy") == []


def _every_pod() -> dict[str, Json]:
    """Return the labels of each kind of pod of the operator and the chart."""
    ours = {name: _own(name) for name in ("operator", "measure", "test")}
    return {name: pod["metadata"]["labels"] for name, pod in pod_templates().items()} | ours


def test_each_pair_of_pods_meets_at_the_ports_that_it_needs_and_at_no_other() -> None:
    objects, every = rendered(*MEASURED), _every_pod()
    found = {
        (source, target): ports
        for source, source_labels in every.items()
        for target, target_labels in every.items()
        if (ports := open_ports(objects, target_labels, source_labels))
    }
    assert found == NEEDED


def test_pods_of_one_cluster_reach_no_pod_of_another_beside_the_ports_of_clients() -> None:
    objects = rendered(
        'operator.clusters=["main","other"]', "measure.enabled=true", "networkPolicies.clients=[]"
    )
    pods_of = pod_templates()
    for source in pods_of:
        foreign = pods_of[source]["metadata"]["labels"] | {"rocketmq-ha.dev/cluster": "other"}
        for target in pods_of:
            own = pods_of[target]["metadata"]["labels"]
            assert open_ports(objects, own, foreign) == set(), (source, target)
            assert open_ports(objects, foreign, own) == set(), (target, source)


SHARED_PORTS = {
    ("broker", "controller"): {9878, 9880},
    ("log-replica", "controller"): {9878, 9880},
    ("controller", "broker"): {10911},
    ("controller", "log-replica"): {10911},
}
"""Ports at which members of one cluster and controllers of another reach each other."""


def test_with_shared_controllers_members_and_controllers_of_other_clusters_meet() -> None:
    objects = rendered(
        'operator.clusters=["main","other"]',
        "networkPolicies.clients=[]",
        "networkPolicies.sharedControllers=true",
    )
    for (source, target), ports in SHARED_PORTS.items():
        foreign = _labels(source) | {"rocketmq-ha.dev/cluster": "other"}
        assert open_ports(objects, _labels(target), foreign) == ports, (source, target)
        assert open_ports(objects, _labels(target), foreign, "bank") >= ports, (source, target)


def test_without_names_of_clusters_one_set_of_policies_is_for_all() -> None:
    objects = rendered('operator.clusters=["*"]', "measure.enabled=true")
    controller = _labels("controller") | {"rocketmq-ha.dev/cluster": "any"}
    assert open_ports(objects, controller, _labels("broker")) == {9878, 9880}


def test_no_long_running_pod_connects_to_what_it_does_not_need() -> None:
    objects = rendered(*MEASURED)
    for name, labels in _every_pod().items():
        rules = [
            rule
            for policy in of(objects, "NetworkPolicy")
            if matches(policy["spec"]["podSelector"], labels)
            for rule in policy["spec"].get("egress", ())
        ]
        anywhere = [{port["port"] for port in rule["ports"]} for rule in rules if _is_anywhere(rule)]
        asks_kubernetes = {"operator": [{443, 6443}], "measure": [{443, 6443, 10250}]}
        expected = [] if name == "test" else [{53}, *asks_kubernetes.get(name, [])]
        assert anywhere == expected, name


def _is_anywhere(rule: Json) -> bool:
    return "to" not in rule or any("ipBlock" in peer for peer in rule["to"])


def test_a_node_agent_needs_the_addresses_of_its_nodes() -> None:
    with pytest.raises(KubeError, match=r"networkPolicies\.nodes"):
        rendered("nodeAgent.enabled=true")


def test_every_component_that_listens_has_a_policy() -> None:
    selectors = [one["spec"]["podSelector"] for one in of(rendered(*MEASURED), "NetworkPolicy")]
    every = pod_templates() | pods(rendered(*MEASURED))
    assert len(every) == 11
    for component, pod in every.items():
        taken = [one for one in selectors if matches(one, pod["metadata"]["labels"])]
        assert len(taken) == (0 if component == "test" else 1), component


def test_every_port_that_the_operator_gives_a_pod_is_open_to_somebody_and_no_other_is() -> None:
    objects = rendered(*MEASURED)
    everybody = [one["metadata"]["labels"] for one in pod_templates().values()]
    everybody += [_own("operator"), _own("measure")]
    for component, pod in pod_templates().items():
        reached = open_ports(objects, pod["metadata"]["labels"], STRANGER, "shop").union(
            *(open_ports(objects, pod["metadata"]["labels"], who) for who in everybody)
        )
        assert reached == _ports(pod), component


def test_the_ports_are_those_of_the_operators_names() -> None:
    written = {value for name, value in vars(names).items() if name.endswith("_PORT")}
    policies = [
        one for one in of(rendered(*ON), "NetworkPolicy") if one["metadata"]["name"] != "demo-operator"
    ]
    opened = {
        port["port"] for one in policies for rule in one["spec"].get("ingress", ()) for port in rule["ports"]
    }
    loopback = {names.LEASE_PORT}
    assert opened == (written - loopback) | set(report_executors.PORTS)


def test_clients_reach_name_servers_brokers_and_proxies_and_nothing_else() -> None:
    objects = rendered(*MEASURED)
    reached = {
        component: open_ports(objects, _labels(component), STRANGER, "shop") for component in pod_templates()
    }
    assert reached == {
        "nameserver": {names.NAME_SERVER_PORT},
        "controller": set(),
        "broker": {
            *(names.BROKER_PORT, names.BROKER_FAST_PORT, names.BROKER_HOLD_PORT, names.BROKER_GUEST_PORT),
            names.PROXY_GRPC_PORT,
        },
        "learner": {names.BROKER_PORT, names.BROKER_FAST_PORT},
        "log-replica": set(),
        "proxy": {names.PROXY_GRPC_PORT, names.PROXY_REMOTING_PORT},
        "route-front": {names.ROUTE_FRONT_PORT},
    }
    assert open_ports(objects, _own("operator"), STRANGER, "shop") == set()
    assert open_ports(objects, _own("measure"), STRANGER, "shop") == set()


def test_without_clients_only_our_own_pods_send() -> None:
    objects = rendered(*MEASURED, "networkPolicies.clients=[]")
    for component in ("broker", "proxy"):
        assert open_ports(objects, _labels(component), STRANGER, "mq") == set()
    for ours in ("measure", "test", "operator"):
        assert names.BROKER_PORT in open_ports(objects, _labels("broker"), _own(ours))
        assert names.NAME_SERVER_PORT in open_ports(objects, _labels("nameserver"), _own(ours))


def test_controllers_alone_reach_each_others_raft_port() -> None:
    objects = rendered(*MEASURED)
    controller = _labels("controller")
    who = {name: pod["metadata"]["labels"] for name, pod in pod_templates().items()}
    who |= {"operator": _own("operator"), "measure": _own("measure")}
    reaching = {
        name
        for name, labels in who.items()
        if names.CONTROLLER_RAFT_PORT in open_ports(objects, controller, labels)
    }
    assert reaching == {"controller"}


def test_proxies_reach_name_servers_and_brokers_and_no_controller() -> None:
    objects = rendered(*MEASURED, "networkPolicies.clients=[]")
    reached = {
        component: open_ports(objects, _labels(component), _labels("proxy")) for component in pod_templates()
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
            if names.BROKER_HA_PORT in open_ports(objects, _labels(source), pod["metadata"]["labels"])
        }
        assert reaching == {"broker", "learner", "log-replica"}


def test_the_operator_reaches_what_it_asks() -> None:
    objects = rendered(*MEASURED)
    operator = _own("operator")
    assert names.CONTROLLER_HTTP_PORT in open_ports(objects, _labels("controller"), operator)
    assert names.COMPANION_HTTP_PORT in open_ports(objects, _labels("broker"), operator)
    assert open_ports(objects, _own("measure"), operator) == {9890}


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
        assert port in open_ports(objects, _labels(component), measure)


def test_prometheus_reaches_every_metrics_port_and_readers_the_page() -> None:
    objects = rendered(*MEASURED, f"networkPolicies.monitoring={PROMETHEUS}")
    reached = {
        name: open_ports(objects, _labels(name), {}, "monitoring") for name in ("controller", "log-replica")
    }
    assert reached == {"controller": {names.CONTROLLER_HTTP_PORT}, "log-replica": {names.REPLICA_HTTP_PORT}}
    assert open_ports(objects, _own("operator"), {}, "monitoring") == {8080}
    assert open_ports(objects, _own("measure"), {}, "monitoring") == {9889, 9890}
    readers = rendered(*MEASURED, f"networkPolicies.readers={PROMETHEUS}")
    assert open_ports(readers, _own("measure"), {}, "monitoring") == {8080}


@pytest.mark.parametrize(
    ("name", "pod"), [("demo-report", {}), ("demo-slo-report", report_children.report_labels("monthly"))]
)
def test_what_makes_a_report_reaches_nothing_and_is_reached_by_nobody(name: str, pod: Json) -> None:
    spec = named(rendered(*MEASURED), "NetworkPolicy", name)["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert set(spec) == {"podSelector", "policyTypes"}
    assert matches(spec["podSelector"], pod or _own("report"))


def test_driver_and_executors_of_a_report_reach_each_other_and_nobody_else_reaches_them() -> None:
    labels = report_executors.spark_labels("monthly")
    spec = named(rendered(*MEASURED), "NetworkPolicy", "demo-slo-report-spark")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert matches(spec["podSelector"], labels)
    assert not matches(spec["podSelector"], report_children.report_labels("monthly"))
    (rule,) = spec["ingress"]
    _, to_api_server, to_each_other = spec["egress"]
    assert {port["port"] for port in to_api_server["ports"]} == {443, 6443}, "the driver asks the API server"
    for peers, ports in ((rule["from"], rule["ports"]), (to_each_other["to"], to_each_other["ports"])):
        (peer,) = peers
        assert set(peer) == {"podSelector"}
        assert matches(peer["podSelector"], labels)
        assert {port["port"] for port in ports} == set(report_executors.PORTS)


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
    assert len(members) == 9 * len(namespaces)
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
