"""The YAML of docs/operations/pods.md: each spec is valid, makes pods, and does what the page says."""

import re
from typing import Any, Final

import pytest
import yaml

from testkit.tree.files import ROOT
from testkit.worlds.pod_templates import template, workloads

Json = dict[str, Any]
PAGE: Final = (ROOT / "docs" / "operations" / "pods.md").read_text()
SPECS: Final = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for document in yaml.safe_load_all(block)
]
UNCHANGED: Final = workloads()


def _made(document: Json) -> dict[str, Json]:
    of_cluster = document["kind"] == "RocketMQCluster"
    return workloads(document["spec"]) if of_cluster else workloads(None, document["spec"])


def test_the_page_has_an_example_for_each_section() -> None:
    assert len(SPECS) == 8
    assert {one["kind"] for one in SPECS} == {"BrokerGroup", "RocketMQCluster"}


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_each_spec_of_the_page_makes_other_pods(number: int) -> None:
    made = _made(SPECS[number])
    changed = {name for name in made if template(made[name]) != template(UNCHANGED[name])}
    assert changed
    of_group = {"broker", "log-replica"}
    if "images" not in SPECS[number]["spec"]:
        assert changed <= (of_group if SPECS[number]["kind"] == "BrokerGroup" else set(made) - of_group)


def test_the_override_of_the_page_removes_the_operators_rule_of_separation() -> None:
    pod = template(_made(SPECS[-1])["broker"])["spec"]
    assert "podAntiAffinity" not in pod.get("affinity", {})
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "1Gi"},
        "limits": {"memory": "6Gi"},
    }


@pytest.mark.parametrize("field", ["pod", "logPod", "controllers.pod", "nameServers.pod", "proxy.pod"])
def test_the_page_names_each_place_of_the_settings(field: str) -> None:
    assert f"`spec.{field}` | `spec.{field}Override`" in PAGE
