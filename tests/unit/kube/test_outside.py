"""Clients outside the cluster: their node, their rows in a benchmark, addresses of load balancers."""

import importlib.util
import sys
from types import ModuleType

import pytest

from testkit.kube.failover.faulting import OUTSIDE, FaultCost, unharmed_node
from testkit.kube.kubectl import KubeError
from testkit.kube.outside.listening import addresses_in
from testkit.kube.outside.load_balancers import BalancedService, next_address, service_of
from testkit.nodes.outside_network import BALANCED
from testkit.tree.files import ROOT

CLASS = "example.com/balancer"
NODES = {"orders-0": "node1", "orders-1": "node2", "orders-log-0": "node3"}


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_failover", ROOT / "tests/bench/bench_failover.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_client_outside_has_rows_of_its_own_beside_the_one_inside(bench: ModuleType) -> None:
    inside = [FaultCost("kill", gap, 0, 100, 0, {"elected": gap / 2}) for gap in (200.0, 300.0)]
    outside = [FaultCost("kill", 400.0, 1, 90, 0, {"elected": 150.0}, client=OUTSIDE)]
    placed = [FaultCost("cut", 3_000.0, 4, 80, 0, placement="dns", client=OUTSIDE)]
    costs = [inside[0], *outside, inside[1], *placed]
    assert bench.table(costs)[2:] == [
        "| kill | 2 | 250 ms | 300 ms | 0 | 200, 0 |",
        "| kill, outside | 1 | 400 ms | 400 ms | 1 | 90, 0 |",
        "| cut with dns, outside | 1 | 3000 ms | 3000 ms | 4 | 80, 0 |",
    ]
    phases = [line.split("|")[1:4] for line in bench.phases_table(costs)[2:]]
    assert phases[1] == [" kill, outside ", " - ", " -, 150 "]
    assert len(bench.consumers_table(costs)) == 2, "a client outside has no consumers"


def test_the_clients_of_a_benchmark_are_chosen_by_name(bench: ModuleType) -> None:
    parser = bench.parser()
    assert parser.parse_args([]).clients == ["inside"]
    assert parser.parse_args(["--clients", "inside", "outside"]).clients == ["inside", "outside"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--clients", "elsewhere"])


@pytest.mark.parametrize(
    ("nodes", "master", "wanted"),
    [
        (NODES, "orders-0", "node3"),
        (NODES | {"orders-log-0": "node1", "main-front-outside-x": "node3"}, "orders-0", "node2"),
        (dict.fromkeys(NODES, "node1"), "orders-0", "node1"),
    ],
)
def test_clients_go_through_a_node_that_is_not_harmed(
    nodes: dict[str, str], master: str, wanted: str
) -> None:
    assert unharmed_node(nodes, master, "orders-log-0") == wanted


def test_a_route_front_s_addresses_are_read_from_its_metrics() -> None:
    text = "# HELP rmqha_route_front_addresses x\nrmqha_route_front_addresses 2.0\nother 1.0\n"
    assert addresses_in(text) == 2
    assert addresses_in("") == -1


def test_a_line_of_the_watch_is_a_service() -> None:
    assert service_of("front|LoadBalancer||") == BalancedService("front", "LoadBalancer", "", "")
    assert service_of(f"front|LoadBalancer|{CLASS}|198.51.100.1").address == "198.51.100.1"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (f"front|LoadBalancer|{CLASS}|", "198.51.100.2"),
        (f"front|LoadBalancer|{CLASS}|198.51.100.7", None),
        ("front|LoadBalancer||", None),
        ("front|LoadBalancer|example.com/other|", None),
        (f"front|ClusterIP|{CLASS}|", None),
    ],
)
def test_only_services_of_the_class_without_an_address_get_the_next_one(
    line: str, wanted: str | None
) -> None:
    assert next_address(service_of(line), CLASS, ["198.51.100.1"]) == wanted


def test_services_without_a_class_are_those_of_the_default_controller() -> None:
    assert next_address(service_of("front|LoadBalancer||"), "", []) == "198.51.100.1"
    assert next_address(service_of(f"front|LoadBalancer|{CLASS}|"), "", []) is None


def test_a_service_too_many_is_told() -> None:
    taken = [str(host) for host in BALANCED.hosts()]
    with pytest.raises(KubeError, match="no address of"):
        next_address(service_of("front|LoadBalancer||"), "", taken)
