"""What GitOps tools rely on, on a real API server: an applied manifest makes no difference any more."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from testkit.check.kstatus import KStatus, computed_kstatus
from testkit.kube.kubectl import program
from testkit.tree.files import ROOT

EXAMPLES = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if "kind: Kustomization" not in path.read_text()
)
Json = dict[str, Any]


def _kubectl(
    *arguments: str, body: Json | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("kubectl") or "kubectl", "--kubeconfig", os.environ["RMQHA_KUBECONFIG"], *arguments],
        input=None if body is None else json.dumps(body),
        capture_output=True,
        text=True,
        check=check,
        timeout=60,
    )


@pytest.fixture(scope="module")
def definitions() -> None:
    """Apply the definitions once for all cases: no case changes them."""
    every = custom_resource_definitions()
    listed = {"apiVersion": "v1", "kind": "List", "items": every}
    _kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", body=listed)
    names = [f"crd/{definition['metadata']['name']}" for definition in every]
    _kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")


@pytest.fixture
def namespace(definitions: None) -> Iterator[str]:
    """Make a namespace without an operator."""
    name = f"gitops-{uuid.uuid4().hex[:8]}"
    _kubectl("create", "namespace", name)
    yield name
    _kubectl("delete", "namespace", name, "--wait=false")


def _objects(namespace: str, example: Path) -> list[Json]:
    answer: Json = json.loads(_kubectl("-n", namespace, "get", "-f", str(example), "-o", "json").stdout)
    items: list[Json] = answer.get("items", [answer])
    return items


@pytest.mark.parametrize("way", [[], ["--server-side", "--field-manager=gitops"]], ids=["client", "server"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_that_is_applied_twice_makes_no_difference(
    example: Path, way: list[str], namespace: str
) -> None:
    _kubectl("-n", namespace, "apply", *way, "-f", str(example))
    before = _objects(namespace, example)
    _kubectl("-n", namespace, "apply", *way, "-f", str(example))
    assert [one["metadata"]["generation"] for one in _objects(namespace, example)] == [
        one["metadata"]["generation"] for one in before
    ]
    shown = _kubectl("-n", namespace, "diff", *way, "-f", str(example), check=False)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_kstatus_waits_for_the_operator(example: Path, namespace: str) -> None:
    _kubectl("-n", namespace, "apply", "-f", str(example))
    computed = {one["kind"]: computed_kstatus(one) for one in _objects(namespace, example)}
    assert set(computed.values()) == {KStatus.IN_PROGRESS}, computed
