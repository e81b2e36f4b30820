"""The chart: what it renders, what it refuses, and what it says; helm alone, no cluster."""

import argparse
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rocketmq_operator.api.names import CLUSTER_LABEL, COMPONENT_LABEL, GROUP_LABEL
from rocketmq_operator.plan.common.report_servers import parse_report_servers
from rocketmq_operator.plan.leadership.other_operators import (
    OPERATOR_LABELS,
    earlier_operator,
    operators_in_watched_namespaces,
)
from slo_pipeline.collect.kubernetes import pods as pods_of_clusters
from slo_pipeline.collect.kubernetes.discovery import targets_of
from slo_pipeline.collect.kubernetes.pods import pod_of
from slo_pipeline.collect.scraping.targets import read_targets
from slo_pipeline.jobs.daily import add_arguments
from slo_pipeline.mirror import command as mirror_command
from testkit.kube.kubectl import KubeError, program
from testkit.products.helm import RELEASE, Json, named, of, pods, rendered
from testkit.worlds.operator import pod_templates

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "rocketmq-ha"
pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")


def _pods(objects: list[Json]) -> list[Json]:
    """Return the spec of each pod, whatever makes it."""
    return [pod["spec"] for pod in pods(objects).values()]


def _rules(objects: list[Json], kind: str) -> list[tuple[str, str]]:
    """Return every (resource, verb) that roles of a kind grant."""
    return [
        (resource, verb)
        for role in of(objects, kind)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def test_the_charts_definitions_are_those_of_the_models() -> None:
    ours = {path.name: path.read_text() for path in (ROOT / "crds").iterdir()}
    assert {path.name: path.read_text() for path in (CHART / "crds").iterdir()} == ours, (
        "run: rocketmq-operator crds --directory charts/rocketmq-ha/crds"
    )


def test_every_pod_satisfies_the_restricted_profile() -> None:
    pods = _pods(rendered())
    assert len(pods) >= 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True


def test_the_operator_has_no_right_to_run_programs_in_pods_or_to_list_all_it_may_change() -> None:
    granted = _rules(rendered(), "Role")
    assert not [rule for rule in granted if "*" in rule]
    assert not [resource for resource, _ in granted if resource.startswith("pods/")]
    assert {verb for resource, verb in granted if resource == "secrets"} == {"get", "create", "patch"}
    assert ("statefulsets", "delete") not in granted
    assert ("persistentvolumeclaims", "delete") not in granted
    assert ("persistentvolumeclaims", "delete") in _rules(rendered("operator.mayGiveUpVolumes=true"), "Role")


def _found(objects: list[Json], namespace: str) -> Json:
    """Return a release's operator as the API server has it, by the labels that another operator looks for."""
    (found,) = [
        one
        for one in of(objects, "Deployment")
        if OPERATOR_LABELS.items() <= one["metadata"]["labels"].items()
    ]
    return found | {"metadata": found["metadata"] | {"namespace": namespace}}


def test_two_operators_of_the_whole_cluster_know_each_other_and_may_look() -> None:
    whole = rendered("operator.clusterWide=true")
    assert ("deployments", "list") in _rules(whole, "ClusterRole")
    both = [_found(whole, "one"), _found(whole, "two")]
    assert [bool(earlier_operator(both, one)) for one in ("one", "two")].count(True) == 1
    some = _found(rendered('operator.watchNamespaces=["shop","pay"]'), "one")
    assert earlier_operator([some, both[1]], "two") == ""
    assert operators_in_watched_namespaces([some, both[1]], "two") == ("one/demo-operator",)


def test_an_operator_of_some_namespaces_has_no_rights_in_others() -> None:
    objects = rendered('operator.watchNamespaces=["shop","pay"]')
    assert of(objects, "ClusterRole") == []
    roles = {role["metadata"].get("namespace") for role in of(objects, "Role")}
    assert roles == {"shop", "pay", None}, "beside theirs there is the Lease's, in the release's own"
    assert _namespaces_watched(objects) == ["--namespace=shop", "--namespace=pay"]


def test_an_operator_watches_its_own_namespace_unless_it_is_told_otherwise() -> None:
    objects = rendered()
    assert of(objects, "ClusterRole") == of(objects, "ClusterRoleBinding") == []
    assert _namespaces_watched(objects) == ["--namespace=mq"]
    everywhere = rendered("operator.clusterWide=true")
    assert _namespaces_watched(everywhere) == []
    (role,) = of(everywhere, "ClusterRole")
    (own,) = [one for one in of(objects, "Role") if one["metadata"].get("namespace") == "mq"]
    assert role["rules"] == own["rules"]


def test_a_list_of_namespaces_and_every_namespace_are_not_both_meant() -> None:
    with pytest.raises(KubeError, match="watchNamespaces"):
        rendered("operator.clusterWide=true", 'operator.watchNamespaces=["shop"]')


def _namespaces_watched(objects: list[Json]) -> list[str]:
    (deployment,) = of(objects, "Deployment")
    arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return [word for word in arguments if word.startswith("--namespace=")]


def test_a_registry_is_put_before_every_image_of_ours() -> None:
    images = {
        container["image"]
        for pod in _pods(rendered('images.registry="registry.example.com/"', 'images.tag="1.2.3"'))
        for container in pod["containers"]
    }
    ours = {image for image in images if "rocketmq-ha/" in image}
    assert ours
    assert all(image.startswith("registry.example.com/rocketmq-ha/") for image in ours)
    assert all(image.endswith(":1.2.3") for image in ours)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("operator.replicas=0", ["operator", "replicas"]),
        ('operator.replicas="two"', ["operator", "replicas"]),
        ("operator.replica=2", ["operator", "replica"]),
        ('operator.logLevel="loud"', ["operator", "logLevel"]),
        ('images.registry="registry.example.com"', ["images", "registry"]),
        ('images.pullPolicy="Sometimes"', ["images", "pullPolicy"]),
        ('operator.resources.limits.memory="lots"', ["memory"]),
        ('test.cluster="Main Cluster"', ["test", "cluster"]),
        ("measure.groups=[]", ["measure", "groups"]),
        ("measure.controllers=3", ["measure", "controllers"]),
        ('measure.groups=[{"name":"orders","replicas":2}]', ["measure", "groups", "replicas"]),
        ("measure.report.target=100", ["report", "target"]),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(setting: str, words: list[str]) -> None:
    with pytest.raises(KubeError) as refusal:
        rendered(setting)
    assert [word for word in words if word not in str(refusal.value).partition("Error:")[2]] == []


def _targets(*settings: str) -> list[Json]:
    config = named(rendered("measure.enabled=true", *settings), "ConfigMap", f"{RELEASE}-measure")
    found: list[Json] = json.loads(config["data"]["targets.json"])["targets"]
    return found


def test_the_collector_is_given_the_canaries_of_its_pod_and_finds_all_others(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    path.write_text(json.dumps({"targets": _targets()}))
    assert [(target.name, target.url) for target in read_targets(path)] == [
        ("canary-orders", "http://127.0.0.1:9890/metrics")
    ]


def test_the_measuring_pod_is_replaced_where_its_canaries_change_and_for_no_member_of_a_group() -> None:
    def checksum(*settings: str) -> str:
        (made,) = [
            one
            for one in of(rendered("measure.enabled=true", *settings), "Deployment")
            if one["metadata"]["name"] == "demo-measure"
        ]
        found: str = made["spec"]["template"]["metadata"]["annotations"]["checksum/targets"]
        return found

    assert checksum() == checksum('measure.groups=[{"name":"orders"}]')
    assert checksum() != checksum('measure.groups=[{"name":"pay"}]')


def test_every_pod_that_the_operator_makes_and_we_collect_from_serves_at_the_ports_that_are_asked() -> None:
    found = {}
    for component, template in pod_templates().items():
        name = template["metadata"]["labels"]["app.kubernetes.io/instance"] + "-0"
        own = {"name": name, "namespace": "mq", "uid": "u"}
        pod = {"metadata": template["metadata"] | own, "status": {"podIP": "10.0.0.1"}}
        ports = {
            port["containerPort"]
            for one in [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]
            for port in one.get("ports", ())
        }
        targets = targets_of(pod_of(pod))
        found[component] = [target.kind for target in targets]
        assert {urlsplit(target.url).port for target in targets} <= ports
        assert {target.stream for target in targets} <= {"", "main"}
    assert found == {
        "nameserver": [],
        "controller": ["metrics", "events"],
        "broker": ["metrics", "metrics", "events"],
        "learner": ["metrics"],
        "log-replica": ["metrics", "events"],
        "proxy": [],
        "route-front": [],
    }


def test_the_labels_that_pods_are_found_by_are_the_operators() -> None:
    ours = (pods_of_clusters.CLUSTER_LABEL, pods_of_clusters.GROUP_LABEL, pods_of_clusters.COMPONENT_LABEL)
    assert ours == (CLUSTER_LABEL, GROUP_LABEL, COMPONENT_LABEL)


def test_each_group_has_a_canary_that_the_collector_scrapes() -> None:
    groups = '[{"name":"orders"},{"name":"pay"}]'
    objects = rendered("measure.enabled=true", f"measure.groups={groups}")
    measure = next(one for one in of(objects, "Deployment") if one["metadata"]["name"] == "demo-measure")
    containers = {one["name"]: one for one in measure["spec"]["template"]["spec"]["containers"]}
    ports = [containers[f"canary-{name}"]["ports"][0]["containerPort"] for name in ("orders", "pay")]
    scraped = {target["url"] for target in _targets(f"measure.groups={groups}")}
    assert {f"http://127.0.0.1:{port}/metrics" for port in ports} <= scraped
    assert len(set(ports)) == 2


def test_each_canary_has_a_service_by_which_the_operator_finds_it() -> None:
    groups = '[{"name":"orders"},{"name":"pay"}]'
    objects = rendered("measure.enabled=true", f"measure.groups={groups}")
    measure = next(one for one in of(objects, "Deployment") if one["metadata"]["name"] == "demo-measure")
    pod = measure["spec"]["template"]
    services = {
        one["metadata"]["labels"]["rocketmq-ha.dev/canary"]: one
        for one in of(objects, "Service")
        if "rocketmq-ha.dev/canary" in one["metadata"]["labels"]
    }
    assert sorted(services) == ["orders", "pay"]
    for group, service in services.items():
        # Objects with a cluster's label stay; objects with a group's label belong to a member.
        assert service["metadata"]["labels"]["rocketmq-ha.dev/cluster"] == "main"
        assert "rocketmq-ha.dev/group" not in service["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        canary = next(one for one in pod["spec"]["containers"] if one["name"] == f"canary-{group}")
        (port,) = service["spec"]["ports"]
        assert port["targetPort"] == canary["ports"][0]["name"]
        assert f"--http=0.0.0.0:{canary['ports'][0]['containerPort']}" in canary["args"]


def test_the_longest_names_make_a_name_that_a_service_may_have() -> None:
    many = [{"name": f"g{number:039d}"} for number in range(16)]
    objects = rendered("measure.enabled=true", f"measure.groups={json.dumps(many)}")
    longest_release = "r" * 53
    names = [one["metadata"]["name"].replace("demo", longest_release, 1) for one in of(objects, "Service")]
    assert max(map(len, names)) <= 63
    assert len(set(names)) == len(names)


def test_the_operator_may_list_services_where_it_looks_for_canaries() -> None:
    assert ("services", "list") in _rules(rendered("operator.clusterWide=true"), "ClusterRole")
    assert ("services", "list") in _rules(rendered('operator.watchNamespaces=["shop"]'), "Role")


def test_the_report_servers_service_leads_to_the_pod_that_holds_the_volume() -> None:
    objects = rendered("measure.enabled=true")
    (server,) = [
        one for one in of(objects, "Service") if "rocketmq-ha.dev/reports-of" in one["metadata"]["labels"]
    ]
    (seen,) = parse_report_servers([server])
    assert server["metadata"]["labels"]["app.kubernetes.io/component"] == "report-server"
    assert server["metadata"]["labels"]["rocketmq-ha.dev/cluster"] == "main"
    assert seen.claim in {one["metadata"]["name"] for one in of(objects, "PersistentVolumeClaim")}
    measure = next(one for one in of(objects, "Deployment") if one["metadata"]["name"] == "demo-measure")
    pod = measure["spec"]["template"]
    assert dict(seen.selector).items() <= pod["metadata"]["labels"].items()
    claims = [
        one["persistentVolumeClaim"]["claimName"]
        for one in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in one
    ]
    assert claims == [seen.claim]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ((), "Role"),
        (("operator.clusterWide=true",), "ClusterRole"),
        (('operator.watchNamespaces=["shop"]',), "Role"),
    ],
)
def test_the_operator_may_do_what_a_report_needs(settings: tuple[str, ...], kind: str) -> None:
    granted = _rules(rendered(*settings), kind)
    wanted = {
        "sloreports": ("get", "list", "watch"),
        "sloreports/status": ("patch",),
        "sloreports/finalizers": ("update",),
        "cronjobs": ("get", "create", "patch"),
        "jobs": ("list", "watch"),
        "configmaps": ("get", "create", "patch"),
        "persistentvolumeclaims": ("get",),
        "services": ("list",),
        "pods": ("list",),
    }
    assert [
        (one, verb) for one, verbs in wanted.items() for verb in verbs if (one, verb) not in granted
    ] == []


def test_what_measures_satisfies_the_restricted_profile() -> None:
    pods = _pods(rendered("measure.enabled=true", 'measure.mirror.to="s3://bucket/main"'))
    assert any(container["name"] == "mirror" for pod in pods for container in pod["containers"])
    quiet = [pod for pod in pods if pod.get("automountServiceAccountToken") is False]
    assert len(quiet) >= 3  # the test's, the measuring one, the report's
    for pod in pods:
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_days_are_kept_before_a_report_is_made_of_them_where_that_is_asked() -> None:
    def report(*settings: str) -> Json:
        (job,) = of(rendered("measure.enabled=true", *settings), "CronJob")
        pod: Json = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        return pod

    plain, kept = report(), report("measure.report.daily=true")
    assert "initContainers" not in plain
    (daily,), (made,) = kept["initContainers"], kept["containers"]
    tables = {one for one in made["args"] if one not in plain["containers"][0]["args"]}
    assert tables == {"--tables=/data/tables"}
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert daily["args"][0] == "daily"
    asked = parser.parse_args(daily["args"][1:])
    assert (f"--input={asked.input}" in made["args"], f"--tables={asked.tables}") == (True, *tables)
    assert {key: daily[key] for key in daily if key not in {"name", "args"}} == {
        key: made[key] for key in made if key not in {"name", "args"}
    }


def test_segments_are_as_long_as_is_asked() -> None:
    containers = _containers("measure.segmentSeconds.canary=600", "measure.segmentSeconds.collector=30")
    assert "--segment-duration=30s" in containers["collector"]["args"]
    assert "--segment-duration=600s" in containers["canary-orders"]["args"]


def _containers(*settings: str) -> dict[str, Json]:
    (made,) = [
        one
        for one in of(rendered("measure.enabled=true", *settings), "Deployment")
        if one["metadata"]["name"] == "demo-measure"
    ]
    return {one["name"]: one for one in made["spec"]["template"]["spec"]["containers"]}


def _mirrored(container: Json) -> argparse.Namespace:
    """Return a mirror's arguments as the command reads them."""
    assert container["args"][0] == "mirror"
    parser = argparse.ArgumentParser()
    mirror_command.add_arguments(parser)
    return parser.parse_args(container["args"][1:])


def test_a_second_place_is_kept_by_a_container_that_can_only_read_the_volume() -> None:
    assert "mirror" not in _containers()
    mirror = _containers('measure.mirror.to="s3://bucket/main"')["mirror"]
    assert "envFrom" not in mirror
    (data,) = [mount for mount in mirror["volumeMounts"] if mount["name"] == "data"]
    assert data == {"name": "data", "mountPath": "/data", "readOnly": True}
    taken = _mirrored(mirror)
    assert (taken.source, taken.target) == ("/data/segments", "s3://bucket/main")
    assert (taken.endpoint, taken.follow) == (None, 60.0)


def test_a_second_place_has_its_server_its_credentials_and_its_rhythm() -> None:
    settings = {
        "to": "s3://bucket",
        "endpoint": "http://minio:9000",
        "secretName": "keys",
        "everySeconds": 300,
    }
    mirror = _containers(f"measure.mirror={json.dumps(settings)}")["mirror"]
    assert mirror["envFrom"] == [{"secretRef": {"name": "keys"}}]
    taken = _mirrored(mirror)
    assert (taken.target, taken.endpoint, taken.follow) == ("s3://bucket", "http://minio:9000", 300.0)


def test_nothing_is_measured_unless_asked() -> None:
    assert [one["metadata"]["name"] for one in of(rendered(), "Deployment")] == ["demo-operator"]
    assert of(rendered(), "PersistentVolumeClaim") == []
