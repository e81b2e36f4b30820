"""The pods of a spec that says nothing about pods: an upgrade of the operator restarts none of them.

A changed byte of a template restarts every such pod on upgrade. Where that is wanted, `REWRITE=1 pytest` of
this file writes the new templates, and the changelog says so.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from rocketmq_operator.plan.common.actions import with_digest
from testkit.tree.files import ROOT
from testkit.worlds.pod_templates import workloads

Json = dict[str, Any]
KEPT: Final = ROOT / "tests" / "testdata" / "pods"
GIVEN: Final[Json] = {
    "placement": {
        "spread": "Required",
        "topologyKey": "topology.kubernetes.io/zone",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [
            {"key": "rocketmq", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        ],
    },
    "resources": {"cpu": 2, "cpuLimit": 4, "memory": "8Gi"},
    "storage": {"storageClassName": "fast"},
    "deletionPolicy": "Delete",
}
CASES: Final[dict[str, tuple[Json, Json]]] = {
    "least": ({}, {}),
    "given": ({"nameServers": {"resources": {"cpuLimit": 1}}, "proxy": {"config": {"a": "b"}}}, GIVEN),
}


def _kept(path: Path) -> Json:
    found: Json = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_pods_of_a_spec_without_pod_settings_stay_as_they_are(case: str) -> None:
    path = KEPT / f"{case}.json"
    found = {name: with_digest(body) for name, body in workloads(*CASES[case]).items()}
    assert list(found) == ["broker", "log-replica", "controller", "nameserver", "proxy", "route-front"]
    if os.environ.get("REWRITE"):
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == _kept(path)
