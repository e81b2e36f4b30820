"""Pods with every setting on a real API server: it takes them, and keeps each field as it was written."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rocketmq_operator.plan.common.rewritten_fields import differences
from rocketmq_operator.plan.common.shaping.override import merge_pod
from testkit.kube.kubectl import kubectl_now
from testkit.worlds.pod_cases import EVERY_SETTING
from testkit.worlds.pod_templates import PATHS, template, workloads

Json = dict[str, Any]
OVERRIDE: Final[Json] = {
    "metadata": {"annotations": {"example.com/late": "yes"}},
    "spec": {
        "automountServiceAccountToken": True,
        "dnsPolicy": "Default",
        "hostNetwork": False,
        "overhead": {},
        "containers": [
            {
                "name": "more",
                "image": "more:1",
                "env": [{"name": "EMPTY", "value": ""}],
                "args": [],
                "resources": {"limits": {"cpu": 2, "memory": 1073741824}, "requests": {"cpu": 0.5}},
                "livenessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 0},
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": 1073741824}}],
    },
}


PATCHES: Final[dict[str, Json]] = {
    "new and known entries": {
        "containers": [
            {"name": "broker", "ports": [{"containerPort": 9, "protocol": "UDP"}], "args": ["x", "y"]},
            {"name": "more", "image": "more:1", "env": [{"name": "A", "value": "b"}]},
        ],
        "volumes": [{"name": "more", "emptyDir": {}}],
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["x"]}],
        "tolerations": [{"key": "x", "operator": "Exists"}],
    },
    "deleted entries": {
        "initContainers": [{"name": "seed", "$patch": "delete"}],
        "volumes": [{"name": "scratch", "$patch": "delete"}],
        "containers": [
            {"name": "broker", "volumeMounts": [{"mountPath": "/etc/rocketmq", "$patch": "delete"}]}
        ],
    },
    "replaced and removed maps": {
        "securityContext": {"$patch": "replace", "runAsUser": 1},
        "dnsConfig": None,
    },
    "a replaced list": {"containers": [{"$patch": "replace"}, {"name": "x", "image": "x:1"}]},
}


def _unordered(value: object) -> object:
    """Return a value in which the order of lists does not matter: kubectl puts new entries elsewhere."""
    if isinstance(value, dict):
        return {key: _unordered(part) for key, part in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


@pytest.mark.parametrize("case", PATCHES)
def test_an_override_does_as_kubectl_does(case: str, tmp_path: Path) -> None:
    spec = template(workloads()["broker"])["spec"]
    (tmp_path / "pod.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
    )
    patch = json.dumps({"spec": PATCHES[case]})
    arguments = ["patch", "--local", "-f", str(tmp_path / "pod.json"), "--type=strategic", "-p", patch]
    patched = json.loads(kubectl_now(*arguments, "-o", "json").stdout)["spec"]
    assert _unordered(merge_pod(spec, PATCHES[case])) == _unordered(patched)


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"shaped-pods-{uuid.uuid4().hex[:8]}"
    kubectl_now("create", "namespace", name)
    yield name
    kubectl_now("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("component", list(PATHS))
def test_the_api_server_keeps_every_setting_as_it_was_written(component: str, namespace: str) -> None:
    wanted = {"pod": EVERY_SETTING, "podOverride": OVERRIDE}
    cluster = dict.fromkeys(("controllers", "nameServers", "proxy", "routeFronts"), wanted)
    group = {**wanted, "logPod": EVERY_SETTING, "logPodOverride": OVERRIDE}
    body = workloads(cluster, group)[component]
    metadata = {**body["metadata"], "namespace": namespace}
    body = {**body, "metadata": {key: value for key, value in metadata.items() if key != "ownerReferences"}}
    applied = kubectl_now("apply", "--server-side", "--dry-run=server", "-f", "-", "-o", "json", body=body)
    assert list(differences(json.loads(applied.stdout), body)) == []
