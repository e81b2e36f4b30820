"""The definitions: the files in the tree are what the models say, and Kubernetes can take them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from project_tools import kind_page
from rocketmq_operator import cli
from rocketmq_operator.api.access.user import UserSpec
from rocketmq_operator.api.base import PRESERVED_KEY
from rocketmq_operator.api.broker_group import BrokerGroupSpec, BrokerGroupStatus
from rocketmq_operator.api.cluster import RocketMQClusterSpec, RocketMQClusterStatus
from rocketmq_operator.api.consumer_group import ConsumerGroupSpec
from rocketmq_operator.api.definitions.crds import custom_resource_definitions, file_name, to_yaml
from rocketmq_operator.api.rules import VALIDATIONS_KEY
from rocketmq_operator.api.slo_report import SLOReportSpec
from rocketmq_operator.api.topic import TopicSpec

ROOT = Path(__file__).parents[5]
Json = dict[str, Any]
DEFINITIONS = {
    definition["spec"]["names"]["kind"]: definition for definition in custom_resource_definitions()
}
ANNOTATIONS_BYTES_MAX = 262_144
"""Source: Kubernetes 1.34 apimachinery/pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB."""
ALLOWED = {
    "type", "format", "description", "default", "properties", "required", "items", "additionalProperties",
    "enum", "x-kubernetes-int-or-string", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties",
    VALIDATIONS_KEY, "x-kubernetes-list-type", "x-kubernetes-list-map-keys", PRESERVED_KEY,
}  # fmt: skip


def _schema(kind: str) -> Json:
    schema: Json = DEFINITIONS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _nodes(node: Json, path: str) -> Iterator[tuple[str, Json]]:
    yield path, node
    for name, below in node.get("properties", {}).items():
        yield from _nodes(below, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in node:
            yield from _nodes(node[word], f"{path}[]")


ALL_NODES = [
    pytest.param(node, id=path)
    for kind in DEFINITIONS
    for part in ("spec", "status")
    for path, node in _nodes(_schema(kind)["properties"][part], f"{kind}.{part}")
]


def test_the_files_are_what_the_models_say() -> None:
    written = {path.name: path.read_text() for path in (ROOT / "crds").iterdir()}
    assert written == {file_name(definition): to_yaml(definition) for definition in DEFINITIONS.values()}, (
        "run: make chart"
    )


def test_the_page_about_the_kinds_is_what_the_definitions_say() -> None:
    assert kind_page.PAGE.read_text() == kind_page.page(), "run: make chart"


def test_the_page_has_each_field_of_each_kind_with_its_default_and_its_bounds() -> None:
    rows = kind_page.page().splitlines()
    group = rows.index("### BrokerGroup.spec")
    (replicas,) = [row for row in rows[group:] if row.startswith("| `replicas` |")][:1]
    assert (
        replicas == "| `replicas` | whole number, from 1, to 7 | `2` | Brokers: those that can be master. |"
    )
    fields = [field for row in rows if row.startswith("| `") for field in row.split("|")[1:2]]
    tables = [_schema(kind)["properties"][part] for kind in DEFINITIONS for part in ("spec", "status")]
    tables += kind_page.shared_schemas().values()
    assert len(fields) == sum(len(list(kind_page.fields(table))) for table in tables)


def test_settings_of_pods_are_the_same_wherever_they_are() -> None:
    found = {"pod": set[str](), "podOverride": set[str]()}
    for kind in DEFINITIONS:
        for path, node in _nodes(_schema(kind)["properties"]["spec"], kind):
            name = path.rpartition(".")[2].replace("logPod", "pod")
            if name in found:
                found[name].add(json.dumps({**node, "description": ""}, sort_keys=True))
    assert [len(one) for one in found.values()] == [1, 1]


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_definition_is_small_enough_for_kubectl_apply(kind: str) -> None:
    text = json.dumps(DEFINITIONS[kind], separators=(",", ":"))
    assert len(text) < ANNOTATIONS_BYTES_MAX * 3 // 4, "kubectl keeps all of it in an annotation"


@pytest.mark.parametrize("node", ALL_NODES)
def test_each_node_is_structural_documented_and_bounded(node: Json) -> None:
    assert set(node) <= ALLOWED
    if node.get("x-kubernetes-int-or-string"):
        assert {"maxLength", "minimum", "pattern"} <= set(node)
        assert "type" not in node, "Kubernetes refuses a type beside it"
        return
    match node["type"]:
        case "string":
            assert "maxLength" in node or "enum" in node or node.get("format") == "date-time"
        case "array":
            assert "maxItems" in node
        case "object":
            assert "properties" in node or "maxProperties" in node
            if PRESERVED_KEY in node:
                assert "additionalProperties" not in node
        case "integer":
            assert node["format"] == "int64"
        case "number":
            assert {"minimum", "maximum"} <= set(node)
        case other:
            assert other == "boolean"


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_each_field_says_what_it_is_for(kind: str) -> None:
    silent = [
        f"{path}.{name}"
        for part in ("spec", "status")
        for path, node in _nodes(_schema(kind)["properties"][part], part)
        for name, below in node.get("properties", {}).items()
        if not below.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_lists_of_objects_are_keyed_or_one_value(kind: str) -> None:
    plain = [
        path
        for path, node in _nodes(_schema(kind), kind)
        if node.get("type") == "array"
        and node["items"]["type"] == "object"
        and "x-kubernetes-list-map-keys" not in node
    ]
    whole = {"tolerations", "topologySpreadConstraints", "items", "matchExpressions"}
    assert [path for path in plain if path.rpartition(".")[2] not in whole and ".affinity." not in path] == []
    nodes = dict(_nodes(_schema(kind), kind))
    assert {nodes[path]["x-kubernetes-list-type"] for path in plain} <= {"atomic"}


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_each_rule_has_a_text_that_names_something(kind: str) -> None:
    rules = [rule for _, node in _nodes(_schema(kind), kind) for rule in node.get(VALIDATIONS_KEY, [])]
    assert rules
    for rule in rules:
        assert "self" in rule["messageExpression"]
        assert "\n" not in rule["messageExpression"] + rule["rule"]
        # An apostrophe in a text would end it, and the API server would refuse the definition.
        assert rule["messageExpression"].replace("\\'", "").count("'") % 2 == 0
        assert rule["reason"] in {"FieldValueInvalid", "FieldValueForbidden"}


@pytest.mark.parametrize("kind", ["RocketMQCluster", "BrokerGroup", "Topic", "ConsumerGroup", "User"])
def test_columns_of_what_people_type_come_from_the_status(kind: str) -> None:
    columns = DEFINITIONS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert {column["jsonPath"].split(".")[1] for column in columns} == {"status", "metadata"}


def test_a_report_shows_when_it_is_made_and_what_came_of_it() -> None:
    columns = DEFINITIONS["SLOReport"]["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Schedule", "Attained", "Budget", "Last-Run", "Page", "Reason", "Age"]
    from_spec = {column["jsonPath"] for column in columns if column["jsonPath"].startswith(".spec")}
    assert from_spec == {".spec.schedule"}


def test_the_proxies_of_a_cluster_can_be_scaled() -> None:
    scale = DEFINITIONS["RocketMQCluster"]["spec"]["versions"][0]["subresources"]["scale"]
    status = {name.replace("_r", "R").replace("_s", "S") for name in RocketMQClusterStatus.model_fields}
    assert scale["specReplicasPath"] == ".spec.proxy.replicas"
    assert scale["statusReplicasPath"].removeprefix(".status.") in status
    assert scale["labelSelectorPath"].removeprefix(".status.") in status


def test_a_group_can_be_scaled() -> None:
    scale = DEFINITIONS["BrokerGroup"]["spec"]["versions"][0]["subresources"]["scale"]
    assert scale["specReplicasPath"].removeprefix(".spec.") in BrokerGroupSpec.model_fields
    assert scale["statusReplicasPath"].removeprefix(".status.") in BrokerGroupStatus.model_fields


def test_a_default_of_the_schema_is_the_default_of_the_model() -> None:
    schema = _schema("RocketMQCluster")["properties"]["spec"]["properties"]
    filled = {name: node["default"] for name, node in schema.items() if "default" in node}
    assert RocketMQClusterSpec.model_validate(filled) == RocketMQClusterSpec()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.name)
def test_each_example_is_valid(path: Path) -> None:
    models = {
        "RocketMQCluster": RocketMQClusterSpec,
        "BrokerGroup": BrokerGroupSpec,
        "SLOReport": SLOReportSpec,
        "Topic": TopicSpec,
        "ConsumerGroup": ConsumerGroupSpec,
        "User": UserSpec,
    }
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    for document in documents:
        spec = models[document["kind"]].model_validate(document["spec"])
        given = spec.model_dump(by_alias=True, exclude_unset=True, mode="json")
        assert sorted(given) == sorted(document["spec"])


def test_the_command_prints_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["crds"]) == 0
    assert cli.main(["crds", "--directory", str(tmp_path)]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == [
        yaml.safe_load((tmp_path / file_name(one)).read_text()) for one in DEFINITIONS.values()
    ]
