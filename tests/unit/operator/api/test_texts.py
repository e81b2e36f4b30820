"""Every text of a custom resource has a pattern, or a reason why it needs none."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

CRDS: Final = Path(__file__).parents[4] / "crds"
WITHOUT_PATTERN: Final = {
    r".*\.(pod|logPod|podOverride|logPodOverride)\..*": "fields of a Pod, which the API server checks",
    r"(RocketMQCluster\.listeners\[\]|BrokerGroup\.storage)\.annotations\{\}": "values of annotations",
    r"(Topic\.topicName|ConsumerGroup\.groupName)": "a rule of the kind names the letters",
    r"Topic\.attributes\{\}": "a rule of the kind names the letters",
    r"SLOReport\.(schedule|window)": "rules of the kind, which tell how to write them",
    r"Failover\..*": "a record that only the operator writes",
}
Schema = dict[str, Any]


def _unbounded(schema: Schema, path: str) -> Iterator[str]:
    if schema.get("type") == "string" and not {"pattern", "enum", "format"} & set(schema):
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from _unbounded(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _unbounded(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _unbounded(schema["additionalProperties"], f"{path}{{}}")


def _patterns(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    if "pattern" in schema:
        yield path, schema["pattern"]
    for name, inner in schema.get("properties", {}).items():
        yield from _patterns(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _patterns(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _patterns(schema["additionalProperties"], f"{path}{{}}")


def _specs() -> Iterator[tuple[str, Schema]]:
    for file in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())["spec"]
        for version in definition["versions"]:
            schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            yield definition["names"]["kind"], schema


@pytest.mark.parametrize(("kind", "schema"), list(_specs()))
def test_each_text_has_a_pattern_or_a_reason(kind: str, schema: Schema) -> None:
    bare = [
        path
        for path in _unbounded(schema, kind)
        if not any(re.fullmatch(reason, path) for reason in WITHOUT_PATTERN)
    ]
    assert bare == []


@pytest.mark.parametrize(("kind", "schema"), list(_specs()))
def test_no_pattern_lets_a_control_character_in(kind: str, schema: Schema) -> None:
    letters = [f"a{char}b" for char in "\n\r\0\x1b\x85"] + ["a\n", "\na"]
    for path, pattern in _patterns(schema, kind):
        # `$` of Python also matches before a last new line; that of the API server and of pydantic does not.
        found = [text for text in letters if re.search(pattern.replace("$", r"\Z"), text)]
        assert found == [], path
