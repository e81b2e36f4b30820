"""What GitOps tools rely on, on a real API server: an applied manifest makes no difference any more."""

import json
from pathlib import Path
from typing import Any

import pytest

from testkit.check.kstatus import KStatus, computed_kstatus
from testkit.kube.kubectl import kubectl_now
from testkit.tree.files import ROOT

EXAMPLES = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if "kind: Kustomization" not in path.read_text()
)
Json = dict[str, Any]


def _objects(namespace: str, example: Path) -> list[Json]:
    answer: Json = json.loads(kubectl_now("-n", namespace, "get", "-f", str(example), "-o", "json").stdout)
    items: list[Json] = answer.get("items", [answer])
    return items


@pytest.mark.parametrize("way", [[], ["--server-side", "--field-manager=gitops"]], ids=["client", "server"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_that_is_applied_twice_makes_no_difference(
    example: Path, way: list[str], namespace: str
) -> None:
    kubectl_now("-n", namespace, "apply", *way, "-f", str(example))
    before = _objects(namespace, example)
    kubectl_now("-n", namespace, "apply", *way, "-f", str(example))
    assert [one["metadata"]["generation"] for one in _objects(namespace, example)] == [
        one["metadata"]["generation"] for one in before
    ]
    shown = kubectl_now("-n", namespace, "diff", *way, "-f", str(example), check=False)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_kstatus_waits_for_the_operator(example: Path, namespace: str) -> None:
    kubectl_now("-n", namespace, "apply", "-f", str(example))
    computed = {one["kind"]: computed_kstatus(one) for one in _objects(namespace, example)}
    assert set(computed.values()) == {KStatus.IN_PROGRESS}, computed
