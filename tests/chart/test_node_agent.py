"""The node agent of the chart: off unless asked for, and with no more rights than it needs."""

from dataclasses import fields

import pytest

from ha_sidecar.address import host_ports
from ha_sidecar.node_agent.config import NodeAgentConfig, from_texts
from rocketmq_operator.plan.common import names
from testkit.kube.kubectl import KubeError, program
from testkit.products.helm import Json, named, of, pods, rendered

pytestmark = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
ON = "nodeAgent.enabled=true"
NODES = 'networkPolicies.nodes=[{"ipBlock":{"cidr":"10.250.0.0/24"}}]'
AWAY = 'nodeAgent.namespace="mq-agents"'
NAME = "demo-node-agent"


def _pod(*settings: str) -> Json:
    return pods(rendered(ON, NODES, *settings))["node-agent"]


def _container(*settings: str) -> Json:
    (container,) = _pod(*settings)["spec"]["containers"]
    return dict(container)


def test_nobody_gets_an_agent_unasked() -> None:
    assert not of(rendered("measure.enabled=true"), "DaemonSet")


def test_it_has_two_capabilities_and_no_other_right() -> None:
    spec = _pod()["spec"]
    assert spec["hostNetwork"]
    assert not {"hostPID", "hostIPC"} & spec.keys()
    kinds = [next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]]
    assert kinds == ["secret", "configMap"], "the token, and the log level"
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert _container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
    }


def test_its_account_is_its_own_and_may_ask_the_api_server_nothing() -> None:
    objects = rendered(ON, NODES, AWAY, "measure.enabled=true")
    account = named(objects, "ServiceAccount", NAME)
    assert account["metadata"]["namespace"] == "mq-agents"
    assert account["automountServiceAccountToken"] is False
    spec = pods(objects)["node-agent"]["spec"]
    assert spec["serviceAccountName"] == NAME
    assert spec["automountServiceAccountToken"] is False
    bindings = [one for kind in ("RoleBinding", "ClusterRoleBinding") for one in of(objects, kind)]
    assert NAME not in {subject["name"] for one in bindings for subject in one["subjects"]}


def test_it_runs_in_the_namespace_that_it_is_given_and_asks_the_clusters_own() -> None:
    objects = rendered(ON, NODES, AWAY)
    assert named(objects, "DaemonSet", NAME)["metadata"]["namespace"] == "mq-agents"


@pytest.mark.parametrize(
    ("settings", "secret", "key"),
    [
        ((), names.token_secret("main"), names.AGENT_TOKEN_KEY),
        ((AWAY,), NAME, "token"),
        ((AWAY, 'nodeAgent.tokenSecret="mine"'), "mine", "token"),
        (('nodeAgent.tokenSecret="mine"',), "mine", "token"),
    ],
)
def test_it_reads_the_token_for_its_heartbeats_and_no_other(
    settings: tuple[str, ...], secret: str, key: str
) -> None:
    volume, _ = _pod(*settings)["spec"]["volumes"]
    items = [{"key": key, "path": key}]
    assert volume["secret"] == {"secretName": secret, "optional": True, "items": items}
    mount, _ = _container(*settings)["volumeMounts"]
    assert f"--token-file={mount['mountPath']}/{key}" in _container(*settings)["args"]


def test_it_names_controllers_as_they_know_each_other() -> None:
    known = [f"{host}:{names.CONTROLLER_PORT}" for host in names.controller_hosts("main", "mq", 3)]
    assert f"--controllers={';'.join(known)}" in _container(AWAY)["args"]


@pytest.mark.parametrize("controllers", [1, 3, 5])
def test_its_options_are_those_of_the_command(controllers: int) -> None:
    container = _container(f"nodeAgent.controllers={controllers}", "nodeAgent.port=9999")
    command, *options = container["args"]
    assert command == "node-agent"
    texts = {name.removeprefix("--").replace("-", "_"): text for name, text in map(_split, options)}
    assert texts.keys() <= {field.name for field in fields(NodeAgentConfig)}
    config = from_texts(texts)
    assert config.http[1] == 9999
    assert container["ports"] == [{"name": "http", "containerPort": 9999}]
    remoting, http = (host_ports(texts[key]) for key in ("controllers", "controllers_http"))
    assert len(remoting) == controllers
    assert [host for host, _ in remoting] == [host for host, _ in http]


def test_it_runs_on_nodes_with_any_taint() -> None:
    assert _pod()["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_settings_reach_its_pods() -> None:
    pod = _pod(
        'nodeAgent.nodeSelector={"pool":"mq"}',
        'nodeAgent.podLabels={"team":"mq"}',
        'nodeAgent.podAnnotations={"scrape":"no"}',
        'nodeAgent.serviceAccount.name="mine"',
        'images.pullSecrets=["one"]',
    )
    assert pod["spec"]["nodeSelector"] == {"pool": "mq"}
    assert pod["metadata"]["labels"]["team"] == "mq"
    assert pod["metadata"]["annotations"] == {"scrape": "no"}
    assert pod["spec"]["serviceAccountName"] == "mine"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "one"}]


def test_policies_let_the_nodes_reach_the_controllers_only() -> None:
    objects = rendered(ON, NODES)
    ports: dict[str, set[int]] = {}
    for policy in of(objects, "NetworkPolicy"):
        for rule in policy["spec"].get("ingress", ()):
            if {"ipBlock": {"cidr": "10.250.0.0/24"}} in rule["from"]:
                found = ports.setdefault(policy["metadata"]["name"], set())
                found |= {port["port"] for port in rule["ports"]}
    assert ports == {"demo-main-controller": {9878, 9880}}


def test_a_monitor_scrapes_it_where_it_is() -> None:
    monitors = of(rendered(ON, NODES, AWAY, "monitoring.podMonitor.enabled=true"), "PodMonitor")
    (found,) = [one for one in monitors if one["metadata"]["name"] == NAME]
    assert found["spec"]["namespaceSelector"] == {"matchNames": ["mq-agents"]}
    assert found["spec"]["selector"]["matchLabels"].items() <= _pod()["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "setting",
    [
        "nodeAgent.heartbeatIntervalMs=0",
        "nodeAgent.controllers=0",
        "nodeAgent.port=70000",
        'nodeAgent.namespace="Mq"',
        "nodeAgent.on=1",
    ],
)
def test_wrong_values_are_refused(setting: str) -> None:
    with pytest.raises(KubeError):
        rendered(ON, setting)


def _split(option: str) -> tuple[str, str]:
    name, _, text = option.partition("=")
    return name, text
