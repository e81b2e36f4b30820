"""Turn a model's JSON Schema into the structural schema that Kubernetes wants.

Kubernetes takes a subset of OpenAPI 3.0: no references, no null alternatives, no `additionalProperties:
false`, a type on each node but those that take a number or a text. Optional fields are simply not required. A
spec carries its defaults, so that a stored object shows them; a status carries no defaults, because an absent
field means that its value is unknown.

Source: Kubernetes documentation, "Specifying a structural schema".
"""

from typing import Any, Final

from pydantic import BaseModel

from rocketmq_operator.api.base import INT_OR_STRING_KEY, PRESERVED_KEY, rules_of
from rocketmq_operator.api.rules import VALIDATIONS_KEY

Json = dict[str, Any]
_DROPPED: Final = {"title", "$defs"}


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Json:
    """Return the structural schema of a model, with its rules, and its defaults if wanted."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.get("$defs", {})
    rules = {name: _rules(found) for name, found in _models(model).items()}
    node = _node(schema | {"title": model.__name__}, definitions, rules)
    if not defaults:
        _drop_defaults(node)
    return node


def _drop_defaults(node: Json) -> None:
    node.pop("default", None)
    for below in [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]:
        if below is not None:
            _drop_defaults(below)


def _models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the model and all models of its fields by name."""
    found = {model.__name__: model}
    for field in model.model_fields.values():
        for inner in _inner_models(field.annotation):
            found |= _models(inner)
    return found


def _inner_models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for part in getattr(annotation, "__args__", ()) for inner in _inner_models(part)]


def _rules(model: type[BaseModel]) -> list[dict[str, str]]:
    return [rule.as_schema() for rule in rules_of(model)]


def _node(schema: Json, definitions: Json, rules: dict[str, list[dict[str, str]]]) -> Json:
    """Return one node with everything below it."""
    schema = _resolved(schema, definitions)
    node: Json = {key: value for key, value in schema.items() if key not in _DROPPED}
    if node.get("type") == "object":
        _object_node(node, schema, definitions, rules)
    if node.get("type") == "array":
        node["items"] = _node(schema["items"], definitions, rules)
    if node.get("type") == "integer":
        node["format"] = "int64"
    if INT_OR_STRING_KEY in node:
        del node["type"]
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    return node


def _object_node(node: Json, schema: Json, definitions: Json, rules: dict[str, list[dict[str, str]]]) -> None:
    if PRESERVED_KEY in schema:
        node.pop("additionalProperties", None)
    elif "properties" in schema:
        node.pop("additionalProperties", None)
        node["properties"] = {
            name: _node(value, definitions, rules) for name, value in schema["properties"].items()
        }
    elif isinstance(schema.get("additionalProperties"), dict):
        node["additionalProperties"] = _node(schema["additionalProperties"], definitions, rules)
    if "default" in node:
        node["default"] = _without_nulls(node["default"])
        _complete(node)
    if own := rules.get(schema.get("title", "")):
        node[VALIDATIONS_KEY] = [*node.get(VALIDATIONS_KEY, []), *own]


def _complete(node: Json) -> None:
    """Let the keys of an object's default also be the defaults of its properties.

    A person may give one of them only.
    """
    for name, value in node["default"].items():
        if name in node.get("properties", {}):
            node["properties"][name].setdefault("default", value)
    if required := [name for name in node.pop("required", ()) if name not in node["default"]]:
        node["required"] = required


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return value


def _resolved(schema: Json, definitions: Json) -> Json:
    """Return the node behind references and null alternatives; keys next to a reference win."""
    while True:
        beside = {key: value for key, value in schema.items() if key not in {"$ref", "anyOf"}}
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]] | beside
        elif "anyOf" in schema:
            alternatives = [part for part in schema["anyOf"] if part.get("type") != "null"]
            if len(alternatives) != 1:
                raise TypeError(f"a field has several types, which a structural schema cannot say: {schema}")
            if beside.get("default", 0) is None:
                del beside["default"]
            # Why the title goes: it is the field's; that of the alternative tells which model's rules apply.
            beside.pop("title", None)
            schema = alternatives[0] | beside
        else:
            return schema
