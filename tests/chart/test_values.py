"""The chart's values: each is in the schema, a mistake is named, and the page about them is true."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from project_tools import chart_files
from project_tools.chart_files import Json
from testkit.kube.kubectl import KubeError, program
from testkit.products.helm import rendered

needs_helm = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
FREE = {"global"}
"""What helm itself may put beside our values."""


def _objects(part: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield each part of the schema that lists keys, with its path; definitions as often as they are used."""
    part = chart_files.resolved(part, chart_files.schema())
    if "properties" in part:
        yield path, part
        for key, below in part["properties"].items():
            yield from _objects(below, (*path, key))
    if "items" in part:
        yield from _objects(part["items"], (*path, "[]"))


def _differences(value: Json, part: Json, path: str = "") -> list[str]:
    """Return keys that stand in the values or in the schema alone."""
    known = part["properties"]
    found = [f"{path}{key}" for key in set(value) ^ set(known) - (FREE if not path else set())]
    for key in set(value) & set(known):
        below = chart_files.resolved(known[key], chart_files.schema())
        if isinstance(value[key], dict) and "properties" in below and value[key]:
            optional = not below.get("required")
            inner = (
                {**below, "properties": {k: below["properties"][k] for k in value[key]}}
                if optional
                else below
            )
            found += _differences(value[key], inner, f"{path}{key}.")
    return found


def test_values_and_schema_have_the_same_keys() -> None:
    assert _differences(chart_files.values(), chart_files.schema()) == []


def test_a_key_that_the_schema_lacks_is_seen() -> None:
    values = chart_files.values()
    values["operator"]["serviceAccount"]["nmae"] = "x"
    del values["networkPolicies"]["readers"]
    assert sorted(_differences(values, chart_files.schema())) == [
        "networkPolicies.readers",
        "operator.serviceAccount.nmae",
    ]


def test_no_part_of_the_schema_lets_unknown_keys_in() -> None:
    open_parts = [
        path for path, part in _objects(chart_files.schema()) if part.get("additionalProperties") is not False
    ]
    assert open_parts == []


def test_a_section_cannot_lack_a_key_that_has_a_default() -> None:
    values = chart_files.values()
    for path in _sections(values):
        part, held = chart_files.schema_at(path, chart_files.schema()), chart_files.at(values, path)
        if part.get("required"):  # but resources, where each amount may be left out
            assert set(part["required"]) == {key for key in held if held[key] is not None}, ".".join(path)


def _sections(value: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, below in value.items():
        if isinstance(below, dict):
            yield (*path, key)
            yield from _sections(below, (*path, key))


@needs_helm
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("oprator.replicas=2", ["oprator"]),
        ("networkPolicies.enable=true", ["networkPolicies", "enable"]),
        ("monitoring.podmonitor.enabled=true", ["monitoring", "podmonitor"]),
        ("operator.serviceAccount.anotations={}", ["serviceAccount", "anotations"]),
        ('measure.nameServers="two"', ["measure", "nameServers"]),
        ('measure.canaryRate="20"', ["measure", "canaryRate", "number"]),
        ("measure.canaryRate=-1", ["measure", "canaryRate"]),
        ("measure.segmentSeconds.canary=0", ["measure", "segmentSeconds", "canary"]),
        ('measure.mirror.to="bucket/main"', ["measure", "mirror", "to"]),
        ('measure.mirror.endpoint="minio:9000"', ["measure", "mirror", "endpoint"]),
        ("measure.mirror.everySeconds=0", ["measure", "mirror", "everySeconds"]),
        ('measure.mirror.secret="keys"', ["measure", "mirror", "secret"]),
        ('measure.storage.size="-1Gi"', ["measure", "storage", "size"]),
        ("measure.storage.size=10", ["measure", "storage", "size", "string"]),
        ('measure.resources.canary.limits.memory="-5Mi"', ["measure", "canary", "memory"]),
        ("operator.resources.limits.cpus=1", ["operator", "limits", "cpus"]),
        ('measure.groups=[{"nam":"orders"}]', ["measure", "groups", "nam"]),
        ('monitoring.podMonitor.interval="10"', ["monitoring", "podMonitor", "interval"]),
        ('networkPolicies.clients=[{"podselector":{}}]', ["networkPolicies", "clients", "podselector"]),
        ("networkPolicies.clients=[{}]", ["networkPolicies", "clients"]),
        ('networkPolicies.readers=[{"ipBlock":{"cidr":"10.0.0.1"}}]', ["networkPolicies", "readers", "cidr"]),
        ('operator.podLabels={"app.kubernetes.io/name":"mine"}', ["operator", "podLabels"]),
        ('operator.podAnnotations={"a":1}', ["operator", "podAnnotations", "string"]),
        ('operator.tolerations=[{"key":"a","effect":"Never"}]', ["operator", "tolerations", "effect"]),
        ('test.affinity={"nodeaffinity":{}}', ["test", "affinity", "nodeaffinity"]),
        ('images.pullSecrets="secret"', ["images", "pullSecrets", "array"]),
        ("test.nameServers=null", ["test", "nameServers"]),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_by_the_name_of_its_key(setting: str, words: list[str]) -> None:
    with pytest.raises(KubeError) as refusal:
        rendered(setting)
    said = str(refusal.value).partition("Error:")[2]
    assert [word for word in words if word not in said] == [], said


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    else:
        yield path


@needs_helm
@pytest.mark.parametrize(
    "setting",
    [
        "operator.resources.limits.cpu=1",
        'operator.resources={"limits":{"cpu":1,"memory":"256Mi"}}',
        'operator.resources={"limits":null,"requests":{"cpu":"1"}}',
        "measure.resources.collector.requests.memory=1073741824",
    ],
)
def test_resources_may_be_whole_numbers_and_have_one_of_two_keys(setting: str) -> None:
    assert rendered(setting)


def test_the_page_of_the_values_is_the_generated_one() -> None:
    assert chart_files.PAGE.read_text() == chart_files.page(), "run: make chart"


def test_the_page_tells_the_default_and_the_meaning_of_every_value() -> None:
    rows = {}
    for line in chart_files.page().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            rows[cells[0].strip("` ")] = cells[1:]
    values = chart_files.values()
    for path in _leaves(values):
        ((key, (default, meaning, allowed)),) = [
            row for row in rows.items() if f"{'.'.join(path)}.".startswith(f"{row[0]}.")
        ]
        assert json.loads(default.strip("`")) == chart_files.at(values, key.split("."))
        assert meaning, f"{key} lacks a comment in values.yaml"
        assert allowed
