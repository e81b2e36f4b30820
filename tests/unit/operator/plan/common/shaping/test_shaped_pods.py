"""What `pod` and `podOverride` do to the pods of each component, and what they must not do."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_operator.api.pods.settings import PodOverride
from rocketmq_operator.plan.common.shaping.override import PodRefusedError
from rocketmq_operator.plan.common.shaping.shaped import PodShape
from rocketmq_operator.plan.common.shaping.shaped import shaped as made
from testkit.worlds.pod_cases import EVERY_SETTING, OVERRIDE
from testkit.worlds.pod_templates import PATHS, template, workloads

Json = dict[str, Any]
UNCHANGED: Final = {name: template(body) for name, body in workloads().items()}
COMPONENTS: Final = list(PATHS)
SIDECARS: Final = {"broker": ["companion", "seed"]}


def shaped(component: str, settings: Json | None = None, override: Json | None = None) -> Json:
    """Return the pod template of a component whose spec has these settings."""
    kind, path = PATHS[component]
    change: Json = {}
    if settings is not None:
        change[path[-1]] = settings
    if override is not None:
        change[f"{path[-1]}Override"] = override
    for name in reversed(path[:-1]):
        change = {name: change}
    cluster, group = (change, None) if kind == "RocketMQCluster" else (None, change)
    return template(workloads(cluster, group)[component])


def spec_path(component: str) -> str:
    """Return the field of the resource that has the settings of a component's pods."""
    return ".".join(("spec", *PATHS[component][1]))


@pytest.mark.parametrize("component", COMPONENTS)
def test_empty_settings_change_nothing(component: str) -> None:
    assert shaped(component, {}, {"metadata": {}, "spec": {}}) == UNCHANGED[component]


@pytest.mark.parametrize("component", COMPONENTS)
def test_settings_of_one_component_leave_the_others_alone(component: str) -> None:
    kind, path = PATHS[component]
    change: Json = {"labels": {"team": "orders"}}
    for name in reversed(path):
        change = {name: change}
    found = workloads(change) if kind == "RocketMQCluster" else workloads(None, change)
    changed = {name for name, body in found.items() if template(body) != UNCHANGED[name]}
    assert changed == {component}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_setting_is_in_the_pod(component: str) -> None:
    own, found = UNCHANGED[component], shaped(component, EVERY_SETTING)
    assert found["metadata"]["labels"] == own["metadata"]["labels"] | {"team": "orders"}
    assert found["metadata"]["annotations"].items() >= {"example.com/scrape": "true"}.items()
    pod, main, before = found["spec"], found["spec"]["containers"][0], own["spec"]["containers"][0]
    assert main["env"] == [*before.get("env", []), *EVERY_SETTING["env"]]
    assert main["volumeMounts"] == [*before["volumeMounts"], *EVERY_SETTING["volumeMounts"]]
    assert pod["volumes"] == [*own["spec"]["volumes"], *EVERY_SETTING["volumes"]]
    for name in (
        "priorityClassName",
        "imagePullSecrets",
        "serviceAccountName",
        "runtimeClassName",
        "nodeSelector",
        "tolerations",
        "terminationGracePeriodSeconds",
    ):
        assert pod[name] == EVERY_SETTING[name], name
    assert pod["securityContext"] == {"runAsNonRoot": True, **EVERY_SETTING["securityContext"]}
    assert {"ip": "192.0.2.7", "hostnames": ["vault.example.com"]} in pod["hostAliases"]
    assert pod["hostAliases"][:-1] == own["spec"].get("hostAliases", [])
    ours = [*pod.get("initContainers", []), main]
    assert [one["name"] for one in ours[:-1]] == SIDECARS.get(component, [])
    assert {one["imagePullPolicy"] for one in ours} == {"Always"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_terms_of_the_scheduler_come_after_the_operators(component: str) -> None:
    found = shaped(component, EVERY_SETTING)["spec"]
    kept = "preferredDuringSchedulingIgnoredDuringExecution"
    own = UNCHANGED[component]["spec"]["affinity"]["podAntiAffinity"][kept]
    added = EVERY_SETTING["affinity"]["podAntiAffinity"][kept]
    assert found["affinity"]["podAntiAffinity"] == {kept: [*own, *added]}
    assert found["affinity"]["nodeAffinity"] == EVERY_SETTING["affinity"]["nodeAffinity"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_spread_without_a_selector_is_of_this_component_of_this_resource(component: str) -> None:
    (spread,) = shaped(component, EVERY_SETTING)["spec"]["topologySpreadConstraints"]
    labels = UNCHANGED[component]["metadata"]["labels"]
    names = {f"app.kubernetes.io/{one}" for one in ("name", "instance", "component")}
    assert spread["labelSelector"] == {"matchLabels": {key: labels[key] for key in names}}
    chosen = {"labelSelector": {"matchLabels": {"a": "b"}}}
    given = EVERY_SETTING["topologySpreadConstraints"][0] | chosen
    (spread,) = shaped(component, {"topologySpreadConstraints": [given]})["spec"]["topologySpreadConstraints"]
    assert spread == given


@pytest.mark.parametrize("component", COMPONENTS)
def test_numbers_of_probes_replace_numbers_and_nothing_else(component: str) -> None:
    before = UNCHANGED[component]["spec"]["containers"][0]
    after = shaped(component, {"probes": EVERY_SETTING["probes"]})["spec"]["containers"][0]
    for name, numbers in EVERY_SETTING["probes"].items():
        if f"{name}Probe" in before:
            assert after[f"{name}Probe"] == before[f"{name}Probe"] | numbers
    assert {key for key in after if key.endswith("Probe")} == {key for key in before if key.endswith("Probe")}


def test_a_number_that_kubernetes_drops_is_not_applied() -> None:
    found = shaped("broker", {"probes": {"liveness": {"initialDelaySeconds": 0}}})
    assert found == UNCHANGED["broker"], "the live object never has it, and would be written for ever"


def test_further_containers_come_last_and_are_restricted() -> None:
    pod = shaped("controller", EVERY_SETTING)["spec"]
    (logs,) = pod["containers"][1:]
    assert logs["resources"] == {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"memory": "64Mi", "cpu": "1"},
    }
    assert logs["imagePullPolicy"] == "Never"
    assert logs["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert logs["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_settings_are_added_to_those_of_placement() -> None:
    placement = {
        "nodeSelector": {"pool": "a", "disk": "ssd"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
    }
    group = {
        "placement": placement,
        "pod": {"nodeSelector": {"pool": "b"}, "tolerations": [{"key": "y", "operator": "Exists"}]},
    }
    pod = template(workloads(None, group)["broker"])["spec"]
    assert pod["nodeSelector"] == {"pool": "b", "disk": "ssd"}
    assert [one["key"] for one in pod["tolerations"]] == ["x", "y"]


def test_names_of_a_host_that_the_operator_knows_are_added_to_its_line() -> None:
    line = UNCHANGED["broker"]["spec"]["hostAliases"][0]
    found = shaped("broker", {"hostAliases": [{"ip": line["ip"], "hostnames": ["again"]}]})["spec"]
    assert found["hostAliases"][0] == {"ip": line["ip"], "hostnames": [*line["hostnames"], "again"]}
    assert len(found["hostAliases"]) == len(UNCHANGED["broker"]["spec"]["hostAliases"])


@pytest.mark.parametrize("component", COMPONENTS)
def test_an_override_comes_last(component: str) -> None:
    name = UNCHANGED[component]["spec"]["containers"][0]["name"]
    override = {
        "metadata": {"labels": {"team": "other"}, "annotations": {"example.com/late": "yes"}},
        "spec": {
            "dnsPolicy": "Default",
            "priorityClassName": "low",
            "containers": [
                {"name": name, "resources": {"limits": {"cpu": 4, "memory": "9Gi"}}},
                {"name": "logs", "image": "logs:2"},
            ],
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
            "affinity": {"$patch": "delete"},
        },
    }
    found = shaped(component, EVERY_SETTING, override)
    assert found["metadata"]["labels"]["team"] == "other"
    assert found["metadata"]["annotations"]["example.com/late"] == "yes"
    pod = found["spec"]
    assert (pod["dnsPolicy"], pod["priorityClassName"]) == ("Default", "low")
    assert "affinity" not in pod
    assert pod["containers"][0]["resources"]["limits"] == {"cpu": "4", "memory": "9Gi"}
    assert pod["containers"][0]["resources"]["requests"]
    assert [one["image"] for one in pod["containers"][1:]] == ["logs:2"]
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]


FORBIDDEN: Final[dict[str, tuple[Json, str]]] = {
    "labels": (
        {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}},
        "metadata.labels[app.kubernetes.io/name] is x",
    ),
    "digest": (
        {"metadata": {"annotations": {"rocketmq-ha.dev/config-hash": "x"}}},
        "metadata.annotations[rocketmq-ha.dev/config-hash] is x",
    ),
    "host network": ({"spec": {"hostNetwork": True}}, "spec.hostNetwork is True: members on one node"),
    "host processes": ({"spec": {"hostPID": True}}, "spec.hostPID is True"),
    "shared processes": ({"spec": {"shareProcessNamespace": True}}, "spec.shareProcessNamespace is True"),
    "restart": ({"spec": {"restartPolicy": "Never"}}, "spec.restartPolicy is Never"),
    "node": ({"spec": {"nodeName": "node1"}}, "spec.nodeName is node1"),
    "subdomain": ({"spec": {"subdomain": "x"}}, "spec.subdomain is x"),
    "no grace": (
        {"spec": {"terminationGracePeriodSeconds": 1}},
        "spec.terminationGracePeriodSeconds is 1: at least 30",
    ),
    "default grace": (
        {"spec": {"terminationGracePeriodSeconds": None}},
        "spec.terminationGracePeriodSeconds is absent",
    ),
    "no volumes": ({"spec": {"volumes": None}}, "spec.volumes[config] is absent"),
    "another configuration": (
        {"spec": {"volumes": [{"name": "config", "emptyDir": {}}]}},
        "spec.volumes[config] is [{'name': 'config', 'emptyDir': {}}]: the operator writes it",
    ),
    "no store": ({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}, "spec.volumes[data] is"),
    "another order": (
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "x", "image": "x:1"}]}},
        "spec.containers is ['x']: it must begin with",
    ),
    "a name is missing": (
        {"spec": {"containers": [{"image": "x"}]}},
        "spec.containers has an entry without name",
    ),
    "an unknown directive": ({"spec": {"$retainKeys": ["x"]}}, "spec.$retainKeys is unknown"),
}
OF_MAIN: Final[dict[str, tuple[Json, str]]] = {
    "command": ({"command": ["sh"]}, "command is ['sh']: the operator writes it"),
    "arguments": ({"args": ["-x"]}, "args is ['-x']"),
    "folder": ({"workingDir": "/x"}, "workingDir is /x"),
    "image": ({"image": "x:2"}, "image is x:2: set spec.images of the RocketMQCluster"),
    "no mounts": ({"volumeMounts": None}, "volumeMounts[/etc/rocketmq] is absent"),
    "another mount": (
        {"volumeMounts": [{"mountPath": "/etc/rocketmq", "name": "scratch"}]},
        "volumeMounts[/etc/rocketmq] is [{'name': 'scratch', 'mountPath': '/etc/rocketmq', '",
    ),
    "stop hook": ({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}, "lifecycle is"),
    "probe": (
        {"livenessProbe": {"exec": {"command": ["true"]}}},
        "livenessProbe.exec is {'command': ['true']}: the operator decides how it asks",
    ),
    "no probe": ({"readinessProbe": {"$patch": "delete"}}, "readinessProbe."),
    "no ports": ({"ports": [{"$patch": "replace"}]}, "ports["),
}


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("case", FORBIDDEN)
def test_an_override_that_breaks_what_the_operator_owns_is_refused_with_the_field(
    component: str, case: str
) -> None:
    override, words = FORBIDDEN[case]
    with pytest.raises(PodRefusedError) as refused:
        shaped(component, None, override)
    assert str(refused.value).startswith(f"{spec_path(component)}Override.{words}"), str(refused.value)


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("case", OF_MAIN)
def test_an_override_that_breaks_the_main_container_is_refused_with_the_field(
    component: str, case: str
) -> None:
    change, words = OF_MAIN[case]
    name = UNCHANGED[component]["spec"]["containers"][0]["name"]
    with pytest.raises(PodRefusedError) as refused:
        shaped(component, None, {"spec": {"containers": [{"name": name, **change}]}})
    expected = f"{spec_path(component)}Override.spec.containers[{name}].{words}"
    assert str(refused.value).startswith(expected), str(refused.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            {"containers": [{"name": "broker", "env": [{"name": "JAVA_OPT_EXT", "value": "-Xmx1g"}]}]},
            "spec.containers[broker].env[JAVA_OPT_EXT] is",
        ),
        ({"initContainers": [{"name": "seed", "$patch": "delete"}]}, "spec.initContainers is ['companion']"),
        (
            {"initContainers": [{"name": "companion", "restartPolicy": None}]},
            "spec.initContainers[companion].restartPolicy is absent",
        ),
        (
            {
                "hostAliases": [
                    {"ip": "10.9.9.9", "hostnames": ["main-controller-0.main-controller.demo.svc"]}
                ]
            },
            "spec.hostAliases[10.9.9.9] is",
        ),
        ({"hostAliases": [{"$patch": "replace"}]}, "spec.hostAliases[10.0.0."),
        (
            {"containers": [{"name": "x", "image": "x:1", "ports": [{"containerPort": 9882}]}]},
            "spec.containers[x].ports is 9882: container companion has this port",
        ),
    ],
)
def test_what_is_only_of_brokers_is_refused_too(override: Json, words: str) -> None:
    assert UNCHANGED["broker"]["spec"]["hostAliases"][0]["hostnames"] == [
        "main-controller-0.main-controller.demo.svc"
    ]
    with pytest.raises(PodRefusedError) as refused:
        shaped("broker", None, {"spec": override})
    assert str(refused.value).startswith(f"spec.podOverride.{words}"), str(refused.value)


def test_what_settings_break_is_refused_too() -> None:
    for given_settings, words in (
        ({"hostAliases": [{"ip": "10.9.9.9", "hostnames": ["main-controller-0.main-controller.demo.svc"]}]},
         "spec.logPod.hostAliases[10.9.9.9] is ['main-controller-0.main-controller.demo.svc']: "
         "main-controller-0.main-controller.demo.svc is 10.0.0.1"),
        ({"containers": [{"name": "x", "image": "x:1", "ports": [{"containerPort": 9881}]}]},
         "spec.logPod.containers[x].ports is 9881: container log-replica has this port"),
    ):  # fmt: skip
        with pytest.raises(PodRefusedError) as refused:
            shaped("log-replica", given_settings)
        assert str(refused.value) == words


FIELDS: Final = [
    "containers", "initContainers", "volumes", "env", "ports", "volumeMounts", "hostAliases", "name", "ip",
    "hostnames", "containerPort", "mountPath", "resources", "limits", "livenessProbe", "lifecycle", "command",
    "terminationGracePeriodSeconds", "securityContext", "affinity", "emptyDir", "$patch", "tolerations",
]  # fmt: skip
VALUES: Final = st.recursive(
    st.sampled_from([None, True, 0, 60, 1.5, "", "x", "broker", "seed", "config", "delete", "replace"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
def test_any_override_is_applied_or_refused(override: Json) -> None:
    """No text of a person ends a pass of the operator with another error."""
    own = UNCHANGED["broker"]
    shape = PodShape("spec.pod", None, PodOverride.model_validate({"spec": override}))
    try:
        found = made(own, shape)
    except PodRefusedError:
        return
    assert found["spec"]["containers"][0]["command"] == own["spec"]["containers"][0]["command"]


def test_everything_at_once_for_every_component() -> None:
    for component in COMPONENTS:
        found = shaped(component, EVERY_SETTING, OVERRIDE)
        assert found["spec"]["automountServiceAccountToken"] is True
        assert found["metadata"]["annotations"]["example.com/late"] == "yes"
