"""PodMonitors name existing ports, the rules are the export's, the dashboard asks for existing series."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from controller_core.server.common.metrics import GroupNumbers, NodeNumbers
from controller_core.server.common.metrics import Metrics as ControllerMetrics
from ha_sidecar.companion.metrics import CompanionMetrics, CompanionState
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, SlaveFacts
from ha_sidecar.replica.metrics import ReplicaMetrics, ReplicaNumbers
from project_tools import chart_files
from rocketmq_operator.handlers.metrics import OperatorMetrics as OperatorMetrics
from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.cli import main
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from testkit.kube.kubectl import program
from testkit.processes.prometheus import PrometheusUnavailableError, programs
from testkit.products.helm import Json, named, of, pods, rendered
from testkit.worlds.operator import pod_templates

needs_helm = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
ALL = tuple(f"monitoring.{one}.enabled=true" for one in ("podMonitor", "prometheusRule", "dashboard"))
GROUPS = 'measure.groups=[{"name":"a"},{"name":"b"}]'
BOARD = chart_files.CHART / "files" / "dashboard.json"
OURS = re.compile(r"\brmqha_[a-z_]+")


def _ports(pod: Json) -> dict[str, int]:
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return {port["name"]: port["containerPort"] for one in containers for port in one.get("ports", ())}


@needs_helm
def test_nothing_for_prometheus_or_grafana_is_made_unasked() -> None:
    kinds = {one["kind"] for one in rendered("measure.enabled=true")}
    assert kinds.isdisjoint({"PodMonitor", "PrometheusRule"})
    assert [one["metadata"]["name"] for one in of(rendered(), "ConfigMap")] == ["demo-operator-log-level"]


@needs_helm
def test_every_pod_monitor_finds_one_kind_of_pod_and_its_ports() -> None:
    objects = rendered(*ALL, "measure.enabled=true", GROUPS)
    every = [*pod_templates().values(), *pods(objects).values()]
    found = {}
    for monitor in of(objects, "PodMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (pod,) = [one for one in every if wanted <= one["metadata"]["labels"].items()]
        ports = _ports(pod)
        endpoints = monitor["spec"]["podMetricsEndpoints"]
        found[monitor["metadata"]["name"]] = [ports[one["port"]] for one in endpoints]
        assert {one["path"] for one in endpoints} == {"/metrics"}
    assert found == {
        "demo-controller": [9880],
        "demo-log-replica": [9881],
        "demo-broker": [9882, 5557],
        "demo-learner": [5557],
        "demo-proxy": [5557],
        "demo-route-front": [9883],
        "demo-operator": [8080],
        "demo-measure": [9889, 9890, 9891],
    }


@needs_helm
def test_pod_monitors_look_where_the_operator_does() -> None:
    own = named(rendered(*ALL), "PodMonitor", "demo-broker")
    assert own["spec"]["namespaceSelector"] == {"matchNames": ["mq"]}
    everywhere = named(rendered(*ALL, "operator.clusterWide=true"), "PodMonitor", "demo-broker")
    assert everywhere["spec"]["namespaceSelector"] == {"any": True}
    some = rendered(*ALL, 'operator.watchNamespaces=["shop","pay"]')
    assert named(some, "PodMonitor", "demo-broker")["spec"]["namespaceSelector"] == {
        "matchNames": ["shop", "pay"]
    }
    assert "namespaceSelector" not in named(some, "PodMonitor", "demo-operator")["spec"]


@needs_helm
def test_the_pages_example_gives_prometheus_a_way_to_every_port_that_it_asks() -> None:
    example: Json = yaml.safe_load(chart_files.EXAMPLE)
    objects = rendered(*(f"{key}={json.dumps(value)}" for key, value in example.items()))
    (peer,) = example["networkPolicies"]["monitoring"]
    opened = {
        port["port"]
        for policy in of(objects, "NetworkPolicy")
        for rule in policy["spec"].get("ingress", ())
        if peer in rule["from"]
        for port in rule["ports"]
    }
    assert opened == {5557, 8080, 9880, 9881, 9882, 9883, 9889, 9890}
    assert {one["kind"] for one in objects} >= {"PodMonitor", "PrometheusRule"}


@needs_helm
def test_labels_that_a_prometheus_selects_by_are_put_on() -> None:
    settings = [f'monitoring.{one}.labels={{"release":"kube"}}' for one in ("podMonitor", "prometheusRule")]
    objects = rendered(*ALL, *settings, 'monitoring.podMonitor.interval="5s"')
    for kind, count in (("PodMonitor", 7), ("PrometheusRule", 1)):
        labels = [one["metadata"]["labels"] for one in of(objects, kind)]
        assert [one["release"] for one in labels] == ["kube"] * count
    (endpoint,) = named(objects, "PodMonitor", "demo-operator")["spec"]["podMetricsEndpoints"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("5s", "5s")


def test_the_charts_rules_are_those_of_the_export(tmp_path: Path) -> None:
    assert main(["export", "--out", str(tmp_path)]) == 0
    exported = yaml.safe_load((tmp_path / "prometheus-rules.yaml").read_text())
    assert yaml.safe_load(chart_files.RULES.read_text()) == exported, "run: make chart"
    assert chart_files.RULES.read_text() == chart_files.rules(), "run: make chart"


@needs_helm
def test_the_rendered_rules_are_the_files_and_promtool_accepts_them(tmp_path: Path) -> None:
    (rule,) = of(rendered(*ALL), "PrometheusRule")
    # Nothing of `{{ $labels.group }}` may be lost on the way through helm.
    assert rule["spec"] == yaml.safe_load(chart_files.RULES.read_text())
    try:
        promtool = programs().promtool
    except PrometheusUnavailableError as error:
        pytest.skip(f"no promtool: {error}")
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def _exported() -> frozenset[str]:
    """Return the name of every series that our processes export."""
    controller = ControllerMetrics()
    controller.observe(lambda: NodeNumbers(3, 1, 1, 1), lambda: [GroupNumbers("c", "g", 1, 2, 3)])
    slave = SlaveFacts("/10.0.0.1:5", 1, 2, in_sync=True)
    broker = BrokerFacts(1, "a:1", True, 3, 1000, 900, (slave,))
    known = CompanionState(
        broker, GroupFacts(1, "a:1", 3, (1,), ()), 0, True, fenced=False, metadata_in_sync=True
    )
    companion = CompanionMetrics("c", "g", lambda: known)
    replica = ReplicaMetrics(("c", "g", "2"), lambda: ReplicaNumbers(0, 0, 0, False, 0, 0, 0))
    texts = [controller.text(), companion.text(), replica.text(), OperatorMetrics(lambda: True).text()]
    found = _series(b"".join(texts).decode())
    for registry in (CanaryMetrics("g").registry, CollectorMetrics().registry):
        found |= _of_registry(registry)
    return frozenset(found)


def _series(text: str) -> set[str]:
    found = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return found


def _of_registry(registry: CollectorRegistry) -> set[str]:
    return _series(generate_latest(registry).decode())


def _board() -> Json:
    board: Json = json.loads(BOARD.read_text())
    return board


def _queries() -> list[str]:
    board = _board()
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    found += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    return found + [one["expr"] for one in board["annotations"]["list"]]


def test_every_series_of_the_dashboard_is_one_that_we_export() -> None:
    asked = {name for query in _queries() for name in OURS.findall(query)}
    assert len(asked) > 20
    assert asked - _exported() == set()


def test_every_series_of_the_rules_is_one_that_we_export() -> None:
    asked = set(OURS.findall(chart_files.RULES.read_text()))
    assert asked
    assert asked - _exported() == set()


def test_every_query_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    try:
        promtool = programs().promtool
    except PrometheusUnavailableError as error:
        pytest.skip(f"no promtool: {error}")
    queries = [query for query in _queries() if not query.startswith("label_values")]
    rules = []
    for number, query in enumerate(queries):
        plain = query.replace("$__rate_interval", "1m").replace("$__range", "3h").replace("$group", ".*")
        assert "$" not in plain
        rules.append({"record": f"panel:{number}", "expr": plain})
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_places_and_identities_of_their_own_and_say_what_they_show() -> None:
    panels = _board()["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"]
            assert panel["targets"]


@needs_helm
def test_the_dashboard_is_a_config_map_that_grafanas_sidecar_finds() -> None:
    found = named(rendered(*ALL), "ConfigMap", "demo-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["rocketmq-ha.json"]) == _board()
