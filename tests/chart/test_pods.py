"""Settings of the chart's own pods reach every pod that they concern: places, labels, accounts, secrets."""

import pytest

from testkit.kube.kubectl import program
from testkit.products.helm import Json, named, of, pods, rendered

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
COMPONENTS = {
    "operator": ("operator",),
    "measure": ("measure", "report"),
    "test": ("test",),
}
"""What each section of the values is about."""
SPREAD = '{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}'
TOLERATION = {"key": "mq", "operator": "Exists", "effect": "NoSchedule"}
SECTIONS = [(section, one) for section, components in COMPONENTS.items() for one in components]


def _pods(*settings: str) -> dict[str, Json]:
    return pods(rendered("measure.enabled=true", *settings))


def test_every_pod_of_the_chart_is_of_a_section() -> None:
    assert sorted(_pods()) == sorted(one for _, one in SECTIONS)


@pytest.mark.parametrize(
    "settings",
    [(), ("measure.kubelet.enabled=false", "measure.kubernetesEvents=false")],
    ids=["all", "asking nobody"],
)
def test_every_mount_is_of_a_volume_of_its_pod_and_every_volume_is_mounted(settings: tuple[str, ...]) -> None:
    for pod in _pods(*settings).values():
        spec = pod["spec"]
        mounted = {
            mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])
        }
        assert mounted == {volume["name"] for volume in spec.get("volumes", [])}


@pytest.mark.parametrize(("section", "component"), SECTIONS)
def test_a_pod_goes_where_it_is_sent(section: str, component: str) -> None:
    plain = _pods()[component]["spec"]
    assert "nodeSelector" not in plain
    sent = _pods(
        f'{section}.nodeSelector={{"pool":"mq"}}',
        f'{section}.tolerations=[{{"key":"mq","operator":"Exists","effect":"NoSchedule"}}]',
        f"{section}.affinity={SPREAD}",
    )
    pod = sent[component]["spec"]
    assert pod["nodeSelector"] == {"pool": "mq"}
    # Those of the operator, by which it leaves a node that is gone, stay.
    assert pod["tolerations"] == [*plain.get("tolerations", []), TOLERATION]
    affinity = "podAffinity" if component == "report" else "nodeAffinity"
    assert list(pod["affinity"]) == [affinity], "a report is made where the volume is"
    others = [sent[one]["spec"] for other, one in SECTIONS if other != section]
    assert not [one for one in others if "nodeSelector" in one]


@pytest.mark.parametrize(("section", "component"), SECTIONS)
def test_labels_and_annotations_are_added_to_those_that_there_are(section: str, component: str) -> None:
    plain = _pods()[component]["metadata"]
    pod = _pods(f'{section}.podLabels={{"team":"mq"}}', f'{section}.podAnnotations={{"scrape":"no"}}')[
        component
    ]["metadata"]
    assert pod["labels"] == plain["labels"] | {"team": "mq"}
    assert pod["annotations"] == plain.get("annotations", {}) | {"scrape": "no"}


def test_every_container_has_resources_and_leaves_its_last_words_in_the_status() -> None:
    specs = [
        pod["spec"]
        for pod in _pods('measure.mirror.to="s3://bucket/prefix"', "measure.report.daily=true").values()
    ]
    containers = [one for spec in specs for one in (*spec.get("initContainers", []), *spec["containers"])]
    assert {"operator", "send-and-read", "collector", "mirror", "daily", "report"} <= {
        one["name"] for one in containers
    }
    for one in containers:
        assert one.get("terminationMessagePolicy") == "FallbackToLogsOnError", one["name"]
        assert {"cpu", "memory"} <= one["resources"]["requests"].keys(), one["name"]
        assert "memory" in one["resources"]["limits"], one["name"]


def test_a_secret_for_the_registry_is_in_every_pod() -> None:
    for component, pod in _pods('images.pullSecrets=["one","two"]').items():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}], component


def test_a_label_does_not_change_what_finds_the_pods() -> None:
    settings = ("measure.enabled=true", 'operator.podLabels={"team":"mq"}', 'measure.podLabels={"team":"mq"}')
    for deployment in of(rendered(*settings), "Deployment"):
        selector = deployment["spec"]["selector"]["matchLabels"]
        assert "team" not in selector
        assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(("section", "default"), [("operator", "demo-operator"), ("measure", "demo-measure")])
def test_an_account_has_the_name_and_the_annotations_that_it_is_given(section: str, default: str) -> None:
    plain = rendered("measure.enabled=true")
    assert _pods()[section]["spec"]["serviceAccountName"] == default
    assert "annotations" not in named(plain, "ServiceAccount", default)["metadata"]
    settings = (
        f'{section}.serviceAccount.name="mine"',
        f'{section}.serviceAccount.annotations={{"role":"r"}}',
    )
    objects = rendered("measure.enabled=true", *settings)
    assert named(objects, "ServiceAccount", "mine")["metadata"]["annotations"] == {"role": "r"}
    assert pods(objects)[section]["spec"]["serviceAccountName"] == "mine"
    bound = [one for kind in ("RoleBinding", "ClusterRoleBinding") for one in of(objects, kind)]
    accounts = {subject["name"] for one in bound for subject in one["subjects"]}
    assert "mine" in accounts
    assert default not in accounts


def test_the_test_of_a_release_dials_in_tls_where_the_values_say_so() -> None:
    def options(*settings: str) -> str:
        specs = [pod["spec"] for pod in _pods(*settings).values()]
        containers = [one for spec in specs for one in spec["containers"] if one["name"] == "send-and-read"]
        return str(containers[0]["env"])

    assert "-Dtls.enable=true" not in options()
    assert "-Dtls.enable=true" in options("test.tls=true")
