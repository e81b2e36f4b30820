"""Pods with every setting on a real API server: it takes them, and keeps each field as it was written."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from rocketmq_operator.plan.common.rewritten_fields import differences
from testkit.worlds.pod_cases import EVERY_SETTING
from testkit.worlds.pod_templates import PATHS, workloads

KUBECONFIG = os.environ.get("RMQHA_KUBECONFIG", "")
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


def _kubectl(*arguments: str, body: Json | None = None) -> str:
    return subprocess.run(
        ["kubectl", "--kubeconfig", KUBECONFIG, *arguments],
        input=None if body is None else json.dumps(body),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"shaped-pods-{uuid.uuid4().hex[:8]}"
    _kubectl("create", "namespace", name)
    yield name
    _kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("component", list(PATHS))
def test_the_api_server_keeps_every_setting_as_it_was_written(component: str, namespace: str) -> None:
    wanted = {"pod": EVERY_SETTING, "podOverride": OVERRIDE}
    cluster = dict.fromkeys(("controllers", "nameServers", "proxy"), wanted)
    group = {**wanted, "logPod": EVERY_SETTING, "logPodOverride": OVERRIDE}
    body = workloads(cluster, group)[component]
    metadata = {**body["metadata"], "namespace": namespace}
    body = {**body, "metadata": {key: value for key, value in metadata.items() if key != "ownerReferences"}}
    applied = _kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", "-o", "json", body=body)
    assert list(differences(json.loads(applied), body)) == []
