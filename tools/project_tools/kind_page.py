"""Write the reference of the kinds from their definitions: `python -m project_tools.kind_page`.

Problem: a page that people write about fields is wrong after the next change. Shape: the definitions, which
are made from the models, give every field, its bounds, default and description; a test holds page and
definitions equal. Never: a word about a field that its description does not have.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketmq_operator.api.definitions.crds import custom_resource_definitions

Json = dict[str, Any]
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "kinds.md"
_RULES: Final = "x-kubernetes-validations"
_OF_A_FIELD: Final = "see the description of the field"
"""How the message of a rule ends whose words are the field's own."""
_ANY: Final = "x-kubernetes-preserve-unknown-fields"
_SHARED: Final = {
    "pod": "pod",
    "logPod": "pod",
    "podOverride": "podOverride",
    "logPodOverride": "podOverride",
}
"""Fields that several places have alike, by the name of the section that tells of them once."""
_SHARED_HEADS: Final = {
    "pod": "Settings of pods: `pod` and `logPod`",
    "podOverride": "Overrides of pods: `podOverride` and `logPodOverride`",
}
_HEAD: Final = """\
# The kinds and their fields

What `kubectl explain` says too, field by field: made of the definitions in `charts/rocketmq-ha/crds` by
`make chart`, which are made of the models in `operator/rocketmq_operator/api`. `[]` is an entry of a list,
`{}` a value of a map. Where a spec breaks a rule, the API server refuses it with the field and the value.
"""
_LIMITS: Final = (
    ("minimum", "from {}"),
    ("maximum", "to {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} entries"),
    ("maxItems", "at most {} entries"),
    ("maxProperties", "at most {} keys"),
    ("pattern", "`{}`"),
)
_TYPES: Final = {
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "string": "text",
    "array": "list",
    "object": "keys and values",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a kind: its path below spec or status, its schema, and whether it must be given."""

    path: str
    schema: Json
    required: bool


def fields(schema: Json, above: str = "") -> Iterator[Field]:
    """Yield every field below a schema, in its order; of a shared one the field alone."""
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        path = f"{above}.{name}" if above else name
        yield Field(path, part, name in required)
        if name in _SHARED:
            continue
        yield from fields(part, path)
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(part.get(key), dict):
                yield from fields(part[key], path + mark)


def values_of(part: Json) -> str:
    """Return in words what a field may hold."""
    if "enum" in part:
        return ", ".join(f"`{choice}`" for choice in part["enum"])
    if part.get("x-kubernetes-int-or-string"):
        return f"whole number, or text: `{part['pattern']}`"
    if part.get(_ANY):
        return "as Kubernetes has it"
    words = [part.get("format") if part.get("format") == "date-time" else _TYPES[part["type"]]]
    words += [text.format(part[key]) for key, text in _LIMITS if part.get(key) is not None]
    if isinstance(part.get("items"), dict) and "properties" not in part["items"]:
        words.append(f"each: {values_of(part['items'])}")
    return ", ".join(str(word) for word in words)


def _table(part: Json, *, of_spec: bool) -> str:
    head = "| field | values | default | meaning |\n|---|---|---|---|\n"
    rows = ""
    for field in fields(part):
        default = f"`{json.dumps(field.schema['default'])}`" if "default" in field.schema else ""
        if field.required and of_spec and not default:
            default = "must be given"
        name = field.path.rpartition(".")[2]
        shared = f"[keys and values](#{_anchor(_SHARED[name])})" if name in _SHARED else ""
        cells = (
            f"`{field.path}`",
            shared or values_of(field.schema),
            default,
            str(field.schema.get("description", "")),
        )
        rows += f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |\n"
    return head + rows


def _rules(schema: Json) -> str:
    told = [
        rule["message"] for part in (schema, *schema["properties"].values()) for rule in part.get(_RULES, ())
    ]
    return "".join(f"- {message}\n" for message in told if not message.endswith(_OF_A_FIELD))


def _section(definition: Json) -> str:
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    columns = ", ".join(column["name"] for column in version["additionalPrinterColumns"])
    text = f"\n## {names['kind']}\n\n{schema['description']}\n\n"
    text += f"`apiVersion: {definition['spec']['group']}/{version['name']}`, "
    text += f"short name `{names['shortNames'][0]}`. "
    text += f"`kubectl get` shows {columns}.\n"
    text += f"\n### {names['kind']}.spec\n\n" + _table(schema["properties"]["spec"], of_spec=True)
    if told := _rules(schema):
        text += "\nOf the whole:\n\n" + told
    return text + f"\n### {names['kind']}.status\n\n" + _table(schema["properties"]["status"], of_spec=False)


def shared_schemas() -> dict[str, Json]:
    """Return the schemas that several places have alike, by the name of their section."""
    found: dict[str, Json] = {}
    for definition in custom_resource_definitions():
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for field in fields(schema["properties"]["spec"]):
            name = field.path.rpartition(".")[2]
            if name in _SHARED:
                found.setdefault(_SHARED[name], field.schema)
    return found


def _anchor(shared: str) -> str:
    return "".join(one for one in _SHARED_HEADS[shared].lower() if one not in ":`").replace(" ", "-")


def _shared_section(name: str, schema: Json) -> str:
    rules = [rule["message"].partition(":")[0] for rule in schema.get(_RULES, ())]
    told = f"\nReasons of a refusal: {', '.join(dict.fromkeys(rules))}.\n" if rules else ""
    return f"\n## {_SHARED_HEADS[name]}\n\n{schema['description']}\n\n{_table(schema, of_spec=True)}{told}"


def page() -> str:
    """Return the page."""
    kinds = "".join(_section(definition) for definition in custom_resource_definitions())
    return _HEAD + kinds + "".join(_shared_section(*one) for one in shared_schemas().items())


def main() -> int:
    """Write the page."""
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
